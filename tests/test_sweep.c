/*
 * The sweep: thousands of drawn combinations of shapes, types, placements,
 * routings, masks, weights, strides and overlaps, on 1 to 8 ranks by every
 * launch, on one host and on several, each compared byte by byte with the
 * reference.
 *
 *	test_sweep				all cases
 *	test_sweep --seed SEED			all cases of another seed
 *	test_sweep --hosts HOSTS		some of ranks on these hosts, a
 *						digit a rank, by each launch
 *						that can be here
 *	test_sweep --case SEED:LAUNCH:RANKS:N[:HOSTS:WIRE]
 *						one case, as a failure names it
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

#include "support/hosts.h"
#include "support/scale.h"
#include "support/sweep.h"

#define MAX_RANKS 8

#define TEXT (SWEEP_MAX_SEATS + 1)

static uint64_t seed = 20250101;

/* A run of cases on one set of ranks. */
struct range {
	uint64_t seed;
	int64_t first, count;
	char hosts[TEXT]; /* a digit a rank; "": one host */
	enum ranks_wire wire;
};

static struct range one_case;
static int one_launch, one_ranks, one_wire;
static const char *asked_hosts;

static void label(struct seat *seat, const struct range *range, int64_t n)
{
	char hosts[TEXT + 8] = "";

	if (range->hosts[0] != '\0')
		snprintf(hosts, sizeof(hosts), ":%s:%d", range->hosts,
			range->wire);
	seat_label(seat, "test_sweep --case %" PRIu64 ":%d:%d:%" PRId64 "%s: ",
		range->seed, seat->launch, seat->num_ranks, n, hosts);
}

/* The hosts of a range in `room`; NULL: one. */
static const int32_t *hosts_of(
	const struct range *range, int32_t num_ranks, int32_t *room)
{
	return hosts_parse(range->hosts, num_ranks, room) ? room : NULL;
}

static void run_range(struct seat *seat)
{
	const struct range *range = seat->context;
	int32_t room[SWEEP_MAX_SEATS];
	const int32_t *hosts = hosts_of(range, seat->num_ranks, room);
	struct sweep_case sweep;

	for (int64_t n = range->first; n < range->first + range->count; n++) {
		label(seat, range, n);
		SEAT_CHECK(seat,
			sweep_case_init(
				&sweep, range->seed, seat->num_ranks, hosts, n),
			"no memory");
		sweep_run(seat, &sweep);
		sweep_case_fini(&sweep);
		hosts_check(seat);
	}
}

static void run_launch(
	enum ranks_launch launch, int32_t num_ranks, const struct range *range)
{
	int32_t room[SWEEP_MAX_SEATS];
	struct ranks_plan plan = {
		.launch = launch,
		.num_ranks = num_ranks,
		.context = range,
		.seconds = 600,
		.hosts = hosts_of(range, num_ranks, room),
		.wire = range->wire,
	};

	ranks_run(&plan, run_range);
}

static void sweep_of_threads_equals_the_reference(void **state)
{
	struct range range = {.seed = seed, .first = 0, .count = scale_of(900)};

	(void)state;
	for (int32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
		run_launch(RANKS_THREADS, ranks, &range);
}

static void sweep_of_processes_equals_the_reference(void **state)
{
	struct range range = {
		.seed = seed, .first = 10000, .count = scale_of(450)};

	(void)state;
	for (int32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
		run_launch(RANKS_PROCESSES, ranks, &range);
}

static void sweep_of_threads_in_processes_equals_the_reference(void **state)
{
	struct range range = {
		.seed = seed, .first = 20000, .count = scale_of(450)};

	(void)state;
	run_launch(RANKS_MIXED, 4, &range);
	run_launch(RANKS_MIXED, 5, &range);
}

/* Cases on hosts, `count` of them by each kind of wire. */
static void run_hosts(
	enum ranks_launch launch, const char *hosts, int64_t first, int count)
{
	struct range range = {
		.seed = seed, .first = first, .count = scale_of(count)};

	snprintf(range.hosts, sizeof(range.hosts), "%s", hosts);
	for (int w = 0; w < RANKS_NUM_WIRES; w++) {
		range.wire = (enum ranks_wire)w;
		run_launch(launch, (int32_t)strlen(hosts), &range);
		range.first += range.count;
	}
}

/* Alone, in blocks, uneven, mixed. */
static const char *const host_lists[] = {"01", "010", "012", "0011", "0101",
	"0001", "1202", "00011", "001122", "010101", "0000111", "02110120"};

static void sweep_over_hosts_equals_the_reference(void **state)
{
	size_t lists = sizeof(host_lists) / sizeof(host_lists[0]);

	(void)state;
	for (size_t i = 0; i < lists; i++) {
		if (!hosts_can(RANKS_THREADS, 3))
			skip();
		run_hosts(RANKS_THREADS, host_lists[i], 30000 + 1000 * (int)i,
			30);
	}
}

static void asked_hosts_equal_the_reference(void **state)
{
	int32_t ranks = (int32_t)strlen(asked_hosts), hosts[SWEEP_MAX_SEATS];

	(void)state;
	assert_true(hosts_parse(asked_hosts, ranks, hosts));
	for (int l = 0; l < RANKS_NUM_LAUNCHES; l++)
		if (hosts_can((enum ranks_launch)l, hosts_count(hosts, ranks)))
			run_hosts((enum ranks_launch)l, asked_hosts,
				40000 + 10000 * l, 60);
}

static void one_case_equals_the_reference(void **state)
{
	(void)state;
	run_launch((enum ranks_launch)one_launch, one_ranks, &one_case);
}

static void print_one(void)
{
	int32_t room[SWEEP_MAX_SEATS];
	struct sweep_case sweep;

	if (sweep_case_init(&sweep, one_case.seed, one_ranks,
		    hosts_of(&one_case, one_ranks, room), one_case.first))
		sweep_print(&sweep);
	sweep_case_fini(&sweep);
}

static int run_one(const char *text)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_case_equals_the_reference),
	};

	int32_t hosts[SWEEP_MAX_SEATS];
	int fields = sscanf(text, "%" SCNu64 ":%d:%d:%" SCNd64 ":%64[0-9]:%d",
		&one_case.seed, &one_launch, &one_ranks, &one_case.first,
		one_case.hosts, &one_wire);

	one_case.count = 1;
	one_case.wire = (enum ranks_wire)one_wire;
	if ((fields != 4 && fields != 6) || one_launch < 0 ||
		one_launch >= RANKS_NUM_LAUNCHES || one_ranks < 1 ||
		one_ranks > 62 || one_wire < 0 || one_wire >= RANKS_NUM_WIRES ||
		(fields == 6 &&
			!hosts_parse(one_case.hosts, one_ranks, hosts))) {
		fprintf(stderr,
			"--case wants SEED:LAUNCH:RANKS:N[:HOSTS:WIRE]\n");
		return 2;
	}
	print_one();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

static int run_asked_hosts(const char *hosts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asked_hosts_equal_the_reference),
	};
	int32_t room[SWEEP_MAX_SEATS];

	asked_hosts = hosts;
	if (strlen(hosts) == 0 || strlen(hosts) > MAX_RANKS ||
		!hosts_parse(hosts, (int32_t)strlen(hosts), room)) {
		fprintf(stderr, "--hosts wants 1 to %d digits 0 to %d\n",
			MAX_RANKS, HOSTS_MAX - 1);
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sweep_of_threads_equals_the_reference),
		cmocka_unit_test(sweep_of_processes_equals_the_reference),
		cmocka_unit_test(
			sweep_of_threads_in_processes_equals_the_reference),
		cmocka_unit_test(sweep_over_hosts_equals_the_reference),
	};

	if (argc == 3 && strcmp(argv[1], "--case") == 0)
		return run_one(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--hosts") == 0)
		return run_asked_hosts(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--seed") == 0)
		seed = strtoull(argv[2], NULL, 0);
	else if (argc > 1) {
		fprintf(stderr,
			"test_sweep [--case SEED:LAUNCH:RANKS:N[:HOSTS:WIRE] | "
			"--hosts HOSTS | --seed N]\n");
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
