/*
 * performance_info: for whom a call has waited. A late rank is late by 80 ms;
 * what others say of it is compared with 40 ms, and with what they say of
 * ranks that were in time: over several steps, so that no single hiccup of the
 * machine decides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <unistd.h>

#include "support/plain.h"

#define RANKS    3
#define LATE     1 /* the rank that sleeps */
#define STEPS    3
#define SLEEP_US 80000
#define LATE_US  40000

/* What the caller had in the array before; never zeroed. */
#define BEFORE(rank) (INT64_C(1000000) * ((rank) + 1))

static const int32_t ids[RANKS][2] = {{0, 1}, {1, 2}, {2, 0}};
static const float factors[] = {1};

/* One expert on each rank. */
static void init(struct plain *plain, struct seat *seat)
{
	struct shunt_exchange_config config = plain_config(1, 2, RANKS);

	config.fetch_tokens = -1; /* two phases to wait in */
	plain_init(plain, seat, NULL, &config);
}

static void bring(struct plain *plain, int64_t *info)
{
	plain_bring(plain, 1, ids[plain->seat->rank]);
	plain->args.performance_info = info;
}

static void fill(int64_t info[RANKS])
{
	for (int r = 0; r < RANKS; r++)
		info[r] = BEFORE(r);
}

static void sleep_if_late(struct seat *seat)
{
	if (seat->rank == LATE)
		usleep(SLEEP_US);
}

/* On the others: the late rank's entry has grown by at least `least`, and the
 * rest, the own one too, by less than that one. None ever goes back. */
static void expect_late(
	struct seat *seat, const int64_t info[RANKS], int64_t least)
{
	int64_t late = info[LATE] - BEFORE(LATE);

	for (int r = 0; r < RANKS; r++) {
		int64_t waited = info[r] - BEFORE(r);

		SEAT_CHECK(seat, waited >= 0, "entry %d went back by %" PRId64,
			r, -waited);
		if (seat->rank == LATE || r == LATE)
			continue;
		SEAT_CHECK(seat, waited < late,
			"waited %" PRId64 " us for rank %d, %" PRId64
			" us for the late one",
			waited, r, late);
	}
	SEAT_CHECK(seat, seat->rank == LATE || late >= least,
		"waited only %" PRId64 " us for the late rank", late);
}

/* ---- whole calls ------------------------------------------------------ */

static void be_late_to_dispatch(struct seat *seat)
{
	int64_t info[RANKS], total[RANKS];
	struct plain plain;

	init(&plain, seat);
	fill(info);
	for (int i = 0; i < STEPS; i++) {
		for (int r = 0; r < RANKS; r++)
			total[r] = info[r];
		bring(&plain, info);
		seat_barrier(seat);
		sleep_if_late(seat);
		plain_dispatch(&plain);
		SEAT_CHECK(seat,
			seat->rank == LATE ||
				info[LATE] - total[LATE] >= LATE_US,
			"step %d adds %" PRId64 " us", i,
			info[LATE] - total[LATE]);
		SEAT_OK(seat, plain_try_combine(&plain, factors));
		plain_expect_sums(&plain, (const float[]){2});
	}
	expect_late(seat, info, STEPS * LATE_US);
	plain_fini(&plain);
}

static void a_rank_late_to_dispatch_shows_in_its_entry_summed_over_calls(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, be_late_to_dispatch, NULL);
}

static void be_late_to_combine(struct seat *seat)
{
	int64_t info[RANKS], unused[RANKS];
	struct plain plain;

	init(&plain, seat);
	fill(info);
	fill(unused);
	for (int i = 0; i < STEPS; i++) {
		bring(&plain, unused);
		plain_dispatch(&plain);
		plain.combine.performance_info = info;
		seat_barrier(seat);
		sleep_if_late(seat);
		SEAT_OK(seat, plain_try_combine(&plain, factors));
		plain_expect_sums(&plain, (const float[]){2});
	}
	expect_late(seat, info, STEPS * LATE_US);
	/* It is the call's own array that grows. */
	SEAT_CHECK(seat,
		seat->rank == LATE ||
			unused[LATE] - BEFORE(LATE) < info[LATE] - BEFORE(LATE),
		"combine's waiting is in dispatch's array");
	plain_fini(&plain);
}

static void a_rank_late_to_combine_shows_in_its_entry(void **state)
{
	(void)state;
	ranks_run_both(RANKS, be_late_to_combine, NULL);
}

/* On some ranks only, in some calls only. */
static void ask_now_and_then(struct seat *seat)
{
	int64_t info[RANKS];
	struct plain plain;

	init(&plain, seat);
	fill(info);
	for (int i = 0; i < 4; i++) {
		bring(&plain, i % 2 == 1 && seat->rank == 0 ? info : NULL);
		seat_barrier(seat);
		sleep_if_late(seat);
		plain_dispatch(&plain);
		if (i == 0)
			SEAT_CHECK(seat, info[LATE] == BEFORE(LATE),
				"written without being given");
		SEAT_OK(seat, plain_try_combine(&plain, factors));
	}
	if (seat->rank == 0)
		expect_late(seat, info, 2 * LATE_US);
	plain_fini(&plain);
}

static void ranks_need_not_all_ask(void **state)
{
	(void)state;
	ranks_run_both(RANKS, ask_now_and_then, NULL);
}

/* ---- split calls ------------------------------------------------------ */

/* The late rank announces in time and writes its rows late. */
static void write_rows_late(struct seat *seat)
{
	int64_t info[RANKS];
	struct plain plain;

	init(&plain, seat);
	fill(info);
	for (int i = 0; i < STEPS; i++) {
		bring(&plain, info);
		SEAT_OK(seat, shunt_dispatch_start(plain.exchange, &plain.args,
				      &plain.handle));
		seat_barrier(seat);
		sleep_if_late(seat);
		SEAT_OK(seat,
			shunt_dispatch_finish(plain.handle, 0, &plain.out));
		SEAT_OK(seat, plain_try_combine(&plain, factors));
	}
	expect_late(seat, info, STEPS * LATE_US);
	plain_fini(&plain);
}

static void rows_that_come_late_count_like_counts_that_do(void **state)
{
	(void)state;
	ranks_run_both(RANKS, write_rows_late, NULL);
}

/* The late rank is late all the same, but the others have work to do between
 * start and finish: first none, then for longer than it is late. */
static void work_meanwhile(struct seat *seat)
{
	int64_t idle[RANKS], busy[RANKS];
	struct plain plain;

	init(&plain, seat);
	fill(idle);
	fill(busy);
	for (int i = 0; i < 2 * STEPS; i++) {
		bring(&plain, i % 2 == 0 ? idle : busy);
		seat_barrier(seat);
		sleep_if_late(seat);
		SEAT_OK(seat, shunt_dispatch_start(plain.exchange, &plain.args,
				      &plain.handle));
		if (i % 2 == 1 && seat->rank != LATE)
			usleep(2 * SLEEP_US);
		SEAT_OK(seat,
			shunt_dispatch_finish(plain.handle, 0, &plain.out));
		SEAT_OK(seat, plain_try_combine(&plain, factors));
	}
	expect_late(seat, idle, STEPS * LATE_US);
	for (int r = 0; r < RANKS && seat->rank != LATE; r++)
		SEAT_CHECK(seat,
			busy[r] - BEFORE(r) < idle[LATE] - BEFORE(LATE),
			"%" PRId64 " us for rank %d in spite of work",
			busy[r] - BEFORE(r), r);
	plain_fini(&plain);
}

static void with_start_and_finish_it_is_the_waiting_of_finish(void **state)
{
	(void)state;
	ranks_run_both(RANKS, work_meanwhile, NULL);
}

static void combine_in_parts(struct seat *seat)
{
	int64_t info[RANKS];
	struct plain plain;

	init(&plain, seat);
	fill(info);
	for (int i = 0; i < STEPS; i++) {
		bring(&plain, NULL);
		plain_dispatch(&plain);
		for (int64_t j = 0; j < plain.out.num_rows * PLAIN_HIDDEN; j++)
			((float *)plain.out.expert_rows)[j] = 1.0f;
		plain.combine.y = plain.out.expert_rows;
		plain.combine.performance_info = info;
		seat_barrier(seat);
		sleep_if_late(seat);
		SEAT_OK(seat,
			shunt_combine_start(plain.handle, &plain.combine));
		SEAT_OK(seat, shunt_combine_finish(plain.handle, 0));
	}
	expect_late(seat, info, STEPS * LATE_US);
	plain_fini(&plain);
}

static void a_split_combine_counts_too(void **state)
{
	(void)state;
	ranks_run_both(RANKS, combine_in_parts, NULL);
}

/* ---- calls that time out ---------------------------------------------- */

static void wait_twice(struct seat *seat)
{
	int64_t info[RANKS];
	struct plain plain;

	init(&plain, seat);
	fill(info);
	bring(&plain, info);
	if (seat->rank == LATE) {
		seat_await(seat, 0, 1);
		seat_await(seat, 2, 1);
		usleep(SLEEP_US);
		plain_dispatch(&plain);
	} else {
		plain.args.deadline_ns = SLEEP_US * 1000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT, plain_try(&plain));
		SEAT_CHECK(seat, info[LATE] - BEFORE(LATE) >= LATE_US,
			"%" PRId64 " us at the timeout",
			info[LATE] - BEFORE(LATE));
		seat_mark(seat, 1);
		SEAT_OK(seat, shunt_dispatch_finish(plain.handle,
				      INT64_C(10000000000), &plain.out));
		expect_late(seat, info, 2 * LATE_US);
	}
	SEAT_OK(seat, plain_try_combine(&plain, factors));
	plain_fini(&plain);
}

static void waiting_until_a_timeout_counts_and_waiting_on_adds_to_it(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, wait_twice, NULL);
}

/* ---- other numbers ---------------------------------------------------- */

/* Rank 0 is left out; entries stay with the original ranks. */
static void wait_with_a_table(struct seat *seat)
{
	static const int32_t table[] = {1, 2, 0, 2, -1, 0, 1, 1, 2, -1};
	struct shunt_exchange_config config = plain_config(1, 2, RANKS);
	int64_t info[RANKS];
	struct plain plain;

	config.elastic = true;
	plain_init(&plain, seat, NULL, &config);
	fill(info);
	for (int i = 0; i < STEPS && seat->rank != 0; i++) {
		plain_bring(&plain, 1, (const int32_t[]){0, 1});
		plain.args.elastic_info = table;
		plain.args.performance_info = info;
		sleep_if_late(seat);
		plain_dispatch(&plain);
		SEAT_OK(seat, plain_try_combine(&plain, factors));
	}
	SEAT_CHECK(seat, info[0] == BEFORE(0), "waited for the one left out");
	if (seat->rank == 2)
		expect_late(seat, info, STEPS * LATE_US);
	seat_barrier(seat);
	plain_fini(&plain);
}

static void entries_are_by_original_rank_with_a_table(void **state)
{
	(void)state;
	ranks_run_both(RANKS, wait_with_a_table, NULL);
}

/*
 * Two EP groups of two. World rank 2, rank 0 of EP group 1, is late: for world
 * rank 3 an EP rank, for world ranks 0 and 1 not one of theirs.
 */
static void wait_in_tp(struct seat *seat)
{
	int64_t *seen = seat->shared; /* [4]: of its entry 0, by world rank */
	int32_t ep[] = {seat->rank / 2 * 2, seat->rank / 2 * 2 + 1};
	int32_t tp[] = {seat->rank % 2, seat->rank % 2 + 2};
	struct shunt_exchange_config config = plain_config(1, 2, 2);
	struct shunt_group *ep_group, *tp_group;
	int64_t info[2] = {0, 0};
	struct plain plain;

	SEAT_OK(seat,
		shunt_group_create(seat->world, ep, 2, "ep", 0, &ep_group));
	SEAT_OK(seat,
		shunt_group_create(seat->world, tp, 2, "tp", 0, &tp_group));
	config.tp_group = tp_group;
	plain_init(&plain, seat, ep_group, &config);
	for (int i = 0; i < STEPS; i++) {
		plain_bring(&plain, 1, (const int32_t[]){0, 1});
		plain.args.performance_info = info;
		seat_barrier(seat);
		if (seat->rank == 2)
			usleep(SLEEP_US);
		plain_dispatch(&plain);
		SEAT_OK(seat, plain_try_combine(&plain, factors));
	}
	seen[seat->rank] = info[0] > info[1] ? info[0] : info[1];
	if (seat->rank == 3)
		SEAT_CHECK(seat,
			info[0] >= STEPS * LATE_US && info[1] < info[0],
			"%" PRId64 " and %" PRId64 " us", info[0], info[1]);
	seat_barrier(seat);
	SEAT_CHECK(seat, seat->rank > 1 || seen[seat->rank] < seen[3],
		"%" PRId64 " us for a rank of another EP group",
		seen[seat->rank]);
	plain_fini(&plain);
	shunt_group_destroy(ep_group);
	shunt_group_destroy(tp_group);
}

static void only_the_own_ep_group_counts_with_tp(void **state)
{
	struct ranks_plan plan = {
		.num_ranks = 4,
		.shared_bytes = 4 * sizeof(int64_t),
	};

	(void)state;
	plan.launch = RANKS_THREADS;
	ranks_run(&plan, wait_in_tp);
	plan.launch = RANKS_PROCESSES;
	ranks_run(&plan, wait_in_tp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_rank_late_to_dispatch_shows_in_its_entry_summed_over_calls),
		cmocka_unit_test(a_rank_late_to_combine_shows_in_its_entry),
		cmocka_unit_test(ranks_need_not_all_ask),
		cmocka_unit_test(rows_that_come_late_count_like_counts_that_do),
		cmocka_unit_test(
			with_start_and_finish_it_is_the_waiting_of_finish),
		cmocka_unit_test(a_split_combine_counts_too),
		cmocka_unit_test(
			waiting_until_a_timeout_counts_and_waiting_on_adds_to_it),
		cmocka_unit_test(entries_are_by_original_rank_with_a_table),
		cmocka_unit_test(only_the_own_ep_group_counts_with_tp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
