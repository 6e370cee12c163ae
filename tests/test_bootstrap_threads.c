/* The meeting of threads of one process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"

#define MS         INT64_C(1000000)
#define LONG_NS    (60000 * MS) /* never reached unless something is broken */
#define WAIT_NS    (2000 * MS)
#define SHORT_NS   (50 * MS)
#define PAST_NS    (INT64_MIN / 2) /* a deadline before the clock began */
#define BLOB_BYTES 24
#define MAX_RANKS  64

/* One rank's call, and what came of it. */
struct call {
	struct bootstrap bootstrap;
	size_t blob_bytes;
	int64_t span_ns;
	uint8_t blob[BLOB_BYTES];
	uint8_t blobs[MAX_RANKS * BLOB_BYTES];
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];
	enum shunt_status status;
	int32_t ranks[MAX_RANKS];
	size_t num_ranks;
	char message[1024];
	pthread_t thread;
};

static void *run_call(void *argument)
{
	struct call *call = argument;

	call->status = bootstrap_meet(&call->bootstrap, call->blob,
		call->blob_bytes, clock_deadline(call->span_ns), call->blobs,
		call->secret);
	if (call->status != SHUNT_OK) {
		call->num_ranks = shunt_error_ranks(call->ranks, MAX_RANKS);
		snprintf(call->message, sizeof(call->message), "%s",
			shunt_error_message());
	}
	return NULL;
}

static void prepare(struct call *call, const char *name, int32_t rank,
	int32_t num_ranks, int64_t span_ns)
{
	memset(call, 0, sizeof(*call));
	call->bootstrap.kind = BOOTSTRAP_THREADS;
	call->bootstrap.rank = rank;
	call->bootstrap.num_ranks = num_ranks;
	snprintf(call->bootstrap.address, sizeof(call->bootstrap.address), "%s",
		name);
	call->blob_bytes = BLOB_BYTES;
	call->span_ns = span_ns;
	memset(call->blob, 0x40 + rank, BLOB_BYTES);
}

static void start(struct call *call)
{
	assert_int_equal(
		pthread_create(&call->thread, NULL, run_call, call), 0);
}

static void finish(struct call *call)
{
	assert_int_equal(pthread_join(call->thread, NULL), 0);
}

static void check_success(const struct call *calls, int32_t num_ranks)
{
	for (int32_t rank = 0; rank < num_ranks; rank++) {
		if (calls[rank].status != SHUNT_OK)
			fail_msg("rank %d: %s", rank, calls[rank].message);
		assert_memory_equal(calls[rank].secret, calls[0].secret,
			BOOTSTRAP_SECRET_BYTES);
		for (int32_t other = 0; other < num_ranks; other++)
			assert_memory_equal(
				calls[rank].blobs + other * BLOB_BYTES,
				calls[other].blob, BLOB_BYTES);
	}
}

static void check_missing(const struct call *call, int32_t rank)
{
	assert_int_equal(call->status, SHUNT_TIMEOUT);
	assert_int_equal(call->num_ranks, 1);
	assert_int_equal(call->ranks[0], rank);
}

static struct call calls[MAX_RANKS];

static void meet_all(const char *name, int32_t num_ranks)
{
	for (int32_t rank = 0; rank < num_ranks; rank++)
		prepare(&calls[rank], name, rank, num_ranks, LONG_NS);
	for (int32_t rank = 0; rank < num_ranks; rank++)
		start(&calls[rank]);
	for (int32_t rank = 0; rank < num_ranks; rank++)
		finish(&calls[rank]);
}

static void all_ranks_get_all_blobs_and_one_secret(void **state)
{
	(void)state;
	for (int32_t num_ranks = 1; num_ranks <= MAX_RANKS; num_ranks *= 2) {
		meet_all("all", num_ranks);
		check_success(calls, num_ranks);
	}
}

static void each_meeting_has_a_secret_of_its_own(void **state)
{
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];

	(void)state;
	meet_all("all", 2);
	memcpy(secret, calls[0].secret, sizeof(secret));
	meet_all("all", 2);
	assert_memory_not_equal(secret, calls[0].secret, sizeof(secret));
}

struct repeat {
	int32_t rank;
	int num_failed;
};

/* Meets again and again under one name, as fast as it can. */
static void *meet_often(void *argument)
{
	struct repeat *repeat = argument;
	struct call call;

	prepare(&call, "often", repeat->rank, 4, LONG_NS);
	for (uint8_t round = 0, turns = 0; turns < 4; round++) {
		memset(call.blob, round, BLOB_BYTES);
		run_call(&call);
		repeat->num_failed += call.status != SHUNT_OK;
		for (int i = 0; i < 4 * BLOB_BYTES; i++)
			repeat->num_failed += call.blobs[i] != round;
		turns += round == 255;
	}
	return NULL;
}

static void a_name_is_free_again_at_once_a_thousand_times(void **state)
{
	struct repeat repeats[4] = {0};
	pthread_t threads[4];

	(void)state;
	for (int32_t rank = 0; rank < 4; rank++) {
		repeats[rank].rank = rank;
		assert_int_equal(pthread_create(&threads[rank], NULL,
					 meet_often, &repeats[rank]),
			0);
	}
	for (int32_t rank = 0; rank < 4; rank++) {
		pthread_join(threads[rank], NULL);
		assert_int_equal(repeats[rank].num_failed, 0);
	}
}

static void other_names_and_other_jobs_do_not_meet(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		prepare(&calls[i], i < 4 ? "one" : "two", i % 2, 2, LONG_NS);
		strcpy(calls[i].bootstrap.job, i < 2 ? "a" : "b");
		memset(calls[i].blob, i, BLOB_BYTES);
		start(&calls[i]);
	}
	for (int i = 0; i < 6; i++)
		finish(&calls[i]);
	for (int i = 0; i < 6; i += 2)
		check_success(&calls[i], 2);
}

/*
 * Waits until a rank sits in the meeting: a second one like it is refused. One
 * that comes too early leaves within the call, and is in nobody's way.
 */
static void await_seat(const char *name, int32_t rank, int32_t num_ranks)
{
	static struct call probe;

	do {
		prepare(&probe, name, rank, num_ranks, PAST_NS);
		run_call(&probe);
	} while (probe.status == SHUNT_TIMEOUT);
	assert_int_equal(probe.status, SHUNT_MISMATCH);
	assert_int_equal(probe.num_ranks, 1);
	assert_int_equal(probe.ranks[0], rank);
	assert_non_null(strstr(probe.message, "already"));
}

static void every_rank_names_the_one_that_is_missing(void **state)
{
	(void)state;
	for (int32_t rank = 0; rank < 3; rank++) {
		prepare(&calls[rank], "missing", rank, 4, WAIT_NS);
		start(&calls[rank]);
		await_seat("missing", rank, 4);
	}
	for (int32_t rank = 0; rank < 3; rank++) {
		finish(&calls[rank]);
		check_missing(&calls[rank], 3);
		assert_non_null(strstr(calls[rank].message, "rank 3"));
	}
}

static void after_a_timeout_the_ranks_may_meet(void **state)
{
	(void)state;
	prepare(&calls[0], "again", 0, 2, SHORT_NS);
	run_call(&calls[0]);
	check_missing(&calls[0], 1);
	meet_all("again", 2);
	check_success(calls, 2);
}

static void a_rank_that_gave_up_may_come_back_in(void **state)
{
	(void)state;
	prepare(&calls[1], "back", 1, 3, LONG_NS);
	start(&calls[1]);
	prepare(&calls[0], "back", 0, 3, SHORT_NS);
	run_call(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_TIMEOUT);
	prepare(&calls[0], "back", 0, 3, LONG_NS);
	start(&calls[0]);
	prepare(&calls[2], "back", 2, 3, LONG_NS);
	start(&calls[2]);
	for (int32_t rank = 0; rank < 3; rank++)
		finish(&calls[rank]);
	check_success(calls, 3);
}

static void a_deadline_in_the_past_does_not_wait(void **state)
{
	(void)state;
	prepare(&calls[0], "past", 0, 2, PAST_NS);
	run_call(&calls[0]);
	check_missing(&calls[0], 1);
}

static void a_rank_that_comes_twice_is_refused_alone(void **state)
{
	(void)state;
	prepare(&calls[0], "twice", 0, 2, LONG_NS);
	start(&calls[0]);
	await_seat("twice", 0, 2);
	prepare(&calls[1], "twice", 1, 2, LONG_NS);
	start(&calls[1]);
	finish(&calls[0]);
	finish(&calls[1]);
	check_success(calls, 2);
}

static void another_size_is_a_mismatch_for_all_inside(void **state)
{
	(void)state;
	for (int32_t rank = 0; rank < 2; rank++) {
		prepare(&calls[rank], "size", rank, 3, LONG_NS);
		start(&calls[rank]);
		await_seat("size", rank, 3);
	}
	prepare(&calls[2], "size", 2, 4, LONG_NS);
	run_call(&calls[2]);
	finish(&calls[0]);
	finish(&calls[1]);
	for (int32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(calls[rank].status, SHUNT_MISMATCH);
		assert_non_null(strstr(calls[rank].message, "num_ranks 4"));
		assert_int_equal(calls[rank].num_ranks, 1);
		assert_int_equal(calls[rank].ranks[0], 2);
	}
	meet_all("size", 3);
	check_success(calls, 3);
}

static void another_blob_size_is_a_mismatch_for_all_inside(void **state)
{
	(void)state;
	prepare(&calls[0], "blob", 0, 2, LONG_NS);
	start(&calls[0]);
	await_seat("blob", 0, 2);
	prepare(&calls[1], "blob", 1, 2, LONG_NS);
	calls[1].blob_bytes = BLOB_BYTES - 1;
	run_call(&calls[1]);
	finish(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_MISMATCH);
	assert_int_equal(calls[1].status, SHUNT_MISMATCH);
}

static void a_blob_of_no_or_too_many_bytes_is_refused(void **state)
{
	(void)state;
	prepare(&calls[0], "bytes", 0, 1, LONG_NS);
	calls[0].blob_bytes = 0;
	run_call(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_INVALID);
	calls[0].blob_bytes = BOOTSTRAP_MAX_BLOB + 1;
	run_call(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_INVALID);
	assert_non_null(strstr(calls[0].message, "1025"));
}

static void a_forked_child_may_use_a_name_that_waits_in_its_parent(void **state)
{
	int child_status;
	pid_t child;

	(void)state;
	prepare(&calls[0], "fork", 0, 2, LONG_NS);
	start(&calls[0]);
	await_seat("fork", 0, 2);
	child = fork();
	if (child == 0) {
		prepare(&calls[2], "fork", 0, 2, SHORT_NS);
		run_call(&calls[2]);
		_exit(calls[2].status == SHUNT_TIMEOUT ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &child_status, 0), child);
	assert_true(WIFEXITED(child_status));
	assert_int_equal(WEXITSTATUS(child_status), 0);
	prepare(&calls[1], "fork", 1, 2, LONG_NS);
	run_call(&calls[1]);
	finish(&calls[0]);
	check_success(calls, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ranks_get_all_blobs_and_one_secret),
		cmocka_unit_test(each_meeting_has_a_secret_of_its_own),
		cmocka_unit_test(a_name_is_free_again_at_once_a_thousand_times),
		cmocka_unit_test(other_names_and_other_jobs_do_not_meet),
		cmocka_unit_test(every_rank_names_the_one_that_is_missing),
		cmocka_unit_test(after_a_timeout_the_ranks_may_meet),
		cmocka_unit_test(a_rank_that_gave_up_may_come_back_in),
		cmocka_unit_test(a_deadline_in_the_past_does_not_wait),
		cmocka_unit_test(a_rank_that_comes_twice_is_refused_alone),
		cmocka_unit_test(another_size_is_a_mismatch_for_all_inside),
		cmocka_unit_test(
			another_blob_size_is_a_mismatch_for_all_inside),
		cmocka_unit_test(a_blob_of_no_or_too_many_bytes_is_refused),
		cmocka_unit_test(
			a_forked_child_may_use_a_name_that_waits_in_its_parent),
	};

	return cmocka_run_group_tests_name(
		"bootstrap_threads", tests, NULL, NULL);
}
