/*
 * The hand-over, seen from one rank:
 *
 *	to each peer	connect, send a parcel, close. The parcel waits in the
 *			peer's queue: nobody need accept first, so no order
 *			among the ranks can deadlock.
 *	from each peer	accept, receive, look, map.
 *
 * A guest is a connection that has not said anything yet. Parcels are sent
 * right behind the connect, so a guest that has to make way for another loses
 * nothing: its parcel was read, or its sender learns by EPIPE and comes again.
 * Hence strangers need no clock of their own.
 */
#include "transport/handover.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/attach.h"
#include "transport/parcel.h"

#define MAX_GUESTS  64
#define BACKLOG     4096
#define RETRY_MS    2  /* while a peer's backlog is full */
#define MAX_WAIT_MS 50 /* between looks at who is gone */
#define NS_PER_MS   1000000

struct handover {
	const struct handover_terms *terms;
	struct peer **peers;
	bool *sent; /* by rank */
	int32_t num_unsent;
	int32_t num_missing; /* peers not attached yet */
	unsigned long num_strangers;
	/* The listener, then the guests, the oldest first. */
	struct pollfd polled[1 + MAX_GUESTS];
	int num_guests;
};

enum shunt_status handover_listen(const uint8_t name[16], int *listener)
{
	struct sockaddr_un address;
	socklen_t length = parcel_address(name, &address);
	int fd = socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enum shunt_status status;

	if (fd < 0)
		return error_set_errno(SHUNT_SYSTEM,
			"a socket for the hand-over (ulimit -n too low?)");
	if (bind(fd, (void *)&address, length) == 0 &&
		listen(fd, BACKLOG) == 0) {
		*listener = fd;
		return SHUNT_OK;
	}
	status = error_set_errno(
		SHUNT_SYSTEM, "listening on an abstract socket");
	close(fd);
	return status;
}

static enum shunt_status lost(const struct handover_terms *terms, int32_t rank)
{
	return error_set(SHUNT_PEER_LOST,
		"rank %d: rank %d left or died before all ranks were "
		"attached; its own message says why",
		terms->rank, rank);
}

/* ---- sending ----------------------------------------------------------- */

/* Nobody listens for the rank. Each rank does from before the rendezvous until
 * it is through or has failed, so on this host it has failed. */
static enum shunt_status unreachable(
	const struct handover_terms *terms, int32_t rank)
{
	lost(terms, rank);
	error_add_rank(rank);
	return SHUNT_PEER_LOST;
}

/* What the error of a connect or send to a rank means. */
static enum shunt_status send_error(
	const struct handover_terms *terms, int32_t rank)
{
	switch (errno) {
	case EAGAIN:       /* its backlog is full */
	case ETOOMANYREFS: /* too many descriptors of this user on their way */
	case EPIPE:        /* we made way for another guest */
	case ECONNRESET:
	case EINTR:
		return SHUNT_OK; /* again later */
	case ECONNREFUSED:
	case ENOENT:
		return unreachable(terms, rank);
	default:
		return error_set_errno(
			SHUNT_SYSTEM, "handing over to rank %d", rank);
	}
}

static enum shunt_status send_to(struct handover *handover, int32_t rank)
{
	const struct handover_terms *terms = handover->terms;
	struct sockaddr_un address;
	socklen_t length = parcel_address(terms->hellos[rank].socket, &address);
	int fd = socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	enum shunt_status status = SHUNT_OK;
	struct parcel parcel;

	if (fd < 0)
		return error_set_errno(SHUNT_SYSTEM,
			"a socket for the hand-over (ulimit -n too low?)");
	parcel_pack(&parcel, terms->rank, rank, terms->hellos, terms->secret);
	if (connect(fd, (void *)&address, length) != 0 ||
		parcel_send(fd, &parcel, terms->fd) != 0) {
		status = send_error(terms, rank);
	} else {
		handover->sent[rank] = true;
		handover->num_unsent--;
	}
	close(fd);
	return status;
}

static enum shunt_status send_all(struct handover *handover)
{
	const struct handover_terms *terms = handover->terms;

	/* Begin behind oneself, so that not all fill one rank's backlog. */
	for (int32_t i = 1; handover->num_unsent && i < terms->num_ranks; i++) {
		int32_t r = (terms->rank + i) % terms->num_ranks;
		enum shunt_status status = SHUNT_OK;

		if (!handover->sent[r])
			status = send_to(handover, r);
		if (status != SHUNT_OK)
			return status;
	}
	return SHUNT_OK;
}

/* ---- receiving --------------------------------------------------------- */

/* Takes a genuine parcel's descriptor into use, and closes it. */
static enum shunt_status parcel_take(
	struct handover *handover, int32_t from, int fd, bool cut)
{
	enum shunt_status status = SHUNT_OK;

	if (fd < 0 && cut)
		return error_set(SHUNT_SYSTEM,
			"no descriptor left for the segment of rank %d; raise "
			"ulimit -n",
			from);
	if (fd < 0) {
		error_set(SHUNT_PEER_FAULT, "rank %d handed over no descriptor",
			from);
		error_add_rank(from);
		return SHUNT_PEER_FAULT;
	}
	if (!handover->peers[from] && !handover->terms->is_far[from]) {
		status = transport_shm_attach(&handover->terms->hellos[from],
			from, fd, &handover->peers[from]);
		handover->num_missing -= status == SHUNT_OK;
	}
	close(fd);
	return status;
}

/* Reads what a guest has to say. *stays tells whether that was nothing. */
static enum shunt_status guest_read(
	struct handover *handover, int guest, bool *stays)
{
	const struct handover_terms *terms = handover->terms;
	struct parcel parcel;
	bool cut;
	int fd;
	enum parcel_result result = parcel_receive(guest, &parcel, &fd, &cut);

	*stays = result == PARCEL_NOT_YET;
	if (result == PARCEL_NOT_YET)
		return SHUNT_OK;
	if (result == PARCEL_CAME &&
		parcel_genuine(&parcel, terms->rank, terms->num_ranks,
			terms->hellos, terms->secret))
		return parcel_take(handover, parcel.from, fd, cut);
	handover->num_strangers++;
	if (fd >= 0)
		close(fd);
	return SHUNT_OK;
}

static void guest_remove(struct handover *handover, int index)
{
	struct pollfd *guests = handover->polled + 1;

	close(guests[index].fd);
	handover->num_guests--;
	memmove(guests + index, guests + index + 1,
		(size_t)(handover->num_guests - index) * sizeof(*guests));
}

static enum shunt_status guests_read(struct handover *handover)
{
	int index = 0;

	while (index < handover->num_guests) {
		struct pollfd *guest = &handover->polled[1 + index];
		bool stays = true;
		enum shunt_status status = SHUNT_OK;

		if (guest->revents)
			status = guest_read(handover, guest->fd, &stays);
		if (stays)
			index++;
		else
			guest_remove(handover, index);
		if (status != SHUNT_OK)
			return status;
	}
	return SHUNT_OK;
}

/* The oldest guest makes way, after a last chance to speak. */
static enum shunt_status guest_evict(struct handover *handover)
{
	bool stays;
	enum shunt_status status =
		guest_read(handover, handover->polled[1].fd, &stays);

	guest_remove(handover, 0);
	return status;
}

static enum shunt_status guest_add(struct handover *handover, int fd)
{
	enum shunt_status status = SHUNT_OK;
	bool stays;

	if (handover->num_guests == MAX_GUESTS)
		status = guest_evict(handover);
	handover->polled[1 + handover->num_guests++] =
		(struct pollfd){.fd = fd, .events = POLLIN};
	if (status == SHUNT_OK)
		status = guest_read(handover, fd, &stays);
	else
		stays = true;
	if (!stays)
		guest_remove(handover, handover->num_guests - 1);
	return status;
}

/* Lets in who knocks; a bounded number, as strangers may knock for ever. */
static enum shunt_status guests_accept(struct handover *handover)
{
	for (int i = 0; i < 2 * MAX_GUESTS; i++) {
		int fd = accept4(handover->terms->listener, NULL, NULL,
			SOCK_NONBLOCK | SOCK_CLOEXEC);
		enum shunt_status status;

		if (fd >= 0)
			status = guest_add(handover, fd);
		else if (errno == EAGAIN)
			return SHUNT_OK;
		else if (errno == EINTR || errno == ECONNABORTED)
			continue;
		else if (errno == EMFILE && handover->num_guests)
			status = guest_evict(handover);
		else
			return error_set_errno(SHUNT_SYSTEM,
				"accepting at the hand-over socket");
		if (status != SHUNT_OK)
			return status;
	}
	return SHUNT_OK;
}

/* ---- the loop ---------------------------------------------------------- */

static bool is_missing(const struct handover *handover, int32_t rank)
{
	return !handover->terms->is_far[rank] &&
	       (!handover->peers[rank] || !handover->sent[rank]);
}

static enum shunt_status timed_out(const struct handover *handover)
{
	const struct handover_terms *terms = handover->terms;
	char names[96] = "";
	size_t used = 0;
	int32_t num = 0;

	for (int32_t r = 0; r < terms->num_ranks; r++) {
		if (!is_missing(handover, r))
			continue;
		num++;
		if (used + 16 < sizeof(names))
			used += (size_t)snprintf(
				names + used, sizeof(names) - used, " %d", r);
	}
	error_set(SHUNT_TIMEOUT,
		"rank %d: by the deadline %d ranks had not handed over their "
		"segments:%s%s",
		terms->rank, num, names,
		used + 16 < sizeof(names) ? "" : " ...");
	for (int32_t r = 0; r < terms->num_ranks; r++)
		if (is_missing(handover, r))
			error_add_rank(r);
	return SHUNT_TIMEOUT;
}

static int wait_ms(const struct handover *handover)
{
	int64_t left = handover->terms->deadline - clock_now();
	int64_t ms = left <= 0 ? 0 : left / NS_PER_MS + 1;

	if (handover->num_unsent && ms > RETRY_MS)
		return RETRY_MS;
	return ms < MAX_WAIT_MS ? (int)ms : MAX_WAIT_MS;
}

static bool is_complete(const struct handover *handover)
{
	return handover->num_unsent == 0 && handover->num_missing == 0;
}

/* A rank that leaves or dies before this one is through has failed: nobody
 * makes a world without it. Without this look, ranks that it had not reached
 * yet would wait for it until their deadline. */
static enum shunt_status check_attached(const struct handover *handover)
{
	for (int32_t r = 0; r < handover->terms->num_ranks; r++) {
		struct peer *peer = handover->peers[r];

		if (!peer || peer->ops->state(peer) == PEER_ALIVE)
			continue;
		lost(handover->terms, r);
		error_add_rank(r);
		return SHUNT_PEER_LOST;
	}
	return SHUNT_OK;
}

/* One round of the loop. The last one begins at the deadline and lets in who
 * is there by then; strangers cannot make it longer. */
static enum shunt_status handover_round(struct handover *handover)
{
	bool last = clock_now() >= handover->terms->deadline;
	enum shunt_status status = check_attached(handover);
	int ready;

	if (status == SHUNT_OK)
		status = send_all(handover);
	if (status != SHUNT_OK || is_complete(handover))
		return status;
	ready = poll(handover->polled, 1 + (nfds_t)handover->num_guests,
		wait_ms(handover));
	if (ready < 0 && errno != EINTR)
		return error_set_errno(
			SHUNT_SYSTEM, "poll at the hand-over socket");
	if (ready > 0) {
		bool knocks = handover->polled[0].revents != 0;

		status = guests_read(handover);
		if (status == SHUNT_OK && knocks)
			status = guests_accept(handover);
	}
	if (status == SHUNT_OK && last && !is_complete(handover))
		return timed_out(handover);
	return status;
}

enum shunt_status handover_run(
	const struct handover_terms *terms, struct peer **peers)
{
	struct handover handover = {
		.terms = terms,
		.peers = peers,
		.polled[0] = {.fd = terms->listener, .events = POLLIN},
	};
	enum shunt_status status = SHUNT_OK;

	handover.sent = calloc((size_t)terms->num_ranks, sizeof(bool));
	if (!handover.sent)
		return error_set(SHUNT_NO_MEMORY,
			"no memory to hand over to %d ranks", terms->num_ranks);
	for (int32_t r = 0; r < terms->num_ranks; r++) {
		handover.sent[r] = terms->is_far[r] || peers[r];
		handover.num_unsent += !handover.sent[r];
	}
	handover.num_missing = handover.num_unsent;
	while (status == SHUNT_OK && !is_complete(&handover))
		status = handover_round(&handover);
	while (handover.num_guests)
		guest_remove(&handover, 0);
	free(handover.sent);
	if (handover.num_strangers)
		log_note(LOG_WARN, "dropped %lu strangers at the hand-over",
			handover.num_strangers);
	return status;
}
