/*
 * TP: EP groups of W ranks whose experts are the same. Whose rows come first,
 * what is counted how, that results are summed, and who hears of an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "support/quad.h"

/* ---- two groups of two ------------------------------------------------ */

struct tp_case {
	enum shunt_layout layout;
	bool rank_order;
};

static void gather_two_by_two(struct seat *seat)
{
	const struct tp_case *how = seat->context;
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	seat_label(seat, "layout %d, rank order %d: ", (int)how->layout,
		how->rank_order);
	config.layout = how->layout;
	config.tp_rank_order = how->rank_order;
	plain_init(&plain, seat, groups.ep, &config);
	for (int i = 0; i < 5; i++) {
		quad_bring(&plain);
		plain_dispatch(&plain);
		quad_expect_step(&plain, how->rank_order);
	}
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void
rows_of_own_group_come_first_or_all_in_rank_order_and_results_are_summed(
	void **state)
{
	static const struct tp_case cases[] = {{SHUNT_LAYOUT_COMPACT, false},
		{SHUNT_LAYOUT_COMPACT, true}, {SHUNT_LAYOUT_INDEXED, false},
		{SHUNT_LAYOUT_INDEXED, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ranks_run_both(4, gather_two_by_two, &cases[i]);
}

/* ---- other sizes ------------------------------------------------------ */

/* Rank w of three brings w + 1 tokens to the one expert. */
static void gather_three_of_one(struct seat *seat)
{
	static const int32_t zeros[3] = {0};
	static const struct plain_row rows[3][6] = {
		{{0, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 1, 0}, {2, 0, 0, 0},
			{2, 0, 1, 0}, {2, 0, 2, 0}},
		{{1, 0, 0, 0}, {1, 0, 1, 0}, {0, 0, 0, 0}, {2, 0, 0, 0},
			{2, 0, 1, 0}, {2, 0, 2, 0}},
		{{2, 0, 0, 0}, {2, 0, 1, 0}, {2, 0, 2, 0}, {0, 0, 0, 0},
			{1, 0, 0, 0}, {1, 0, 1, 0}}};
	static const int32_t counts[3][3] = {{1, 2, 3}, {2, 1, 3}, {3, 1, 2}};
	static const float by[] = {1, 16, 256};
	struct quad_groups groups = quad_make_groups(seat, 1);
	struct shunt_exchange_config config = plain_config(3, 1, 1);
	int32_t p = seat->rank;
	struct plain plain;

	config.tp_group = groups.tp;
	plain_init(&plain, seat, groups.ep, &config);
	plain_bring(&plain, p + 1, zeros);
	plain_dispatch(&plain);
	plain_expect_rows(&plain, 6, rows[p]);
	plain_expect_i32(
		seat, "ep_recv_counts", plain.out.ep_recv_counts, 3, counts[p]);
	plain_expect_i32(seat, "tp_recv_counts", plain.out.tp_recv_counts,
		I32_LIST(1, 2, 3));
	plain_expect_i64(seat, "expert_token_nums", plain.out.expert_token_nums,
		I64_LIST(6));
	SEAT_OK(seat, plain_try_combine(&plain, &by[p]));
	plain_expect_sums(&plain, (const float[]){273, 273, 273});
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void three_tp_ranks_of_one_ep_rank_each_work(void **state)
{
	(void)state;
	ranks_run_both(3, gather_three_of_one, NULL);
}

/* EP groups 0 and 2 choose expert 0, on EP rank 0; group 1 expert 1. */
static void gather_three_by_two(struct seat *seat)
{
	static const struct plain_row rows[6][4] = {
		{{0, 0, 0, 0}, {1, 1, 0, 0}, {4, 0, 0, 0}, {5, 1, 0, 0}},
		{{2, 0, 0, 0}, {3, 1, 0, 0}},
		{{0, 0, 0, 0}, {1, 1, 0, 0}, {4, 0, 0, 0}, {5, 1, 0, 0}},
		{{2, 0, 0, 0}, {3, 1, 0, 0}},
		{{4, 0, 0, 0}, {5, 1, 0, 0}, {0, 0, 0, 0}, {1, 1, 0, 0}},
		{{2, 0, 0, 0}, {3, 1, 0, 0}}};
	static const int32_t counts[6][6] = {{1, 2, 0, 0, 1, 2},
		{0, 0, 1, 2, 0, 0}, {0, 0, 1, 2, 1, 2}, {1, 2, 0, 0, 0, 0},
		{1, 2, 1, 2, 0, 0}, {0, 0, 0, 0, 1, 2}};
	static const int32_t tp_counts[2][3] = {{2, 0, 2}, {0, 2, 0}};
	static const float by[] = {1, 1, 16, 16, 256, 256};
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = plain_config(1, 1, 2);
	int32_t me = seat->rank;
	int32_t id = me / 2 == 1;
	struct plain plain;

	config.tp_group = groups.tp;
	plain_init(&plain, seat, groups.ep, &config);
	plain_bring(&plain, 1, &id);
	plain_dispatch(&plain);
	plain_expect_rows(&plain, me % 2 == 0 ? 4 : 2, rows[me]);
	plain_expect_i32(seat, "ep_recv_counts", plain.out.ep_recv_counts, 6,
		counts[me]);
	plain_expect_i32(seat, "tp_recv_counts", plain.out.tp_recv_counts, 3,
		tp_counts[me % 2]);
	SEAT_OK(seat, plain_try_combine(&plain, &by[me]));
	plain_expect_sums(&plain, (const float[]){273});
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void three_by_two_counts_of_other_groups_restart_from_zero(void **state)
{
	(void)state;
	ranks_run_both(6, gather_three_by_two, NULL);
}

/* Only one EP group has tokens. */
static void gather_from_one_group(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	plain_init(&plain, seat, groups.ep, &config);
	plain_bring(&plain, seat->rank < 2 ? 1 : 0, quad_ids[seat->rank]);
	plain_dispatch(&plain);
	if (seat->rank % 2 == 0)
		plain_expect_rows(&plain,
			ROWS_LIST({0, 0, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 1}));
	else
		plain_expect_rows(&plain, ROWS_LIST({0, 0, 0, 1}));
	quad_combine(&plain);
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void an_ep_group_without_tokens_still_serves_the_others(void **state)
{
	(void)state;
	ranks_run_both(4, gather_from_one_group, NULL);
}

/* A TP group of one is no TP. */
static void gather_alone(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, seat->num_ranks);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	quad_dispatch(&plain, seat, &groups, &config);
	SEAT_CHECK(seat, !plain.out.tp_recv_counts, "tp_recv_counts");
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void a_tp_group_of_one_is_no_tp(void **state)
{
	(void)state;
	ranks_run_both(2, gather_alone, NULL);
}

/* ---- with other features ---------------------------------------------- */

/* Shared expert on EP rank 0, expert 0 on EP rank 1; each rank one token. */
static void gather_shared(struct seat *seat)
{
	static const int32_t id[] = {0};
	static const float by[4] = {1, 16, 2, 32};
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = plain_config(1, 1, 1);
	int32_t k = seat->rank % 2 == 0;
	struct plain plain;

	config.tp_group = groups.tp;
	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.expert_alignment = 3;
	plain_init(&plain, seat, groups.ep, &config);
	plain_bring(&plain, 1, id);
	plain_dispatch(&plain);
	if (seat->rank < 2)
		plain_expect_rows(&plain,
			ROWS_LIST({0, 0, 0, k}, {1, 1, 0, k}, {2, 0, 0, k},
				{3, 1, 0, k}, PLAIN_PADDING, PLAIN_PADDING));
	else
		plain_expect_rows(&plain,
			ROWS_LIST({2, 0, 0, k}, {3, 1, 0, k}, {0, 0, 0, k},
				{1, 1, 0, k}, PLAIN_PADDING, PLAIN_PADDING));
	SEAT_OK(seat, plain_try_combine(&plain, &by[seat->rank]));
	plain_expect_sums(&plain, (const float[]){1 + 16 + 2 + 32});
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void shared_experts_and_alignment_are_once_per_expert(void **state)
{
	(void)state;
	ranks_run_both(4, gather_shared, NULL);
}

/* M = 8 by default: two groups of two ranks with two tokens. */
static void gather_padded(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	config.layout = SHUNT_LAYOUT_PADDED;
	quad_dispatch(&plain, seat, &groups, &config);
	plain_expect_i64(seat, "expert_first_row", plain.out.expert_first_row,
		I64_LIST(0, 8));
	plain_expect_i64(
		seat, "extent_rows", &plain.out.extent_rows, I64_LIST(16));
	quad_combine(&plain);
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void padded_experts_have_room_for_all_groups(void **state)
{
	(void)state;
	ranks_run_both(4, gather_padded, NULL);
}

/* Scale and weight of a row tell whose it is: 100 * world rank + token. */
static void gather_scales(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	float base = 100.0f * (float)seat->rank;
	float scales[] = {base, base + 1};
	float weights[] = {base, base, base + 1, base + 1};
	struct plain plain;

	config.x_scales_per_row = 1;
	config.x_scale_dtype = SHUNT_DTYPE_F32;
	plain_init(&plain, seat, groups.ep, &config);
	quad_bring(&plain);
	plain.args.x_scales = scales;
	plain.args.weights = weights;
	plain_dispatch(&plain);
	for (int64_t i = 0; i < plain.out.num_rows; i++) {
		const struct plain_row *row = &quad_own_first[seat->rank][i];
		float want = 100.0f * (float)row->seat + (float)row->token;

		plain_expect_f32(seat, "scale",
			(float *)plain.out.dynamic_scales + i, 1, &want);
		plain_expect_f32(
			seat, "weight", plain.out.expand_weights + i, 1, &want);
	}
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void scales_and_weights_follow_rows_through_the_tp_group(void **state)
{
	(void)state;
	ranks_run_both(4, gather_scales, NULL);
}

static void refer_across_groups(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct shunt_reference references[16];
	struct plain plain;

	config.layout = SHUNT_LAYOUT_INDEXED;
	quad_dispatch(&plain, seat, &groups, &config);
	SEAT_OK(seat, shunt_dispatch_references(plain.handle, references));
	for (int64_t i = 0; i < plain.out.num_rows; i++) {
		const struct plain_row *row = &quad_own_first[seat->rank][i];

		SEAT_CHECK(seat,
			references[i].tp_rank == row->seat / 2 &&
				references[i].rank == row->rank,
			"reference %d is to rank %d of EP group %d", (int)i,
			references[i].rank, references[i].tp_rank);
	}
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void references_name_the_ep_group_that_a_row_came_from(void **state)
{
	(void)state;
	ranks_run_both(4, refer_across_groups, NULL);
}

/* ---- steps that cannot be --------------------------------------------- */

/* Ranks of errors are p * W + r, on both sides of the TP group. */
static void refuse(struct seat *seat)
{
	static const int32_t bad[] = {0, 4};
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	plain_init(&plain, seat, groups.ep, &config);
	for (int i = 0; i < 3; i++) {
		plain_bring(&plain, 1,
			seat->rank == 3 ? bad : quad_ids[seat->rank]);
		SEAT_STATUS(seat,
			seat->rank == 3 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
			plain_try(&plain));
		seat_message_has(seat, "expert_ids[0, 1] is 4");
		if (seat->rank != 3)
			seat_error_ranks(seat, 1 << 3);
		quad_bring(&plain);
		plain_dispatch(&plain);
		quad_expect_step(&plain, false);
	}
	quad_bring(&plain);
	if (seat->rank < 2)
		plain.args.weights = plain.x;
	SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
	seat_message_has(seat, "weights");
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void a_refusal_or_weights_in_one_ep_group_reach_all(void **state)
{
	(void)state;
	ranks_run_both(4, refuse, NULL);
}

/* EP rank 0 gets six rows, three from each group. */
static void overflow(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	config.max_recv_rows = 5;
	plain_init(&plain, seat, groups.ep, &config);
	quad_bring(&plain);
	SEAT_STATUS(seat, SHUNT_CAPACITY, plain_try(&plain));
	seat_message_has(seat, "6 rows");
	seat_message_has(seat, "gives it 5");
	plain_bring(&plain, seat->rank == 3 ? 0 : quad_tokens[seat->rank],
		quad_ids[seat->rank]);
	plain_dispatch(&plain);
	quad_combine(&plain);
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void capacity_counts_the_rows_of_all_groups(void **state)
{
	(void)state;
	ranks_run_both(4, overflow, NULL);
}

/* World rank 3 gives its step up, or has a wrong combine. */
static void spoil_combine(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	plain_init(&plain, seat, groups.ep, &config);
	for (int i = 0; i < 6; i++) {
		enum shunt_status expected = SHUNT_PEER_REFUSED;

		quad_bring(&plain);
		plain_dispatch(&plain);
		if (i % 3 == 2) {
			quad_expect_step(&plain, false);
			continue;
		}
		if (seat->rank == 3 && i % 3 == 0) {
			shunt_handle_destroy(plain.handle);
			continue;
		}
		if (seat->rank == 3) {
			plain.combine.out = NULL;
			expected = SHUNT_NULL_ARGUMENT;
		}
		SEAT_STATUS(seat, expected,
			plain_try_combine(&plain, quad_factors[seat->rank]));
		if (seat->rank != 3)
			seat_error_ranks(seat, 1 << 3);
	}
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void a_combine_that_one_rank_spoils_is_refused_in_all_ep_groups(
	void **state)
{
	(void)state;
	ranks_run_both(4, spoil_combine, NULL);
}

/* World rank 3 dies: also for EP group 0, where it is not one of the ranks. */
static void lose(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	quad_dispatch(&plain, seat, &groups, &config);
	quad_expect_step(&plain, false);
	seat_barrier(seat);
	if (seat->rank == 3)
		kill(getpid(), SIGKILL);
	for (int i = 0; i < 2; i++) {
		quad_bring(&plain);
		SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
		seat_error_ranks(seat, 1 << 3);
	}
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void a_rank_that_dies_is_lost_to_all_ep_groups(void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = 4,
		.may_die = 1 << 3,
	};

	(void)state;
	ranks_run(&plan, lose);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			rows_of_own_group_come_first_or_all_in_rank_order_and_results_are_summed),
		cmocka_unit_test(three_tp_ranks_of_one_ep_rank_each_work),
		cmocka_unit_test(
			three_by_two_counts_of_other_groups_restart_from_zero),
		cmocka_unit_test(
			an_ep_group_without_tokens_still_serves_the_others),
		cmocka_unit_test(a_tp_group_of_one_is_no_tp),
		cmocka_unit_test(
			shared_experts_and_alignment_are_once_per_expert),
		cmocka_unit_test(padded_experts_have_room_for_all_groups),
		cmocka_unit_test(
			scales_and_weights_follow_rows_through_the_tp_group),
		cmocka_unit_test(
			references_name_the_ep_group_that_a_row_came_from),
		cmocka_unit_test(
			a_refusal_or_weights_in_one_ep_group_reach_all),
		cmocka_unit_test(capacity_counts_the_rows_of_all_groups),
		cmocka_unit_test(
			a_combine_that_one_rank_spoils_is_refused_in_all_ep_groups),
		cmocka_unit_test(a_rank_that_dies_is_lost_to_all_ep_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
