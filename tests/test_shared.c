/*
 * Shared experts: which tokens go to them, to which replica, and what comes
 * back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/plain.h"

#define RANKS 2

/* The example of the specification, section 1.5. */
static void share(struct seat *seat)
{
	static const int32_t example[4][4] = {
		{0, 1, 2, 1}, {3, 0, 1, 2}, {2, 3, 0, 3}, {1, 3, 3, 2}};
	static const int32_t blocks[4][8] = {{2, 2, 4, 4}, {0, 2, 2, 4},
		{1, 2, 3, 3, 5, 6, 6, 7}, {1, 2, 3, 4, 4, 5, 7, 9}};
	static const int64_t nums[4][2] = {{4}, {4}, {3, 4}, {4, 5}};
	static const struct plain_row rows[4][9] = {
		{{0, 0, 0, 2}, {0, 0, 1, 2}, {2, 2, 0, 2}, {2, 2, 1, 2}},
		{{1, 1, 0, 2}, {1, 1, 1, 2}, {3, 3, 0, 2}, {3, 3, 1, 2}},
		{{0, 0, 0, 0}, {1, 1, 0, 1}, {2, 2, 1, 0}, {0, 0, 0, 1},
			{0, 0, 1, 1}, {1, 1, 1, 0}, {3, 3, 0, 0}},
		{{0, 0, 1, 0}, {1, 1, 1, 1}, {2, 2, 0, 0}, {3, 3, 1, 1},
			{1, 1, 0, 0}, {2, 2, 0, 1}, {2, 2, 1, 1}, {3, 3, 0, 1},
			{3, 3, 1, 0}}};
	static const int64_t num_rows[4] = {4, 4, 7, 9};
	/* Experts 0 .. 3 multiply by 1, 2, 4, 8; the shared one by 16. */
	static const float by[4][2] = {{16}, {16}, {1, 2}, {4, 8}};
	static const float come_back[4][2] = {{3 + 16, 6 + 16},
		{9 + 16, 6 + 16}, {12 + 16, 9 + 16}, {10 + 16, 12 + 16}};
	struct shunt_exchange_config config = plain_config(2, 2, 4);
	int32_t r = seat->rank;
	struct plain plain;

	config.num_shared_experts = 1;
	config.num_shared_ranks = 2;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 2, example[r]);
	plain_dispatch(&plain);
	plain_expect_rows(&plain, num_rows[r], rows[r]);
	plain_expect_i32(seat, "ep_recv_counts", plain.out.ep_recv_counts,
		r < 2 ? 4 : 8, blocks[r]);
	plain_expect_i64(seat, "expert_token_nums", plain.out.expert_token_nums,
		r < 2 ? 1 : 2, nums[r]);
	SEAT_OK(seat, plain_try_combine(&plain, by[r]));
	plain_expect_sums(&plain, come_back[r]);
	plain_fini(&plain);
}

static void worked_example_of_shared_experts_is_as_specified(void **state)
{
	(void)state;
	ranks_run_both(4, share, NULL);
}

/*
 * Rank 0 shared, expert 0 on rank 1, then a zero and a copy expert: ids 1 and
 * 2. Tokens of rank 0: special only; masked; -1 only. Of rank 1: an expert; a
 * -1 beside a masked choice.
 */
static void share_active_tokens(struct seat *seat)
{
	static const int32_t given[RANKS][6] = {
		{1, 2, 0, 0, -1, -1}, {0, -1, -1, 99}};
	static const int64_t num_tokens[RANKS] = {3, 2};
	static const float weights[RANKS][6] = {
		{0.5f, 1, 1.5f, 2, 2.5f, 3}, {10, 20, 30, 40}};
	static const uint8_t mask[RANKS][6] = {
		{1, 1, 0, 0, 1, 1}, {1, 1, 1, 0}};
	struct shunt_exchange_config config = plain_config(3, 2, 1);
	struct plain plain;

	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.num_zero_experts = 1;
	config.num_copy_experts = 1;
	config.expert_alignment = 3;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, num_tokens[seat->rank], given[seat->rank]);
	plain.args.mask = SHUNT_MASK_CHOICES;
	plain.args.active_mask = mask[seat->rank];
	plain.args.weights = weights[seat->rank];
	plain_dispatch(&plain);
	if (seat->rank == 0) {
		plain_expect_rows(&plain,
			ROWS_LIST({0, 0, 0, 2}, {1, 1, 0, 2}, PLAIN_PADDING));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights, F32_LIST(1, 1, 0));
	} else {
		plain_expect_rows(&plain,
			ROWS_LIST({1, 1, 0, 0}, PLAIN_PADDING, PLAIN_PADDING));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights, F32_LIST(10, 0, 0));
	}
	plain.combine.ori_x = plain.x;
	SEAT_OK(seat, plain_try_combine(&plain,
			      (const float[]){seat->rank == 0 ? 4 : 8}));
	/* Copy with weight 1, shared 4; expert with weight 10, shared 4. */
	if (seat->rank == 0)
		plain_expect_sums(&plain, (float[]){1 + 4, 0, 0});
	else
		plain_expect_sums(&plain, (float[]){10 * 8 + 4, 0});
	plain_fini(&plain);
}

static void
tokens_with_special_choices_go_to_shared_experts_and_inactive_ones_do_not(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, share_active_tokens, NULL);
}

/* Two experts with two replicas each: rank r goes to replica r % 2 of both. */
static void share_two(struct seat *seat)
{
	static const int32_t id[] = {0};
	static const struct plain_row rows[6][5] = {
		{{0, 0, 0, 1}, {2, 2, 0, 1}, {4, 4, 0, 1}},
		{{1, 1, 0, 1}, {3, 3, 0, 1}},
		{{0, 0, 0, 2}, {2, 2, 0, 2}, {4, 4, 0, 2}},
		{{1, 1, 0, 2}, {3, 3, 0, 2}},
		{{0, 0, 0, 0}, {1, 1, 0, 0}, {2, 2, 0, 0}, {3, 3, 0, 0},
			{4, 4, 0, 0}}};
	static const int64_t num_rows[] = {3, 2, 3, 2, 5};
	static const float by[] = {2, 2, 4, 4, 1};
	struct shunt_exchange_config config = plain_config(1, 1, 1);
	struct plain plain;

	config.num_shared_experts = 2;
	config.num_shared_ranks = 4;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		plain_bring(&plain, 1, id);
		plain_dispatch(&plain);
		plain_expect_rows(
			&plain, num_rows[seat->rank], rows[seat->rank]);
		SEAT_OK(seat, plain_try_combine(&plain, &by[seat->rank]));
		plain_expect_sums(&plain, (const float[]){1 + 2 + 4});
	}
	plain_fini(&plain);
}

static void each_rank_has_one_replica_of_each_shared_expert(void **state)
{
	(void)state;
	ranks_run_both(5, share_two, NULL);
}

/* A step whose shared rank brings nothing, and none of whose tokens has a
 * choice on a MoE rank. */
static void share_only(struct seat *seat)
{
	static const int32_t copy[] = {1};
	struct shunt_exchange_config config = plain_config(1, 1, 1);
	struct plain plain;

	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.num_copy_experts = 1;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, seat->rank, copy);
	plain_dispatch(&plain);
	if (seat->rank == 0)
		plain_expect_rows(&plain, ROWS_LIST({1, 1, 0, 1}));
	else
		plain_expect_rows(&plain, 0, NULL);
	plain.combine.ori_x = plain.x;
	SEAT_OK(seat, plain_try_combine(&plain, (const float[]){2}));
	plain_expect_sums(&plain, (const float[]){1 + 2});
	plain_fini(&plain);
}

static void a_step_of_shared_and_special_experts_only_works(void **state)
{
	(void)state;
	ranks_run_both(RANKS, share_only, NULL);
}

/* No expert of any rank: nothing is received, anywhere. */
static void copy_only(struct seat *seat)
{
	static const int32_t given[] = {0, 1, 1, -1};
	struct shunt_exchange_config config = plain_config(2, 2, 0);
	struct plain plain;

	config.num_zero_experts = 1;
	config.num_copy_experts = 1;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 2, given);
	plain.args.weights = (const float[]){8, 2, 4, 16};
	plain_dispatch(&plain);
	plain_expect_rows(&plain, 0, NULL);
	SEAT_CHECK(seat, plain.out.num_local_experts == 0, "%d experts",
		(int)plain.out.num_local_experts);
	plain.combine.ori_x = plain.x;
	SEAT_OK(seat, plain_try_combine(&plain, NULL));
	plain_expect_sums(&plain, (const float[]){2, 4});
	plain_fini(&plain);
}

static void an_exchange_of_special_experts_only_works(void **state)
{
	(void)state;
	ranks_run_both(RANKS, copy_only, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			worked_example_of_shared_experts_is_as_specified),
		cmocka_unit_test(
			tokens_with_special_choices_go_to_shared_experts_and_inactive_ones_do_not),
		cmocka_unit_test(
			each_rank_has_one_replica_of_each_shared_expert),
		cmocka_unit_test(
			a_step_of_shared_and_special_experts_only_works),
		cmocka_unit_test(an_exchange_of_special_experts_only_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
