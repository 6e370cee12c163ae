/* Health: death and departure of a process as its peers see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/segment.h"
#include "support/child.h"
#include "support/leftovers.h"
#include "transport/health.h"

#define NUM_PAGES 8
#define MIB       ((size_t)1 << 20)

/* ThreadSanitizer knows no child that starts threads although its parent had
 * some. */
#if defined(__SANITIZE_THREAD__)
#define CHILD_OF_THREADS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_OF_THREADS 0
#endif
#endif
#ifndef CHILD_OF_THREADS
#define CHILD_OF_THREADS 1
#endif

/* Control pages that parent and child share, and what the child tells. */
struct pages {
	union {
		struct control control;
		char bytes[CONTROL_BYTES];
	} page[NUM_PAGES];
	_Atomic int ready;
	size_t resident_bytes; /* that the child is to have */
};

static struct pages *pages_make(void)
{
	void *memory = mmap(NULL, sizeof(struct pages), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

static void pages_drop(struct pages *pages)
{
	munmap(pages, sizeof(*pages));
}

static _Atomic uint32_t *life(struct pages *pages, int index)
{
	return &pages->page[index].control.life;
}

static enum health seen(struct pages *pages, int index)
{
	return health_read(life(pages, index));
}

static void await_ready(struct pages *pages, int value)
{
	while (atomic_load(&pages->ready) < value)
		usleep(500);
}

static bool is_service(const char *task)
{
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	file = fopen(path, "r");
	if (!file)
		return false; /* ended meanwhile */
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	return strcmp(name, "shunt-health\n") == 0;
}

static int num_services(void)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count += is_service(entry->d_name);
	closedir(folder);
	return count;
}

/* The kernel takes a joined thread off the list a moment later. */
static void check_num_services(int expected)
{
	for (int i = 0; i < 30000 && num_services() > expected; i++)
		usleep(1000);
	assert_int_equal(num_services(), expected);
}

/* Holds the first three words until it is killed. */
static int hold_three(void *context)
{
	struct pages *pages = context;
	char *memory = malloc(pages->resident_bytes + 1);

	CHILD_CHECK(memory);
	memset(memory, 1, pages->resident_bytes + 1);
	for (int i = 0; i < 3; i++)
		CHILD_CHECK(health_hold(life(pages, i)) == SHUNT_OK);
	atomic_store(&pages->ready, 1);
	for (;;)
		pause();
}

static void check_killed(size_t resident_bytes)
{
	struct pages *pages = pages_make();
	pid_t pid;

	pages->resident_bytes = resident_bytes;
	pid = child_start(hold_three, pages);
	await_ready(pages, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(seen(pages, i), HEALTH_ALIVE);
		assert_int_not_equal(atomic_load(life(pages, i)), 0);
	}
	child_kill(pid);
	for (int i = 0; i < 3; i++)
		assert_int_equal(seen(pages, i), HEALTH_DEAD);
	pages_drop(pages);
}

static void a_killed_process_is_seen_dead(void **state)
{
	(void)state;
	check_killed(0);
}

static void a_large_process_that_is_killed_is_seen_dead(void **state)
{
	(void)state;
	check_killed(256 * MIB);
}

static void death_is_seen_before_the_process_is_reaped(void **state)
{
	struct pages *pages = pages_make();
	pid_t pid = child_start(hold_three, pages);

	(void)state;
	await_ready(pages, 1);
	kill(pid, SIGKILL);
	while (seen(pages, 2) != HEALTH_DEAD) /* a hang if it never is */
		usleep(100);
	child_kill(pid);
	pages_drop(pages);
}

static int leave(void *context)
{
	struct pages *pages = context;

	for (int i = 0; i < 3; i++)
		CHILD_CHECK(health_hold(life(pages, i)) == SHUNT_OK);
	for (int i = 0; i < 3; i++) {
		health_release(life(pages, i));
		CHILD_CHECK(seen(pages, i) == HEALTH_GONE);
	}
	return 0;
}

static void a_process_that_leaves_is_seen_gone(void **state)
{
	struct pages *pages = pages_make();

	(void)state;
	assert_int_equal(child_run(leave, pages), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(seen(pages, i), HEALTH_GONE);
	pages_drop(pages);
}

static int exit_early(void *context)
{
	struct pages *pages = context;

	for (int i = 0; i < 3; i++)
		CHILD_CHECK(health_hold(life(pages, i)) == SHUNT_OK);
	health_release(life(pages, 1));
	_exit(0);
}

static void an_exit_without_release_is_seen_as_death(void **state)
{
	struct pages *pages = pages_make();

	(void)state;
	assert_int_equal(child_run(exit_early, pages), 0);
	assert_int_equal(seen(pages, 0), HEALTH_DEAD);
	assert_int_equal(seen(pages, 1), HEALTH_GONE);
	assert_int_equal(seen(pages, 2), HEALTH_DEAD);
	pages_drop(pages);
}

static void *hold_first(void *context)
{
	return (void *)(uintptr_t)health_hold(life(context, 0));
}

static int hold_by_a_thread_that_ends(void *context)
{
	struct pages *pages = context;
	pthread_t thread;
	void *status;

	CHILD_CHECK(pthread_create(&thread, NULL, hold_first, pages) == 0);
	pthread_join(thread, &status);
	CHILD_CHECK((uintptr_t)status == SHUNT_OK);
	usleep(1000);
	CHILD_CHECK(seen(pages, 0) == HEALTH_ALIVE);
	return 0;
}

static void the_end_of_a_thread_is_no_death(void **state)
{
	struct pages *pages = pages_make();

	(void)state;
	assert_int_equal(child_run(hold_by_a_thread_that_ends, pages), 0);
	assert_int_equal(seen(pages, 0), HEALTH_DEAD); /* by the exit */
	pages_drop(pages);
}

/* Holds words 0 and 7; takes and gives all between without a pause. */
static int churn(void *context)
{
	struct pages *pages = context;
	unsigned int random = (unsigned int)getpid();

	CHILD_CHECK(health_hold(life(pages, 0)) == SHUNT_OK);
	for (int i = 1; i < 4; i++)
		CHILD_CHECK(health_hold(life(pages, i)) == SHUNT_OK);
	CHILD_CHECK(health_hold(life(pages, 7)) == SHUNT_OK);
	atomic_store(&pages->ready, 1);
	for (;;) {
		_Atomic uint32_t *word;

		random = random * 1103515245 + 12345;
		word = life(pages, 1 + (int)(random >> 16) % 6);
		if (atomic_load(word) == HEALTH_UNBORN ||
			health_read(word) == HEALTH_GONE)
			CHILD_CHECK(health_hold(word) == SHUNT_OK);
		else
			health_release(word);
	}
}

static void the_list_is_whole_at_any_instant_of_death(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		struct pages *pages = pages_make();
		pid_t pid = child_start(churn, pages);

		await_ready(pages, 1);
		usleep((useconds_t)(i * 13 % 100));
		child_kill(pid);
		assert_int_equal(seen(pages, 0), HEALTH_DEAD);
		assert_int_equal(seen(pages, 7), HEALTH_DEAD);
		pages_drop(pages);
	}
}

static void a_thousand_holds_leave_no_thread_and_no_descriptor(void **state)
{
	struct pages *pages = pages_make();
	struct leftovers before;
	char why[256] = "";
	int mappings = 0;

	(void)state;
	leftovers_count(&before);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(health_hold(life(pages, 0)), SHUNT_OK);
		assert_int_equal(health_hold(life(pages, 1)), SHUNT_OK);
		check_num_services(1);
		health_release(life(pages, 0));
		assert_int_equal(seen(pages, 1), HEALTH_ALIVE);
		health_release(life(pages, 1));
		assert_int_equal(seen(pages, 0), HEALTH_GONE);
		assert_int_equal(seen(pages, 1), HEALTH_GONE);
		if (i == 100)
			mappings = leftovers_mappings();
	}
	check_num_services(0);
	assert_true(leftovers_mappings() <= mappings + 4);
	assert_true(leftovers_check(&before, why, sizeof(why)));
	pages_drop(pages);
}

static void releasing_what_is_not_held_changes_nothing(void **state)
{
	struct pages *pages = pages_make();

	(void)state;
	assert_int_equal(health_hold(life(pages, 0)), SHUNT_OK);
	health_release(life(pages, 1));
	assert_int_equal(atomic_load(life(pages, 1)), HEALTH_UNBORN);
	health_release(life(pages, 0));
	health_release(life(pages, 0));
	assert_int_equal(seen(pages, 0), HEALTH_GONE);
	pages_drop(pages);
}

static int hold_own(void *context)
{
	struct pages *pages = context;

	health_release(life(pages, 0)); /* the parent's */
	CHILD_CHECK(seen(pages, 0) == HEALTH_ALIVE);
	CHILD_CHECK(health_hold(life(pages, 1)) == SHUNT_OK);
	CHILD_CHECK(seen(pages, 1) == HEALTH_ALIVE);
	health_release(life(pages, 1));
	CHILD_CHECK(health_hold(life(pages, 2)) == SHUNT_OK);
	return 0;
}

static void a_forked_child_holds_its_own_words_only(void **state)
{
	struct pages *pages;

	(void)state;
	if (!CHILD_OF_THREADS)
		skip();
	pages = pages_make();
	assert_int_equal(health_hold(life(pages, 0)), SHUNT_OK);
	assert_int_equal(child_run(hold_own, pages), 0);
	assert_int_equal(seen(pages, 0), HEALTH_ALIVE);
	assert_int_equal(seen(pages, 1), HEALTH_GONE);
	assert_int_equal(seen(pages, 2), HEALTH_DEAD);
	health_release(life(pages, 0));
	pages_drop(pages);
}

static void signals_do_not_reach_the_service_thread(void **state)
{
	struct pages *pages = pages_make();
	char path[64], name[32] = "", line[256];
	unsigned long long blocked = 0;
	FILE *file;

	(void)state;
	assert_int_equal(health_hold(life(pages, 0)), SHUNT_OK);
	snprintf(path, sizeof(path), "/proc/self/task/%u/status",
		atomic_load(life(pages, 0)));
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Name: %31s", name);
		sscanf(line, "SigBlk: %llx", &blocked);
	}
	fclose(file);
	assert_string_equal(name, "shunt-health");
	assert_true(blocked >> (SIGTERM - 1) & 1);
	assert_true(blocked >> (SIGPROF - 1) & 1);
	health_release(life(pages, 0));
	pages_drop(pages);
}

static void a_segment_lives_and_leaves_by_its_kind(void **state)
{
	(void)state;
	for (int kind = SEGMENT_PRIVATE; kind <= SEGMENT_SHARED; kind++) {
		struct segment *segment;
		_Atomic uint32_t *word;

		assert_int_equal(
			segment_create((enum segment_kind)kind, MIB, &segment),
			SHUNT_OK);
		word = &segment_control(segment)->life;
		assert_int_equal(atomic_load(word), HEALTH_UNBORN);
		assert_int_equal(life_begin(segment), SHUNT_OK);
		assert_int_equal(health_read(word), HEALTH_ALIVE);
		assert_int_not_equal(atomic_load(word), HEALTH_UNBORN);
		check_num_services(kind == SEGMENT_SHARED);
		life_end(segment);
		assert_int_equal(health_read(word), HEALTH_GONE);
		segment_put(segment);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_process_is_seen_dead),
		cmocka_unit_test(a_large_process_that_is_killed_is_seen_dead),
		cmocka_unit_test(death_is_seen_before_the_process_is_reaped),
		cmocka_unit_test(a_process_that_leaves_is_seen_gone),
		cmocka_unit_test(an_exit_without_release_is_seen_as_death),
		cmocka_unit_test(the_end_of_a_thread_is_no_death),
		cmocka_unit_test(the_list_is_whole_at_any_instant_of_death),
		cmocka_unit_test(
			a_thousand_holds_leave_no_thread_and_no_descriptor),
		cmocka_unit_test(releasing_what_is_not_held_changes_nothing),
		cmocka_unit_test(a_forked_child_holds_its_own_words_only),
		cmocka_unit_test(signals_do_not_reach_the_service_thread),
		cmocka_unit_test(a_segment_lives_and_leaves_by_its_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
