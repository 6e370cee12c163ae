/*
 * Rows in a communication quantization, there and back: what every
 * instruction set of this machine makes of a row is worth what the reference
 * says, and the same bytes from all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "combine/acc.h"
#include "reference/convert.h"
#include "reference/quantize.h"
#include "support/levels.h"
#include "support/fence.h"
#include "support/operand.h"

#define MAX_HIDDEN 2881
#define MAX_SCALES ((MAX_HIDDEN + 7) / 8)
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static const int64_t shapes[] = {1, 3, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33,
	63, 64, 65, 127, 128, 129, 143, 144, 145, 255, 256, 257, 2881};
static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

struct bench {
	struct levels levels;
	struct operand row;
	struct moat q, scales;
	uint64_t random;
	float want[MAX_HIDDEN];
	uint8_t first_q[MAX_HIDDEN]; /* of the first level */
	uint8_t first_scales[MAX_SCALES * sizeof(float)];
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	levels_init(&bench->levels);
	operand_init(&bench->row, MAX_HIDDEN);
	moat_init(&bench->q, MAX_HIDDEN);
	moat_init(&bench->scales, MAX_SCALES * sizeof(float));
	bench->random = 88172645463325252;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	operand_fini(&bench->row);
	moat_fini(&bench->q);
	moat_fini(&bench->scales);
	free(bench);
	return 0;
}

/* What a level makes of the row is in bench->q and bench->scales, and in acc
 * what that is worth. */
static void travel(struct bench *bench, const struct acc_kernels *kernels,
	enum shunt_combine_quant quant, enum shunt_dtype dtype, int64_t hidden,
	struct quant_tally *tally, float *acc)
{
	int64_t group = quant == SHUNT_COMBINE_QUANT_INT8_8 ? 8 : 128;
	size_t width = group == 8 ? convert_bytes(dtype) : sizeof(float);
	size_t num_scales = (size_t)((hidden + group - 1) / group);
	void *q = moat_open(
		&bench->q, (size_t)hidden, operand_random(&bench->random) & 63);
	void *scales = moat_open(&bench->scales, num_scales * width,
		operand_random(&bench->random) & 63);

	(group == 8 ? kernels->quantize_int8_8
		    : kernels->quantize_int8_128)[dtype](
		q, scales, bench->row.row, hidden, tally);
	moat_check(&bench->q);
	moat_check(&bench->scales);
	memset(acc, 0, (size_t)hidden * sizeof(float));
	kernels->add_quantized[quant][dtype](acc, q, scales, NULL, hidden);
	if (kernels == bench->levels.tables[0]) {
		memcpy(bench->first_q, q, (size_t)hidden);
		memcpy(bench->first_scales, scales, num_scales * width);
	}
	assert_memory_equal(q, bench->first_q, (size_t)hidden);
	assert_memory_equal(scales, bench->first_scales, num_scales * width);
}

static void check_travel(struct bench *bench, enum shunt_combine_quant quant,
	enum shunt_dtype dtype, int64_t hidden)
{
	static float acc[MAX_HIDDEN];
	int64_t nan_elements = 0, inf_elements = 0;

	reference_travel_row(quant, dtype, bench->row.row, hidden, bench->want,
		&nan_elements, &inf_elements);
	for (int i = 0; i < bench->levels.num; i++) {
		struct quant_tally tally = {0};

		travel(bench, bench->levels.tables[i], quant, dtype, hidden,
			&tally, acc);
		assert_int_equal(tally.nan_elements, nan_elements);
		assert_int_equal(tally.inf_elements, inf_elements);
		for (int64_t h = 0; h < hidden; h++)
			if (acc[h] != bench->want[h])
				fail_msg("%s: quant %d, type %d, H %lld: "
					 "element %lld is %a, not %a",
					bench->levels.tables[i]->name,
					(int)quant, (int)dtype,
					(long long)hidden, (long long)h,
					(double)acc[h], (double)bench->want[h]);
	}
}

static void check_both(
	struct bench *bench, enum shunt_dtype dtype, int64_t hidden)
{
	check_travel(bench, SHUNT_COMBINE_QUANT_INT8_8, dtype, hidden);
	check_travel(bench, SHUNT_COMBINE_QUANT_INT8_128, dtype, hidden);
}

static void rows_of_every_kind_and_length_travel(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < 3 * OPERAND_NUM_KINDS; j++) {
			operand_draw(&bench->row, dtypes[j % 3], j / 3,
				shapes[i], &bench->random);
			check_both(bench, dtypes[j % 3], shapes[i]);
		}
}

/* At each place, so in each lane, in each group, and in a tail. */
static void a_special_element_touches_nothing_but_itself(void **state)
{
	static const float specials[] = {NAN, INFINITY, -INFINITY, 1000.0f};
	struct bench *bench = *state;

	for (int64_t at = 0; at < 140; at++)
		for (int i = 0; i < 4 * 3; i++) {
			for (int64_t h = 0; h < 140; h++)
				bench->row.values[h] = operand_value(
					OPERAND_PLAIN, &bench->random);
			bench->row.values[at] = specials[i % 4];
			operand_put(&bench->row, dtypes[i / 4], 140, 0);
			check_both(bench, dtypes[i / 4], 140);
		}
}

/* Around the least scale that is not 0, where x / sc leaves the range. */
static void scales_at_the_end_of_the_range_are_held(void **state)
{
	struct bench *bench = *state;

	for (uint32_t amax = 0; amax < 600; amax++) {
		for (uint32_t h = 0; h < 17; h++)
			bench->row.values[h] = operand_from_bits(
				(h & 1) << 31 | amax * h / 16);
		bench->row.values[3] = INFINITY;
		operand_put(&bench->row, SHUNT_DTYPE_F32, 17, 0);
		check_both(bench, SHUNT_DTYPE_F32, 17);
	}
}

static void ties_go_to_even(void **state)
{
	struct bench *bench = *state;

	for (int h = 0; h < 254; h++)
		bench->row.values[h] = (float)(h - 127) + 0.5f;
	for (int h = 0; h < 254; h += 8)
		bench->row.values[h] = 127.0f;
	operand_put(&bench->row, SHUNT_DTYPE_F32, 254, 0);
	check_both(bench, SHUNT_DTYPE_F32, 254);
	assert_int_equal((int8_t)bench->first_q[1], -126);
	assert_int_equal((int8_t)bench->first_q[2], -124);
	assert_int_equal((int8_t)bench->first_q[3], -124);
}

static void zeros_travel_as_zeros(void **state)
{
	struct bench *bench = *state;

	for (int h = 0; h < 40; h++)
		bench->row.values[h] = -0.0f;
	operand_put(&bench->row, SHUNT_DTYPE_BF16, 40, 0);
	check_both(bench, SHUNT_DTYPE_BF16, 40);
	for (int h = 0; h < 40; h++)
		assert_int_equal(bench->first_q[h], 0);
	assert_int_equal(bench->first_scales[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_every_kind_and_length_travel),
		cmocka_unit_test(a_special_element_touches_nothing_but_itself),
		cmocka_unit_test(scales_at_the_end_of_the_range_are_held),
		cmocka_unit_test(ties_go_to_even),
		cmocka_unit_test(zeros_travel_as_zeros),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
