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
#include "support/operand.h"
#include "support/small_job.h"

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
	assert_int_equal(operand_to_bits(quantize_int8_row(
				 SHUNT_DTYPE_F32, x, NULL, 8, q, &nans, &infs)),
		operand_to_bits(1.0f));
	assert_memory_equal(q, expected, 8);
	assert_int_equal(nans, 1);
	assert_int_equal(infs, 2);
	assert_int_equal(operand_to_bits(quantize_int8_row(SHUNT_DTYPE_F32,
				 zeros, NULL, 4, q, &nans, &infs)),
		0);
	assert_int_equal(q[0] | q[1] | q[2] | q[3], 0);
	assert_int_equal(nans, 2);
}

/* ---- the worked example of the specification (1.5) -------------------- */

struct expected {
	int32_t num_rows, num_experts;
	int32_t source[9][3];
	int32_t counts[8];
	int64_t nums[2], prefix[2];
};

static const struct expected example[4] = {
	{4, 1, {{0, 0, 2}, {0, 1, 2}, {2, 0, 2}, {2, 1, 2}}, {2, 2, 4, 4}, {4},
		{4}},
	{4, 1, {{1, 0, 2}, {1, 1, 2}, {3, 0, 2}, {3, 1, 2}}, {0, 2, 2, 4}, {4},
		{4}},
	{7, 2,
		{{0, 0, 0}, {1, 0, 1}, {2, 1, 0}, {0, 0, 1}, {0, 1, 1},
			{1, 1, 0}, {3, 0, 0}},
		{1, 2, 3, 3, 5, 6, 6, 7}, {3, 4}, {3, 7}},
	{9, 2,
		{{0, 1, 0}, {1, 1, 1}, {2, 0, 0}, {3, 1, 1}, {1, 0, 0},
			{2, 0, 1}, {2, 1, 1}, {3, 0, 1}, {3, 1, 0}},
		{1, 2, 3, 4, 4, 5, 7, 9}, {4, 5}, {4, 9}},
};

static void check_example(const struct expected *expected,
	const struct reference_received *received, int32_t num_ranks)
{
	assert_int_equal(received->num_rows, expected->num_rows);
	assert_int_equal(received->num_experts, expected->num_experts);
	assert_memory_equal(received->source, expected->source,
		(size_t)expected->num_rows * 3 * sizeof(int32_t));
	assert_memory_equal(received->recv_counts, expected->counts,
		(size_t)(expected->num_experts * num_ranks) * sizeof(int32_t));
	assert_memory_equal(received->token_nums, expected->nums,
		(size_t)expected->num_experts * sizeof(int64_t));
	assert_memory_equal(received->token_prefix, expected->prefix,
		(size_t)expected->num_experts * sizeof(int64_t));
}

static void receive(const struct reference_job *job, int32_t tp, int32_t rank,
	struct reference_received *received)
{
	const struct reference_place place = {tp, rank};

	assert_true(reference_receive(
		job, place, reference_capacity(job, place), received));
}

static void worked_example_comes_out_as_printed(void **state)
{
	static const float x[8] = {0, 1, 10, 11, 20, 21, 30, 31};
	struct reference_received received;
	struct reference_input inputs[4];
	struct reference_job job;
	const int32_t *source;
	float value;

	(void)state;
	small_job_example(&job, inputs, x);
	for (int32_t r = 0; r < 4; r++) {
		receive(&job, 0, r, &received);
		check_example(&example[r], &received, 4);
		for (int64_t n = 0; n < received.num_rows; n++) {
			source = received.source + 3 * n;
			memcpy(&value, received.expand_x + 4 * n, 4);
			assert_true(
				value == (float)(10 * source[0] + source[1]));
		}
		reference_received_fini(&received);
	}
}

static void capacities_are_those_of_the_specification(void **state)
{
	static const float x[8] = {0};
	struct reference_input inputs[4];
	struct reference_job job;
	const struct reference_place shared = {0, 1}, moe = {0, 2};

	(void)state;
	small_job_example(&job, inputs, x);
	assert_int_equal(reference_capacity(&job, shared), 2 * 2);
	assert_int_equal(reference_capacity(&job, moe), 4 * 2 * 2);
	job.config.topk = 3;
	job.config.distinct_experts = true;
	job.config.expert_alignment = 8;
	job.config.elastic = true;
	assert_int_equal(reference_capacity(&job, shared), 2 * 4 + 7);
	assert_int_equal(reference_capacity(&job, moe), 4 * 2 * 2 + 2 * 7);
	job.num_tp = 2;
	assert_int_equal(reference_capacity(&job, moe), 2 * 4 * 2 * 2 + 2 * 7);
}

/* ---- layouts ---------------------------------------------------------- */

static const int all_kinds[] = {REFERENCE_REAL, REFERENCE_REAL, REFERENCE_REAL,
	REFERENCE_PADDING, REFERENCE_REAL, REFERENCE_REAL, REFERENCE_REAL,
	REFERENCE_REAL, REFERENCE_PADDING, REFERENCE_PADDING};

static void alignment_pads_each_expert_s_rows(void **state)
{
	static const float x[8] = {0};
	struct reference_received received;
	struct reference_input inputs[4];
	struct reference_job job;

	(void)state;
	small_job_example(&job, inputs, x);
	job.config.expert_alignment = 4;
	job.config.zero_tail = true;
	assert_true(reference_receive(
		&job, (struct reference_place){0, 2}, 10, &received));
	assert_int_equal(received.num_rows, 7);
	assert_int_equal(received.extent_rows, 8);
	assert_int_equal(received.num_places, 10);
	assert_int_equal(received.first_row[1], 4);
	assert_int_equal(received.padded_nums[0], 4);
	assert_int_equal(received.padded_prefix[1], 8);
	for (int n = 0; n < 10; n++)
		assert_int_equal(received.kind[n], all_kinds[n]);
	assert_int_equal(received.source[3 * 3], -1);
	assert_int_equal(received.recv_counts[7], 7);
	reference_received_fini(&received);
}

static void padded_experts_begin_at_multiples_of_their_rows(void **state)
{
	static const float x[8] = {0};
	struct reference_received received;
	struct reference_input inputs[4];
	struct reference_job job;

	(void)state;
	small_job_example(&job, inputs, x);
	job.config.layout = SHUNT_LAYOUT_PADDED;
	receive(&job, 0, 2, &received);
	assert_int_equal(received.first_row[1], 8);
	assert_int_equal(received.extent_rows, 16);
	assert_int_equal(received.kind[2], REFERENCE_REAL);
	assert_int_equal(received.kind[3], REFERENCE_LEFT);
	assert_int_equal(received.source[3 * 8 + 2], 1);
	reference_received_fini(&received);
}

/* ---- a table (3.2) ---------------------------------------------------- */

/* The example there: W = 4, rank 1 lost, 8 experts per rank. Each rank brings
 * a token to its own first expert and to the last of all. */
static void table_of_the_specification_moves_ranks_and_experts(void **state)
{
	static const int32_t table[12] = {
		1, 3, 0, 24, 0, -1, 1, 2, 0, 2, 3, -1};
	static const float x[4] = {0, 10, 20, 30};
	static const int64_t choices[4][2] = {
		{0, 23}, {99, 99}, {8, 23}, {16, 23}};
	struct reference_received received;
	struct reference_input inputs[4];
	int32_t expert_rank[32];
	struct reference_job job = {
		.config = {.max_tokens = 1,
			.hidden = 1,
			.topk = 2,
			.num_experts = 32,
			.dtype = SHUNT_DTYPE_F32,
			.expert_dtype = SHUNT_DTYPE_F32,
			.elastic = true},
		.num_ranks = 4,
		.expert_rank = expert_rank,
		.table = table,
		.inputs = inputs,
	};

	(void)state;
	reference_place_experts(&job.config, 4, expert_rank);
	for (int r = 0; r < 4; r++)
		inputs[r] = (struct reference_input){.num_tokens = 1,
			.x = x + r,
			.x_stride = 1,
			.ids = choices[r]};
	receive(&job, 0, 3, &received);
	assert_int_equal(received.num_ranks, 3);
	assert_int_equal(received.num_experts, 8);
	assert_int_equal(received.num_rows, 4);
	/* Expert 16 now is the first of rank 3, number 24 of old. */
	assert_int_equal(received.token_nums[0], 1);
	assert_int_equal(received.token_nums[7], 3);
	assert_int_equal(received.experts[0], 24);
	assert_int_equal(received.experts[3], 31);
	assert_int_equal(received.source[0], 2);
	assert_int_equal(received.source[3 * 2], 1);
	assert_int_equal(received.recv_counts[8 * 3 - 1], 4);
	reference_received_fini(&received);
}

/* ---- TP --------------------------------------------------------------- */

static void tp_ranks_see_own_rows_first_or_all_in_order(void **state)
{
	static const float x[3] = {1, 2, 3};
	static const float own_first[3] = {2, 3, 1};
	struct reference_received received;
	struct reference_input inputs[2];
	struct reference_job job;

	(void)state;
	small_job_pair(&job, inputs, x);
	receive(&job, 1, 0, &received);
	assert_memory_equal(received.expand_x, own_first, 12);
	assert_int_equal(received.token_nums[0], 3);
	assert_int_equal(received.recv_counts[0], 2);
	assert_int_equal(received.recv_counts[1], 1);
	assert_int_equal(received.tp_counts[0], 1);
	assert_int_equal(received.tp_counts[1], 2);
	reference_received_fini(&received);
	job.config.tp_rank_order = true;
	receive(&job, 1, 0, &received);
	assert_memory_equal(received.expand_x, x, 12);
	assert_int_equal(received.recv_counts[0], 1);
	assert_int_equal(received.recv_counts[1], 2);
	assert_int_equal(received.tp_counts[1], 2);
	reference_received_fini(&received);
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
		cmocka_unit_test(capacities_are_those_of_the_specification),
		cmocka_unit_test(alignment_pads_each_expert_s_rows),
		cmocka_unit_test(
			padded_experts_begin_at_multiples_of_their_rows),
		cmocka_unit_test(
			table_of_the_specification_moves_ranks_and_experts),
		cmocka_unit_test(tp_ranks_see_own_rows_first_or_all_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
