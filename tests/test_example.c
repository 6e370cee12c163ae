/*
 * The specification's worked example (1.5), to the letter, through the library:
 * four ranks, two of them with replicas of one shared expert. And that weights
 * which have no part in a sum are not read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "support/ranks.h"
#include "support/ways.h"

#define NUM_RANKS 4
#define TOKENS    2
#define TOPK      2

static const int32_t ids[NUM_RANKS][TOKENS * TOPK] = {
	{0, 1, 2, 1}, {3, 0, 1, 2}, {2, 3, 0, 3}, {1, 3, 3, 2}};

/* What each rank must get. */
struct expected {
	int32_t num_rows, num_experts;
	int32_t source[9][3];
	int32_t counts[2 * NUM_RANKS];
	int64_t nums[2], prefix[2];
};

static const struct expected example[NUM_RANKS] = {
	{
		.num_rows = 4,
		.num_experts = 1,
		.source = {{0, 0, 2}, {0, 1, 2}, {2, 0, 2}, {2, 1, 2}},
		.counts = {2, 2, 4, 4},
		.nums = {4},
		.prefix = {4},
	},
	{
		.num_rows = 4,
		.num_experts = 1,
		.source = {{1, 0, 2}, {1, 1, 2}, {3, 0, 2}, {3, 1, 2}},
		.counts = {0, 2, 2, 4},
		.nums = {4},
		.prefix = {4},
	},
	{
		.num_rows = 7,
		.num_experts = 2,
		.source = {{0, 0, 0}, {1, 0, 1}, {2, 1, 0}, {0, 0, 1},
			{0, 1, 1}, {1, 1, 0}, {3, 0, 0}},
		.counts = {1, 2, 3, 3, 5, 6, 6, 7},
		.nums = {3, 4},
		.prefix = {3, 7},
	},
	{
		.num_rows = 9,
		.num_experts = 2,
		.source = {{0, 1, 0}, {1, 1, 1}, {2, 0, 0}, {3, 1, 1},
			{1, 0, 0}, {2, 0, 1}, {2, 1, 1}, {3, 0, 1}, {3, 1, 0}},
		.counts = {1, 2, 3, 4, 4, 5, 7, 9},
		.nums = {4, 5},
		.prefix = {4, 9},
	},
};

static struct shunt_exchange_config example_config(void)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = TOKENS;
	config.hidden = 1;
	config.topk = TOPK;
	config.num_experts = 4;
	config.num_shared_experts = 1;
	config.num_shared_ranks = 2;
	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = SHUNT_DTYPE_F32;
	return config;
}

/* The element of token t of a rank. */
static float element(int32_t rank, int32_t t)
{
	return (float)(1 + 10 * rank + t);
}

static void check_arrays(struct seat *seat, const struct expected *expected,
	const struct shunt_dispatch_out *out, const int64_t *nums)
{
	size_t experts = (size_t)expected->num_experts;
	const float *x = out->expand_x;

	SEAT_CHECK(seat, out->num_rows == expected->num_rows, "%lld rows",
		(long long)out->num_rows);
	SEAT_CHECK(seat, out->extent_rows == out->num_rows, "padding");
	SEAT_CHECK(seat, out->num_local_experts == expected->num_experts, "L");
	SEAT_CHECK(seat,
		!memcmp(out->source, expected->source,
			(size_t)expected->num_rows * 12),
		"source differs");
	SEAT_CHECK(seat,
		!memcmp(out->ep_recv_counts, expected->counts,
			experts * NUM_RANKS * 4),
		"ep_recv_counts differ");
	SEAT_CHECK(seat, !memcmp(out->expert_token_nums, nums, experts * 8),
		"expert_token_nums differ");
	for (int32_t n = 0; n < expected->num_rows; n++)
		SEAT_CHECK(seat,
			x[n] == element(expected->source[n][0],
					expected->source[n][1]),
			"row %d is %g", n, (double)x[n]);
}

/* Expert e gives e + 1 times its row, the shared one 100 times. */
static void run_experts(
	const struct shunt_dispatch_out *out, int32_t first_expert)
{
	const float *x = out->expand_x;
	float *y = out->expert_rows;
	int64_t local = 0;

	for (int64_t n = 0; n < out->num_rows; n++) {
		while (local + 1 < out->num_local_experts &&
			n >= out->expert_first_row[local + 1])
			local++;
		y[n] = x[n] *
		       (first_expert < 0 ? 100
					 : (float)(first_expert + local + 1));
	}
}

static void run_example(
	struct seat *seat, enum shunt_algorithm algorithm, bool prefix)
{
	const struct expected *expected = &example[seat->rank];
	static const float weights[TOKENS * TOPK] = {0.5f, 2, 4, 0.25f};
	struct shunt_exchange_config config = example_config();
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	const float x[TOKENS] = {
		element(seat->rank, 0), element(seat->rank, 1)};
	struct shunt_exchange *exchange;
	struct shunt_handle handle;
	float sum[TOKENS], due;

	config.algorithm = algorithm;
	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	args.x = x;
	args.num_tokens = TOKENS;
	args.expert_ids = ids[seat->rank];
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = weights;
	args.prefix_token_nums = prefix;
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	check_arrays(seat, expected, &out,
		prefix ? expected->prefix : expected->nums);
	run_experts(&out, seat->rank < 2 ? -1 : 2 * (seat->rank - 2));
	combine.y = out.expert_rows;
	combine.out = sum;
	SEAT_OK(seat, shunt_combine(handle, &combine));
	for (int t = 0; t < TOKENS; t++) {
		due = 100 * x[t];
		for (int k = 0; k < TOPK; k++)
			due += weights[t * TOPK + k] * x[t] *
			       (float)(ids[seat->rank][t * TOPK + k] + 1);
		SEAT_CHECK(seat, sum[t] == due, "token %d is %g, not %g", t,
			(double)sum[t], (double)due);
	}
	shunt_exchange_destroy(exchange);
}

static void run_both(struct seat *seat)
{
	run_example(seat, SHUNT_ALGORITHM_AUTO, false);
	run_example(seat, SHUNT_ALGORITHM_AUTO, true);
}

static void worked_example_comes_out_as_printed(void **state)
{
	(void)state;
	ranks_run_both(NUM_RANKS, run_both, NULL);
}

/* All sums are of small numbers, and so the same in any order. */
static void run_over_hosts(struct seat *seat)
{
	run_example(seat, way_of(seat)->algorithm, false);
	run_example(seat, way_of(seat)->algorithm, true);
}

static void worked_example_comes_out_over_hosts_too(void **state)
{
	(void)state;
	ways_run("0011 0101 0110 0111 0123", run_over_hosts, NULL);
}

/* ---- weights that are not read ---------------------------------------- */

/* Experts 0 .. 3, then a zero expert and a copy expert. */
static struct shunt_exchange_config special_config(void)
{
	struct shunt_exchange_config config = example_config();

	config.topk = 5;
	config.num_zero_experts = 1;
	config.num_copy_experts = 1;
	config.bad_id = SHUNT_BAD_ID_DROP;
	return config;
}

/* One token: a MoE expert, a zero one, a masked choice, a -1 and a bad id. */
static const int32_t odd_ids[5] = {2, 4, 1, -1, 77};
static const uint8_t odd_mask[5] = {1, 1, 0, 1, 1};
static const float odd_weights[5] = {0.5f, NAN, NAN, NAN, NAN};

static void combine_odd_weights(struct seat *seat, bool late)
{
	struct shunt_exchange_config config = special_config();
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	struct shunt_exchange *exchange;
	struct shunt_handle handle;
	const float x = element(seat->rank, 0), ori_x = 1e30f;
	float sum;

	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	args.x = &x;
	args.num_tokens = 1;
	args.expert_ids = odd_ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.mask = SHUNT_MASK_CHOICES;
	args.active_mask = odd_mask;
	args.weights = late ? NULL : odd_weights;
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	SEAT_CHECK(seat, out.dropped_choices == 1, "nothing dropped");
	run_experts(&out, seat->rank < 2 ? -1 : 2 * (seat->rank - 2));
	combine.y = out.expert_rows;
	combine.out = &sum;
	combine.ori_x = &ori_x;
	combine.weights = late ? odd_weights : NULL;
	SEAT_OK(seat, shunt_combine(handle, &combine));
	SEAT_CHECK(seat, sum == 0.5f * 3 * x + 100 * x, "the sum is %g",
		(double)sum);
	shunt_exchange_destroy(exchange);
}

static void combine_both_ways(struct seat *seat)
{
	combine_odd_weights(seat, false);
	combine_odd_weights(seat, true);
}

static void nan_weights_of_choices_without_a_part_are_never_read(void **state)
{
	(void)state;
	ranks_run_both(NUM_RANKS, combine_both_ways, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worked_example_comes_out_as_printed),
		cmocka_unit_test(worked_example_comes_out_over_hosts_too),
		cmocka_unit_test(
			nan_weights_of_choices_without_a_part_are_never_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
