/*
 * Terms added to an accumulator one by one: plain rows and rows in a
 * communication quantization, sums over TP ranks, and the rounding at the end.
 * Every instruction set of this machine against plain code, to the bit.
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

#include "combine/acc.h"
#include "combine/sum.h"
#include "reference/codes.h"
#include "reference/convert.h"
#include "support/levels.h"
#include "support/fence.h"
#include "support/operand.h"

#define MAX_HIDDEN 2880
#define MAX_ROWS   6
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static const int64_t shapes[] = {1, 3, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33,
	63, 64, 65, 127, 128, 129, 255, 256, 257, 353, 2880};
static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

/* What every test needs; acc is the plain accumulator, got the kernel's. */
struct bench {
	struct levels levels;
	struct operand rows[MAX_ROWS];
	struct operand scales;
	struct moat out;
	uint64_t random;
	float acc[MAX_HIDDEN];
	float first[MAX_HIDDEN];
	uint8_t want[MAX_HIDDEN * sizeof(float)];
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	levels_init(&bench->levels);
	for (int i = 0; i < MAX_ROWS; i++)
		operand_init(&bench->rows[i], MAX_HIDDEN);
	operand_init(&bench->scales, MAX_HIDDEN);
	moat_init(&bench->out, MAX_HIDDEN * sizeof(float));
	bench->random = 88172645463325252;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	for (int i = 0; i < MAX_ROWS; i++)
		operand_fini(&bench->rows[i]);
	operand_fini(&bench->scales);
	moat_fini(&bench->out);
	free(bench);
	return 0;
}

/* Equal, or both NaN: accumulators may hold any. */
static bool same(float a, float b)
{
	return operand_to_bits(a) == operand_to_bits(b) ||
	       (isnan(a) && isnan(b));
}

static void check_acc(const struct bench *bench, const float *got,
	const char *level, const char *what, int64_t hidden)
{
	moat_check(&bench->out);
	for (int64_t h = 0; h < hidden; h++)
		if (!same(got[h], bench->acc[h]))
			fail_msg("%s, %s, H %lld: element %lld is %a, not %a",
				level, what, (long long)hidden, (long long)h,
				(double)got[h], (double)bench->acc[h]);
}

static void check_out(const struct bench *bench, const uint8_t *got,
	const char *level, const char *what, size_t bytes)
{
	moat_check(&bench->out);
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != bench->want[i])
			fail_msg("%s, %s: byte %zu of %zu differs", level, what,
				i, bytes);
}

static void draw_acc(
	struct bench *bench, enum operand_kind kind, int64_t hidden)
{
	for (int64_t h = 0; h < hidden; h++)
		bench->first[h] = operand_value(kind, &bench->random);
}

/* An accumulator for a kernel, as it is before the term. */
static float *open_acc(struct bench *bench, int64_t hidden)
{
	size_t bytes = (size_t)hidden * sizeof(float);
	float *acc = moat_open(
		&bench->out, bytes, operand_random(&bench->random) & 60);

	return memcpy(acc, bench->first, bytes);
}

/* ---- plain rows --------------------------------------------------------- */

static void check_row(struct bench *bench, enum shunt_dtype dtype,
	const float *weight, int64_t hidden)
{
	const struct operand *row = &bench->rows[0];

	for (int64_t h = 0; h < hidden; h++)
		bench->acc[h] = operand_plus(bench->first[h],
			weight ? operand_times(*weight, row->values[h])
			       : row->values[h]);
	for (int i = 0; i < bench->levels.num; i++) {
		float *acc = open_acc(bench, hidden);

		bench->levels.tables[i]->add_row[dtype](
			acc, row->row, weight, hidden);
		check_acc(bench, acc, bench->levels.tables[i]->name, "add_row",
			hidden);
	}
}

static void a_row_is_added_with_and_without_a_weight(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < 3 * OPERAND_NUM_KINDS; j++) {
			enum operand_kind kind = j / 3;
			float weight = operand_value(kind, &bench->random);

			draw_acc(bench, kind, shapes[i]);
			operand_draw(&bench->rows[0], dtypes[j % 3], kind,
				shapes[i], &bench->random);
			check_row(bench, dtypes[j % 3], &weight, shapes[i]);
			check_row(bench, dtypes[j % 3], NULL, shapes[i]);
		}
}

/* The fast path and the accumulator may be taken for the same token. */
static void rows_one_by_one_give_the_bits_of_all_at_once(void **state)
{
	struct bench *bench = *state;
	const void *rows[MAX_ROWS];
	float weights[MAX_ROWS], acc[353];
	size_t bytes;

	for (int j = 0; j < 9 * OPERAND_NUM_KINDS; j++) {
		enum shunt_dtype dtype = dtypes[j % 3], to = dtypes[j / 3 % 3];

		for (int i = 0; i < MAX_ROWS; i++) {
			operand_draw(&bench->rows[i], dtype, j / 9, 353,
				&bench->random);
			weights[i] = i == 3 ? 1.0f
					    : operand_value(OPERAND_PLAIN,
						      &bench->random);
			rows[i] = bench->rows[i].row;
		}
		sum_kernels()->rows[dtype][to](bench->want, rows, weights,
			MAX_ROWS, 353, (struct sum_next){0});
		bytes = 353 * convert_bytes(to);
		for (int level = 0; level < bench->levels.num; level++) {
			const struct acc_kernels *kernels =
				bench->levels.tables[level];
			uint8_t *out = moat_open(&bench->out, bytes, 1);

			memset(acc, 0, sizeof(acc));
			for (int i = 0; i < MAX_ROWS; i++)
				kernels->add_row[dtype](acc, rows[i],
					i == 3 ? NULL : &weights[i], 353);
			kernels->store[to](out, acc, 353);
			check_out(bench, out, kernels->name, "store", bytes);
		}
	}
}

static void an_accumulator_is_rounded_as_ever(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < 3 * OPERAND_NUM_KINDS; j++) {
			enum shunt_dtype dtype = dtypes[j % 3];
			size_t bytes = (size_t)shapes[i] * convert_bytes(dtype);

			draw_acc(bench, j / 3, shapes[i]);
			for (int64_t h = 0; h < shapes[i]; h++)
				bench->acc[h] = isnan(bench->first[h])
							? NAN
							: bench->first[h];
			convert_store(
				dtype, bench->acc, shapes[i], bench->want);
			for (int level = 0; level < bench->levels.num;
				level++) {
				uint8_t *out = moat_open(&bench->out, bytes,
					operand_random(&bench->random) & 63);

				bench->levels.tables[level]->store[dtype](
					out, bench->first, shapes[i]);
				check_out(bench, out,
					bench->levels.tables[level]->name,
					"store", bytes);
			}
		}
}

/* ---- TP ----------------------------------------------------------------- */

static void check_ranks(struct bench *bench, enum shunt_dtype dtype,
	int64_t num_rows, int64_t hidden)
{
	size_t bytes = (size_t)hidden * convert_bytes(dtype);
	const void *rows[MAX_ROWS];

	for (int64_t h = 0; h < hidden; h++) {
		bench->acc[h] = bench->rows[0].values[h];
		for (int64_t i = 1; i < num_rows; i++)
			bench->acc[h] = operand_plus(
				bench->acc[h], bench->rows[i].values[h]);
		if (isnan(bench->acc[h]))
			bench->acc[h] = NAN;
	}
	convert_store(dtype, bench->acc, hidden, bench->want);
	for (int64_t i = 0; i < num_rows; i++)
		rows[i] = bench->rows[i].row;
	for (int i = 0; i < bench->levels.num; i++) {
		uint8_t *out = moat_open(&bench->out, bytes,
			operand_random(&bench->random) & 63);

		bench->levels.tables[i]->sum_ranks[dtype](
			out, rows, num_rows, hidden);
		check_out(bench, out, bench->levels.tables[i]->name,
			"sum_ranks", bytes);
	}
}

static void rows_of_tp_ranks_are_summed_from_the_first_one_on(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int j = 0; j < 3 * OPERAND_NUM_KINDS; j++) {
			int64_t num_rows = 1 + j % MAX_ROWS;

			for (int64_t row = 0; row < num_rows; row++)
				operand_draw(&bench->rows[row], dtypes[j % 3],
					j / 3, shapes[i], &bench->random);
			check_ranks(bench, dtypes[j % 3], num_rows, shapes[i]);
		}
}

/* A sum from +0 would lose it. */
static void negative_zeros_of_all_tp_ranks_stay_negative(void **state)
{
	struct bench *bench = *state;
	const float zero = -0.0f;
	const void *rows[2] = {&zero, &zero};

	for (int i = 0; i < bench->levels.num; i++) {
		float out = 1.0f;

		bench->levels.tables[i]->sum_ranks[SHUNT_DTYPE_F32](
			&out, rows, 2, 1);
		assert_int_equal(operand_to_bits(out), 0x80000000);
	}
}

/* ---- communication quantization ----------------------------------------- */

/* What a quantization makes rows of. */
struct form {
	enum shunt_combine_quant quant;
	const char *name;
	enum shunt_dtype dtype;
	int64_t group;
};

static const struct form forms[] = {
	{SHUNT_COMBINE_QUANT_INT8_8, "int8_8", SHUNT_DTYPE_I8, 8},
	{SHUNT_COMBINE_QUANT_INT8_128, "int8_128", SHUNT_DTYPE_I8, 128},
	{SHUNT_COMBINE_QUANT_E4M3FN_128, "e4m3fn_128", SHUNT_DTYPE_E4M3FN, 128},
	{SHUNT_COMBINE_QUANT_MXFP8, "mxfp8", SHUNT_DTYPE_E4M3FN, 32},
};

/* One quantized row: codes and scales, and what they stand for. */
struct quantized {
	const struct form *form;
	enum shunt_dtype dtype; /* of the scales of INT8_8 */
	const void *codes;
	const void *scales;
	float values[MAX_HIDDEN];
	float scale_values[MAX_HIDDEN];
};

static void draw_codes(
	struct bench *bench, struct quantized *row, int64_t hidden)
{
	static uint8_t codes[MAX_HIDDEN];

	for (int64_t h = 0; h < hidden; h++) {
		codes[h] = (uint8_t)operand_random(&bench->random);
		row->values[h] = codes_decode(row->form->dtype, codes[h]);
	}
	row->codes = fence_put(&bench->rows[0].fence, codes, (size_t)hidden, 0);
}

static void draw_scales(struct bench *bench, struct quantized *row,
	enum operand_kind kind, int64_t num_scales)
{
	bool is_mx = row->form->quant == SHUNT_COMBINE_QUANT_MXFP8;
	enum shunt_dtype dtype =
		row->form->group == 8 ? row->dtype : SHUNT_DTYPE_F32;
	static uint8_t codes[MAX_HIDDEN];

	if (is_mx) {
		for (int64_t i = 0; i < num_scales; i++) {
			codes[i] =
				i % 5 ? (uint8_t)operand_random(&bench->random)
				      : (uint8_t)(i % 3 - 1); /* 255, 0, 1 */
			row->scale_values[i] =
				codes_decode(SHUNT_DTYPE_E8M0, codes[i]);
		}
		row->scales = fence_put(
			&bench->scales.fence, codes, (size_t)num_scales, 0);
		return;
	}
	operand_draw(&bench->scales, dtype, kind, num_scales, &bench->random);
	memcpy(row->scale_values, bench->scales.values,
		(size_t)num_scales * sizeof(float));
	row->scales = bench->scales.row;
}

static void check_quantized(struct bench *bench, const struct quantized *row,
	const float *weight, int64_t hidden)
{
	for (int64_t h = 0; h < hidden; h++) {
		float value = operand_times(row->values[h],
			row->scale_values[h / row->form->group]);

		bench->acc[h] = operand_plus(bench->first[h],
			weight ? operand_times(*weight, value) : value);
	}
	for (int i = 0; i < bench->levels.num; i++) {
		const struct acc_kernels *kernels = bench->levels.tables[i];
		float *acc = open_acc(bench, hidden);

		kernels->add_quantized[row->form->quant][row->dtype](
			acc, row->codes, row->scales, weight, hidden);
		check_acc(bench, acc, kernels->name, row->form->name, hidden);
	}
}

static void a_quantized_row_is_worth_its_codes_times_its_scales(void **state)
{
	struct bench *bench = *state;
	static struct quantized row;

	for (size_t i = 0; i < NUM_SHAPES * 4; i++)
		for (int j = 0; j < 3 * OPERAND_NUM_KINDS; j++) {
			int64_t hidden = shapes[i / 4];
			float weight =
				operand_value(OPERAND_PLAIN, &bench->random);

			row.form = &forms[i % 4];
			row.dtype = dtypes[j % 3];
			draw_acc(bench, OPERAND_PLAIN, hidden);
			draw_codes(bench, &row, hidden);
			draw_scales(bench, &row, j / 3,
				(hidden + row.form->group - 1) /
					row.form->group);
			check_quantized(bench, &row, &weight, hidden);
			check_quantized(bench, &row, NULL, hidden);
		}
}

static void every_code_is_decoded(void **state)
{
	struct bench *bench = *state;
	static struct quantized row;
	uint8_t codes[256];

	for (int i = 0; i < 256; i++)
		codes[i] = (uint8_t)i;
	for (int f = 0; f < 4; f++) {
		row.form = &forms[f];
		row.dtype = SHUNT_DTYPE_BF16;
		draw_acc(bench, OPERAND_ZEROS, 256);
		draw_scales(bench, &row, OPERAND_PLAIN, 32);
		for (int i = 0; i < 256; i++)
			row.values[i] = codes_decode(row.form->dtype, codes[i]);
		row.codes = fence_put(&bench->rows[0].fence, codes, 256, 0);
		check_quantized(bench, &row, NULL, 256);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_is_added_with_and_without_a_weight),
		cmocka_unit_test(rows_one_by_one_give_the_bits_of_all_at_once),
		cmocka_unit_test(an_accumulator_is_rounded_as_ever),
		cmocka_unit_test(
			rows_of_tp_ranks_are_summed_from_the_first_one_on),
		cmocka_unit_test(negative_zeros_of_all_tp_ranks_stay_negative),
		cmocka_unit_test(
			a_quantized_row_is_worth_its_codes_times_its_scales),
		cmocka_unit_test(every_code_is_decoded),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
