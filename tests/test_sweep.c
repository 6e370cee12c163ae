/*
 * The sweep: thousands of drawn combinations of shapes, types, placements,
 * routings, masks, weights, strides and overlaps, on 1 to 8 ranks by every
 * launch, each compared byte by byte with the reference.
 *
 *	test_sweep				all cases
 *	test_sweep --seed SEED			all cases of another seed
 *	test_sweep --case SEED:LAUNCH:RANKS:N	one case, as a failure names it
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scale.h"
#include "support/sweep.h"

#define MAX_RANKS 8

static uint64_t seed = 20250101;

/* A run of cases on one set of ranks. */
struct range {
	uint64_t seed;
	int64_t first, count;
};

static struct range one_case;
static int one_launch, one_ranks;

static void run_range(struct seat *seat)
{
	const struct range *range = seat->context;
	struct sweep_case sweep;

	for (int64_t n = range->first; n < range->first + range->count; n++) {
		seat_label(seat,
			"test_sweep --case %" PRIu64 ":%d:%d:%" PRId64 ": ",
			range->seed, seat->launch, seat->num_ranks, n);
		SEAT_CHECK(seat,
			sweep_case_init(
				&sweep, range->seed, seat->num_ranks, n),
			"no memory");
		sweep_run(seat, &sweep);
		sweep_case_fini(&sweep);
	}
}

static void run_launch(
	enum ranks_launch launch, int32_t num_ranks, const struct range *range)
{
	struct ranks_plan plan = {
		.launch = launch,
		.num_ranks = num_ranks,
		.context = range,
		.seconds = 600,
	};

	ranks_run(&plan, run_range);
}

static void sweep_of_threads_equals_the_reference(void **state)
{
	struct range range = {seed, 0, scale_of(900)};

	(void)state;
	for (int32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
		run_launch(RANKS_THREADS, ranks, &range);
}

static void sweep_of_processes_equals_the_reference(void **state)
{
	struct range range = {seed, 10000, scale_of(450)};

	(void)state;
	for (int32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
		run_launch(RANKS_PROCESSES, ranks, &range);
}

static void sweep_of_threads_in_processes_equals_the_reference(void **state)
{
	struct range range = {seed, 20000, scale_of(450)};

	(void)state;
	run_launch(RANKS_MIXED, 4, &range);
	run_launch(RANKS_MIXED, 5, &range);
}

static void one_case_equals_the_reference(void **state)
{
	(void)state;
	run_launch((enum ranks_launch)one_launch, one_ranks, &one_case);
}

static void print_one(void)
{
	struct sweep_case sweep;

	if (sweep_case_init(&sweep, one_case.seed, one_ranks, one_case.first))
		sweep_print(&sweep);
	sweep_case_fini(&sweep);
}

static int run_one(const char *text)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_case_equals_the_reference),
	};

	one_case.count = 1;
	if (sscanf(text, "%" SCNu64 ":%d:%d:%" SCNd64, &one_case.seed,
		    &one_launch, &one_ranks, &one_case.first) != 4 ||
		one_launch < 0 || one_launch >= RANKS_NUM_LAUNCHES ||
		one_ranks < 1 || one_ranks > 62) {
		fprintf(stderr, "--case wants SEED:LAUNCH:RANKS:N\n");
		return 2;
	}
	print_one();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sweep_of_threads_equals_the_reference),
		cmocka_unit_test(sweep_of_processes_equals_the_reference),
		cmocka_unit_test(
			sweep_of_threads_in_processes_equals_the_reference),
	};

	if (argc == 3 && strcmp(argv[1], "--case") == 0)
		return run_one(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--seed") == 0)
		seed = strtoull(argv[2], NULL, 0);
	else if (argc > 1) {
		fprintf(stderr, "test_sweep [--case SEED:LAUNCH:RANKS:N | "
				"--seed N]\n");
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
