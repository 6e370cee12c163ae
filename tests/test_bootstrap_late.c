/* The meeting over TCP when ranks are late, missing, or die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/leftovers.h"
#include "support/meet.h"

#define HALF_SEC (500 * MEET_MS)

static struct meet_call calls[MEET_MAX_RANKS];
static const int32_t nobody[] = {-1};
static const int32_t only_root[] = {0, -1};
static const int32_t only_one[] = {1, -1};
static const int32_t only_two[] = {2, -1};

static void every_rank_names_those_that_are_missing(void **state)
{
	static const int32_t missing[] = {2, 4, -1};

	(void)state;
	meet_prepare_all(calls, 5, 4 * HALF_SEC);
	calls[2] = calls[3]; /* ranks 0, 1 and 3 come */
	meet_run_all(calls, 3);
	meet_check_errors(
		calls, 3, SHUNT_TIMEOUT, missing, "missing: rank 2 4");
}

static void a_rank_whose_time_is_up_first_learns_who_is_missing(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, 6 * HALF_SEC);
	calls[1].span_ns = 2 * HALF_SEC;
	meet_run_all(calls, 2);
	/* Neither names the other: both came. */
	meet_check_errors(calls, 2, SHUNT_TIMEOUT, only_two, "missing: rank 2");
}

static void a_rank_that_gave_up_may_come_back(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	meet_start(&calls[0]);
	calls[1].span_ns = HALF_SEC;
	meet_run(&calls[1]);
	assert_int_equal(calls[1].status, SHUNT_TIMEOUT);
	calls[1].span_ns = MEET_LONG_NS;
	meet_start(&calls[1]);
	meet_start(&calls[2]);
	meet_finish_all(calls, 3);
}

/* Rank 2 comes to rank 0, and rank 1 is there no more. */
static void check_without_one(void)
{
	meet_start(&calls[2]);
	meet_finish(&calls[0]);
	meet_finish(&calls[2]);
	meet_check_error(&calls[0], SHUNT_TIMEOUT, only_one, "missing: rank 1");
	meet_check_error(&calls[2], SHUNT_TIMEOUT, only_one, "missing: rank 1");
}

static void where_all_came_those_that_gave_up_are_named(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, 8 * HALF_SEC);
	meet_start(&calls[0]);
	calls[1].span_ns = 2 * HALF_SEC;
	meet_run(&calls[1]);
	meet_check_error(&calls[1], SHUNT_TIMEOUT, only_two, "missing: rank 2");
	check_without_one();
}

static void without_a_root_its_address_is_named(void **state)
{
	char where[64];

	(void)state;
	meet_prepare_all(calls, 2, HALF_SEC);
	meet_run(&calls[1]);
	snprintf(where, sizeof(where), "rank 0 at %s:%u", meet_address(),
		calls[1].bootstrap.port);
	meet_check_error(&calls[1], SHUNT_TIMEOUT, only_root, where);
	assert_non_null(strstr(calls[1].message, strerror(ECONNREFUSED)));
}

static void a_deadline_in_the_past_does_not_wait(void **state)
{
	(void)state;
	meet_prepare_all(calls, 2, MEET_PAST_NS);
	meet_run(&calls[0]);
	meet_check_error(&calls[0], SHUNT_TIMEOUT, only_one, "missing: rank 1");
	meet_run(&calls[1]);
	meet_check_error(&calls[1], SHUNT_TIMEOUT, only_root, "deadline");
}

static void a_name_that_nobody_knows_is_tried_until_the_deadline(void **state)
{
	(void)state;
	meet_prepare_all(calls, 2, HALF_SEC);
	meet_set_address(calls, 2, "no-such-host.invalid");
	meet_run(&calls[1]);
	meet_check_error(
		&calls[1], SHUNT_TIMEOUT, only_root, "no-such-host.invalid");
	meet_run(&calls[0]);
	meet_check_error(
		&calls[0], SHUNT_SYSTEM, nobody, "no-such-host.invalid");
}

/* Makes the call in a process of its own, which can be killed. */
static pid_t start_process(struct meet_call *call)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		meet_run(call);
		_exit(0);
	}
	return child;
}

/* Kills it when it has had time to come, and waits for others. */
static void kill_waiting(pid_t child)
{
	meet_sleep(HALF_SEC);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_rank_that_dies_while_it_waits_may_be_replaced(void **state)
{
	pid_t child;

	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	child = start_process(&calls[1]);
	meet_start(&calls[0]);
	kill_waiting(child);
	meet_start(&calls[2]);
	meet_sleep(MEET_SHORT_NS);
	meet_start(&calls[1]);
	meet_finish_all(calls, 3);
}

static void a_rank_that_died_while_it_waited_is_missing(void **state)
{
	pid_t child;

	(void)state;
	meet_prepare_all(calls, 3, 8 * HALF_SEC);
	child = start_process(&calls[1]);
	meet_start(&calls[0]);
	kill_waiting(child);
	check_without_one();
}

static void a_root_that_dies_may_be_replaced(void **state)
{
	pid_t child;

	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	child = start_process(&calls[0]);
	meet_start(&calls[1]);
	kill_waiting(child);
	meet_start(&calls[0]);
	meet_start(&calls[2]);
	meet_finish_all(calls, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEFTOVERS_TEST(every_rank_names_those_that_are_missing),
		LEFTOVERS_TEST(
			a_rank_whose_time_is_up_first_learns_who_is_missing),
		LEFTOVERS_TEST(a_rank_that_gave_up_may_come_back),
		LEFTOVERS_TEST(where_all_came_those_that_gave_up_are_named),
		LEFTOVERS_TEST(without_a_root_its_address_is_named),
		LEFTOVERS_TEST(a_deadline_in_the_past_does_not_wait),
		LEFTOVERS_TEST(
			a_name_that_nobody_knows_is_tried_until_the_deadline),
		LEFTOVERS_TEST(a_rank_that_dies_while_it_waits_may_be_replaced),
		LEFTOVERS_TEST(a_rank_that_died_while_it_waited_is_missing),
		LEFTOVERS_TEST(a_root_that_dies_may_be_replaced),
	};

	return cmocka_run_group_tests_name("bootstrap_late", tests, NULL, NULL);
}
