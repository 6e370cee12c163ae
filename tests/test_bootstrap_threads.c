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

#include "support/meet.h"

#define WAIT_NS (2000 * MEET_MS) /* for others to come in by then */

static struct meet_call calls[MEET_MAX_RANKS];

static void check_missing(const struct meet_call *call, int32_t rank)
{
	const int32_t ranks[] = {rank, -1};

	meet_check_error(call, SHUNT_TIMEOUT, ranks, "missing");
}

static void meet_all(const char *name, int32_t num_ranks)
{
	for (int32_t rank = 0; rank < num_ranks; rank++)
		meet_prepare_threads(
			&calls[rank], name, rank, num_ranks, MEET_LONG_NS);
	meet_run_all(calls, num_ranks);
}

static void all_ranks_get_all_blobs_and_one_secret(void **state)
{
	(void)state;
	for (int32_t num_ranks = 1; num_ranks <= MEET_MAX_RANKS;
		num_ranks *= 2) {
		meet_all("all", num_ranks);
		meet_check(calls, num_ranks);
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
	struct meet_call call;

	meet_prepare_threads(&call, "often", repeat->rank, 4, MEET_LONG_NS);
	for (uint8_t round = 0, turns = 0; turns < 4; round++) {
		memset(call.blob, round, MEET_BLOB_BYTES);
		meet_run(&call);
		repeat->num_failed += call.status != SHUNT_OK;
		for (int i = 0; i < 4 * MEET_BLOB_BYTES; i++)
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
		meet_prepare_threads(&calls[i], i < 4 ? "one" : "two", i % 2, 2,
			MEET_LONG_NS);
		strcpy(calls[i].bootstrap.job, i < 2 ? "a" : "b");
		memset(calls[i].blob, i, MEET_BLOB_BYTES);
		meet_start(&calls[i]);
	}
	for (int i = 0; i < 6; i++)
		meet_finish(&calls[i]);
	for (int i = 0; i < 6; i += 2)
		meet_check(&calls[i], 2);
}

/*
 * Waits until a rank sits in the meeting: a second one like it is refused. One
 * that comes too early leaves within the call, and is in nobody's way.
 */
static void await_seat(const char *name, int32_t rank, int32_t num_ranks)
{
	static struct meet_call probe;

	do {
		meet_prepare_threads(
			&probe, name, rank, num_ranks, MEET_PAST_NS);
		meet_run(&probe);
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
		meet_prepare_threads(&calls[rank], "missing", rank, 4, WAIT_NS);
		meet_start(&calls[rank]);
		await_seat("missing", rank, 4);
	}
	for (int32_t rank = 0; rank < 3; rank++) {
		meet_finish(&calls[rank]);
		check_missing(&calls[rank], 3);
		assert_non_null(strstr(calls[rank].message, "rank 3"));
	}
}

static void after_a_timeout_the_ranks_may_meet(void **state)
{
	(void)state;
	meet_prepare_threads(&calls[0], "again", 0, 2, MEET_SHORT_NS);
	meet_run(&calls[0]);
	check_missing(&calls[0], 1);
	meet_all("again", 2);
	meet_check(calls, 2);
}

static void a_rank_that_gave_up_may_come_back_in(void **state)
{
	(void)state;
	meet_prepare_threads(&calls[1], "back", 1, 3, MEET_LONG_NS);
	meet_start(&calls[1]);
	meet_prepare_threads(&calls[0], "back", 0, 3, MEET_SHORT_NS);
	meet_run(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_TIMEOUT);
	meet_prepare_threads(&calls[0], "back", 0, 3, MEET_LONG_NS);
	meet_start(&calls[0]);
	meet_prepare_threads(&calls[2], "back", 2, 3, MEET_LONG_NS);
	meet_start(&calls[2]);
	meet_finish_all(calls, 3);
}

static void a_deadline_in_the_past_does_not_wait(void **state)
{
	(void)state;
	meet_prepare_threads(&calls[0], "past", 0, 2, MEET_PAST_NS);
	meet_run(&calls[0]);
	check_missing(&calls[0], 1);
}

static void a_rank_that_comes_twice_is_refused_alone(void **state)
{
	(void)state;
	meet_prepare_threads(&calls[0], "twice", 0, 2, MEET_LONG_NS);
	meet_start(&calls[0]);
	await_seat("twice", 0, 2);
	meet_prepare_threads(&calls[1], "twice", 1, 2, MEET_LONG_NS);
	meet_start(&calls[1]);
	meet_finish(&calls[0]);
	meet_finish(&calls[1]);
	meet_check(calls, 2);
}

static void another_size_is_a_mismatch_for_all_inside(void **state)
{
	(void)state;
	for (int32_t rank = 0; rank < 2; rank++) {
		meet_prepare_threads(
			&calls[rank], "size", rank, 3, MEET_LONG_NS);
		meet_start(&calls[rank]);
		await_seat("size", rank, 3);
	}
	meet_prepare_threads(&calls[2], "size", 2, 4, MEET_LONG_NS);
	meet_run(&calls[2]);
	meet_finish(&calls[0]);
	meet_finish(&calls[1]);
	for (int32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(calls[rank].status, SHUNT_MISMATCH);
		assert_non_null(strstr(calls[rank].message, "num_ranks 4"));
		assert_int_equal(calls[rank].num_ranks, 1);
		assert_int_equal(calls[rank].ranks[0], 2);
	}
	meet_all("size", 3);
	meet_check(calls, 3);
}

static void another_blob_size_is_a_mismatch_for_all_inside(void **state)
{
	(void)state;
	meet_prepare_threads(&calls[0], "blob", 0, 2, MEET_LONG_NS);
	meet_start(&calls[0]);
	await_seat("blob", 0, 2);
	meet_prepare_threads(&calls[1], "blob", 1, 2, MEET_LONG_NS);
	calls[1].blob_bytes = MEET_BLOB_BYTES - 1;
	meet_run(&calls[1]);
	meet_finish(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_MISMATCH);
	assert_int_equal(calls[1].status, SHUNT_MISMATCH);
}

static void a_blob_of_no_or_too_many_bytes_is_refused(void **state)
{
	(void)state;
	meet_prepare_threads(&calls[0], "bytes", 0, 1, MEET_LONG_NS);
	calls[0].blob_bytes = 0;
	meet_run(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_INVALID);
	calls[0].blob_bytes = BOOTSTRAP_MAX_BLOB + 1;
	meet_run(&calls[0]);
	assert_int_equal(calls[0].status, SHUNT_INVALID);
	assert_non_null(strstr(calls[0].message, "1025"));
}

static void a_forked_child_may_use_a_name_that_waits_in_its_parent(void **state)
{
	int child_status;
	pid_t child;

	(void)state;
	meet_prepare_threads(&calls[0], "fork", 0, 2, MEET_LONG_NS);
	meet_start(&calls[0]);
	await_seat("fork", 0, 2);
	child = fork();
	if (child == 0) {
		meet_prepare_threads(&calls[2], "fork", 0, 2, MEET_SHORT_NS);
		meet_run(&calls[2]);
		_exit(calls[2].status == SHUNT_TIMEOUT ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &child_status, 0), child);
	assert_true(WIFEXITED(child_status));
	assert_int_equal(WEXITSTATUS(child_status), 0);
	meet_prepare_threads(&calls[1], "fork", 1, 2, MEET_LONG_NS);
	meet_run(&calls[1]);
	meet_finish(&calls[0]);
	meet_check(calls, 2);
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
