/*
 * Small steps, whose rows the receivers fetch: one phase, the limit, several in
 * flight, losses. Forms of rows are in test_fetch_forms.c, lies of peers in
 * test_fetch_hostile.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "support/fetched.h"
#include "support/pair.h"
#include "support/stand.h"

#define RANKS   3
#define TIME_NS INT64_C(20000000000)

/* ---- one phase -------------------------------------------------------- */

static void bring_pair(struct plain *plain)
{
	int32_t me = plain->seat->rank;

	plain_bring(plain, pair_tokens[me], pair_ids[me]);
	plain->args.weights = pair_weights[me];
}

static void expect_pair(struct plain *plain)
{
	pair_expect_counts(plain);
	if (plain->seat->rank == 0)
		plain_expect_rows(plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_0,
						 PAIR_ROWS_OF_EXPERT_1));
	else
		plain_expect_rows(plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_2));
}

/* Rank 1 starts, and is then outside of the library until rank 0 has its
 * answer. */
static void stay_away(struct seat *seat)
{
	const int64_t *fetch_tokens = seat->context;
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	bool fetches = *fetch_tokens >= 0;
	struct plain plain;

	config.fetch_tokens = *fetch_tokens;
	plain_init(&plain, seat, NULL, &config);
	bring_pair(&plain);
	if (seat->rank == 1) {
		SEAT_OK(seat, shunt_dispatch_start(plain.exchange, &plain.args,
				      &plain.handle));
		seat_mark(seat, 1);
		seat_await(seat, 0, 1);
	} else {
		seat_await(seat, 1, 1);
		plain.args.deadline_ns = fetches ? TIME_NS : 20000000;
		SEAT_STATUS(seat, fetches ? SHUNT_OK : SHUNT_TIMEOUT,
			plain_try(&plain));
		if (!fetches)
			seat_error_ranks(seat, 1 << 1);
		seat_mark(seat, 1);
	}
	SEAT_OK(seat, shunt_dispatch_finish(plain.handle, TIME_NS, &plain.out));
	fetched_expect(seat, plain.exchange, plain.handle, fetches);
	expect_pair(&plain);
	pair_combine(&plain);
}

static void a_dispatch_ends_though_a_peer_has_only_started_its_own(void **state)
{
	static const int64_t fetched[] = {0, 3};

	(void)state;
	ranks_run_both(PAIR_RANKS, stay_away, &fetched[0]);
	ranks_run_both(PAIR_RANKS, stay_away, &fetched[1]);
}

static void a_dispatch_of_written_rows_waits_for_its_peers(void **state)
{
	static const int64_t written = -1;

	(void)state;
	ranks_run_both(PAIR_RANKS, stay_away, &written);
}

/* Rank 0 is done with the only slot, but rank 1 has not fetched yet: the next
 * step, of other tokens, has to wait. */
static void come_back_early(struct seat *seat)
{
	static const int32_t others[2] = {3, 1};
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	config.depth = 1;
	plain_init(&plain, seat, NULL, &config);
	bring_pair(&plain);
	if (seat->rank == 1)
		SEAT_OK(seat, shunt_dispatch_start(plain.exchange, &plain.args,
				      &plain.handle));
	seat_barrier(seat);
	if (seat->rank == 0) {
		plain_pass(&plain);
		plain_bring(&plain, 1, others);
		plain.args.deadline_ns = 20000000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT, plain_try(&plain));
		seat_error_ranks(seat, 1 << 1);
		SEAT_CHECK(seat, plain.handle.epoch == 0, "it has begun");
	}
	seat_barrier(seat);
	if (seat->rank == 1) {
		SEAT_OK(seat, shunt_dispatch_finish(
				      plain.handle, TIME_NS, &plain.out));
		expect_pair(&plain);
		shunt_handle_destroy(plain.handle);
	}
	plain_bring(&plain, 1, others);
	plain_dispatch(&plain);
	fetched_expect(seat, plain.exchange, plain.handle, true);
	if (seat->rank == 0)
		plain_expect_rows(
			&plain, ROWS_LIST({0, 0, 0, 1}, {1, 1, 0, 1}));
	else
		plain_expect_rows(
			&plain, ROWS_LIST({0, 0, 0, 0}, {1, 1, 0, 0}));
	plain_fini(&plain);
}

static void what_is_offered_stays_until_all_have_fetched_it(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, come_back_early, NULL);
}

/* ---- the limit -------------------------------------------------------- */

/* T_max 4, K 2; seven experts, and a zero, a copy and a constant one. */
struct limit {
	int64_t fetch_tokens;
	int64_t tokens[RANKS];
	bool is_fetched;
	int percent_none, percent_special; /* of choices */
	enum shunt_mask mask;              /* of all choices, on rank 0 */
};

static const struct limit limits[] = {
	{3, {3, 3, 3}, true, 0, 0, SHUNT_MASK_NONE},
	{3, {4, 3, 3}, false, 0, 0, SHUNT_MASK_NONE},
	{3, {0, 0, 4}, false, 0, 0, SHUNT_MASK_NONE},
	{4, {4, 4, 4}, true, 0, 0, SHUNT_MASK_NONE},
	{9, {4, 4, 4}, true, 0, 0, SHUNT_MASK_NONE},
	{0, {4, 4, 4}, true, 0, 0, SHUNT_MASK_NONE},
	{-1, {1, 1, 1}, false, 0, 0, SHUNT_MASK_NONE},
	{-1, {0, 0, 0}, false, 0, 0, SHUNT_MASK_NONE},
	{3, {0, 3, 0}, true, 0, 0, SHUNT_MASK_NONE},
	{3, {2, 0, 1}, true, 0, 0, SHUNT_MASK_NONE},
	{3, {0, 0, 0}, true, 0, 0, SHUNT_MASK_NONE},
	{3, {3, 2, 1}, true, 100, 0, SHUNT_MASK_NONE},
	{3, {3, 2, 1}, true, 50, 0, SHUNT_MASK_NONE},
	{3, {3, 2, 1}, true, 0, 100, SHUNT_MASK_NONE},
	{3, {3, 2, 1}, true, 20, 50, SHUNT_MASK_NONE},
	{3, {3, 2, 1}, true, 0, 0, SHUNT_MASK_TOKENS},
	{3, {3, 2, 1}, true, 0, 0, SHUNT_MASK_CHOICES},
	{3, {4, 2, 1}, false, 20, 50, SHUNT_MASK_CHOICES},
};

static void keep_to_limit(struct seat *seat)
{
	const struct limit *limit = seat->context;
	struct shunt_exchange_config config = trial_config(4, 33, 2, 7);
	struct stand stand;
	struct trial_rule rule;
	struct trial *step;

	seat_label(seat, "fetch_tokens %d, case %d: ", (int)limit->fetch_tokens,
		(int)(limit - limits));
	config.fetch_tokens = limit->fetch_tokens;
	config.num_zero_experts = 1;
	config.num_copy_experts = 1;
	config.num_constant_experts = 1;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 3; i++) {
		rule = stand_rule(&stand);
		rule.token_list = limit->tokens;
		rule.percent_none = limit->percent_none;
		rule.percent_special = limit->percent_special;
		rule.mask = limit->mask;
		rule.percent_masked = 100;
		step = stand_prepare_rule(&stand, &rule);
		stand_dispatch(&stand, step);
		fetched_expect(
			seat, stand.exchange, step->handle, limit->is_fetched);
		stand_combine(&stand, step);
		stand_drop(step);
	}
	stand_fini(&stand);
}

static void steps_are_fetched_up_to_the_limit_of_every_rank(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		ranks_run_both(RANKS, keep_to_limit, &limits[i]);
}

/* ---- several in flight, cached ---------------------------------------- */

#define DEPTH 3

/* The middle one is written. */
static const int64_t tokens_in_flight[DEPTH][RANKS] = {
	{3, 0, 2}, {1, 4, 0}, {1, 2, 3}};

/* Step i of the rank's own order in a round. */
static int own_order(const struct seat *seat, int round, int i)
{
	int from = seat->rank + round;

	return (round & 1 ? from + DEPTH - i : from + i) % DEPTH;
}

static void finish_in_own_order(
	struct stand *stand, int round, struct trial **steps)
{
	struct seat *seat = stand->seat;

	for (int i = 0; i < DEPTH; i++) {
		int n = own_order(seat, round, i);

		SEAT_OK(seat, shunt_dispatch_finish(
				      steps[n]->handle, 0, &steps[n]->out));
		fetched_expect(seat, stand->exchange, steps[n]->handle, n != 1);
		trial_check_dispatch(seat, steps[n]);
		trial_make_rows(seat, steps[n]);
	}
	for (int i = 0; i < DEPTH; i++) {
		int n = own_order(seat, round + 1, i);

		SEAT_OK(seat, shunt_combine_start(
				      steps[n]->handle, &steps[n]->combine));
	}
	for (int i = 0; i < DEPTH; i++) {
		int n = own_order(seat, round + 2, i);

		SEAT_OK(seat, shunt_combine_finish(steps[n]->handle, 0));
		trial_check_combine(seat, steps[n]);
	}
}

static void keep_three_in_flight(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(4, 33, 2, 7);
	struct trial *steps[DEPTH];
	struct stand stand;

	config.depth = DEPTH;
	config.fetch_tokens = 3;
	stand_init(&stand, seat, &config);
	for (int round = 0; round < 20; round++) {
		seat_label(seat, "round %d: ", round);
		for (int n = 0; n < DEPTH; n++) {
			struct trial_rule rule = stand_rule(&stand);

			rule.token_list = tokens_in_flight[n];
			steps[n] = stand_prepare_rule(&stand, &rule);
			SEAT_OK(seat,
				shunt_dispatch_start(stand.exchange,
					&steps[n]->args, &steps[n]->handle));
		}
		finish_in_own_order(&stand, round, steps);
		for (int n = 0; n < DEPTH; n++)
			stand_drop(steps[n]);
	}
	stand_fini(&stand);
}

static void steps_in_flight_end_in_any_order_fetched_or_written(void **state)
{
	(void)state;
	ranks_run_both(RANKS, keep_three_in_flight, NULL);
}

/* A cached step is a small one, too, but takes the ways of before. */
static void repeat(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct shunt_handle first;
	struct plain plain;
	static const float ones[6] = {1, 1, 1, 1, 1, 1};

	config.kept_routes = 4;
	plain_init(&plain, seat, NULL, &config);
	bring_pair(&plain);
	plain_dispatch(&plain);
	fetched_expect(seat, plain.exchange, plain.handle, true);
	expect_pair(&plain);
	first = plain.handle;
	for (int i = 0; i < 3; i++) {
		plain.combine.weights = ones;
		SEAT_OK(seat,
			plain_try_combine(&plain, pair_factors[seat->rank]));
		plain_expect_sums(&plain, pair_sums[seat->rank]);
		plain_bring(&plain, pair_tokens[seat->rank], NULL);
		plain.args.ids_type = SHUNT_INDEX_NONE;
		plain.args.cached = first;
		plain_dispatch(&plain);
		fetched_expect(seat, plain.exchange, plain.handle, false);
		expect_pair(&plain);
	}
	pair_combine(&plain);
}

static void a_cached_dispatch_of_a_fetched_step_is_written(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, repeat, NULL);
}

/* ---- losses ----------------------------------------------------------- */

#define VICTIM 2

/* What the victim offered is still there when it is gone; its results are
 * not. */
static void die_after_offering(struct seat *seat)
{
	static const int32_t ids[RANKS][2] = {{0, 5}, {2, 4}, {1, 3}};
	static const float factors[2] = {1, 1};
	struct shunt_exchange_config config = plain_config(2, 2, 2 * RANKS);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 1, ids[seat->rank]);
	if (seat->rank == VICTIM) {
		SEAT_OK(seat, shunt_dispatch_start(plain.exchange, &plain.args,
				      &plain.handle));
		seat_barrier(seat);
		raise(SIGKILL);
	}
	seat_barrier(seat);
	plain_dispatch(&plain);
	fetched_expect(seat, plain.exchange, plain.handle, true);
	if (seat->rank == 0)
		plain_expect_rows(&plain,
			ROWS_LIST({0, 0, 0, 0}, {VICTIM, VICTIM, 0, 0}));
	else
		plain_expect_rows(&plain,
			ROWS_LIST({1, 1, 0, 0}, {VICTIM, VICTIM, 0, 1}));
	/* Not before both have: the first would give the other up. */
	seat_barrier(seat);
	SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try_combine(&plain, factors));
	seat_error_ranks(seat, 1 << VICTIM);
	plain_fini(&plain);
}

static void a_rank_that_dies_after_offering_is_lost_to_combine_only(
	void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = RANKS,
		.may_die = 1 << VICTIM,
	};

	(void)state;
	ranks_run(&plan, die_after_offering);
}

/* ---- room ------------------------------------------------------------- */

static struct shunt_exchange_sizes sizes_of(
	struct shunt_exchange_config config, int64_t tokens, int32_t num_ranks)
{
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	config.fetch_tokens = tokens;
	assert_int_equal(
		shunt_exchange_query(&config, 0, num_ranks, &sizes), SHUNT_OK);
	return sizes;
}

/* Rows of 7168 bytes in the window, with a scale, 8 places, 8 weights; places
 * of all ranks beside it. Arrays begin at pages. */
static void sizes_count_the_rows_that_are_kept_to_be_fetched(void **state)
{
	static const int64_t tokens[] = {1, 5, 32};
	struct shunt_exchange_config config = trial_config(32, 7168, 8, 64);
	struct shunt_exchange_sizes none, with;
	const uint64_t depth = 2, ranks = 4;

	(void)state;
	config.quant = SHUNT_QUANT_INT8;
	config.depth = (int32_t)depth;
	none = sizes_of(config, -1, (int32_t)ranks);
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		uint64_t t = (uint64_t)tokens[i];
		uint64_t window = depth * t * (7168 + 4 + 8 * 4 + 8 * 4);
		uint64_t beside = depth * ranks * t * 8 * 4;

		with = sizes_of(config, tokens[i], (int32_t)ranks);
		assert_in_range(with.window_bytes - none.window_bytes, window,
			window + depth * 2 * 4096);
		assert_in_range(with.private_bytes - none.private_bytes, beside,
			beside + depth * 2 * 64);
	}
}

static void expect_no_room(
	const struct shunt_exchange_config *config, int32_t num_ranks)
{
	struct shunt_exchange_sizes none = sizes_of(*config, -1, num_ranks);
	struct shunt_exchange_sizes with = sizes_of(*config, 0, num_ranks);

	assert_int_equal(with.window_bytes, none.window_bytes);
	assert_int_equal(with.private_bytes, none.private_bytes);
}

/* Nor is there for a row that is more than is fetched by default. */
static void there_is_no_room_where_nothing_is_fetched(void **state)
{
	struct shunt_exchange_config config = trial_config(4, 64, 2, 256);

	(void)state;
	assert_true(sizes_of(config, 0, 64).window_bytes >
		    sizes_of(config, -1, 64).window_bytes);
	expect_no_room(&config, 65);
	config.layout = SHUNT_LAYOUT_INDEXED;
	expect_no_room(&config, 4);
	config.layout = SHUNT_LAYOUT_COMPACT;
	config.elastic = true;
	expect_no_room(&config, 4);
	config.elastic = false;
	config.hidden = 1 << 19;
	expect_no_room(&config, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_dispatch_ends_though_a_peer_has_only_started_its_own),
		cmocka_unit_test(
			a_dispatch_of_written_rows_waits_for_its_peers),
		cmocka_unit_test(
			what_is_offered_stays_until_all_have_fetched_it),
		cmocka_unit_test(
			steps_are_fetched_up_to_the_limit_of_every_rank),
		cmocka_unit_test(
			steps_in_flight_end_in_any_order_fetched_or_written),
		cmocka_unit_test(
			a_cached_dispatch_of_a_fetched_step_is_written),
		cmocka_unit_test(
			a_rank_that_dies_after_offering_is_lost_to_combine_only),
		cmocka_unit_test(
			sizes_count_the_rows_that_are_kept_to_be_fetched),
		cmocka_unit_test(there_is_no_room_where_nothing_is_fetched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
