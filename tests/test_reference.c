/*
 * The reference itself, against values worked out by hand: all else is
 * measured by it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "reference/convert.h"
#include "reference/quantize.h"
#include "reference/reference.h"

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void halves_come_back_from_f32_unchanged(void **state)
{
	uint16_t half;

	(void)state;
	for (uint32_t i = 0; i < 0x10000; i++) {
		half = (uint16_t)i;
		if (isnan(convert_from_f16(half)))
			assert_int_equal(
				convert_to_f16(convert_from_f16(half)), 0x7e00);
		else
			assert_int_equal(
				convert_to_f16(convert_from_f16(half)), half);
		if (isnan(convert_from_bf16(half)))
			assert_int_equal(
				convert_to_bf16(convert_from_bf16(half)),
				0x7fc0);
		else
			assert_int_equal(
				convert_to_bf16(convert_from_bf16(half)), half);
	}
}

/* Between two neighbours: below, at and above the middle. */
static void f32_rounds_to_the_nearest_f16_and_ties_to_even(void **state)
{
	float low, high, middle;

	(void)state;
	for (uint16_t half = 0; half < 0x7bff; half++) {
		low = convert_from_f16(half);
		high = convert_from_f16(half + 1);
		middle = low + (high - low) / 2;
		assert_int_equal(convert_to_f16(nextafterf(middle, low)), half);
		assert_int_equal(convert_to_f16(middle), half + (half & 1));
		assert_int_equal(
			convert_to_f16(nextafterf(middle, high)), half + 1);
	}
	assert_int_equal(convert_to_f16(65519.0f), 0x7bff);
	assert_int_equal(convert_to_f16(65520.0f), 0x7c00);
	assert_int_equal(convert_to_f16(-INFINITY), 0xfc00);
}

static void f32_rounds_to_the_nearest_bf16_and_ties_to_even(void **state)
{
	(void)state;
	assert_int_equal(convert_to_bf16(1.0f + 0x1p-8f), 0x3f80);
	assert_int_equal(convert_to_bf16(1.0f + 0x3p-8f), 0x3f82);
	assert_int_equal(convert_to_bf16(1.0f + 0x1.002p-8f), 0x3f81);
	assert_int_equal(convert_to_bf16(3.4e38f), 0x7f80);
	assert_int_equal(convert_to_bf16(0x1p-133f), 0x0001);
}

static void int8_is_as_worked_out_by_hand(void **state)
{
	const float x[] = {
		127, -63.5f, 0.5f, 1.5f, 2.5f, NAN, INFINITY, -INFINITY};
	const int8_t expected[] = {127, -64, 0, 2, 2, 0, 127, -127};
	const float zeros[] = {0, -0.0f, 1e-40f, NAN};
	int64_t nans = 0, infs = 0;
	int8_t q[8];

	(void)state;
	assert_int_equal(bits_of(quantize_int8_row(
				 SHUNT_DTYPE_F32, x, NULL, 8, q, &nans, &infs)),
		bits_of(1.0f));
	assert_memory_equal(q, expected, 8);
	assert_int_equal(nans, 1);
	assert_int_equal(infs, 2);
	assert_int_equal(bits_of(quantize_int8_row(SHUNT_DTYPE_F32, zeros, NULL,
				 4, q, &nans, &infs)),
		0);
	assert_int_equal(q[0] | q[1] | q[2] | q[3], 0);
	assert_int_equal(nans, 2);
}

/* The ids of the specification's worked example, without shared experts: four
 * experts on ranks 2 and 3 of 4. */
static const int64_t ids[4][4] = {
	{0, 1, 2, 1}, {3, 0, 1, 2}, {2, 3, 0, 3}, {1, 3, 3, 2}};

static const int32_t example_rank[4] = {2, 2, 3, 3};

static void fill_example(struct reference_job *job,
	struct reference_input inputs[4], const float *x)
{
	*job = (struct reference_job){
		.num_ranks = 4,
		.hidden = 1,
		.topk = 2,
		.num_experts = 4,
		.dtype = SHUNT_DTYPE_F32,
		.expert_dtype = SHUNT_DTYPE_F32,
		.expert_rank = example_rank,
		.inputs = inputs,
	};
	for (int r = 0; r < 4; r++)
		inputs[r] = (struct reference_input){
			.num_tokens = 2,
			.x = x + 2 * r,
			.x_stride = 1,
			.ids = ids[r],
		};
}

static void check_example(const struct reference_job *job, int32_t rank,
	const int32_t *source, const int32_t *counts, const int64_t *nums)
{
	struct reference_received received;

	assert_true(reference_received_init(
		&received, job, rank, reference_num_rows(job, rank)));
	reference_receive(job, rank, &received);
	assert_int_equal(received.num_rows, counts[7]);
	assert_memory_equal(received.source, source,
		(size_t)received.num_rows * 3 * sizeof(int32_t));
	assert_memory_equal(received.recv_counts, counts, 8 * sizeof(int32_t));
	assert_memory_equal(received.token_nums, nums, 2 * sizeof(int64_t));
	reference_received_fini(&received);
}

static void worked_example_comes_out_as_printed(void **state)
{
	static const int32_t source2[] = {
		0, 0, 0, 1, 0, 1, 2, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 3, 0, 0};
	static const int32_t counts2[] = {1, 2, 3, 3, 5, 6, 6, 7};
	static const int64_t nums2[] = {3, 4};
	static const int32_t source3[] = {0, 1, 0, 1, 1, 1, 2, 0, 0, 3, 1, 1, 1,
		0, 0, 2, 0, 1, 2, 1, 1, 3, 0, 1, 3, 1, 0};
	static const int32_t counts3[] = {1, 2, 3, 4, 4, 5, 7, 9};
	static const int64_t nums3[] = {4, 5};
	static const float x[8] = {0};
	struct reference_input inputs[4];
	struct reference_job job;

	(void)state;
	fill_example(&job, inputs, x);
	check_example(&job, 2, source2, counts2, nums2);
	check_example(&job, 3, source3, counts3, nums3);
	assert_int_equal(reference_num_rows(&job, 0), 0);
}

/* An expert that gives back what it got, times ten to its number. */
static void times_ten(void *context, int64_t expert, const void *sent_row,
	float scale, void *y)
{
	float value;

	(void)context;
	memcpy(&value, sent_row, sizeof(value));
	for (int64_t e = 0; e < expert; e++)
		value *= 10;
	value *= scale;
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

	(void)state;
	fill_example(&job, inputs, x);
	inputs[1].mask = SHUNT_MASK_CHOICES;
	inputs[1].active_mask = mask;
	assert_true(reference_combine(
		&job, 1, weights, times_ten, NULL, SHUNT_DTYPE_F32, 1, out));
	/* Token 0: experts 3 and 0; token 1: expert 2 alone. */
	assert_true(out[0] == 0.5f * 3000 + 2 * 3);
	assert_true(out[1] == 4 * 400);
	assert_true(reference_combine(
		&job, 0, NULL, times_ten, NULL, SHUNT_DTYPE_F32, 1, out));
	assert_true(out[0] == 1 + 10);
	assert_true(out[1] == 200 + 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(halves_come_back_from_f32_unchanged),
		cmocka_unit_test(
			f32_rounds_to_the_nearest_f16_and_ties_to_even),
		cmocka_unit_test(
			f32_rounds_to_the_nearest_bf16_and_ties_to_even),
		cmocka_unit_test(int8_is_as_worked_out_by_hand),
		cmocka_unit_test(worked_example_comes_out_as_printed),
		cmocka_unit_test(
			combine_sums_by_weight_and_skips_what_is_masked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
