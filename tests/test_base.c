/* The base: errors of a thread, versioned structs, the fork guard, notes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/simd.h"

/* ---- errors ------------------------------------------------------------ */

static void every_status_has_its_own_name(void **state)
{
	(void)state;
	for (int i = 0; i < SHUNT_NUM_STATUSES; i++) {
		const char *name = shunt_status_name((enum shunt_status)i);

		assert_non_null(name);
		assert_string_not_equal(name, "UNKNOWN");
		for (int j = 0; j < i; j++)
			assert_string_not_equal(
				name, shunt_status_name((enum shunt_status)j));
	}
	assert_string_equal(shunt_status_name(SHUNT_OK), "OK");
	assert_string_equal(shunt_status_name(SHUNT_SYSTEM), "SYSTEM");
}

static void a_value_that_is_no_status_is_unknown(void **state)
{
	(void)state;
	assert_string_equal(
		shunt_status_name((enum shunt_status)SHUNT_NUM_STATUSES),
		"UNKNOWN");
	assert_string_equal(
		shunt_status_name((enum shunt_status)0x7fffffff), "UNKNOWN");
}

static void the_version_is_that_of_the_header(void **state)
{
	char expected[32];

	(void)state;
	snprintf(expected, sizeof(expected), "%d.%d.%d", SHUNT_VERSION_MAJOR,
		SHUNT_VERSION_MINOR, SHUNT_VERSION_PATCH);
	assert_string_equal(shunt_version(), expected);
}

static void the_instructions_in_use_have_their_name(void **state)
{
	(void)state;
	assert_string_equal(shunt_simd(), simd_name(simd_level()));
}

static void an_error_returns_its_status_and_keeps_its_message(void **state)
{
	(void)state;
	assert_int_equal(error_set(SHUNT_CAPACITY, "rank %d needs %s", 3, "x"),
		SHUNT_CAPACITY);
	assert_string_equal(shunt_error_message(), "rank 3 needs x");
}

static void a_long_message_is_cut(void **state)
{
	char text[5000];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(SHUNT_INVALID, "%s", text);
	assert_int_equal(strlen(shunt_error_message()), 1023);
	errno = ENOENT;
	error_set_errno(SHUNT_SYSTEM, "%s", text);
	assert_int_equal(strlen(shunt_error_message()), 1023);
}

static void a_message_may_wrap_the_one_before(void **state)
{
	(void)state;
	error_set(SHUNT_INVALID, "inner");
	error_set(SHUNT_INVALID, "outer: %s", shunt_error_message());
	assert_string_equal(shunt_error_message(), "outer: inner");
}

static void an_error_of_the_system_says_which(void **state)
{
	char expected[128];

	(void)state;
	errno = ENOSPC;
	assert_int_equal(
		error_set_errno(SHUNT_SYSTEM, "opening %d", 7), SHUNT_SYSTEM);
	snprintf(expected, sizeof(expected), "opening 7: %s", strerror(ENOSPC));
	assert_string_equal(shunt_error_message(), expected);
	assert_int_equal(errno, ENOSPC);
}

static void ranks_come_out_in_ascending_order(void **state)
{
	static const int32_t expected[] = {0, 63, 64, 4095};
	int32_t ranks[8];

	(void)state;
	error_set(SHUNT_PEER_LOST, "lost");
	for (int i = 3; i >= 0; i--)
		error_add_rank(expected[i]);
	assert_int_equal(shunt_error_ranks(ranks, 8), 4);
	assert_memory_equal(ranks, expected, sizeof(expected));
}

static void ranks_are_counted_beyond_the_capacity(void **state)
{
	int32_t ranks[3] = {-1, -1, -1};

	(void)state;
	error_set(SHUNT_PEER_LOST, "lost");
	for (int32_t rank = 10; rank < 20; rank++)
		error_add_rank(rank);
	assert_int_equal(shunt_error_ranks(ranks, 2), 10);
	assert_int_equal(ranks[0], 10);
	assert_int_equal(ranks[1], 11);
	assert_int_equal(ranks[2], -1);
	assert_int_equal(shunt_error_ranks(NULL, 0), 10);
}

static void impossible_ranks_are_not_kept(void **state)
{
	(void)state;
	error_set(SHUNT_PEER_LOST, "lost");
	error_add_rank(-1);
	error_add_rank(4096);
	error_add_rank(INT32_MAX);
	assert_int_equal(shunt_error_ranks(NULL, 0), 0);
}

static void a_new_error_forgets_the_ranks(void **state)
{
	(void)state;
	error_set(SHUNT_PEER_LOST, "lost");
	error_add_rank(1);
	error_set(SHUNT_INVALID, "other");
	assert_int_equal(shunt_error_ranks(NULL, 0), 0);
}

static void *look_at_fresh_thread(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)(shunt_error_message()[0] == '\0' &&
				   shunt_error_ranks(NULL, 0) == 0);
}

static void each_thread_has_its_own_error(void **state)
{
	pthread_t thread;
	void *clean;

	(void)state;
	error_set(SHUNT_PEER_LOST, "mine");
	error_add_rank(1);
	assert_int_equal(
		pthread_create(&thread, NULL, look_at_fresh_thread, NULL), 0);
	pthread_join(thread, &clean);
	assert_non_null(clean);
	assert_string_equal(shunt_error_message(), "mine");
}

/* ---- versioned structs ------------------------------------------------- */

struct old_form {
	size_t struct_size;
	uint64_t first;
};

struct our_form {
	size_t struct_size;
	uint64_t first;
	uint64_t second;
};

struct new_form {
	size_t struct_size;
	uint64_t first;
	uint64_t second;
	uint64_t third;
};

static void a_shorter_struct_is_filled_up_with_zeros(void **state)
{
	struct old_form given = {.struct_size = sizeof(given), .first = 5};
	struct our_form known = {.second = 9};

	(void)state;
	assert_int_equal(
		config_read(&known, sizeof(known), &given, "form"), SHUNT_OK);
	assert_int_equal(known.first, 5);
	assert_int_equal(known.second, 0);
	assert_int_equal(known.struct_size, sizeof(known));
}

static void a_longer_struct_is_taken_if_the_rest_is_zero(void **state)
{
	struct new_form given = {.struct_size = sizeof(given), .second = 6};
	struct our_form known;

	(void)state;
	assert_int_equal(
		config_read(&known, sizeof(known), &given, "form"), SHUNT_OK);
	assert_int_equal(known.second, 6);
	given.third = 1;
	assert_int_equal(config_read(&known, sizeof(known), &given, "form"),
		SHUNT_VERSION);
	assert_non_null(strstr(shunt_error_message(), "form"));
}

static void a_struct_without_a_sane_size_is_refused(void **state)
{
	struct our_form given = {.struct_size = 0};
	struct our_form known;

	(void)state;
	assert_int_equal(config_read(&known, sizeof(known), NULL, "form"),
		SHUNT_NULL_ARGUMENT);
	assert_int_equal(config_read(&known, sizeof(known), &given, "form"),
		SHUNT_INVALID);
	given.struct_size = sizeof(size_t) - 1;
	assert_int_equal(config_read(&known, sizeof(known), &given, "form"),
		SHUNT_INVALID);
	/* Rubbish must not be read behind the struct. */
	given.struct_size = SIZE_MAX;
	assert_int_equal(config_read(&known, sizeof(known), &given, "form"),
		SHUNT_INVALID);
}

static void writing_back_keeps_to_the_callers_size(void **state)
{
	struct our_form known = {sizeof(known), 1, 2};
	struct our_form shorter = {sizeof(struct old_form), 0, 77};
	struct new_form longer = {sizeof(longer), 0, 0, 88};

	(void)state;
	config_write(&shorter, &known, sizeof(known));
	assert_int_equal(shorter.struct_size, sizeof(struct old_form));
	assert_int_equal(shorter.first, 1);
	assert_int_equal(shorter.second, 77);
	config_write(&longer, &known, sizeof(known));
	assert_int_equal(longer.struct_size, sizeof(longer));
	assert_int_equal(longer.second, 2);
	assert_int_equal(longer.third, 88);
}

/* ---- fork guard -------------------------------------------------------- */

static void the_process_that_made_it_may_use_it(void **state)
{
	unsigned long generation;

	(void)state;
	assert_int_equal(guard_init(), SHUNT_OK);
	generation = guard_generation();
	assert_int_not_equal(generation, 0);
	assert_int_equal(guard_check(generation), SHUNT_OK);
	assert_int_equal(guard_init(), SHUNT_OK);
	assert_int_equal(guard_generation(), generation);
}

/* The child's exit status, 0 if all is as it should be. */
static int run_child(unsigned long generation)
{
	if (guard_generation() != 0)
		return 1;
	if (guard_check(generation) != SHUNT_STATE ||
		!strstr(shunt_error_message(), "fork"))
		return 2;
	if (guard_init() != SHUNT_OK || guard_generation() == 0)
		return 3;
	if (guard_generation() == generation)
		return 4;
	if (guard_check(generation) != SHUNT_STATE)
		return 5;
	return guard_check(guard_generation()) == SHUNT_OK ? 0 : 6;
}

static void a_forked_child_is_told_apart(void **state)
{
	unsigned long generation;
	int child_status;
	pid_t child;

	(void)state;
	assert_int_equal(guard_init(), SHUNT_OK);
	generation = guard_generation();
	child = fork();
	if (child == 0)
		_exit(run_child(generation));
	assert_int_equal(waitpid(child, &child_status, 0), child);
	assert_true(WIFEXITED(child_status));
	assert_int_equal(WEXITSTATUS(child_status), 0);
	assert_int_equal(guard_check(generation), SHUNT_OK);
}

static unsigned long generation_of_child(void)
{
	unsigned long generation = 0;
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		if (guard_init() == SHUNT_OK)
			generation = guard_generation();
		_exit(write(ends[1], &generation, sizeof(generation)) !=
			sizeof(generation));
	}
	assert_int_equal(read(ends[0], &generation, sizeof(generation)),
		sizeof(generation));
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ends[0]);
	close(ends[1]);
	return generation;
}

static void two_children_have_two_generations(void **state)
{
	unsigned long one = generation_of_child();
	unsigned long other = generation_of_child();

	(void)state;
	assert_int_not_equal(one, 0);
	assert_int_not_equal(one, other);
}

static void *init_guard(void *unused)
{
	(void)unused;
	if (guard_init() != SHUNT_OK)
		return NULL;
	return (void *)guard_generation();
}

static void threads_that_race_get_one_generation(void **state)
{
	pthread_t threads[8];
	void *generations[8];

	(void)state;
	for (int i = 0; i < 8; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, init_guard, NULL), 0);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &generations[i]);
		assert_non_null(generations[i]);
		assert_ptr_equal(generations[i], generations[0]);
	}
}

/* ---- clock ------------------------------------------------------------- */

static void a_deadline_too_far_away_is_never(void **state)
{
	(void)state;
	assert_true(clock_deadline(INT64_MAX) == INT64_MAX);
	assert_true(clock_deadline(0) <= clock_now());
}

/* ---- notes ------------------------------------------------------------- */

static void write_notes(void)
{
	char text[3000];

	memset(text, 'b', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_set_rank(-1);
	log_note(LOG_ERROR, "an error of %d", 1);
	log_set_rank(7);
	log_note(LOG_WARN, "a warning");
	log_note(LOG_INFO, "an information");
	log_note(LOG_DEBUG, "%s", text);
}

/* What a child with SHUNT_LOG=`level` (NULL: unset) writes to stderr. */
static void collect_notes(const char *level, char *notes, size_t size)
{
	size_t length = 0;
	ssize_t got;
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		if (level)
			setenv("SHUNT_LOG", level, 1);
		else
			unsetenv("SHUNT_LOG");
		dup2(ends[1], STDERR_FILENO);
		write_notes();
		_exit(0);
	}
	close(ends[1]);
	do {
		got = read(ends[0], notes + length, size - 1 - length);
		length += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	notes[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void notes_name_the_rank_and_keep_to_the_level(void **state)
{
	char notes[8192];

	(void)state;
	collect_notes("warn", notes, sizeof(notes));
	assert_string_equal(
		notes, "shunt: an error of 1\nshunt[rank 7]: a warning\n");
	collect_notes("error", notes, sizeof(notes));
	assert_string_equal(notes, "shunt: an error of 1\n");
	collect_notes("info", notes, sizeof(notes));
	assert_non_null(strstr(notes, "shunt[rank 7]: an information\n"));
	assert_null(strstr(notes, "bbb"));
}

static void the_usual_level_is_warn(void **state)
{
	char notes[8192];

	(void)state;
	collect_notes(NULL, notes, sizeof(notes));
	assert_string_equal(
		notes, "shunt: an error of 1\nshunt[rank 7]: a warning\n");
}

static void a_level_that_is_none_is_pointed_out(void **state)
{
	char notes[8192];

	(void)state;
	collect_notes("loud", notes, sizeof(notes));
	assert_non_null(strstr(notes, "SHUNT_LOG is \"loud\""));
	assert_non_null(strstr(notes, "a warning\n"));
	assert_null(strstr(notes, "an information"));
}

static void a_long_note_is_one_cut_line(void **state)
{
	char notes[8192];
	const char *last;

	(void)state;
	collect_notes("debug", notes, sizeof(notes));
	last = strstr(notes, "shunt[rank 7]: bbb");
	assert_non_null(last);
	assert_int_equal(strlen(last), 1024);
	assert_int_equal(last[1023], '\n');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_status_has_its_own_name),
		cmocka_unit_test(a_value_that_is_no_status_is_unknown),
		cmocka_unit_test(the_version_is_that_of_the_header),
		cmocka_unit_test(the_instructions_in_use_have_their_name),
		cmocka_unit_test(
			an_error_returns_its_status_and_keeps_its_message),
		cmocka_unit_test(a_long_message_is_cut),
		cmocka_unit_test(a_message_may_wrap_the_one_before),
		cmocka_unit_test(an_error_of_the_system_says_which),
		cmocka_unit_test(ranks_come_out_in_ascending_order),
		cmocka_unit_test(ranks_are_counted_beyond_the_capacity),
		cmocka_unit_test(impossible_ranks_are_not_kept),
		cmocka_unit_test(a_new_error_forgets_the_ranks),
		cmocka_unit_test(each_thread_has_its_own_error),
		cmocka_unit_test(a_shorter_struct_is_filled_up_with_zeros),
		cmocka_unit_test(a_longer_struct_is_taken_if_the_rest_is_zero),
		cmocka_unit_test(a_struct_without_a_sane_size_is_refused),
		cmocka_unit_test(writing_back_keeps_to_the_callers_size),
		cmocka_unit_test(two_children_have_two_generations),
		cmocka_unit_test(threads_that_race_get_one_generation),
		cmocka_unit_test(the_process_that_made_it_may_use_it),
		cmocka_unit_test(a_forked_child_is_told_apart),
		cmocka_unit_test(a_deadline_too_far_away_is_never),
		cmocka_unit_test(notes_name_the_rank_and_keep_to_the_level),
		cmocka_unit_test(the_usual_level_is_warn),
		cmocka_unit_test(a_level_that_is_none_is_pointed_out),
		cmocka_unit_test(a_long_note_is_one_cut_line),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
