/*
 * The reference's combine and its counts, against values worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "reference/convert.h"
#include "reference/inputs.h"
#include "reference/lanes.h"
#include "reference/reference.h"
#include "support/small_job.h"

/* ---- combine ---------------------------------------------------------- */

/* An expert that gives back what it got, times ten to its number. */
static void times_ten(void *context, const struct reference_made *made, void *y)
{
	float value;

	(void)context;
	memcpy(&value, made->q, sizeof(value));
	for (int64_t e = 0; e < made->expert; e++)
		value *= 10;
	memcpy(y, &value, sizeof(value));
}

static void combine_sums_by_weight_and_skips_what_is_masked(void **state)
{
	static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	static const float weights[4] = {0.5f, 2, NAN, 4};
	static const uint8_t mask[4] = {1, 1, 0, 1};
	struct reference_input inputs[4];
	struct reference_job job;
	float out[2];
	struct reference_combine combine = {
		.weights = weights,
		.expert = times_ten,
		.out_dtype = SHUNT_DTYPE_F32,
		.out = out,
		.out_stride = 1,
	};

	(void)state;
	small_job_example(&job, inputs, x);
	inputs[1].mask = SHUNT_MASK_CHOICES;
	inputs[1].active_mask = mask;
	assert_true(reference_combine(
		&job, (struct reference_place){0, 1}, &combine));
	/* Token 0: experts 3 and 0; token 1: expert 2 alone. The shared expert
	 * counts as number 4, with weight 1. */
	assert_true(out[0] == 0.5f * 3000 + 2 * 3 + 30000);
	assert_true(out[1] == 4 * 400 + 40000);
	combine.weights = NULL;
	assert_true(reference_combine(
		&job, (struct reference_place){0, 0}, &combine));
	assert_true(out[0] == 1 + 10 + 10000);
	assert_true(out[1] == 200 + 20 + 20000);
}

/* One rank with one expert, then a zero, a copy and two constant ones. */
static void special_experts_are_as_worked_out_by_hand(void **state)
{
	static const int64_t choices[5] = {1, 2, 0, 4, 3};
	static const float x = 1, ori_x[2] = {3, 4};
	static const float weights[5] = {NAN, 2, 1, 0.5f, 0};
	/* Constant 1: a1 = a2, so that p = 1/2 each; constant 0: a2 is so much
	 * larger that p1 is 0. */
	static const float alpha1[4] = {0, 0, 1, 1}, alpha2[4] = {99, 99, 1, 1};
	static const float v[4] = {7, 7, 1, 2}, shared_x[2] = {100, 200};
	static const int32_t first[1] = {0};
	const float xs[2] = {x, x};
	struct reference_input input = {
		.num_tokens = 1, .x = xs, .x_stride = 2, .ids = choices};
	struct reference_job job = {
		.config = {.max_tokens = 1,
			.hidden = 2,
			.topk = 5,
			.num_experts = 1,
			.dtype = SHUNT_DTYPE_F32,
			.expert_dtype = SHUNT_DTYPE_F32,
			.num_zero_experts = 1,
			.num_copy_experts = 1,
			.num_constant_experts = 2},
		.num_ranks = 1,
		.expert_rank = first,
		.inputs = &input,
	};
	float out[2];
	struct reference_combine combine = {
		.weights = weights,
		.expert = input_expert_row,
		.context = &job,
		.out_dtype = SHUNT_DTYPE_F32,
		.out = out,
		.out_stride = 2,
		.ori_x = ori_x,
		.ori_x_stride = 2,
		.alpha1 = alpha1,
		.alpha2 = alpha2,
		.v = v,
		.shared_x = shared_x,
		.shared_x_stride = 2,
	};

	(void)state;
	assert_true(reference_combine(
		&job, (struct reference_place){0, 0}, &combine));
	/* The toy expert 0 gives 0.5 * x - 0.5 = 0. */
	assert_true(out[0] == 2 * 3 + 0 + 0.5f * (1.5f + 0.5f) + 100);
	assert_true(out[1] == 2 * 4 + 0 + 0.5f * (2 + 1) + 200);
}

/* Sums over 16 lanes: in one go 2^24 + 1 + 1 would lose both ones. */
static void dot_products_have_sixteen_lanes(void **state)
{
	float a[33] = {0}, b[33];

	(void)state;
	for (int i = 0; i < 33; i++)
		b[i] = 1;
	a[0] = 0x1p24f;
	a[1] = 1;
	a[9] = 1;
	assert_true(lanes_dot(a, b, 33) == 0x1p24f + 2);
	a[1] = 0;
	a[16] = 1;
	a[32] = 1;
	a[9] = 0;
	assert_true(lanes_dot(a, b, 33) == 0x1p24f);
}

static void tail_adds_the_residual_and_normalises(void **state)
{
	static const float x[8] = {0, 0, 3, 4, 0, 0, 0, 0};
	static const uint8_t mask[2] = {1, 0};
	static const float residual[2] = {1, 2}, gamma[1] = {0.5f};
	struct reference_input inputs[4];
	struct reference_job job;
	float out[2], norm[2], rstd[2];
	struct reference_combine combine = {
		.expert = times_ten,
		.out_dtype = SHUNT_DTYPE_F32,
		.out = out,
		.out_stride = 1,
		.residual = residual,
		.residual_stride = 1,
		.gamma = gamma,
		.gamma_dtype = SHUNT_DTYPE_F32,
		.norm_eps = 0,
		.norm_out = norm,
		.norm_out_stride = 1,
		.rstd = rstd,
	};

	(void)state;
	small_job_example(&job, inputs, x);
	inputs[1].mask = SHUNT_MASK_TOKENS;
	inputs[1].active_mask = mask;
	assert_true(reference_combine(
		&job, (struct reference_place){0, 1}, &combine));
	assert_true(out[0] == 3000 + 3 + 30000 + 1);
	assert_true(rstd[0] == 1.0f / 33004.0f);
	/* The inactive token's residual passes. */
	assert_true(out[1] == 2 && rstd[1] == 0.5f && norm[1] == 0.5f);
}

/* The halves of a row: 0.5 + 2^-11 and 2^-11 of TP ranks 0 and 1. */
static void half_by_tp(
	void *context, const struct reference_made *made, void *y)
{
	uint16_t half =
		convert_to_f16(made->tp == 0 ? 1.0f + 0x1p-10f : 0x1p-11f);

	(void)context;
	memcpy(y, &half, sizeof(half));
}

static void tp_results_are_added_and_rounded_to_the_row_type(void **state)
{
	static const float x[3] = {1, 2, 3};
	struct reference_input inputs[2];
	struct reference_job job;
	float out[2];
	struct reference_combine combine = {
		.expert = half_by_tp,
		.out_dtype = SHUNT_DTYPE_F32,
		.out = out,
		.out_stride = 1,
	};

	(void)state;
	small_job_pair(&job, inputs, x);
	assert_true(reference_combine(
		&job, (struct reference_place){1, 0}, &combine));
	/* 1 + 2^-10 + 2^-11 is a tie in f16. */
	assert_true(out[0] == 1.0f + 0x1p-9f);
	assert_true(out[1] == out[0]);
}

/* ---- hosts ------------------------------------------------------------ */

/* Each rank has the expert of its number, which gives 2^24 if it is number 0,
 * and 1 else. */
static void large_or_one(
	void *context, const struct reference_made *made, void *y)
{
	float value = made->expert == 0 ? 0x1p24f : 1;

	(void)context;
	memcpy(y, &value, sizeof(value));
}

/* The sum on `rank` of a token with these ids, one expert a rank. */
static float sum_over_hosts(const int32_t *hosts, bool adds_partial_sums,
	int32_t rank, int64_t topk, const int64_t *choices)
{
	static const float x[1] = {0};
	static const int32_t expert_rank[6] = {0, 1, 2, 3, 4, 5};
	struct reference_input inputs[6];
	struct reference_job job = {
		.config = {.max_tokens = 1,
			.hidden = 1,
			.topk = topk,
			.num_experts = 6,
			.dtype = SHUNT_DTYPE_F32,
			.expert_dtype = SHUNT_DTYPE_F32},
		.num_ranks = 6,
		.expert_rank = expert_rank,
		.inputs = inputs,
		.hosts = hosts,
		.adds_partial_sums = adds_partial_sums,
	};
	float out = NAN;
	struct reference_combine combine = {
		.expert = large_or_one,
		.out_dtype = SHUNT_DTYPE_F32,
		.out = &out,
		.out_stride = 1,
	};

	for (int r = 0; r < 6; r++)
		inputs[r] = (struct reference_input){
			.num_tokens = 1, .x = x, .x_stride = 1, .ids = choices};
	assert_true(reference_combine(
		&job, (struct reference_place){0, rank}, &combine));
	return out;
}

/* 2^24 + 1 is 2^24 in f32, 2^24 + 2 is itself, 2^24 + 3 is 2^24 + 4. */
static void rows_of_another_host_are_added_up_before_they_come(void **state)
{
	static const int32_t hosts[6] = {7, 7, 3, 3, 3, 5};
	static const int64_t two[3] = {0, 2, 3}, three[4] = {0, 2, 3, 4};
	static const int64_t apart[3] = {0, 2, 5};

	(void)state;
	assert_true(sum_over_hosts(NULL, true, 0, 3, two) == 0x1p24f);
	assert_true(sum_over_hosts(hosts, false, 0, 3, two) == 0x1p24f);
	assert_true(sum_over_hosts(hosts, true, 0, 3, two) == 0x1p24f + 2);
	assert_true(sum_over_hosts(hosts, true, 0, 4, three) == 0x1p24f + 4);
	assert_true(sum_over_hosts(hosts, true, 0, 3, apart) == 0x1p24f);
	/* On host 3 the own rows are 1 + 1, then comes 2^24. */
	assert_true(sum_over_hosts(hosts, true, 2, 3, two) == 0x1p24f + 2);
	/* On host 5: 2^24 of the first host, then 2. */
	assert_true(sum_over_hosts(hosts, true, 5, 3, two) == 0x1p24f + 2);
}

/* Ranks 0 and 5 on one host, 1 and 4 on another, 2 and 3 alone. */
static void hosts_come_in_the_order_of_their_first_members(void **state)
{
	static const int32_t hosts[6] = {9, 4, 8, 1, 4, 9};
	static const int64_t choices[4] = {3, 2, 0, 1};

	(void)state;
	/* On rank 3: 1 of its own, 2^24, 1, 1. Were rank 2's host or rank 1's
	 * before rank 0's, 1 + 1 + 2^24 would be 2^24 + 2. */
	assert_true(sum_over_hosts(hosts, true, 3, 4, choices) == 0x1p24f);
	/* In the order of the choices the large one is third, and 2^24 + 3
	 * follows. */
	assert_true(sum_over_hosts(hosts, false, 3, 4, choices) == 0x1p24f + 4);
}

/* The tokens of rank 3 go to rank 1 for the shared expert. Next to 2^25 only
 * multiples of 4 are numbers, so that each order has a sum of its own. */
static void what_is_no_moe_row_comes_behind_the_sums_of_all_hosts(void **state)
{
	static const float x[8] = {1, 1, 1, 1, 1, 1, 0.25f, 1};
	static const float shared_x[2] = {0x1p25f, 0x1p25f};
	static const int32_t hosts[4] = {0, 0, 0, 1};
	struct reference_input inputs[4];
	struct reference_job job;
	float out[2];
	struct reference_combine combine = {
		.expert = times_ten,
		.out_dtype = SHUNT_DTYPE_F32,
		.out = out,
		.out_stride = 1,
		.shared_x = shared_x,
		.shared_x_stride = 1,
	};

	(void)state;
	small_job_example(&job, inputs, x);
	job.hosts = hosts;
	job.adds_partial_sums = true;
	/* Token 0 of rank 3 has experts 1 and 3, of ranks 2 and 3. */
	assert_true(reference_combine(
		&job, (struct reference_place){0, 3}, &combine));
	assert_true(out[0] == ((2.5f + 250) + 2500) + 0x1p25f);
	/* Those of rank 0 have 0 and 1, and 2 and 1. */
	assert_true(reference_combine(
		&job, (struct reference_place){0, 0}, &combine));
	assert_true(out[0] == ((1 + 10) + 10000) + 0x1p25f);
	assert_true(out[1] == ((10 + 100) + 10000) + 0x1p25f);
}

/* The example of test_hosts_sums.c; the shared expert is 6. */
static void as_in_the_example(
	void *context, const struct reference_made *made, void *y)
{
	static const float values[6] = {256, 1, 256, 0, 0, 1};
	const float *shared = context;

	convert_store(SHUNT_DTYPE_BF16,
		made->expert == 6 ? shared : &values[made->expert], 1, y);
}

static float sum_of_example(
	float shared, enum shunt_combine_quant combine_quant, bool in_f32)
{
	static const int64_t choices[6] = {6, 5, 0, 2, 1, 6};
	static const int32_t expert_rank[6] = {1, 1, 2, 2, 3, 3};
	static const int32_t hosts[4] = {0, 0, 1, 1};
	static const uint16_t one = 0x3f80;
	static const float x[1] = {0};
	struct reference_input inputs[4];
	struct reference_job job = {
		.config = {.max_tokens = 1,
			.hidden = 1,
			.topk = 6,
			.num_experts = 6,
			.num_shared_experts = 1,
			.num_shared_ranks = 1,
			.num_copy_experts = 1,
			.dtype = SHUNT_DTYPE_F32,
			.expert_dtype = SHUNT_DTYPE_BF16,
			.combine_quant = combine_quant,
			.f32_partial_sums = in_f32},
		.num_ranks = 4,
		.expert_rank = expert_rank,
		.inputs = inputs,
		.hosts = hosts,
		.adds_partial_sums = true,
	};
	float out = NAN;
	struct reference_combine combine = {
		.expert = as_in_the_example,
		.context = &shared,
		.out_dtype = SHUNT_DTYPE_F32,
		.out = &out,
		.out_stride = 1,
		.ori_x = &one,
		.ori_x_stride = 1,
	};

	for (int r = 0; r < 4; r++)
		inputs[r] = (struct reference_input){
			.num_tokens = 1, .x = x, .x_stride = 1, .ids = choices};
	assert_true(reference_combine(
		&job, (struct reference_place){0, 0}, &combine));
	return out;
}

static void sums_of_hosts_are_rounded_and_quantized_or_kept(void **state)
{
	const enum shunt_combine_quant none = SHUNT_COMBINE_QUANT_NONE;
	const enum shunt_combine_quant int8 = SHUNT_COMBINE_QUANT_INT8_8;

	(void)state;
	assert_true(sum_of_example(0x1p24f, none, false) == 0x1p24f + 514);
	assert_true(sum_of_example(0x1p24f, none, true) == 0x1p24f + 516);
	assert_true(sum_of_example(0, int8, false) == 508 * (1 + 0x1p-7f) + 2);
}

/* ---- counts ----------------------------------------------------------- */

static void rows_are_counted_where_they_are_quantized(void **state)
{
	static const float x[8] = {NAN, INFINITY};
	static const float smooth[5] = {1, 1, 1, 1, 1};
	const struct reference_place place = {0, 0};
	struct reference_input inputs[4];
	struct reference_sent sent;
	struct reference_job job;

	(void)state;
	small_job_example(&job, inputs, x);
	job.config.quant = SHUNT_QUANT_INT8;
	assert_true(reference_send(&job, place, &sent));
	assert_int_equal(sent.nan_elements, 1);
	assert_int_equal(sent.inf_elements, 1);
	/* By expert: two choices and the shared one. */
	inputs[0].smooth = smooth;
	assert_true(reference_send(&job, place, &sent));
	assert_int_equal(sent.nan_elements, 3);
	assert_int_equal(sent.inf_elements, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			combine_sums_by_weight_and_skips_what_is_masked),
		cmocka_unit_test(special_experts_are_as_worked_out_by_hand),
		cmocka_unit_test(dot_products_have_sixteen_lanes),
		cmocka_unit_test(tail_adds_the_residual_and_normalises),
		cmocka_unit_test(
			tp_results_are_added_and_rounded_to_the_row_type),
		cmocka_unit_test(
			rows_of_another_host_are_added_up_before_they_come),
		cmocka_unit_test(
			hosts_come_in_the_order_of_their_first_members),
		cmocka_unit_test(
			what_is_no_moe_row_comes_behind_the_sums_of_all_hosts),
		cmocka_unit_test(
			sums_of_hosts_are_rounded_and_quantized_or_kept),
		cmocka_unit_test(rows_are_counted_where_they_are_quantized),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
