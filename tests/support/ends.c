/* Two ends of a transport; see ends.h. */
#include "support/ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/order.h"
#include "support/attach.h"
#include "support/child.h"
#include "transport/health.h"

#define LONG_NS  INT64_C(60000000000)
#define CHECK_NS INT64_C(200000000)
#define SPINS    2000

/* What ends tell each other at their rendezvous. */
struct letter {
	struct peer_hello hello;
	uint64_t area;
};

static const uint8_t secret[32] = {1, 2, 3};

static int end_open(struct end *end, enum segment_kind kind)
{
	CHILD_CHECK(segment_create(kind, ENDS_RESERVE_BYTES, &end->segment) ==
		    SHUNT_OK);
	CHILD_CHECK(life_begin(end->segment) == SHUNT_OK);
	/* Two areas, as with self both ends are in one segment. */
	CHILD_CHECK(segment_alloc(end->segment, 2 * ENDS_AREA_BYTES,
			    ENDS_AREA_ALIGN, &end->own_area) == SHUNT_OK);
	return 0;
}

static void end_close(struct end *end)
{
	if (end->far) {
		ends_far_close(end);
		return;
	}
	life_end(end->segment);
	for (int r = 0; r < 2; r++)
		if (end->peers[r])
			end->peers[r]->ops->close(end->peers[r]);
	segment_put(end->segment);
}

static int end_attach(struct end *end, struct attachment *attachment,
	int32_t rank, const struct letter letters[2])
{
	struct peer_hello hellos[2] = {letters[0].hello, letters[1].hello};

	CHILD_CHECK(attach_all_here(attachment, 2, hellos, secret,
			    clock_deadline(LONG_NS), end->peers) == SHUNT_OK);
	end->other = end->peers[1 - rank];
	end->other_area = letters[1 - rank].area;
	return 0;
}

/* ---- self: both ends are one rank -------------------------------------- */

static void *thread_main(void *context)
{
	struct ends *ends = context;
	int line = ends->function(&ends->theirs);

	if (ends->kind == ENDS_THREADS)
		end_close(&ends->theirs);
	return (void *)(intptr_t)line;
}

static void *far_thread_main(void *context)
{
	struct ends *ends = context;
	int line = ends_far_join(&ends->theirs, ends->other_wire, 1);

	if (line == 0)
		line = ends->function(&ends->theirs);
	if (ends->theirs.segment)
		ends_far_close(&ends->theirs);
	close(ends->other_wire);
	return (void *)(intptr_t)line;
}

static void start_thread(struct ends *ends)
{
	assert_int_equal(
		pthread_create(&ends->thread, NULL, thread_main, ends), 0);
}

static void start_self(struct ends *ends)
{
	struct end *mine = &ends->mine;
	struct attachment *attachment;
	struct peer_hello hello;

	assert_int_equal(end_open(mine, SEGMENT_PRIVATE), 0);
	assert_int_equal(
		attach_here(mine->segment, 0, &hello, &attachment), SHUNT_OK);
	assert_int_equal(attach_all_here(attachment, 1, &hello, secret,
				 clock_deadline(LONG_NS), mine->peers),
		SHUNT_OK);
	mine->other = mine->peers[0];
	mine->other_area = mine->own_area + ENDS_AREA_BYTES;
	ends->theirs = *mine;
	ends->theirs.own_area = mine->other_area;
	ends->theirs.other_area = mine->own_area;
	start_thread(ends);
}

static void start_threads(struct ends *ends)
{
	struct end *end[2] = {&ends->mine, &ends->theirs};
	struct attachment *attachments[2];
	struct letter letters[2];

	for (int r = 0; r < 2; r++) {
		assert_int_equal(end_open(end[r], SEGMENT_PRIVATE), 0);
		assert_int_equal(attach_here(end[r]->segment, r,
					 &letters[r].hello, &attachments[r]),
			SHUNT_OK);
		letters[r].area = end[r]->own_area;
	}
	for (int r = 0; r < 2; r++)
		assert_int_equal(
			end_attach(end[r], attachments[r], r, letters), 0);
	start_thread(ends);
}

/* ---- shm: the other end is a process ----------------------------------- */

/* Both sides of the wire: write the own letter, read the other's. */
static int exchange(int wire, int32_t rank, struct letter letters[2])
{
	ssize_t bytes = sizeof(struct letter);

	CHILD_CHECK(
		write(wire, &letters[rank], sizeof(struct letter)) == bytes);
	CHILD_CHECK(recv(wire, &letters[1 - rank], sizeof(struct letter),
			    MSG_WAITALL) == bytes);
	return 0;
}

static int join_over(struct end *end, int wire, int32_t rank)
{
	struct attachment *attachment;
	struct letter letters[2];
	int line = end_open(end, SEGMENT_SHARED);

	if (line)
		return line;
	CHILD_CHECK(attach_here(end->segment, rank, &letters[rank].hello,
			    &attachment) == SHUNT_OK);
	letters[rank].area = end->own_area;
	line = exchange(wire, rank, letters);
	return line ? line : end_attach(end, attachment, rank, letters);
}

static int process_main(void *context)
{
	struct ends *ends = context;
	struct end end = {0};
	int line = join_over(&end, ends->wire, 1);

	if (line == 0)
		line = ends->function(&end);
	end_close(&end);
	return line;
}

/* In the forked child: begins this program anew, on its side of the wire. */
static int far_process_main(void *context)
{
	struct ends *ends = context;
	char wire[16];

	snprintf(wire, sizeof(wire), "%d", ends->other_wire);
	CHILD_CHECK(fcntl(ends->other_wire, F_SETFD, 0) == 0);
	execl("/proc/self/exe", "end", ENDS_FAR_OPTION, wire, (char *)NULL);
	return __LINE__;
}

int ends_far_main(int wire, ends_function function)
{
	struct ends ends = {.function = function, .other_wire = wire};
	intptr_t line = (intptr_t)far_thread_main(&ends);

	if (line)
		fprintf(stderr, "far end: check failed in line %d\n",
			(int)line);
	return line != 0;
}

static void start_verbs(struct ends *ends)
{
	int wires[2];

	ends_far_begin();
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires), 0);
	ends->wire = wires[0];
	ends->other_wire = wires[1];
	if (ends->kind == ENDS_VERBS_PROCESS) {
		ends->pid = child_start(far_process_main, ends);
		close(wires[1]);
	} else {
		assert_int_equal(pthread_create(&ends->thread, NULL,
					 far_thread_main, ends),
			0);
	}
	assert_int_equal(ends_far_join(&ends->mine, ends->wire, 0), 0);
}

static void start_shm(struct ends *ends)
{
	int wires[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires), 0);
	ends->wire = wires[1];
	ends->pid = child_start(process_main, ends);
	close(wires[1]);
	ends->wire = wires[0];
	assert_int_equal(join_over(&ends->mine, ends->wire, 0), 0);
}

/* ---- all --------------------------------------------------------------- */

void ends_start(struct ends *ends, enum ends_kind kind, ends_function function)
{
	static void (*const starts[])(struct ends *) = {
		[ENDS_SELF] = start_self,
		[ENDS_THREADS] = start_threads,
		[ENDS_SHM] = start_shm,
		[ENDS_VERBS] = start_verbs,
		[ENDS_VERBS_PROCESS] = start_verbs,
	};

	memset(ends, 0, sizeof(*ends));
	ends->kind = kind;
	ends->function = function;
	ends->wire = -1;
	starts[kind](ends);
}

void ends_join(struct ends *ends)
{
	void *line = NULL;

	if (ends->pid) {
		assert_int_equal(child_wait(ends->pid), 0);
		return;
	}
	pthread_join(ends->thread, &line);
	assert_int_equal((intptr_t)line, 0);
}

void ends_kill(struct ends *ends)
{
	child_kill(ends->pid);
}

void ends_close(struct ends *ends)
{
	end_close(&ends->mine);
	if (ends->wire >= 0)
		close(ends->wire);
	if (ends->kind == ENDS_VERBS)
		ends_far_end();
}

uint8_t *ends_own(const struct end *end, uint64_t offset)
{
	return segment_base(end->segment) + end->own_area + offset;
}

void ends_await(const struct end *end, uint64_t value)
{
	struct doorbell *doorbell = &segment_control(end->segment)->doorbell;
	_Atomic uint64_t *counter = (void *)ends_own(end, ENDS_COUNTER);

	/* Spin first: who is woken comes too late to see a wrong order. */
	for (int i = 0; i < SPINS && order_acquire(counter) < value; i++) {
		ends_far_progress(end);
		clock_relax();
	}
	while (order_acquire(counter) < value) {
		uint32_t ticket = doorbell_arm(doorbell, DOORBELL_ANY);

		ends_far_arm(end);
		ends_far_progress(end);
		if (order_acquire(counter) < value)
			doorbell_sleep(doorbell, ticket, CHECK_NS);
		doorbell_disarm(doorbell);
		/* Nothing more comes from an end that failed. */
		if (end->other->ops->state(end->other) != PEER_ALIVE)
			return;
	}
}

enum peer_state ends_await_state(const struct end *end, enum peer_state state)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	int64_t deadline = clock_deadline(LONG_NS);
	enum peer_state now = end->other->ops->state(end->other);

	while (now != state && clock_now() < deadline) {
		nanosleep(&nap, NULL);
		now = end->other->ops->state(end->other);
	}
	return now;
}

/* Where a transport that reads the source later can read it. */
static const void *reachable(
	const struct end *end, const void *bytes, uint64_t num_bytes)
{
	uint8_t *source = ends_own(end, ENDS_SOURCE);

	if (!end->far || num_bytes <= PUT_COPY_BYTES)
		return bytes;
	while (!end->other->ops->flushed(end->other))
		end->other->ops->progress(end->other);
	memcpy(source, bytes, num_bytes);
	return source;
}

enum shunt_status ends_put(const struct end *end, uint64_t offset,
	const void *bytes, uint64_t num_bytes)
{
	bool again = true;
	enum shunt_status status = SHUNT_OK;

	bytes = reachable(end, bytes, num_bytes);

	while (again && status == SHUNT_OK) {
		status = end->other->ops->put(end->other,
			end->other_area + offset, bytes, num_bytes,
			end->other_area + ENDS_COUNTER, 1, &again);
		if (again)
			end->other->ops->progress(end->other);
	}
	return status;
}
