/* Segments: what segment.h promises, for both kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "memory/available.h"
#include "memory/segment.h"
#include "support/child.h"
#include "support/leftovers.h"

#define MIB     (UINT64_C(1) << 20)
#define GIB     (UINT64_C(1) << 30)
#define RESERVE (64 * MIB)

static enum segment_kind kind_of(void **state)
{
	return *(enum segment_kind *)*state;
}

static struct segment *make(void **state, uint64_t bytes)
{
	struct segment *segment = NULL;

	assert_int_equal(
		segment_create(kind_of(state), bytes, &segment), SHUNT_OK);
	assert_non_null(segment);
	return segment;
}

static uint64_t take(struct segment *segment, uint64_t bytes, uint64_t align)
{
	uint64_t offset = UINT64_MAX;

	assert_int_equal(
		segment_alloc(segment, bytes, align, &offset), SHUNT_OK);
	return offset;
}

static bool all_are(const uint8_t *memory, uint8_t value, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (memory[i] != value)
			return false;
	return true;
}

static void a_segment_begins_with_a_zeroed_control_page(void **state)
{
	struct segment *segment = make(state, RESERVE - 5);
	struct control *control = segment_control(segment);

	assert_ptr_equal(control, segment_base(segment));
	assert_true(control->magic == CONTROL_MAGIC);
	control->magic = 0;
	assert_true(all_are(segment_base(segment), 0, CONTROL_BYTES));
	assert_int_equal(segment_reserved_bytes(segment), RESERVE);
	assert_int_equal(segment_used_bytes(segment), CONTROL_BYTES);
	assert_true((segment_fd(segment) >= 0) ==
		    (kind_of(state) == SEGMENT_SHARED));
	segment_put(segment);
}

static void ranges_are_zeroed_aligned_and_apart(void **state)
{
	static const uint64_t wishes[][2] = {{1, 0}, {4096, 1}, {4097, 64},
		{MIB, 4096}, {3, 2 * MIB}, {5 * MIB, MIB}};
	enum { NUM = sizeof(wishes) / sizeof(wishes[0]) };
	struct segment *segment = make(state, RESERVE);
	uint64_t offsets[NUM];

	for (int i = 0; i < NUM; i++) {
		uint64_t align = wishes[i][1] > 4096 ? wishes[i][1] : 4096;

		offsets[i] = take(segment, wishes[i][0], wishes[i][1]);
		assert_true(offsets[i] >= CONTROL_BYTES);
		assert_int_equal(offsets[i] % align, 0);
		assert_true(offsets[i] + wishes[i][0] <= RESERVE);
		assert_true(all_are(
			segment_base(segment) + offsets[i], 0, wishes[i][0]));
		memset(segment_base(segment) + offsets[i], i + 1, wishes[i][0]);
	}
	for (int i = 0; i < NUM; i++)
		assert_true(all_are(segment_base(segment) + offsets[i],
			(uint8_t)(i + 1), wishes[i][0]));
	for (int i = 0; i < NUM; i++)
		segment_free(segment, offsets[i], wishes[i][0]);
	assert_int_equal(segment_used_bytes(segment), CONTROL_BYTES);
	segment_put(segment);
}

static void memory_taken_again_is_zeroed(void **state)
{
	struct segment *segment = make(state, RESERVE);

	for (int i = 0; i < 4; i++) {
		uint64_t offset = take(segment, 6 * MIB, 1);

		assert_true(
			all_are(segment_base(segment) + offset, 0, 6 * MIB));
		memset(segment_base(segment) + offset, 0xa5, 6 * MIB);
		segment_free(segment, offset, 6 * MIB);
	}
	segment_put(segment);
}

static void freed_neighbours_become_one_range(void **state)
{
	struct segment *segment = make(state, RESERVE);
	const int order[] = {1, 4, 0, 2, 5, 3};
	uint64_t offsets[6], all;

	for (int i = 0; i < 6; i++)
		offsets[i] = take(segment, 10 * MIB, 1);
	assert_int_equal(
		segment_alloc(segment, 10 * MIB, 1, &all), SHUNT_NO_MEMORY);
	for (int i = 0; i < 6; i++)
		segment_free(segment, offsets[order[i]], 10 * MIB);
	all = take(segment, RESERVE - CONTROL_BYTES, 1);
	assert_int_equal(all, CONTROL_BYTES);
	segment_free(segment, all, RESERVE - CONTROL_BYTES);
	segment_put(segment);
}

static void the_first_gap_that_fits_is_taken(void **state)
{
	struct segment *segment = make(state, RESERVE);
	uint64_t first = take(segment, MIB, 1);
	uint64_t second = take(segment, 4 * MIB, 1);

	take(segment, MIB, 1);
	segment_free(segment, first, MIB);
	segment_free(segment, second, 4 * MIB);
	take(segment, MIB, 1);
	assert_int_equal(take(segment, 4 * MIB, 1), first + MIB);
	segment_put(segment);
}

/* Memory that the segment holds, as the kernel counts it. */
static int64_t held_bytes(struct segment *segment)
{
	struct stat file;

	if (segment_fd(segment) < 0)
		return leftovers_resident();
	assert_int_equal(fstat(segment_fd(segment), &file), 0);
	return (int64_t)file.st_blocks * 512;
}

static void memory_comes_with_the_range_and_goes_with_it(void **state)
{
	struct segment *segment = make(state, RESERVE);
	int64_t before = held_bytes(segment);
	uint64_t offset = take(segment, 32 * MIB, 1);

	assert_true(held_bytes(segment) - before >= (int64_t)(31 * MIB));
	segment_free(segment, offset, 32 * MIB);
	assert_true(held_bytes(segment) - before < (int64_t)(8 * MIB));
	segment_put(segment);
}

static void exhaustion_names_needed_and_available(void **state)
{
	struct segment *segment = make(state, 16 * MIB);
	uint64_t offset = 77;

	assert_int_equal(
		segment_alloc(segment, 17 * MIB, 1, &offset), SHUNT_NO_MEMORY);
	assert_non_null(strstr(shunt_error_message(), "17825792"));
	assert_non_null(strstr(shunt_error_message(), "16777216"));
	assert_int_equal(segment_alloc(segment, UINT64_MAX, 1, &offset),
		SHUNT_NO_MEMORY);
	assert_int_equal(segment_alloc(segment, UINT64_MAX - 4095, 1, &offset),
		SHUNT_NO_MEMORY);
	assert_int_equal(segment_alloc(segment, 1, UINT64_C(1) << 63, &offset),
		SHUNT_NO_MEMORY);
	assert_int_equal(offset, 77);
	assert_int_equal(segment_used_bytes(segment), CONTROL_BYTES);
	segment_put(segment);
}

static void what_is_available_is_less_than_the_machine_has(void **state)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			 (uint64_t)sysconf(_SC_PAGESIZE);

	(void)state;
	assert_true(available_bytes() > MIB);
	assert_true(available_bytes() < bytes);
}

/* Only a small machine can show it without harm to others if it fails. */
static void more_than_is_available_is_refused(void **state)
{
	struct segment *segment;
	uint64_t offset;

	if (available_bytes() > 7 * GIB)
		skip();
	segment = make(state, 8 * GIB);
	assert_int_equal(
		segment_alloc(segment, 7 * GIB, 1, &offset), SHUNT_NO_MEMORY);
	assert_non_null(strstr(shunt_error_message(), "7516192768"));
	assert_non_null(strstr(shunt_error_message(), "available"));
	assert_int_equal(segment_used_bytes(segment), CONTROL_BYTES);
	take(segment, MIB, 1);
	segment_put(segment);
}

static void a_reserve_too_small_or_too_large_is_refused(void **state)
{
	struct segment *segment = NULL;

	assert_int_equal(
		segment_create(kind_of(state), 0, &segment), SHUNT_INVALID);
	assert_int_equal(segment_create(kind_of(state), UINT64_MAX, &segment),
		SHUNT_INVALID);
	assert_int_not_equal(
		segment_create(kind_of(state), UINT64_C(1) << 60, &segment),
		SHUNT_OK);
	assert_null(segment);
}

/* ---- limits, in children ----------------------------------------------- */

static int limited_address_space(void *kind)
{
	struct segment *segment = NULL;
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	struct rlimit limit;

	CHILD_CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	limit.rlim_max = limit.rlim_cur = pages * 4096 + GIB;
	CHILD_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	CHILD_CHECK(segment_create(*(enum segment_kind *)kind, 4 * GIB,
			    &segment) == SHUNT_NO_MEMORY);
	CHILD_CHECK(strstr(shunt_error_message(), "RLIMIT_AS"));
	CHILD_CHECK(strstr(shunt_error_message(), "SHUNT_SEGMENT_BYTES"));
	CHILD_CHECK(!segment);
	return 0;
}

static void a_limit_on_address_space_is_named(void **state)
{
	assert_int_equal(child_run(limited_address_space, *state), 0);
}

static int limited_file_size(void *kind)
{
	const struct rlimit limit = {MIB, MIB};
	enum segment_kind which = *(enum segment_kind *)kind;
	struct segment *segment = NULL;
	enum shunt_status status;

	CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	status = segment_create(which, RESERVE, &segment);
	if (which == SEGMENT_PRIVATE) {
		CHILD_CHECK(status == SHUNT_OK);
		return 0;
	}
	CHILD_CHECK(status == SHUNT_NO_MEMORY);
	CHILD_CHECK(strstr(shunt_error_message(), "RLIMIT_FSIZE"));
	return 0;
}

static void a_limit_on_file_size_is_an_error_not_a_signal(void **state)
{
	assert_int_equal(child_run(limited_file_size, *state), 0);
}

static int limited_descriptors(void *kind)
{
	const struct rlimit limit = {3, 3};
	struct segment *segment = NULL;

	for (int fd = 3; fd < 256; fd++)
		close(fd);
	CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHILD_CHECK(
		segment_create(*(enum segment_kind *)kind, RESERVE, &segment) ==
		(*(enum segment_kind *)kind == SEGMENT_SHARED ? SHUNT_SYSTEM
							      : SHUNT_OK));
	return 0;
}

static void a_lack_of_descriptors_is_an_error(void **state)
{
	assert_int_equal(child_run(limited_descriptors, *state), 0);
}

/* ---- what others see of it --------------------------------------------- */

static void nobody_can_truncate_it(void **state)
{
	struct segment *segment = make(state, RESERVE);
	int fd = segment_fd(segment);

	if (fd >= 0) {
		assert_int_equal(ftruncate(fd, 4096), -1);
		assert_int_equal(ftruncate(fd, 2 * RESERVE), -1);
		assert_true(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	segment_put(segment);
}

static int is_unmapped(void *address)
{
	unsigned char resident;

	CHILD_CHECK(mincore(address, 4096, &resident) == -1);
	CHILD_CHECK(errno == ENOMEM);
	return 0;
}

/* True if the mapping at `address` has the flag, as smaps abbreviates it. */
static bool mapping_has(const void *address, const char *flag)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	unsigned long start = 0, end = 0;
	bool has = false;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx ", &a, &b) == 2) {
			start = a;
			end = b;
		}
		if (strncmp(line, "VmFlags:", 8) == 0 &&
			start <= (uintptr_t)address && (uintptr_t)address < end)
			has = strstr(line, flag) != NULL;
	}
	fclose(file);
	return has;
}

static void children_and_core_dumps_do_not_have_it(void **state)
{
	struct segment *segment = make(state, RESERVE);

	assert_int_equal(child_run(is_unmapped, segment_base(segment)), 0);
	assert_true(mapping_has(segment_base(segment), " dd"));
	assert_true(mapping_has(segment_base(segment), " dc"));
	segment_put(segment);
}

static void it_lives_as_long_as_a_reference(void **state)
{
	struct segment *segment = make(state, RESERVE);
	struct segment *other = segment_get(segment);

	segment_put(segment);
	take(other, MIB, 1);
	assert_true(segment_control(other)->magic == CONTROL_MAGIC);
	segment_put(other);
	segment_put(NULL);
}

static void nothing_stays_behind(void **state)
{
	struct leftovers before;
	int mappings;
	char why[256] = "";

	segment_put(make(state, RESERVE));
	leftovers_count(&before);
	mappings = leftovers_mappings();
	for (int i = 0; i < 50; i++) {
		struct segment *segment = make(state, RESERVE);

		take(segment, MIB, 1);
		segment_put(segment);
	}
	assert_true(leftovers_check(&before, why, sizeof(why)));
	assert_true(leftovers_mappings() <= mappings + 4);
}

/* ---- threads and signals ----------------------------------------------- */

struct worker {
	pthread_t thread;
	struct segment *segment;
	uint8_t mark;
	bool good;
};

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	uint8_t *base = segment_base(worker->segment);

	worker->good = true;
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t bytes = 4096 * (1 + i % 7);
		uint64_t offset;

		if (segment_alloc(worker->segment, bytes, 1, &offset) !=
			SHUNT_OK) {
			worker->good = false;
			break;
		}
		worker->good &= all_are(base + offset, 0, bytes);
		memset(base + offset, worker->mark, bytes);
		worker->good &= all_are(base + offset, worker->mark, bytes);
		segment_free(worker->segment, offset, bytes);
	}
	return NULL;
}

static void threads_may_take_and_give_at_once(void **state)
{
	struct segment *segment = make(state, RESERVE);
	struct worker workers[4];

	for (int i = 0; i < 4; i++) {
		workers[i] = (struct worker){
			.segment = segment, .mark = (uint8_t)(i + 1)};
		assert_int_equal(pthread_create(&workers[i].thread, NULL,
					 worker_main, &workers[i]),
			0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_true(workers[i].good);
	}
	assert_int_equal(segment_used_bytes(segment), CONTROL_BYTES);
	segment_put(segment);
}

static volatile sig_atomic_t num_alarms;

static void count_alarm(int number)
{
	(void)number;
	num_alarms++;
}

static void signals_do_not_disturb_it(void **state)
{
	const struct itimerval often = {{0, 2000}, {0, 2000}};
	const struct itimerval never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = count_alarm}, before;
	struct segment *segment = make(state, GIB);

	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 1000 && num_alarms < 20; i++) {
		uint64_t offset = take(segment, 128 * MIB, 1);

		segment_free(segment, offset, 128 * MIB);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	assert_true(num_alarms > 0);
	segment_put(segment);
}

static enum segment_kind private_kind = SEGMENT_PRIVATE;
static enum segment_kind shared_kind = SEGMENT_SHARED;

#define BOTH(test)                                               \
	{"private: " #test, test, NULL, NULL, &private_kind},    \
	{                                                        \
		"shared: " #test, test, NULL, NULL, &shared_kind \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_segment_begins_with_a_zeroed_control_page),
		BOTH(ranges_are_zeroed_aligned_and_apart),
		BOTH(memory_taken_again_is_zeroed),
		BOTH(freed_neighbours_become_one_range),
		BOTH(the_first_gap_that_fits_is_taken),
		BOTH(memory_comes_with_the_range_and_goes_with_it),
		BOTH(exhaustion_names_needed_and_available),
		BOTH(more_than_is_available_is_refused),
		cmocka_unit_test(
			what_is_available_is_less_than_the_machine_has),
		BOTH(a_reserve_too_small_or_too_large_is_refused),
		BOTH(a_limit_on_address_space_is_named),
		BOTH(a_limit_on_file_size_is_an_error_not_a_signal),
		BOTH(a_lack_of_descriptors_is_an_error),
		BOTH(nobody_can_truncate_it),
		BOTH(children_and_core_dumps_do_not_have_it),
		BOTH(it_lives_as_long_as_a_reference),
		BOTH(nothing_stays_behind),
		BOTH(threads_may_take_and_give_at_once),
		BOTH(signals_do_not_disturb_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
