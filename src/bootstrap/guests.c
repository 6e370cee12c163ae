/* Connections at the root, see guests.h. */
#include "bootstrap/guests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/net.h"

#define NUM_SPARE    64 /* slots for strangers */
#define MAX_ARRIVALS 16 /* let in before the others are served again */
#define CHANCE_NS    INT64_C(20000000)
#define PROOF_NS     INT64_C(5000000000)

static enum shunt_status count_slots(int32_t num_ranks, int *num_slots)
{
	struct rlimit limit;
	int wanted = num_ranks + NUM_SPARE;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return error_set_errno(SHUNT_SYSTEM, "getrlimit");
	/* poll() refuses a longer list than this, and the listener is in it. */
	if (limit.rlim_cur < (rlim_t)num_ranks + 2)
		return error_set(SHUNT_SYSTEM,
			"rank 0 needs %d descriptors to meet %d ranks, the "
			"limit is %llu: raise `ulimit -n`",
			num_ranks + 2, num_ranks,
			(unsigned long long)limit.rlim_cur);
	if (limit.rlim_cur - 1 < (rlim_t)wanted)
		wanted = (int)limit.rlim_cur - 1;
	*num_slots = wanted;
	return SHUNT_OK;
}

enum shunt_status guests_init(struct guests *guests, int32_t num_ranks)
{
	size_t num_slots;
	enum shunt_status status = count_slots(num_ranks, &guests->num_slots);

	if (status != SHUNT_OK)
		return status;
	num_slots = (size_t)guests->num_slots;
	guests->polls = calloc(num_slots + 1, sizeof(*guests->polls));
	guests->list = calloc(num_slots, sizeof(*guests->list));
	if (!guests->polls || !guests->list) {
		free(guests->polls);
		free(guests->list);
		return error_set(SHUNT_NO_MEMORY,
			"connections of %d ranks need %zu bytes", num_ranks,
			num_slots * sizeof(*guests->list));
	}
	for (size_t i = 0; i <= num_slots; i++)
		guests->polls[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	guests->num_strangers = 0;
	guests->shut_until = 0;
	guests->last_proof = clock_now();
	return SHUNT_OK;
}

void guests_drop(struct guests *guests, int i)
{
	close(guests->polls[1 + i].fd);
	guests->polls[1 + i].fd = -1;
	sodium_memzero(&guests->list[i].visitor.session,
		sizeof(guests->list[i].visitor.session));
}

void guests_fini(struct guests *guests)
{
	if (guests->polls[0].fd >= 0)
		close(guests->polls[0].fd);
	for (int i = 0; i < guests->num_slots; i++) {
		if (guests->polls[1 + i].fd >= 0)
			guests_drop(guests, i);
	}
	if (guests->num_strangers > 0)
		log_note(LOG_WARN,
			"turned away %d connections that did not prove to be "
			"ranks of this job (SHUNT_LOG=debug tells more)",
			guests->num_strangers);
	sodium_memzero(&guests->terms, sizeof(guests->terms));
	free(guests->polls);
	free(guests->list);
}

static bool is_taken(const struct guests *guests, int i)
{
	return guests->polls[1 + i].fd >= 0;
}

static bool is_unproven(const struct guests *guests, int i)
{
	return is_taken(guests, i) &&
	       guests->list[i].visitor.stage != VISITOR_PROVEN;
}

struct guest *guests_rank(const struct guests *guests, int i)
{
	if (!is_taken(guests, i) || is_unproven(guests, i))
		return NULL;
	return &guests->list[i];
}

int64_t guests_next_due(const struct guests *guests)
{
	int64_t due = guests->shut_until ? guests->shut_until : INT64_MAX;

	for (int i = 0; i < guests->num_slots; i++) {
		if (is_unproven(guests, i) &&
			guests->list[i].arrived + PROOF_NS < due)
			due = guests->list[i].arrived + PROOF_NS;
	}
	return due;
}

static void turn_away(struct guests *guests, int i, const char *reason)
{
	guests->num_strangers++;
	log_note(LOG_DEBUG, "turned a connection away: it %s", reason);
	guests_drop(guests, i);
}

/* The unproven guest that is here longest; -1 if there is none. */
static int find_oldest(const struct guests *guests)
{
	int oldest = -1;

	for (int i = 0; i < guests->num_slots; i++) {
		if (is_unproven(guests, i) &&
			(oldest < 0 || guests->list[i].arrived <
					       guests->list[oldest].arrived))
			oldest = i;
	}
	return oldest;
}

enum room { ROOM_NOW, ROOM_LATER, ROOM_NEVER };

/* Ends the wait of the unproven guest that is here longest, or shuts the door
 * until it has had its chance. */
static enum room make_room(struct guests *guests)
{
	int oldest = find_oldest(guests);
	int64_t chance_end;

	if (oldest < 0)
		return ROOM_NEVER;
	chance_end = guests->list[oldest].arrived + CHANCE_NS;
	if (clock_now() < chance_end) {
		guests->shut_until = chance_end;
		return ROOM_LATER;
	}
	turn_away(guests, oldest, "said too little before others came");
	return ROOM_NOW;
}

static int find_free(const struct guests *guests)
{
	for (int i = 0; i < guests->num_slots; i++) {
		if (!is_taken(guests, i))
			return i;
	}
	return -1;
}

/* Takes a new connection in, and greets it. */
static void let_in(struct guests *guests, int fd)
{
	int slot = find_free(guests);
	struct visitor *visitor;

	if (slot < 0) {
		close(fd); /* more ranks than there should be; they try again */
		return;
	}
	visitor = &guests->list[slot].visitor;
	guests->polls[1 + slot].fd = fd;
	guests->polls[1 + slot].revents = 0;
	guests->list[slot].arrived = clock_now();
	guests->list[slot].sent = 0;
	visitor_greet(visitor, &guests->terms);
	/* The buffer of a fresh connection is empty: it goes as a whole. */
	if (send(fd, visitor->root_hello, sizeof(visitor->root_hello),
		    MSG_NOSIGNAL) != (ssize_t)sizeof(visitor->root_hello))
		turn_away(guests, slot, "was gone at once");
}

static bool is_shortage(int cause)
{
	return cause == EMFILE || cause == ENFILE || cause == ENOBUFS ||
	       cause == ENOMEM;
}

/*
 * Lets in who waits before the door; only few at a time, so that a flood does
 * not keep ranks from proving. False if not even one place is left: errno.
 */
static bool open_door(struct guests *guests)
{
	for (int i = 0; i < MAX_ARRIVALS; i++) {
		int fd;

		if (find_free(guests) < 0 && make_room(guests) == ROOM_LATER)
			return true;
		fd = net_accept(guests->polls[0].fd);
		if (fd >= 0) {
			let_in(guests, fd);
			continue;
		}
		if (errno == EAGAIN)
			return true;
		if (is_shortage(errno)) {
			enum room room = make_room(guests);

			if (room != ROOM_NOW)
				return room == ROOM_LATER;
		}
		/* else that connection failed; the next may do */
	}
	return true;
}

/* As above, unless it is shut for now. */
static bool serve_door(struct guests *guests)
{
	bool is_good = true;

	if (guests->shut_until <= clock_now())
		guests->shut_until = 0;
	if (guests->polls[0].revents && !guests->shut_until)
		is_good = open_door(guests);
	guests->polls[0].events = guests->shut_until ? 0 : POLLIN;
	return is_good;
}

static void drop_earlier_self(struct guests *guests, int newer)
{
	const struct wire_client *hello = &guests->list[newer].visitor.hello;

	for (int i = 0; i < guests->num_slots; i++) {
		struct guest *other = guests_rank(guests, i);

		if (i != newer && other &&
			other->visitor.hello.rank == hello->rank &&
			memcmp(other->visitor.hello.instance, hello->instance,
				sizeof(hello->instance)) == 0)
			guests_drop(guests, i);
	}
}

/* Reads what an unproven guest has to say. */
static void hear(struct guests *guests, int i)
{
	struct visitor *visitor = &guests->list[i].visitor;

	while (is_unproven(guests, i)) {
		size_t wanted;
		uint8_t *space = visitor_space(visitor, &wanted);
		ssize_t got = recv(guests->polls[1 + i].fd, space, wanted, 0);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0) {
			turn_away(guests, i, "closed early");
			return;
		}
		visitor_take(visitor, &guests->terms, (size_t)got);
		if (visitor->stage == VISITOR_STRANGER) {
			turn_away(guests, i,
				"does not know the job's key and name");
			return;
		}
	}
	guests->last_proof = clock_now();
	drop_earlier_self(guests, i);
}

bool guests_serve(struct guests *guests)
{
	int64_t latest_arrival = clock_now() - PROOF_NS;

	for (int i = 0; i < guests->num_slots; i++) {
		if (is_unproven(guests, i) && guests->polls[1 + i].revents)
			hear(guests, i);
		if (is_unproven(guests, i) &&
			guests->list[i].arrived <= latest_arrival)
			turn_away(guests, i, "said too little in time");
	}
	return serve_door(guests);
}

bool guests_push(
	struct guests *guests, int i, const uint8_t *table, size_t table_bytes)
{
	struct guest *guest = &guests->list[i];
	size_t head_bytes = sizeof(guest->verdict);

	while (guest->sent < head_bytes + table_bytes) {
		size_t head_sent =
			guest->sent < head_bytes ? guest->sent : head_bytes;
		size_t table_sent = guest->sent - head_sent;
		struct iovec parts[2] = {
			{guest->verdict + head_sent, head_bytes - head_sent},
			{(uint8_t *)table + table_sent,
				table_bytes - table_sent},
		};
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
		ssize_t put = sendmsg(
			guests->polls[1 + i].fd, &message, MSG_NOSIGNAL);

		if (put >= 0)
			guest->sent += (size_t)put;
		else if (errno != EINTR)
			return errno != EAGAIN;
	}
	return true;
}
