/*
 * The rank harness itself: that it tells of failures, hangs, crashes and
 * leftovers. A harness that misses them makes every other test worthless.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/leftovers.h"
#include "support/ranks.h"

/* Runs 4 ranks that have no world, and expects `words` of them. */
static void expect_words(
	enum ranks_launch launch, ranks_function function, const char *words)
{
	struct ranks_plan plan = {
		.launch = launch,
		.num_ranks = 4,
		.seconds = 1,
		.no_world = true,
	};
	char text[2048] = "";

	assert_false(ranks_try(&plan, function, text, sizeof(text)));
	if (strstr(text, words) == NULL)
		fail_msg("\"%s\" does not have \"%s\" in it", text, words);
}

static void fail_on_two(struct seat *seat)
{
	seat_label(seat, "label ");
	SEAT_CHECK(seat, seat->rank != 2, "words of %d", seat->rank);
}

static void a_failed_check_is_told_with_rank_and_label(void **state)
{
	(void)state;
	expect_words(RANKS_THREADS, fail_on_two, "rank 2 of 4 (threads)");
	expect_words(RANKS_THREADS, fail_on_two, "label words of 2");
	expect_words(RANKS_PROCESSES, fail_on_two, "rank 2 of 4 (processes)");
	expect_words(RANKS_MIXED, fail_on_two, "label words of 2");
}

static void hang_on_one(struct seat *seat)
{
	seat_mark(seat, 5);
	while (seat->rank == 1)
		pause();
}

static void a_hang_is_told_and_ended(void **state)
{
	(void)state;
	expect_words(RANKS_THREADS, hang_on_one, "rank 1 of 4");
	expect_words(RANKS_PROCESSES, hang_on_one, "at mark 5");
}

static void crash_on_three(struct seat *seat)
{
	if (seat->rank == 3)
		kill(getpid(), SIGKILL);
	/* As threads the others must not be done before. */
	seat_await(seat, 3, 1);
}

static void a_crash_is_told(void **state)
{
	(void)state;
	expect_words(RANKS_PROCESSES, crash_on_three, "signal 9");
	expect_words(RANKS_THREADS, crash_on_three, "signal 9");
}

static void leave_a_child(struct seat *seat)
{
	if (seat->rank == 0 && fork() == 0) {
		signal(SIGALRM, SIG_DFL);
		alarm(2);
		while (true)
			pause();
	}
}

static void a_child_left_behind_is_told(void **state)
{
	(void)state;
	expect_words(RANKS_PROCESSES, leave_a_child, "child process is left");
	/* It ends by its alarm; wait, so that it is in nobody's way. */
	sleep(3);
}

static char decoy[64];

static void leave_a_file(struct seat *seat)
{
	if (seat->rank == 0)
		close(open(decoy, O_CREAT | O_RDWR, 0600));
}

static void a_file_left_in_dev_shm_is_told(void **state)
{
	char name[LEFTOVERS_DECOY_BYTES];

	(void)state;
	snprintf(decoy, sizeof(decoy), "/dev/shm/%s", leftovers_decoy(name));
	expect_words(RANKS_PROCESSES, leave_a_file, "/dev/shm 0 -> 1");
	unlink(decoy);
}

static void die_as_planned(struct seat *seat)
{
	if (seat->rank == 1)
		kill(getpid(), SIGKILL);
	seat_barrier(seat);
	memset((char *)seat->shared + seat->rank, 1, 1);
}

static void a_planned_death_is_no_failure_and_shared_bytes_come_home(
	void **state)
{
	char bytes[4] = {0};
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = 4,
		.no_world = true,
		.may_die = 1 << 1,
		.shared_bytes = sizeof(bytes),
		.shared_copy = bytes,
	};
	char text[2048] = "";

	(void)state;
	assert_true(ranks_try(&plan, die_as_planned, text, sizeof(text)));
	assert_memory_equal(bytes, "\1\0\1\1", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_check_is_told_with_rank_and_label),
		cmocka_unit_test(a_hang_is_told_and_ended),
		cmocka_unit_test(a_crash_is_told),
		cmocka_unit_test(a_child_left_behind_is_told),
		cmocka_unit_test(a_file_left_in_dev_shm_is_told),
		cmocka_unit_test(
			a_planned_death_is_no_failure_and_shared_bytes_come_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
