/*
 * Rank 0: listens, gathers the ranks, judges, and tells all of them the same.
 *
 * Ranks that disagree are kept until all have come, so that each of them
 * learns why; should some never come, the judgement is spoken when nobody new
 * has come for a while. A rank whose connection ends while it waits has died,
 * or its process was started again: its place is free for it until the
 * deadline.
 */
#include "bootstrap/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/guests.h"
#include "bootstrap/judge.h"
#include "bootstrap/report.h"

#define SECOND       INT64_C(1000000000)
#define QUIET_NS     (2 * SECOND) /* nobody new comes, see above */
#define FAREWELL_NS  (5 * SECOND) /* for the verdict to reach the slowest */
#define PORT_FREE_NS (1 * SECOND) /* for the last owner of the port to go */
#define PORT_TRY_NS  (SECOND / 50)

struct root {
	const struct tcp_meeting *tcp;
	struct guests guests;
	struct judge judge;
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];
	uint8_t *plain;  /* blobs of all ranks, or the report */
	uint8_t *sealed; /* the same, sealed */
	size_t sealed_bytes;
};

static int32_t own_num_ranks(const struct root *root)
{
	return root->tcp->meeting->bootstrap->num_ranks;
}

/* ---- gathering --------------------------------------------------------- */

/*
 * Whether it is time to speak; root->judge holds the judgement then. If not,
 * *next is the moment to ask again even if nothing happens.
 */
static bool is_decided(struct root *root, int64_t *next)
{
	struct judge *judge = &root->judge;
	int64_t deadline = root->tcp->meeting->deadline;
	int64_t patience = deadline;
	bool disagree;

	judge_look(judge);
	disagree = judge_disagreement(judge);
	if (judge->num_here == judge->num_expected)
		return true;
	if (disagree && root->guests.last_proof + QUIET_NS < deadline)
		patience = root->guests.last_proof + QUIET_NS;
	if (clock_now() >= patience) {
		if (!disagree)
			judge_missing(judge);
		return true;
	}
	*next = guests_next_due(&root->guests);
	if (*next > patience)
		*next = patience;
	return false;
}

/* Seals the present verdict for the guest in slot `i`. */
static void address_verdict(struct root *root, int i)
{
	struct guest *guest = &root->guests.list[i];
	struct wire_verdict verdict = {
		.status = root->judge.status,
		.table_bytes = (uint32_t)root->sealed_bytes,
	};
	uint8_t bytes[WIRE_VERDICT_BYTES];

	memcpy(verdict.secret, root->secret, sizeof(verdict.secret));
	wire_write_verdict(bytes, &verdict);
	wire_seal(guest->verdict, bytes, sizeof(bytes),
		guest->visitor.session.down);
	sodium_memzero(&verdict, sizeof(verdict));
	sodium_memzero(bytes, sizeof(bytes));
}

/* Seals the table for all, under a new secret. */
static void seal_table(struct root *root, size_t plain_bytes)
{
	uint8_t key[WIRE_KEY_BYTES];

	randombytes_buf(root->secret, sizeof(root->secret));
	wire_derive_table_key(key, root->secret);
	wire_seal(root->sealed, root->plain, plain_bytes, key);
	root->sealed_bytes = plain_bytes + WIRE_SEAL_BYTES;
	sodium_memzero(key, sizeof(key));
}

/* A rank's own deadline has passed: tells it what it waited for. */
static void bid_farewell(struct root *root, int i)
{
	uint32_t rank = root->guests.list[i].visitor.hello.rank;

	judge_look(&root->judge);
	if (!judge_disagreement(&root->judge))
		judge_missing(&root->judge);
	seal_table(root, wire_write_report(root->plain, &root->judge.report));
	address_verdict(root, i);
	/* Small enough for the buffer; and if not, the rank has lost nothing
	 * but the names. */
	guests_push(&root->guests, i, root->sealed, root->sealed_bytes);
	root->judge.left[rank] = true;
}

/* Ranks that wait say nothing, unless they give up or die. */
static void hear_ranks(struct root *root)
{
	for (int i = 0; i < root->guests.num_slots; i++) {
		struct pollfd *entry = &root->guests.polls[1 + i];
		uint8_t word;
		ssize_t got;

		if (!guests_rank(&root->guests, i) || !entry->revents)
			continue;
		got = recv(entry->fd, &word, sizeof(word), 0);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got == 1 && word == WIRE_GIVE_UP)
			bid_farewell(root, i);
		else
			log_note(LOG_INFO,
				"rank %u went away while it waited; its place "
				"is kept",
				root->guests.list[i].visitor.hello.rank);
		guests_drop(&root->guests, i);
	}
}

static void condemn(struct root *root, const char *doing)
{
	struct judge *judge = &root->judge;

	judge->status = SHUNT_SYSTEM;
	report_start(&judge->report,
		"%s: rank 0 cannot go on, %s: %s (see `ulimit -n`)",
		root->tcp->where, doing, strerror(errno));
	report_add_rank(&judge->report, 0);
}

static void gather(struct root *root)
{
	struct guests *guests = &root->guests;
	int64_t next;

	while (!is_decided(root, &next)) {
		int num_ready = poll(guests->polls,
			(nfds_t)guests->num_slots + 1, net_poll_ms(next));

		if (num_ready < 0 && errno == EINTR)
			continue;
		if (num_ready < 0) {
			condemn(root, "poll");
			return;
		}
		hear_ranks(root);
		if (!guests_serve(guests)) {
			condemn(root, "accepting a connection");
			return;
		}
	}
}

/* ---- the verdict ------------------------------------------------------- */

/* Fills root->plain; returns how many bytes it is. */
static size_t write_table(struct root *root)
{
	const struct meeting *meeting = root->tcp->meeting;
	size_t blob_bytes = meeting->blob_bytes;

	if (root->judge.status != SHUNT_OK)
		return wire_write_report(root->plain, &root->judge.report);
	memcpy(root->plain, meeting->blob, blob_bytes);
	for (int i = 0; i < root->guests.num_slots; i++) {
		const struct guest *guest = guests_rank(&root->guests, i);

		if (guest)
			memcpy(root->plain +
					guest->visitor.hello.rank * blob_bytes,
				guest->visitor.blob, blob_bytes);
	}
	return (size_t)own_num_ranks(root) * blob_bytes;
}

/* Leaves in the poll set only those who are still owed bytes. */
static int push_all(struct root *root)
{
	int num_owed = 0;

	for (int i = 0; i < root->guests.num_slots; i++) {
		if (root->guests.polls[1 + i].fd < 0)
			continue;
		if (guests_push(
			    &root->guests, i, root->sealed, root->sealed_bytes))
			guests_drop(&root->guests, i);
		else
			num_owed++;
	}
	return num_owed;
}

static void announce(struct root *root)
{
	struct guests *guests = &root->guests;
	int64_t until = clock_deadline(FAREWELL_NS);

	seal_table(root, write_table(root));
	for (int i = 0; i < guests->num_slots; i++) {
		if (guests_rank(guests, i))
			address_verdict(root, i);
		else if (guests->polls[1 + i].fd >= 0)
			guests_drop(guests, i);
		guests->polls[1 + i].events = POLLOUT;
	}
	while (push_all(root) > 0 && clock_now() < until)
		poll(guests->polls + 1, (nfds_t)guests->num_slots,
			net_poll_ms(until));
}

/* ---- the whole --------------------------------------------------------- */

/*
 * Listens at the first address of the host that is one of this machine. A port
 * in use is tried again for a moment: a client that looks for us may hold it by
 * chance, or the last job may just be ending.
 */
static int try_listen(const struct tcp_meeting *tcp)
{
	int64_t patience = clock_deadline(PORT_FREE_NS);
	int64_t deadline = tcp->meeting->deadline;
	int64_t until = patience < deadline ? patience : deadline;
	int fd = -1;

	for (int i = 0; i < tcp->addresses.num && fd < 0; i++) {
		fd = net_listen(&tcp->addresses.list[i]);
		while (fd < 0 && errno == EADDRINUSE && clock_now() < until) {
			net_sleep(clock_deadline(PORT_TRY_NS));
			fd = net_listen(&tcp->addresses.list[i]);
		}
		if (fd < 0 && errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
			break;
	}
	return fd;
}

static enum shunt_status listen_at(const struct tcp_meeting *tcp, int *listener)
{
	int fd = try_listen(tcp);
	const char *advice = "";

	if (fd >= 0) {
		*listener = fd;
		return SHUNT_OK;
	}
	if (errno == EADDRINUSE)
		advice = " (another job? wait for its end or take another "
			 "port)";
	if (errno == EADDRNOTAVAIL)
		advice = " (rank 0 must run on the machine that has this "
			 "address)";
	return error_set_errno(SHUNT_SYSTEM, "rank 0 cannot listen at %s%s",
		tcp->where, advice);
}

static enum shunt_status alloc_tables(struct root *root)
{
	size_t bytes =
		(size_t)own_num_ranks(root) * root->tcp->meeting->blob_bytes;

	if (bytes < WIRE_MAX_REPORT)
		bytes = WIRE_MAX_REPORT;
	root->plain = malloc(bytes);
	root->sealed = malloc(bytes + WIRE_SEAL_BYTES);
	if (root->plain && root->sealed)
		return SHUNT_OK;
	free(root->plain);
	free(root->sealed);
	return error_set(SHUNT_NO_MEMORY, "tables of %d ranks need %zu bytes",
		own_num_ranks(root), 2 * bytes);
}

static void init_terms(struct root *root)
{
	const struct bootstrap *own = root->tcp->meeting->bootstrap;
	struct visitor_terms *terms = &root->guests.terms;

	wire_derive_key(terms->key, own->key, own->job);
	terms->version = root->tcp->version;
	terms->blob_bytes = (uint32_t)root->tcp->meeting->blob_bytes;
}

/* Gathers and tells, with everything at hand. */
static enum shunt_status preside(struct root *root)
{
	const struct meeting *meeting = root->tcp->meeting;

	init_terms(root);
	gather(root);
	announce(root);
	if (root->judge.status != SHUNT_OK)
		return report_raise(&root->judge.report, root->judge.status);
	memcpy(meeting->blobs, root->plain,
		(size_t)own_num_ranks(root) * meeting->blob_bytes);
	memcpy(meeting->secret, root->secret, sizeof(root->secret));
	return SHUNT_OK;
}

enum shunt_status root_meet(const struct tcp_meeting *tcp)
{
	struct root *root = calloc(1, sizeof(*root));
	enum shunt_status status;

	if (!root)
		return error_set(SHUNT_NO_MEMORY, "rank 0 needs %zu bytes",
			sizeof(*root));
	root->tcp = tcp;
	root->judge.tcp = tcp;
	root->judge.guests = &root->guests;
	status = alloc_tables(root);
	if (status != SHUNT_OK)
		goto free_root;
	status = guests_init(&root->guests, own_num_ranks(root));
	if (status != SHUNT_OK)
		goto free_tables;
	status = listen_at(tcp, &root->guests.polls[0].fd);
	if (status == SHUNT_OK)
		status = preside(root);
	guests_fini(&root->guests);
free_tables:
	sodium_memzero(root->secret, sizeof(root->secret));
	free(root->plain);
	free(root->sealed);
free_root:
	free(root);
	return status;
}
