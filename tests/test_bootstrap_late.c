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

#include "base/clock.h"
#include "bootstrap/net.h"
#include "support/leftovers.h"
#include "support/meet.h"

#define HALF_SEC (500 * MEET_MS)

static struct meet_call calls[MEET_MAX_RANKS];
static const int32_t nobody[] = {-1};
static const int32_t only_root[] = {0, -1};
static const int32_t only_one[] = {1, -1};
static const int32_t only_two[] = {2, -1};

static void prepare_all(int32_t num_ranks, int64_t span_ns)
{
	uint16_t port = meet_free_port();

	for (int32_t rank = 0; rank < num_ranks; rank++)
		meet_prepare_tcp(&calls[rank], port, rank, num_ranks, span_ns);
}

static void set_address(int32_t num_ranks, const char *address)
{
	for (int32_t rank = 0; rank < num_ranks; rank++)
		strcpy(calls[rank].bootstrap.address, address);
}

static void sleep_ns(int64_t span_ns)
{
	net_sleep(clock_deadline(span_ns));
}

static void check_all(int32_t num_ranks, enum shunt_status status,
	const int32_t *ranks, const char *words)
{
	for (int32_t rank = 0; rank < num_ranks; rank++)
		meet_check_error(&calls[rank], status, ranks, words);
}

static void every_rank_names_those_that_are_missing(void **state)
{
	static const int32_t missing[] = {2, 4, -1};

	(void)state;
	prepare_all(5, 4 * HALF_SEC);
	calls[2] = calls[3]; /* ranks 0, 1 and 3 come */
	meet_run_all(calls, 3);
	check_all(3, SHUNT_TIMEOUT, missing, "missing: rank 2 4");
}

static void a_rank_whose_time_is_up_first_learns_who_is_missing(void **state)
{
	(void)state;
	prepare_all(3, 6 * HALF_SEC);
	calls[1].span_ns = 2 * HALF_SEC;
	meet_run_all(calls, 2);
	/* Neither names the other: both came. */
	check_all(2, SHUNT_TIMEOUT, only_two, "missing: rank 2");
}

static void a_rank_that_gave_up_may_come_back(void **state)
{
	(void)state;
	prepare_all(3, MEET_LONG_NS);
	meet_start(&calls[0]);
	calls[1].span_ns = HALF_SEC;
	meet_run(&calls[1]);
	assert_int_equal(calls[1].status, SHUNT_TIMEOUT);
	calls[1].span_ns = MEET_LONG_NS;
	meet_start(&calls[1]);
	meet_start(&calls[2]);
	for (int32_t rank = 0; rank < 3; rank++)
		meet_finish(&calls[rank]);
	meet_check(calls, 3);
}

static void where_all_came_those_that_gave_up_are_named(void **state)
{
	(void)state;
	prepare_all(3, 8 * HALF_SEC);
	meet_start(&calls[0]);
	calls[1].span_ns = 2 * HALF_SEC;
	meet_run(&calls[1]);
	meet_check_error(&calls[1], SHUNT_TIMEOUT, only_two, "missing: rank 2");
	meet_start(&calls[2]);
	meet_finish(&calls[0]);
	meet_finish(&calls[2]);
	meet_check_error(&calls[0], SHUNT_TIMEOUT, only_one, "missing: rank 1");
	meet_check_error(&calls[2], SHUNT_TIMEOUT, only_one, "missing: rank 1");
}

static void without_a_root_its_address_is_named(void **state)
{
	char where[64];

	(void)state;
	prepare_all(2, HALF_SEC);
	meet_run(&calls[1]);
	snprintf(where, sizeof(where), "rank 0 at %s:%u", meet_address(),
		calls[1].bootstrap.port);
	meet_check_error(&calls[1], SHUNT_TIMEOUT, only_root, where);
	assert_non_null(strstr(calls[1].message, strerror(ECONNREFUSED)));
}

static void a_deadline_in_the_past_does_not_wait(void **state)
{
	(void)state;
	prepare_all(2, MEET_PAST_NS);
	meet_run(&calls[0]);
	meet_check_error(&calls[0], SHUNT_TIMEOUT, only_one, "missing: rank 1");
	meet_run(&calls[1]);
	meet_check_error(&calls[1], SHUNT_TIMEOUT, only_root, "deadline");
}

static void a_name_that_nobody_knows_is_tried_until_the_deadline(void **state)
{
	(void)state;
	prepare_all(2, HALF_SEC);
	set_address(2, "no-such-host.invalid");
	meet_run(&calls[1]);
	meet_check_error(
		&calls[1], SHUNT_TIMEOUT, only_root, "no-such-host.invalid");
	meet_run(&calls[0]);
	meet_check_error(
		&calls[0], SHUNT_SYSTEM, nobody, "no-such-host.invalid");
}

static void a_rank_that_dies_while_it_waits_may_be_replaced(void **state)
{
	pid_t child;

	(void)state;
	prepare_all(3, MEET_LONG_NS);
	child = fork();
	if (child == 0) {
		meet_run(&calls[1]);
		_exit(0);
	}
	meet_start(&calls[0]);
	sleep_ns(HALF_SEC);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	meet_start(&calls[2]);
	sleep_ns(MEET_SHORT_NS);
	meet_start(&calls[1]);
	for (int32_t rank = 0; rank < 3; rank++)
		meet_finish(&calls[rank]);
	meet_check(calls, 3);
}

static void a_rank_that_died_while_it_waited_is_missing(void **state)
{
	pid_t child;

	(void)state;
	prepare_all(3, 8 * HALF_SEC);
	child = fork();
	if (child == 0) {
		meet_run(&calls[1]);
		_exit(0);
	}
	meet_start(&calls[0]);
	sleep_ns(HALF_SEC);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	meet_start(&calls[2]);
	meet_finish(&calls[0]);
	meet_finish(&calls[2]);
	meet_check_error(&calls[0], SHUNT_TIMEOUT, only_one, "missing: rank 1");
	meet_check_error(&calls[2], SHUNT_TIMEOUT, only_one, "missing: rank 1");
}

static void a_root_that_dies_may_be_replaced(void **state)
{
	pid_t child;

	(void)state;
	prepare_all(3, MEET_LONG_NS);
	child = fork();
	if (child == 0) {
		meet_run(&calls[0]);
		_exit(0);
	}
	meet_start(&calls[1]);
	sleep_ns(HALF_SEC);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	meet_start(&calls[0]);
	meet_start(&calls[2]);
	for (int32_t rank = 0; rank < 3; rank++)
		meet_finish(&calls[rank]);
	meet_check(calls, 3);
}

static int count_descriptors(void **state)
{
	static int before;

	before = leftovers_descriptors();
	*state = &before;
	return 0;
}

static int check_descriptors(void **state)
{
	const int *before = *state;

	return leftovers_descriptors() == *before ? 0 : -1;
}

#define TEST(name)                       \
	cmocka_unit_test_setup_teardown( \
		name, count_descriptors, check_descriptors)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_rank_names_those_that_are_missing),
		TEST(a_rank_whose_time_is_up_first_learns_who_is_missing),
		TEST(a_rank_that_gave_up_may_come_back),
		TEST(where_all_came_those_that_gave_up_are_named),
		TEST(without_a_root_its_address_is_named),
		TEST(a_deadline_in_the_past_does_not_wait),
		TEST(a_name_that_nobody_knows_is_tried_until_the_deadline),
		TEST(a_rank_that_dies_while_it_waits_may_be_replaced),
		TEST(a_rank_that_died_while_it_waited_is_missing),
		TEST(a_root_that_dies_may_be_replaced),
	};

	return cmocka_run_group_tests_name("bootstrap_late", tests, NULL, NULL);
}
