/*
 * The row kernels of int8: every instruction set of this machine against the
 * reference, to the bit, over inputs that end where memory ends.
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
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define NUM_CODES  65536

static const int64_t shapes[] = {1, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127,
	128, 129, 1536, 2880, 7168, 7169};
static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

/* What every test needs: kernels by level, and guarded memory. */
struct bench {
	const struct quant_kernels *levels[SIMD_NUM_LEVELS];
	int num_levels;
	struct fence x;
	struct fence smooth;
	struct moat q;
	uint64_t random;
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	for (int level = 0; level < SIMD_NUM_LEVELS; level++) {
		const struct quant_kernels *kernels =
			quant_kernels_at((enum simd_level)level);

		if (kernels)
			bench->levels[bench->num_levels++] = kernels;
	}
	fence_init(&bench->x, MAX_HIDDEN * sizeof(float));
	fence_init(&bench->smooth, MAX_HIDDEN * sizeof(float));
	moat_init(&bench->q, MAX_HIDDEN * sizeof(float));
	bench->random = 88172645463325252;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	fence_fini(&bench->x);
	fence_fini(&bench->smooth);
	moat_fini(&bench->q);
	free(bench);
	return 0;
}

/* ---- int8 -------------------------------------------------------------- */

struct row {
	enum shunt_dtype dtype;
	int64_t hidden;
	const void *x;
	const float *smooth;
	size_t gap;      /* of x to the end of memory */
	size_t misalign; /* of q */
};

static void check_row_by(struct bench *bench,
	const struct quant_kernels *kernels, const struct row *row,
	const int8_t *q, float scale, const struct quant_tally *tally)
{
	size_t count = (size_t)row->hidden;
	const void *x = fence_put(
		&bench->x, row->x, count * convert_bytes(row->dtype), row->gap);
	const float *smooth = NULL;
	struct quant_tally found = {3, 5}; /* kernels add to it */
	int8_t *out = moat_open(&bench->q, count, row->misalign);
	float out_scale = -1.0f;

	if (row->smooth)
		smooth = fence_put(
			&bench->smooth, row->smooth, count * sizeof(float), 0);
	kernels->row[SHUNT_QUANT_INT8][0][row->dtype](&(struct quant_row){
		.q = out,
		.scales = &out_scale,
		.x = x,
		.smooth = smooth,
		.hidden = row->hidden,
		.tally = &found,
	});
	moat_check(&bench->q);
	if (memcmp(out, q, count) ||
		operand_to_bits(out_scale) != operand_to_bits(scale))
		fail_msg("%s: type %d, H %lld: scale %a, want %a",
			kernels->name, (int)row->dtype, (long long)row->hidden,
			(double)out_scale, (double)scale);
	assert_int_equal(found.nan_elements, 3 + tally->nan_elements);
	assert_int_equal(found.inf_elements, 5 + tally->inf_elements);
}

/* Compares every level with the reference; returns the scale. */
static float check_row(struct bench *bench, const struct row *row)
{
	static int8_t q[MAX_HIDDEN];
	int64_t nans = 0, infs = 0;
	float scale = quantize_int8_row(
		row->dtype, row->x, row->smooth, row->hidden, q, &nans, &infs);
	struct quant_tally tally = {(uint64_t)nans, (uint64_t)infs};

	for (int level = 0; level < bench->num_levels; level++)
		check_row_by(
			bench, bench->levels[level], row, q, scale, &tally);
	return scale;
}

static void every_16_bit_code_is_quantized_alone(void **state)
{
	for (int code = 0; code < NUM_CODES; code++) {
		uint16_t x = (uint16_t)code;
		struct row row = {.hidden = 1, .x = &x};

		row.dtype = SHUNT_DTYPE_BF16;
		check_row(*state, &row);
		row.dtype = SHUNT_DTYPE_F16;
		check_row(*state, &row);
	}
}

/* Rows of neighbours, and rows of codes from all over (40503 is odd, so that
 * each code comes once). */
static void every_16_bit_code_is_quantized_among_others(void **state)
{
	static uint16_t near[NUM_CODES], far[NUM_CODES];
	const int64_t hidden = 97;

	for (int code = 0; code < NUM_CODES; code++) {
		near[code] = (uint16_t)code;
		far[code] = (uint16_t)((uint32_t)code * 40503);
	}
	for (int64_t at = 0; at < NUM_CODES; at += hidden) {
		int64_t left = NUM_CODES - at;

		for (int i = 0; i < 4; i++) {
			struct row row = {
				.dtype = i & 1 ? SHUNT_DTYPE_F16
					       : SHUNT_DTYPE_BF16,
				.hidden = left < hidden ? left : hidden,
				.x = (i & 2 ? near : far) + at,
			};

			check_row(*state, &row);
		}
	}
}

/* Kinds of rows, each hard in its own way. */
enum kind {
	KIND_PLAIN,    /* about -4 .. 4 */
	KIND_BITS,     /* any finite f32 bits */
	KIND_DENORMAL, /* f32 denormals only */
	KIND_HUGE,     /* near the largest f32 */
	KIND_SPECIAL,  /* every eighth NaN or Inf */
	KIND_ZEROS,    /* signed zeros, a few values */
	NUM_KINDS
};

static float make(struct bench *bench, enum kind kind)
{
	uint32_t random = operand_random(&bench->random);
	uint32_t sign = random & 0x80000000;
	float plain = (float)(int32_t)random * 0x1p-29f;

	switch (kind) {
	case KIND_BITS:
		return isfinite(operand_from_bits(random))
			       ? operand_from_bits(random)
			       : plain;
	case KIND_DENORMAL:
		return operand_from_bits(random & 0x807fffff);
	case KIND_HUGE:
		return operand_from_bits(
			sign | 0x7f000000 | (random & 0x7fffff));
	case KIND_SPECIAL:
		return random & 7 ? plain : operand_special(random >> 3);
	case KIND_ZEROS:
		return random & 15 ? operand_from_bits(sign) : plain;
	default:
		return plain;
	}
}

static void make_row(struct bench *bench, enum kind kind,
	enum shunt_dtype dtype, int64_t hidden, void *x)
{
	float values[MAX_HIDDEN];

	for (int64_t i = 0; i < hidden; i++)
		values[i] = make(bench, kind);
	convert_store(dtype, values, hidden, x);
}

/* Every kind, with and without smooth scales, which may be hard too. */
static void check_shape(
	struct bench *bench, enum shunt_dtype dtype, int64_t hidden)
{
	static float x[MAX_HIDDEN], smooth[MAX_HIDDEN];

	for (int i = 0; i < NUM_KINDS * (NUM_KINDS + 1); i++) {
		int with = i / NUM_KINDS;
		struct row row = {
			.dtype = dtype,
			.hidden = hidden,
			.x = x,
			.smooth = with ? smooth : NULL,
			.gap = operand_random(&bench->random) & 1,
			.misalign = operand_random(&bench->random) & 63,
		};

		make_row(bench, (enum kind)(i % NUM_KINDS), dtype, hidden, x);
		if (with)
			make_row(bench, (enum kind)(with - 1), SHUNT_DTYPE_F32,
				hidden, smooth);
		check_row(bench, &row);
	}
}

static void rows_of_every_kind_and_length_have_the_reference_bits(void **state)
{
	for (size_t i = 0; i < NUM_SHAPES; i++)
		for (int type = 0; type < 3; type++)
			check_shape(*state, dtypes[type], shapes[i]);
}

#define NUM_PLACES 200

/* A row of these values; its scale. */
static float check_values(struct bench *bench, enum shunt_dtype dtype,
	const float values[NUM_PLACES])
{
	static float x[NUM_PLACES];
	struct row row = {.dtype = dtype, .hidden = NUM_PLACES, .x = x};

	convert_store(dtype, values, NUM_PLACES, x);
	return check_row(bench, &row);
}

/* One NaN or Inf in a long row, at each place where a vector may end. */
static void one_special_element_is_found_wherever_it_is(void **state)
{
	struct bench *bench = *state;
	float values[NUM_PLACES];

	for (int64_t at = 0; at < NUM_PLACES; at++) {
		for (int type = 0; type < 3; type++) {
			for (int64_t i = 0; i < NUM_PLACES; i++)
				values[i] = make(bench, KIND_PLAIN);
			values[at] = operand_special((uint32_t)at);
			check_values(bench, dtypes[type], values);
		}
	}
}

/* The largest element alone decides, wherever it is. */
static void the_largest_element_is_found_wherever_it_is(void **state)
{
	float values[NUM_PLACES];

	for (int64_t at = 0; at < NUM_PLACES; at++) {
		for (int64_t i = 0; i < NUM_PLACES; i++)
			values[i] = 0.25f;
		values[at] = at & 1 ? -254.0f : 254.0f;
		for (int type = 0; type < 3; type++)
			assert_true(check_values(*state, dtypes[type],
					    values) == 2.0f);
	}
}

/* amax 127 makes the factor 1, so that halves are ties. */
static void ties_go_to_the_even_neighbour(void **state)
{
	float x[256], scale;
	int8_t q[256];

	for (int i = 0; i < 255; i++)
		x[i] = (float)(i - 127) + (i < 127 ? 0.5f : -0.5f);
	x[255] = 127.0f;
	for (int level = 0; level < SIMD_NUM_LEVELS; level++) {
		const struct quant_kernels *kernels =
			quant_kernels_at((enum simd_level)level);
		struct quant_tally tally = {0};

		if (!kernels)
			continue;
		kernels->row[SHUNT_QUANT_INT8][0][SHUNT_DTYPE_F32](
			&(struct quant_row){
				.q = q,
				.scales = &scale,
				.x = x,
				.hidden = 256,
				.tally = &tally,
			});
		assert_true(scale == 1.0f);
		for (int i = 0; i < 255; i++) {
			assert_int_equal(q[i] & 1, 0);
			assert_true(fabsf((float)q[i] - x[i]) == 0.5f);
		}
	}
	(void)state;
}

struct corner {
	const char *what;
	uint32_t x[2];
	int8_t q[2];
	uint32_t scale;
	uint64_t nans, infs;
};

/* Worked by hand from the formulas. 127 / amax is infinite up to amax =
 * 127 * 2^-128 = 0x1.fcp-122 (bits 0x02fe0000); the next f32 above it gives a
 * finite factor. */
static const struct corner corners[] = {
	{"zero", {0, 0x80000000}, {0, 0}, 0, 0, 0},
	{"NaN", {0x7fc00000, 0xffc00000}, {0, 0}, 0, 2, 0},
	{"Inf", {0x7f800000, 0xff800000}, {127, -127}, 0, 0, 2},
	{"Inf, zero", {0xff800000, 0}, {-127, 0}, 0, 0, 1},
	{"NaN, Inf", {0x7f800000, 0x7f800001}, {127, 0}, 0, 1, 1},
	{"NaN, 1", {0x7fc00000, 0x42fe0000}, {0, 127}, 0x3f800000, 1, 0},
	{"Inf, 1", {0xff800000, 0x42fe0000}, {-127, 127}, 0x3f800000, 0, 1},
	{"least denormal", {1, 0x80000001}, {0, 0}, 0, 0, 0},
	{"factor infinite", {0x02fe0000, 0x82fe0000}, {0, 0}, 0, 0, 0},
	{"infinite, Inf", {0x02fe0000, 0x7f800000}, {0, 127}, 0, 0, 1},
	{"factor finite", {0x02fe0001, 0x82fe0001}, {127, -127}, 0x00200000, 0,
		0},
};

static void corners_are_as_worked_by_hand(void **state)
{
	for (size_t i = 0; i < sizeof(corners) / sizeof(corners[0]); i++) {
		const struct corner *corner = &corners[i];
		struct quant_tally tally = {corner->nans, corner->infs};
		struct row row = {
			.dtype = SHUNT_DTYPE_F32,
			.hidden = 2,
			.x = corner->x,
		};

		for (int level = 0; level < SIMD_NUM_LEVELS; level++) {
			const struct quant_kernels *kernels =
				quant_kernels_at((enum simd_level)level);

			if (kernels)
				check_row_by(*state, kernels, &row, corner->q,
					operand_from_bits(corner->scale),
					&tally);
		}
	}
}

/* Judged after smoothing: finite times finite may be Inf, 0 * Inf is NaN. */
static void special_elements_are_judged_after_smoothing(void **state)
{
	const float x[4] = {0x1p127f, -0x1p127f, 0.0f, 1.0f};
	const float smooth[4] = {4.0f, 4.0f, INFINITY, 127.0f};
	const int8_t q[4] = {127, -127, 0, 127};
	const struct quant_tally tally = {1, 2};
	struct row row = {
		.dtype = SHUNT_DTYPE_F32,
		.hidden = 4,
		.x = x,
		.smooth = smooth,
	};
	struct bench *bench = *state;

	for (int level = 0; level < bench->num_levels; level++)
		check_row_by(
			bench, bench->levels[level], &row, q, 1.0f, &tally);
}

/* ---- the way back ------------------------------------------------------- */

static void check_dequantize(struct bench *bench,
	const struct quant_kernels *kernels, enum shunt_dtype dtype,
	const int8_t *q, int64_t hidden, float scale)
{
	static float want[MAX_HIDDEN], values[MAX_HIDDEN];
	size_t bytes = (size_t)hidden * convert_bytes(dtype);
	const int8_t *in = fence_put(&bench->x, q, (size_t)hidden, 0);
	void *out = moat_open(
		&bench->q, bytes, operand_random(&bench->random) & 63);

	for (int64_t i = 0; i < hidden; i++) {
		values[i] = (float)q[i] * scale;
		if (isnan(values[i]))
			values[i] = operand_from_bits(0x7fc00000);
	}
	convert_store(dtype, values, hidden, want);
	kernels->back[SHUNT_QUANT_INT8][0][dtype](&(struct quant_codes){
		.x = out, .q = in, .scales = &scale, .hidden = hidden});
	moat_check(&bench->q);
	assert_memory_equal(out, want, bytes);
}

static void dequantize_multiplies_and_rounds_once(void **state)
{
	static const float scales[] = {0.0f, 1.0f, 0.03f, 0x1p-149f, 0x1p-20f,
		0x1.8p-14f, -0.7f, 600.0f, 3e38f, INFINITY, NAN};
	struct bench *bench = *state;
	int8_t q[256 + 33];

	for (size_t i = 0; i < sizeof(q); i++)
		q[i] = (int8_t)(i - 128);
	for (int level = 0; level < bench->num_levels; level++)
		for (int type = 0; type < 3; type++)
			for (size_t i = 0; i < 11 * sizeof(q); i++)
				check_dequantize(bench, bench->levels[level],
					dtypes[type], q, 1 + (int64_t)(i / 11),
					scales[i % 11]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_16_bit_code_is_quantized_alone),
		cmocka_unit_test(every_16_bit_code_is_quantized_among_others),
		cmocka_unit_test(
			rows_of_every_kind_and_length_have_the_reference_bits),
		cmocka_unit_test(one_special_element_is_found_wherever_it_is),
		cmocka_unit_test(the_largest_element_is_found_wherever_it_is),
		cmocka_unit_test(ties_go_to_the_even_neighbour),
		cmocka_unit_test(corners_are_as_worked_by_hand),
		cmocka_unit_test(special_elements_are_judged_after_smoothing),
		cmocka_unit_test(dequantize_multiplies_and_rounds_once),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
