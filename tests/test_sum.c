/*
 * The weighted sum: every instruction set of this machine against plain code,
 * to the bit, over rows that end where memory ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "combine/sum.h"
#include "reference/convert.h"
#include "support/fence.h"
#include "support/operand.h"

#define MAX_HIDDEN 7169
#define MAX_ROWS   40
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define NUM_PAIRS  9 /* of a row type and an output type */

static const int64_t shapes[] = {1, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127,
	128, 129, 255, 256, 257, 1536, 2880, 7168, 7169};
static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

/* What every test needs: kernels by level, guarded memory, one sum's input. */
struct bench {
	const struct sum_kernels *levels[SIMD_NUM_LEVELS];
	int num_levels;
	struct operand operands[MAX_ROWS];
	struct moat out;
	uint64_t random;
	enum shunt_dtype row_dtype;
	enum shunt_dtype out_dtype;
	int64_t hidden;
	int64_t num_rows;
	const void *rows[MAX_ROWS];
	float weights[MAX_ROWS];
	uint8_t want[MAX_HIDDEN * sizeof(float)];
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	for (int level = 0; level < SIMD_NUM_LEVELS; level++) {
		const struct sum_kernels *kernels =
			sum_kernels_at((enum simd_level)level);

		if (kernels)
			bench->levels[bench->num_levels++] = kernels;
	}
	for (int i = 0; i < MAX_ROWS; i++)
		operand_init(&bench->operands[i], MAX_HIDDEN);
	moat_init(&bench->out, MAX_HIDDEN * sizeof(float));
	bench->random = 88172645463325252;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	for (int i = 0; i < MAX_ROWS; i++)
		operand_fini(&bench->operands[i]);
	moat_fini(&bench->out);
	free(bench);
	return 0;
}

/* ---- the plain sum ------------------------------------------------------ */

static void choose_types(struct bench *bench, int pair)
{
	bench->row_dtype = dtypes[pair / 3];
	bench->out_dtype = dtypes[pair % 3];
}

/* volatile: each operation is rounded by itself, whatever the compiler. */
static float plain_sum(const struct bench *bench, bool weighted, int64_t h)
{
	volatile float acc = 0.0f;

	for (int64_t i = 0; i < bench->num_rows; i++) {
		volatile float term = bench->operands[i].values[h];

		if (weighted)
			term = bench->weights[i] * term;
		acc = acc + term;
	}
	return isnan(acc) ? operand_from_bits(0x7fc00000) : acc;
}

static void make_want(struct bench *bench, bool weighted)
{
	static float sums[MAX_HIDDEN];

	for (int64_t h = 0; h < bench->hidden; h++)
		sums[h] = plain_sum(bench, weighted, h);
	convert_store(bench->out_dtype, sums, bench->hidden, bench->want);
}

static void check_level(
	struct bench *bench, const struct sum_kernels *kernels, bool weighted)
{
	size_t width = convert_bytes(bench->out_dtype);
	size_t bytes = (size_t)bench->hidden * width;
	uint8_t *out = moat_open(
		&bench->out, bytes, operand_random(&bench->random) & 63);

	kernels->rows[bench->row_dtype][bench->out_dtype](out, bench->rows,
		weighted ? bench->weights : NULL, bench->num_rows,
		bench->hidden, (struct sum_next){bench->rows, bench->num_rows});
	moat_check(&bench->out);
	for (size_t i = 0; i < bytes; i++)
		if (out[i] != bench->want[i])
			fail_msg("%s: types %d to %d, H %lld, %lld rows, "
				 "weights %d: element %zu differs",
				kernels->name, (int)bench->row_dtype,
				(int)bench->out_dtype, (long long)bench->hidden,
				(long long)bench->num_rows, weighted,
				i / width);
}

static void check_sum(struct bench *bench, bool weighted)
{
	make_want(bench, weighted);
	for (int level = 0; level < bench->num_levels; level++)
		check_level(bench, bench->levels[level], weighted);
}

static void check_both(struct bench *bench)
{
	check_sum(bench, true);
	check_sum(bench, false);
}

/* ---- sums --------------------------------------------------------------- */

static void make_rows(
	struct bench *bench, enum operand_kind kind, int64_t num_rows)
{
	bench->num_rows = num_rows;
	for (int64_t i = 0; i < num_rows; i++) {
		operand_draw(&bench->operands[i], bench->row_dtype, kind,
			bench->hidden, &bench->random);
		bench->rows[i] = bench->operands[i].row;
		bench->weights[i] =
			operand_value(OPERAND_PLAIN, &bench->random);
	}
}

static void sums_of_every_kind_and_length_have_the_plain_bits(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < NUM_PAIRS * OPERAND_NUM_KINDS; j++) {
			bench->hidden = shapes[i];
			choose_types(bench, j / OPERAND_NUM_KINDS);
			make_rows(bench,
				(enum operand_kind)(j % OPERAND_NUM_KINDS), 8);
			check_both(bench);
		}
}

static void any_number_of_rows_is_summed(void **state)
{
	struct bench *bench = *state;

	bench->hidden = 353; /* blocks, vectors and a tail of every level */
	for (int64_t num_rows = 0; num_rows <= MAX_ROWS; num_rows++)
		for (int pair = 0; pair < NUM_PAIRS; pair++) {
			choose_types(bench, pair);
			make_rows(bench, OPERAND_PLAIN, num_rows);
			check_both(bench);
		}
}

static void weights_may_be_anything(void **state)
{
	static const float hard[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-130f, 3e38f,
		INFINITY, NAN, -1.0f};
	struct bench *bench = *state;

	bench->hidden = 353;
	for (int i = 0; i < NUM_PAIRS * OPERAND_NUM_KINDS; i++) {
		choose_types(bench, i / OPERAND_NUM_KINDS);
		make_rows(bench, (enum operand_kind)(i % OPERAND_NUM_KINDS), 1);
		for (int j = 0; j < 8; j++) {
			bench->weights[0] = hard[j];
			check_sum(bench, true);
		}
	}
}

/* One row without weights is a conversion, and +0 + -0 is +0. */
static void every_16_bit_code_passes_through(void **state)
{
	struct bench *bench = *state;

	bench->hidden = 4096;
	for (int pair = 3; pair < NUM_PAIRS; pair++)
		for (uint32_t first = 0; first < 65536; first += 4096) {
			uint16_t codes[4096];

			choose_types(bench, pair);
			for (uint32_t i = 0; i < 4096; i++)
				codes[i] = (uint16_t)(first + i);
			convert_load(bench->row_dtype, codes, 4096,
				bench->operands[0].values);
			bench->num_rows = 1;
			bench->rows[0] = fence_put(&bench->operands[0].fence,
				codes, sizeof(codes), 0);
			check_sum(bench, false);
		}
}

/* Every upper half of f32 with lower halves that round down, tie and round
 * up, to every output type. */
static void every_rounding_is_to_nearest_even(void **state)
{
	static const uint32_t lower[] = {0, 1, 0x0fff, 0x1000, 0x1001, 0x2fff,
		0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xffff};
	struct bench *bench = *state;

	bench->hidden = 4096;
	bench->num_rows = 1;
	for (int out = 0; out < 3; out++)
		for (uint32_t i = 0; i < 16 * 12; i++) {
			choose_types(bench, out);
			for (uint32_t h = 0; h < 4096; h++)
				bench->operands[0].values[h] =
					operand_from_bits(
						((i / 12 * 4096 + h) << 16) |
						lower[i % 12]);
			operand_put(&bench->operands[0], bench->row_dtype,
				bench->hidden, 0);
			bench->rows[0] = bench->operands[0].row;
			check_sum(bench, false);
		}
}

/* ---- by hand ------------------------------------------------------------ */

/* One element of out, at every level, from up to three f32 rows. */
static void check_bits(struct bench *bench, enum shunt_dtype out_dtype,
	const float *values, const float *weights, int64_t num_rows,
	uint32_t want)
{
	const void *rows[3] = {&values[0], &values[1], &values[2]};

	for (int level = 0; level < bench->num_levels; level++) {
		uint32_t out = 0;

		bench->levels[level]->rows[SHUNT_DTYPE_F32][out_dtype](
			&out, rows, weights, num_rows, 1, (struct sum_next){0});
		assert_int_equal(out, want);
	}
}

static void rows_are_added_in_order(void **state)
{
	const float up[3] = {1.0f, 0x1p30f, -0x1p30f};
	const float down[3] = {0x1p30f, -0x1p30f, 1.0f};

	check_bits(*state, SHUNT_DTYPE_F32, up, NULL, 3, 0);
	check_bits(*state, SHUNT_DTYPE_F32, down, NULL, 3, 0x3f800000);
}

/* (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24, lost when the product is rounded; a
 * fused operation would keep it. */
static void products_are_rounded_before_they_are_added(void **state)
{
	const float values[2] = {-0x1.004p0f, 0x1.001p0f};
	const float weights[2] = {0x1.ffcp-1f, 0x1.001p0f};
	volatile float first = weights[0] * values[0];
	volatile float second = weights[1] * values[1];
	float want = first + second, fused = fmaf(weights[1], values[1], first);
	uint32_t bits;

	assert_true(want != fused);
	memcpy(&bits, &want, sizeof(bits));
	check_bits(*state, SHUNT_DTYPE_F32, values, weights, 2, bits);
}

static void a_nan_is_written_the_same_whatever_its_origin(void **state)
{
	const float origins[][3] = {
		{operand_from_bits(0xffc12345), 1.0f, 1.0f},
		{1.0f, operand_from_bits(0x7f800001),
			operand_from_bits(0xffffffff)},
		{INFINITY, -INFINITY, 1.0f},
	};

	for (int i = 0; i < 3; i++) {
		check_bits(*state, SHUNT_DTYPE_F32, origins[i], NULL, 3,
			0x7fc00000);
		check_bits(
			*state, SHUNT_DTYPE_F16, origins[i], NULL, 3, 0x7e00);
		check_bits(
			*state, SHUNT_DTYPE_BF16, origins[i], NULL, 3, 0x7fc0);
	}
}

static void results_too_large_become_infinity(void **state)
{
	const float under[3] = {65519.0f, 0.0f, 0.0f};
	const float over[3] = {65519.0f, 1.0f, 0.0f};
	const float bf16[3] = {-0x1.fep127f, -0x1p119f, 0.0f};

	check_bits(*state, SHUNT_DTYPE_F16, under, NULL, 3, 0x7bff);
	check_bits(*state, SHUNT_DTYPE_F16, over, NULL, 3, 0x7c00);
	check_bits(*state, SHUNT_DTYPE_BF16, bf16, NULL, 3, 0xff80);
}

static void denormal_results_are_kept(void **state)
{
	const float least[3] = {0x1p-149f, 0x1p-133f, -0x1p-149f};
	const float f16[3] = {0x1p-25f, 0x1p-24f, 0.0f};
	const float tie[3] = {-0x1p-25f, -0.0f, 0.0f};

	check_bits(*state, SHUNT_DTYPE_F32, least, NULL, 1, 1);
	check_bits(*state, SHUNT_DTYPE_BF16, least, NULL, 3, 1);
	check_bits(*state, SHUNT_DTYPE_F16, f16, NULL, 3, 2);
	check_bits(*state, SHUNT_DTYPE_F16, tie, NULL, 3, 0x8000);
}

static void no_rows_and_negative_zeros_give_positive_zero(void **state)
{
	const float zeros[3] = {-0.0f, -0.0f, -0.0f};

	for (int type = 0; type < 3; type++) {
		check_bits(*state, dtypes[type], zeros, NULL, 0, 0);
		check_bits(*state, dtypes[type], zeros, NULL, 3, 0);
	}
}

static void a_row_may_come_twice(void **state)
{
	struct bench *bench = *state;
	const float value = 1.5f;
	const void *rows[3] = {&value, &value, &value};
	float out;

	for (int level = 0; level < bench->num_levels; level++) {
		bench->levels[level]->rows[SHUNT_DTYPE_F32][SHUNT_DTYPE_F32](
			&out, rows, NULL, 3, 1, (struct sum_next){0});
		assert_true(out == 4.5f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			sums_of_every_kind_and_length_have_the_plain_bits),
		cmocka_unit_test(any_number_of_rows_is_summed),
		cmocka_unit_test(weights_may_be_anything),
		cmocka_unit_test(every_16_bit_code_passes_through),
		cmocka_unit_test(every_rounding_is_to_nearest_even),
		cmocka_unit_test(rows_are_added_in_order),
		cmocka_unit_test(products_are_rounded_before_they_are_added),
		cmocka_unit_test(a_nan_is_written_the_same_whatever_its_origin),
		cmocka_unit_test(results_too_large_become_infinity),
		cmocka_unit_test(denormal_results_are_kept),
		cmocka_unit_test(no_rows_and_negative_zeros_give_positive_zero),
		cmocka_unit_test(a_row_may_come_twice),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
