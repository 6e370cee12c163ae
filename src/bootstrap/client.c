/*
 * Ranks other than 0: find the root, prove to be of its job, wait for its
 * verdict. Whatever breaks before the verdict is tried again until the
 * deadline, because the root may start later, or start again.
 */
#include "bootstrap/tcp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/report.h"

#define MS               INT64_C(1000000)
#define STEP_NS          (5000 * MS) /* for one step of the handshake */
#define GRACE_NS         (2000 * MS) /* for the root to say who is missing */
#define FIRST_PAUSE_NS   (1 * MS)
#define ABSENT_PAUSE_NS  (50 * MS)
#define FOREIGN_PAUSE_NS (500 * MS)

/* What became of one attempt. */
enum attempt {
	ATTEMPT_ABSENT,  /* nobody there: soon again */
	ATTEMPT_FOREIGN, /* somebody else is: later again */
	ATTEMPT_OVER     /* client->status is the answer */
};

struct client {
	const struct tcp_meeting *tcp;
	uint8_t key[WIRE_KEY_BYTES];
	uint8_t instance[WIRE_INSTANCE_BYTES];
	struct wire_session session; /* of the present connection */
	enum shunt_status status;
	char reason[256]; /* why the last attempt failed */
};

static int64_t step_deadline(const struct client *client)
{
	int64_t step = clock_deadline(STEP_NS);
	int64_t deadline = client->tcp->meeting->deadline;

	return step < deadline ? step : deadline;
}

__attribute__((format(printf, 3, 4))) static enum attempt fail(
	struct client *client, enum attempt attempt, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(client->reason, sizeof(client->reason), format, args);
	va_end(args);
	return attempt;
}

static enum attempt finish(struct client *client, enum shunt_status status)
{
	client->status = status;
	return ATTEMPT_OVER;
}

/* Says who this is, to the root that greeted with `root_hello`. */
static int introduce(struct client *client, int fd, const uint8_t *root_hello)
{
	const struct meeting *meeting = client->tcp->meeting;
	struct wire_client hello = {
		.version = client->tcp->version,
		.rank = (uint32_t)meeting->bootstrap->rank,
		.num_ranks = (uint32_t)meeting->bootstrap->num_ranks,
		.blob_bytes = (uint32_t)meeting->blob_bytes,
		.body_bytes = (uint32_t)meeting->blob_bytes + WIRE_SEAL_BYTES,
	};
	uint8_t bytes[WIRE_CLIENT_HELLO_BYTES + BOOTSTRAP_MAX_BLOB +
		      WIRE_SEAL_BYTES];

	memcpy(hello.instance, client->instance, sizeof(hello.instance));
	wire_write_client_hello(bytes, &hello, client->key, root_hello);
	wire_derive_session(&client->session, client->key, root_hello, bytes);
	wire_seal(bytes + WIRE_CLIENT_HELLO_BYTES, meeting->blob,
		meeting->blob_bytes, client->session.up);
	return net_write(fd, bytes, WIRE_CLIENT_HELLO_BYTES + hello.body_bytes,
		step_deadline(client));
}

/* Exchanges the hellos. */
static enum attempt shake_hands(struct client *client, int fd)
{
	uint8_t root_hello[WIRE_ROOT_HELLO_BYTES];
	struct wire_version version;
	int result = net_read(
		fd, root_hello, sizeof(root_hello), step_deadline(client));

	if (result == ETIMEDOUT)
		return fail(client, ATTEMPT_FOREIGN,
			"something that is not Shunt listens there and says "
			"nothing");
	if (result == ENODATA || result == ECONNRESET)
		return fail(client, ATTEMPT_ABSENT,
			"what listens there closed the connection at once");
	if (result != 0)
		return fail(client, ATTEMPT_ABSENT, "%s", strerror(result));
	if (!wire_read_root_hello(root_hello, &version))
		return fail(client, ATTEMPT_FOREIGN,
			"something that is not Shunt answers there");
	result = introduce(client, fd, root_hello);
	if (result != 0)
		return fail(client, ATTEMPT_FOREIGN, "sending the hello: %s",
			strerror(result));
	return ATTEMPT_OVER;
}

/* Delivers what a meeting that succeeded gives. */
static enum attempt take_blobs(struct client *client,
	const struct wire_verdict *verdict, const uint8_t *table,
	const uint8_t *key)
{
	const struct meeting *meeting = client->tcp->meeting;
	size_t blobs_bytes =
		(size_t)meeting->bootstrap->num_ranks * meeting->blob_bytes;

	if (verdict->table_bytes != blobs_bytes + WIRE_SEAL_BYTES ||
		!wire_open(meeting->blobs, table, verdict->table_bytes, key))
		return fail(client, ATTEMPT_FOREIGN,
			"rank 0 there sent a table that is not sound");
	memcpy(meeting->secret, verdict->secret, BOOTSTRAP_SECRET_BYTES);
	return finish(client, SHUNT_OK);
}

/* Raises what a meeting that failed says. `table` is opened in place. */
static enum attempt take_report(struct client *client,
	const struct wire_verdict *verdict, uint8_t *table, const uint8_t *key)
{
	struct wire_report *report = malloc(sizeof(*report));
	size_t report_bytes = verdict->table_bytes - WIRE_SEAL_BYTES;
	enum attempt attempt;

	if (!report)
		return finish(client,
			error_set(SHUNT_NO_MEMORY, "reading rank 0's report"));
	if (wire_open(table, table, verdict->table_bytes, key) &&
		wire_read_report(table, report_bytes, report))
		attempt = finish(client, report_raise(report, verdict->status));
	else
		attempt = fail(client, ATTEMPT_FOREIGN,
			"rank 0 there sent a report that is not sound");
	free(report);
	return attempt;
}

static enum attempt read_table(
	struct client *client, int fd, const struct wire_verdict *verdict)
{
	uint8_t key[WIRE_KEY_BYTES];
	uint8_t *table = malloc(verdict->table_bytes);
	enum attempt attempt;
	int result;

	if (!table)
		return finish(
			client, error_set(SHUNT_NO_MEMORY,
					"the table of all ranks needs %u bytes",
					verdict->table_bytes));
	result = net_read(
		fd, table, verdict->table_bytes, clock_deadline(STEP_NS));
	wire_derive_table_key(key, verdict->secret);
	if (result != 0)
		attempt = fail(client, ATTEMPT_ABSENT,
			"rank 0 there stopped in the middle of its answer: %s",
			strerror(result));
	else if (verdict->status == SHUNT_OK)
		attempt = take_blobs(client, verdict, table, key);
	else
		attempt = take_report(client, verdict, table, key);
	sodium_memzero(key, sizeof(key));
	free(table);
	return attempt;
}

static enum attempt read_verdict(struct client *client, int fd, int64_t until)
{
	uint8_t sealed[WIRE_VERDICT_BYTES + WIRE_SEAL_BYTES];
	uint8_t plain[WIRE_VERDICT_BYTES];
	struct wire_verdict verdict;
	enum attempt attempt;
	int result = net_read(fd, sealed, sizeof(sealed), until);

	if (result == ETIMEDOUT)
		return fail(client, ATTEMPT_FOREIGN,
			"a Shunt rank 0 is there but does not answer");
	if (result != 0)
		return fail(client, ATTEMPT_FOREIGN,
			"a Shunt rank 0 is there but ended the connection: it "
			"has another SHUNT_KEY or SHUNT_JOB, or it died");
	if (!wire_open(plain, sealed, sizeof(sealed), client->session.down) ||
		!wire_read_verdict(plain, &verdict))
		return fail(client, ATTEMPT_FOREIGN,
			"what answers there does not know the job's key");
	attempt = read_table(client, fd, &verdict);
	sodium_memzero(plain, sizeof(plain));
	sodium_memzero(&verdict, sizeof(verdict));
	return attempt;
}

/*
 * Waits until all ranks are there. At the deadline tells the root, which
 * answers with the ranks that are missing.
 */
static enum attempt await_verdict(struct client *client, int fd)
{
	static const uint8_t give_up = WIRE_GIVE_UP;
	int64_t deadline = client->tcp->meeting->deadline;
	int64_t until;

	if (net_wait_readable(fd, deadline) == 0) {
		until = clock_deadline(STEP_NS);
	} else {
		until = clock_deadline(GRACE_NS);
		/* If this fails, so does the reading. */
		(void)net_write(fd, &give_up, sizeof(give_up), until);
	}
	return read_verdict(client, fd, until);
}

static enum attempt try_address(
	struct client *client, const struct net_address *address)
{
	int fd = net_connect(address, step_deadline(client));
	enum attempt attempt;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return finish(
			client, error_set_errno(SHUNT_SYSTEM,
					"rank %d has no descriptor left to "
					"reach rank 0 "
					"(see `ulimit -n`)",
					client->tcp->meeting->bootstrap->rank));
	if (fd < 0)
		return fail(client, ATTEMPT_ABSENT, "%s", strerror(errno));
	attempt = shake_hands(client, fd);
	if (attempt == ATTEMPT_OVER)
		attempt = await_verdict(client, fd);
	close(fd);
	return attempt;
}

/* Tries all addresses of the host; the most telling outcome counts. */
static enum attempt try_all(struct client *client)
{
	const struct net_addresses *addresses = &client->tcp->addresses;
	enum attempt best = ATTEMPT_ABSENT;

	for (int i = 0; i < addresses->num; i++) {
		char told[sizeof(client->reason)];
		enum attempt attempt;

		memcpy(told, client->reason, sizeof(told));
		attempt = try_address(client, &addresses->list[i]);
		if (attempt == ATTEMPT_OVER)
			return attempt;
		if (attempt < best)
			memcpy(client->reason, told, sizeof(told));
		else
			best = attempt;
	}
	return best;
}

static enum shunt_status report_unreached(const struct client *client)
{
	error_set(SHUNT_TIMEOUT,
		"rank %d did not get through to rank 0 at %s before its "
		"deadline: %s",
		client->tcp->meeting->bootstrap->rank, client->tcp->where,
		client->reason);
	error_add_rank(0);
	return SHUNT_TIMEOUT;
}

static enum shunt_status keep_trying(struct client *client)
{
	int64_t deadline = client->tcp->meeting->deadline;
	int64_t pause = FIRST_PAUSE_NS;

	while (clock_now() < deadline) {
		enum attempt attempt = try_all(client);
		int64_t longest = attempt == ATTEMPT_FOREIGN ? FOREIGN_PAUSE_NS
							     : ABSENT_PAUSE_NS;
		int64_t next = clock_deadline(pause);

		if (attempt == ATTEMPT_OVER)
			return client->status;
		net_sleep(next < deadline ? next : deadline);
		pause = 2 * pause < longest ? 2 * pause : longest;
	}
	return report_unreached(client);
}

enum shunt_status client_meet(const struct tcp_meeting *tcp)
{
	struct client client = {.tcp = tcp, .reason = "the deadline is past"};
	const struct bootstrap *own = tcp->meeting->bootstrap;
	enum shunt_status status;

	wire_derive_key(client.key, own->key, own->job);
	randombytes_buf(client.instance, sizeof(client.instance));
	status = keep_trying(&client);
	sodium_memzero(&client, sizeof(client));
	return status;
}
