/*
 * The row kernels of all modes, there and back: every instruction set of this
 * machine against the reference, to the bit, over inputs that end where memory
 * ends and outputs between canaries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/kernels.h"
#include "reference/convert.h"
#include "reference/quantize.h"
#include "support/fence.h"
#include "support/operand.h"

#define MAX_HIDDEN 7169
#define MAX_SCALES (MAX_HIDDEN / 16 + 1)
#define NUM_MODES  (sizeof(modes) / sizeof(modes[0]))

static const struct mode {
	enum shunt_quant quant;
	enum shunt_scale_form form;
	float max; /* FMAX */
} modes[] = {
	{SHUNT_QUANT_INT8, SHUNT_SCALE_F32, 127},
	{SHUNT_QUANT_E4M3FN, SHUNT_SCALE_F32, 448},
	{SHUNT_QUANT_E5M2, SHUNT_SCALE_F32, 57344},
	{SHUNT_QUANT_INT8_GROUP, SHUNT_SCALE_F32, 127},
	{SHUNT_QUANT_INT8_GROUP, SHUNT_SCALE_POW2, 127},
	{SHUNT_QUANT_INT8_GROUP, SHUNT_SCALE_E8M0, 127},
	{SHUNT_QUANT_E4M3FN_GROUP, SHUNT_SCALE_F32, 448},
	{SHUNT_QUANT_E4M3FN_GROUP, SHUNT_SCALE_POW2, 448},
	{SHUNT_QUANT_E4M3FN_GROUP, SHUNT_SCALE_E8M0, 448},
	{SHUNT_QUANT_E5M2_GROUP, SHUNT_SCALE_F32, 57344},
	{SHUNT_QUANT_E5M2_GROUP, SHUNT_SCALE_POW2, 57344},
	{SHUNT_QUANT_E5M2_GROUP, SHUNT_SCALE_E8M0, 57344},
	{SHUNT_QUANT_INT8_STATIC, SHUNT_SCALE_F32, 127},
	{SHUNT_QUANT_E4M3FN_STATIC, SHUNT_SCALE_F32, 448},
	{SHUNT_QUANT_MXFP8_E4M3FN, SHUNT_SCALE_F32, 256},
	{SHUNT_QUANT_MXFP8_E5M2, SHUNT_SCALE_F32, 32768},
	{SHUNT_QUANT_MXFP4_E2M1, SHUNT_SCALE_F32, 4},
	{SHUNT_QUANT_NVFP4_E2M1, SHUNT_SCALE_F32, 2688},
};
static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

/* What every test needs: guarded memory, and what the reference makes. */
struct bench {
	const struct quant_kernels *levels[SIMD_NUM_LEVELS];
	int num_levels;
	struct operand x, smooth, fixed;
	struct fence codes, scale_codes;
	struct moat q, scales, row_scale;
	uint64_t random;
	uint8_t want_q[MAX_HIDDEN];
	uint8_t want_scales[MAX_SCALES * sizeof(float)];
	float want_row_scale;
	float want_x[MAX_HIDDEN];
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	for (int level = 0; level <= (int)simd_best(); level++)
		bench->levels[bench->num_levels++] =
			quant_kernels_at((enum simd_level)level);
	operand_init(&bench->x, MAX_HIDDEN);
	operand_init(&bench->smooth, MAX_HIDDEN);
	operand_init(&bench->fixed, MAX_HIDDEN);
	fence_init(&bench->codes, MAX_HIDDEN);
	fence_init(&bench->scale_codes, MAX_HIDDEN * sizeof(float));
	moat_init(&bench->q, MAX_HIDDEN * sizeof(float));
	moat_init(&bench->scales, MAX_SCALES * sizeof(float));
	moat_init(&bench->row_scale, sizeof(float));
	bench->random = 88172645463325252;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	operand_fini(&bench->x);
	operand_fini(&bench->smooth);
	operand_fini(&bench->fixed);
	fence_fini(&bench->codes);
	fence_fini(&bench->scale_codes);
	moat_fini(&bench->q);
	moat_fini(&bench->scales);
	moat_fini(&bench->row_scale);
	free(bench);
	return 0;
}

/* ---- one row, by all levels --------------------------------------------- */

/* A row; its x, smooth and fixed lie in the bench. */
struct row {
	const struct mode *mode;
	enum shunt_dtype dtype;
	int64_t hidden;
	bool with_smooth;
	bool fixed_is_one;
};

static bool is_static(const struct mode *mode)
{
	return mode->quant == SHUNT_QUANT_INT8_STATIC ||
	       mode->quant == SHUNT_QUANT_E4M3FN_STATIC;
}

/* The modes that smooth scales go with. */
static bool takes_smooth(const struct mode *mode)
{
	return mode->quant <= SHUNT_QUANT_E4M3FN_STATIC;
}

static void fail_bytes(const char *what, const struct quant_kernels *kernels,
	const struct row *row, const uint8_t *got, const uint8_t *want,
	size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != want[i])
			fail_msg("%s: mode %d form %d type %d H %lld: %s[%zu] "
				 "is 0x%02x, want 0x%02x",
				kernels->name, (int)row->mode->quant,
				(int)row->mode->form, (int)row->dtype,
				(long long)row->hidden, what, i, got[i],
				want[i]);
}

static void check_there(struct bench *bench,
	const struct quant_kernels *kernels, const struct row *row,
	const struct reference_format *format,
	const struct reference_row *reference)
{
	size_t scale_bytes = (size_t)(format->num_scales * format->scale_bytes);
	struct quant_tally tally = {3, 5}; /* kernels add to it */
	struct quant_row given = {
		.q = moat_open(&bench->q, (size_t)format->row_bytes,
			operand_random(&bench->random) & 63),
		.scales = moat_open(&bench->scales, scale_bytes,
			operand_random(&bench->random) & 63),
		.row_scale = moat_open(&bench->row_scale,
			format->has_row_scale ? sizeof(float) : 0,
			operand_random(&bench->random) & 63),
		.x = bench->x.row,
		.smooth = reference->smooth ? bench->smooth.row : NULL,
		.fixed = reference->fixed ? bench->fixed.row : NULL,
		.fixed_is_one = row->fixed_is_one,
		.hidden = row->hidden,
		.tally = &tally,
	};

	kernels->row[row->mode->quant][row->mode->form][row->dtype](&given);
	moat_check(&bench->q);
	moat_check(&bench->scales);
	moat_check(&bench->row_scale);
	fail_bytes("scales", kernels, row, given.scales, bench->want_scales,
		scale_bytes);
	fail_bytes("q", kernels, row, given.q, bench->want_q,
		(size_t)format->row_bytes);
	if (format->has_row_scale)
		assert_memory_equal(
			given.row_scale, &bench->want_row_scale, sizeof(float));
	if (tally.nan_elements != 3 + (uint64_t)reference->nan_elements ||
		tally.inf_elements != 5 + (uint64_t)reference->inf_elements)
		fail_msg("%s: mode %d type %d H %lld: %llu NaN and %llu Inf",
			kernels->name, (int)row->mode->quant, (int)row->dtype,
			(long long)row->hidden,
			(unsigned long long)tally.nan_elements,
			(unsigned long long)tally.inf_elements);
}

static void check_back(struct bench *bench, const struct quant_kernels *kernels,
	const struct row *row, const struct reference_codes *codes)
{
	size_t bytes = (size_t)row->hidden * convert_bytes(row->dtype);
	struct quant_codes given = {
		.x = moat_open(
			&bench->q, bytes, operand_random(&bench->random) & 63),
		.q = codes->q,
		.scales = codes->scales,
		.fixed_is_one = codes->fixed_is_one,
		.row_scale = codes->row_scale,
		.hidden = row->hidden,
	};

	kernels->back[row->mode->quant][row->mode->form][row->dtype](&given);
	moat_check(&bench->q);
	fail_bytes("x", kernels, row, given.x, (uint8_t *)bench->want_x, bytes);
}

/* What the reference has made, back by all levels. */
static void check_row_back(struct bench *bench, const struct row *row,
	const struct reference_format *format)
{
	const struct operand *fixed = &bench->fixed;
	struct reference_codes codes = {
		.quant = row->mode->quant,
		.form = row->mode->form,
		.dtype = row->dtype,
		.hidden = row->hidden,
		.fixed_is_one = row->fixed_is_one,
		.row_scale = bench->want_row_scale,
		.x = bench->want_x,
	};

	codes.q = fence_put(&bench->codes, bench->want_q,
		(size_t)format->row_bytes, operand_random(&bench->random) & 1);
	codes.scales =
		is_static(row->mode)
			? fixed->row
			: fence_put(&bench->scale_codes, bench->want_scales,
				  (size_t)(format->num_scales *
					   format->scale_bytes),
				  0);
	reference_dequantize_row(&codes);
	for (int level = 0; level < bench->num_levels; level++)
		check_back(bench, bench->levels[level], row, &codes);
}

static void check_row(struct bench *bench, const struct row *row)
{
	struct reference_format format = reference_format_of(
		row->mode->quant, row->mode->form, row->dtype, row->hidden);
	struct reference_row reference = {
		.quant = row->mode->quant,
		.form = row->mode->form,
		.dtype = row->dtype,
		.hidden = row->hidden,
		.x = bench->x.row,
		.smooth = row->with_smooth ? bench->smooth.values : NULL,
		.fixed = is_static(row->mode) ? bench->fixed.values : NULL,
		.fixed_is_one = row->fixed_is_one,
		.q = bench->want_q,
		.scales = bench->want_scales,
		.row_scale = &bench->want_row_scale,
	};

	reference_quantize_row(&reference);
	for (int level = 0; level < bench->num_levels; level++)
		check_there(
			bench, bench->levels[level], row, &format, &reference);
	check_row_back(bench, row, &format);
}

/* ---- rows of all kinds --------------------------------------------------- */

/* Beyond those of operand.h. */
enum kind {
	KIND_SPECIAL = OPERAND_NUM_KINDS, /* every eighth NaN or Inf */
	KIND_RARE,                        /* the same, a few of them */
	KIND_TIES,    /* halfway between codes, or next to it */
	KIND_NOTHING, /* NaN, Inf and zeros */
	NUM_KINDS
};

/* Few bits of fraction, so that halves are frequent if the factor is a power
 * of two; now and then the next float. */
static float tie(float max, uint32_t random)
{
	float value = ldexpf((float)(32 + (random & 31)) / 64.0f * max,
		-(int)(random >> 5 & 31));

	if (max == 127.0f)
		value = (float)(random % 127) + 0.5f;
	if ((random >> 10 & 3) == 0)
		value = nextafterf(value, random & 1 << 12 ? 0.0f : INFINITY);
	return random & 1 << 13 ? -value : value;
}

static float draw_value(
	struct bench *bench, const struct mode *mode, int kind, int64_t i)
{
	uint32_t random;

	if (kind < OPERAND_NUM_KINDS)
		return operand_value((enum operand_kind)kind, &bench->random);
	random = operand_random(&bench->random);
	if (kind == KIND_TIES)
		return i % 16 == 0 ? mode->max : tie(mode->max, random);
	if (kind == KIND_SPECIAL && (random & 7) == 0)
		return operand_special(random >> 3);
	if (kind == KIND_RARE && random % 300 == 0)
		return operand_special(random >> 3);
	if (kind == KIND_NOTHING)
		return random & 7 ? (random & 8 ? -0.0f : 0.0f)
				  : operand_special(random >> 3);
	return operand_value(OPERAND_PLAIN, &bench->random);
}

static void draw(struct bench *bench, struct operand *operand,
	const struct row *row, enum shunt_dtype dtype, int kind)
{
	for (int64_t i = 0; i < row->hidden; i++)
		operand->values[i] = draw_value(bench, row->mode, kind, i);
	operand_put(operand, dtype, row->hidden,
		operand_random(&bench->random) & 1);
}

/* A row of a kind, its scales of others. */
static void check_kind(struct bench *bench, struct row *row, int kind)
{
	int other = (int)(operand_random(&bench->random) % NUM_KINDS);

	row->fixed_is_one = operand_random(&bench->random) & 1;
	row->with_smooth =
		takes_smooth(row->mode) && operand_random(&bench->random) & 1;
	draw(bench, &bench->x, row, row->dtype, kind);
	draw(bench, &bench->smooth, row, SHUNT_DTYPE_F32, other);
	if (kind == KIND_TIES) { /* the ties stay ties */
		row->with_smooth = false;
		bench->fixed.values[0] = 1.0f;
		row->fixed_is_one = true;
		operand_put(&bench->fixed, SHUNT_DTYPE_F32, 1, 0);
	} else {
		draw(bench, &bench->fixed, row, SHUNT_DTYPE_F32,
			NUM_KINDS - 1 - other);
	}
	check_row(bench, row);
}

static void check_modes(struct bench *bench, int64_t hidden, int kind)
{
	for (size_t mode = 0; mode < NUM_MODES; mode++) {
		for (int type = 0; type < 3; type++) {
			struct row row = {
				.mode = &modes[mode],
				.dtype = dtypes[type],
				.hidden = hidden,
			};

			check_kind(bench, &row, kind);
		}
	}
}

static void rows_of_every_length_have_the_reference_bits(void **state)
{
	for (int64_t hidden = 1; hidden <= 300; hidden++)
		for (int i = 0; i < 3; i++)
			check_modes(*state, hidden,
				(int)((hidden + 3 * i) % NUM_KINDS));
}

static void long_rows_of_every_kind_have_the_reference_bits(void **state)
{
	static const int64_t shapes[] = {511, 1536, 2880, 7168, 7169};

	for (size_t shape = 0; shape < 5; shape++)
		for (int kind = 0; kind < NUM_KINDS; kind++)
			check_modes(*state, shapes[shape], kind);
}

/* ---- rows with one element of note ---------------------------------------- */

/* All elements 0.25 but one; no smooth scales, static ones are 3. */
static void check_one(struct bench *bench, const struct mode *mode,
	enum shunt_dtype dtype, int64_t hidden, int64_t at, float value)
{
	struct row row = {
		.mode = mode,
		.dtype = dtype,
		.hidden = hidden,
		.fixed_is_one = true,
	};

	for (int64_t i = 0; i < row.hidden; i++)
		bench->x.values[i] = i == at ? value : 0.25f;
	operand_put(&bench->x, dtype, row.hidden, 0);
	bench->fixed.values[0] = 3.0f;
	operand_put(&bench->fixed, SHUNT_DTYPE_F32, 1, 0);
	check_row(bench, &row);
}

static void an_element_of_note_is_found_wherever_it_is(void **state)
{
	for (size_t mode = 0; mode < NUM_MODES; mode++)
		for (int64_t at = 0; at < 200; at++)
			for (int type = 0; type < 3; type++) {
				check_one(*state, &modes[mode], dtypes[type],
					200, at, operand_special((uint32_t)at));
				check_one(*state, &modes[mode], dtypes[type],
					200, at, at & 1 ? -33.5f : 29.0f);
			}
}

/* Kernels take 16 small groups at once: 512 elements. */
static void an_element_of_note_is_found_among_many_groups(void **state)
{
	const enum shunt_dtype dtype = SHUNT_DTYPE_BF16;

	for (size_t mode = 0; mode < NUM_MODES; mode++)
		for (int64_t at = 0; at < 512; at++) {
			check_one(*state, &modes[mode], dtype, 512, at,
				operand_special((uint32_t)at));
			check_one(*state, &modes[mode], dtype, 512, at,
				at & 1 ? -33.5f : 29.0f);
		}
}

/* ---- every bf16 beside the largest of its group ---------------------------- */

/* The codes of 18 binades downwards from `largest`, which is in each group. */
static void check_beside(
	struct bench *bench, const struct mode *mode, uint32_t largest)
{
	struct row row = {
		.mode = mode,
		.dtype = SHUNT_DTYPE_BF16,
		.hidden = 2560, /* of which 15 of 16 are codes of their own */
		.fixed_is_one = true,
	};
	uint32_t code = largest;

	for (int64_t i = 0; i < row.hidden; i++) {
		uint32_t sign = i / 3 % 2 ? 0x80000000 : 0;

		bench->x.values[i] = operand_from_bits(
			sign | (i % 16 ? code : largest) << 16);
		code -= i % 16 && code;
	}
	operand_put(&bench->x, row.dtype, row.hidden, 0);
	bench->fixed.values[0] = 1.0f;
	operand_put(&bench->fixed, SHUNT_DTYPE_F32, 1, 0);
	check_row(bench, &row);
}

static void every_bf16_beside_a_larger_one_has_the_reference_bits(void **state)
{
	static const uint32_t fractions[] = {0, 1, 0x60, 0x7f};

	for (size_t mode = 0; mode < NUM_MODES; mode++)
		for (uint32_t exponent = 0; exponent < 255;
			exponent += exponent < 32 ? 1 : 37)
			for (int i = 0; i < 4; i++)
				check_beside(*state, &modes[mode],
					exponent << 7 | fractions[i]);
}

/* ---- scales at their limits ----------------------------------------------- */

/* Rows whose largest is FMAX times a power of two, or next to it: there
 * scales are powers of two, and at the ends they become denormal and 0. */
static void check_largest(
	struct bench *bench, const struct mode *mode, uint32_t bits)
{
	struct row row = {
		.mode = mode,
		.dtype = SHUNT_DTYPE_F32,
		.hidden = 21,
		.fixed_is_one = true,
	};
	float largest = operand_from_bits(bits);

	for (int64_t i = 0; i < row.hidden; i++)
		bench->x.values[i] = draw_value(bench, mode, OPERAND_PLAIN, i) /
				     4.0f * largest;
	bench->x.values[operand_random(&bench->random) % 21] = largest;
	operand_put(&bench->x, row.dtype, row.hidden, 0);
	bench->fixed.values[0] = 1.0f / largest;
	operand_put(&bench->fixed, SHUNT_DTYPE_F32, 1, 0);
	check_row(bench, &row);
}

static void scales_at_powers_of_two_have_the_reference_bits(void **state)
{
	for (size_t mode = 0; mode < NUM_MODES; mode++) {
		for (int power = -160; power < 128; power++) {
			float max = ldexpf(modes[mode].max, power);
			uint32_t bits = operand_to_bits(max);

			for (int next = -2; next <= 2; next++)
				if (bits + (uint32_t)next < 0x7f800000)
					check_largest(*state, &modes[mode],
						bits + (uint32_t)next);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_every_length_have_the_reference_bits),
		cmocka_unit_test(
			long_rows_of_every_kind_have_the_reference_bits),
		cmocka_unit_test(an_element_of_note_is_found_wherever_it_is),
		cmocka_unit_test(an_element_of_note_is_found_among_many_groups),
		cmocka_unit_test(
			every_bf16_beside_a_larger_one_has_the_reference_bits),
		cmocka_unit_test(
			scales_at_powers_of_two_have_the_reference_bits),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
