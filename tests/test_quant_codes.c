/*
 * Rounding to fp8 and fp4: every f32 that a code could turn on, by every
 * instruction set. And back: every code, times scales that are hard.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "quant/decode.h"
#include "quant/kernels.h"
#include "reference/codes.h"
#include "reference/convert.h"
#include "reference/quantize.h"
#include "support/operand.h"

#define HIDDEN 64

static const struct quant_kernels *levels[SIMD_NUM_LEVELS];
static int num_levels;

static int setup(void **state)
{
	(void)state;
	for (int level = 0; level <= (int)simd_best(); level++)
		levels[num_levels++] = quant_kernels_at((enum simd_level)level);
	return 0;
}

/* ---- rounding ------------------------------------------------------------ */

/* A mode in which x itself is rounded: MX, where the first of each block makes
 * the code 127, the factor 1. */
static const struct rounding {
	enum shunt_quant quant;
	enum shunt_dtype code;
	int emax;
} roundings[] = {
	{SHUNT_QUANT_MXFP8_E4M3FN, SHUNT_DTYPE_E4M3FN, 8},
	{SHUNT_QUANT_MXFP8_E5M2, SHUNT_DTYPE_E5M2, 15},
	{SHUNT_QUANT_MXFP4_E2M1, SHUNT_DTYPE_E2M1, 2},
};

static void check_rounding(const struct rounding *rounding, const float *x)
{
	uint8_t q[HIDDEN], scales[HIDDEN / 32];

	for (int level = 0; level < num_levels; level++) {
		struct quant_tally tally = {0};
		struct quant_row row = {
			.q = q,
			.scales = scales,
			.x = x,
			.hidden = HIDDEN,
			.tally = &tally,
		};

		memset(q, 0, sizeof(q));
		levels[level]->row[rounding->quant][0][SHUNT_DTYPE_F32](&row);
		for (int i = 0; i < HIDDEN; i++) {
			uint8_t got = codes_get(rounding->code, q, i);
			uint8_t want = codes_encode(rounding->code, x[i]);

			if (got != want)
				fail_msg("%s: mode %d: %a is 0x%02x, want "
					 "0x%02x",
					levels[level]->name,
					(int)rounding->quant, (double)x[i], got,
					want);
		}
		assert_int_equal(scales[0], 127);
		assert_int_equal(scales[1], 127);
	}
}

/* Collects values into rows. */
struct gather {
	const struct rounding *rounding;
	float x[HIDDEN];
	int count;
};

static void gather_add(struct gather *gather, float value)
{
	if (gather->count % 32 == 0)
		gather->x[gather->count++] =
			ldexpf(1.0f, gather->rounding->emax);
	gather->x[gather->count++] = value;
	if (gather->count < HIDDEN)
		return;
	check_rounding(gather->rounding, gather->x);
	gather->count = 0;
}

/* All upper halves of f32 up to 2^(emax + 1), each with what lies at, next to
 * and between. Every tie of a format is among them. */
static void every_tie_and_its_neighbours_are_rounded_right(void **state)
{
	static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0xffff};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct gather gather = {.rounding = &roundings[i]};
		uint32_t end = (uint32_t)(128 + roundings[i].emax) << 7;

		for (uint32_t high = 0; high < end; high++) {
			for (size_t k = 0; k < 5; k++) {
				float value =
					operand_from_bits(high << 16 | low[k]);

				gather_add(&gather, value);
				gather_add(&gather, -value);
			}
		}
	}
}

static void static_scales_saturate(void **state)
{
	const float x[8] = {447, 449, 464, 1e9f, -3e38f, 126.5f, -128.5f, -129};
	const uint8_t e4m3fn[8] = {
		0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x70, 0xf0, 0xf0};
	const uint8_t int8[8] = {127, 127, 127, 127, 0x80, 126, 0x80, 0x80};
	const float one = 1.0f;

	(void)state;
	for (int i = 0; i < 2 * num_levels; i++) {
		uint8_t q[8];
		struct quant_tally tally = {0};
		struct quant_row row = {
			.q = q,
			.x = x,
			.fixed = &one,
			.fixed_is_one = true,
			.hidden = 8,
			.tally = &tally,
		};
		enum shunt_quant quant = i % 2 ? SHUNT_QUANT_E4M3FN_STATIC
					       : SHUNT_QUANT_INT8_STATIC;

		levels[i / 2]->row[quant][0][SHUNT_DTYPE_F32](&row);
		assert_memory_equal(q, i % 2 ? e4m3fn : int8, 8);
		assert_int_equal(tally.inf_elements, 0);
	}
}

/* ---- the way back -------------------------------------------------------- */

static void every_code_has_its_value(void **state)
{
	static const enum shunt_dtype codes[] = {SHUNT_DTYPE_I8,
		SHUNT_DTYPE_E4M3FN, SHUNT_DTYPE_E5M2, SHUNT_DTYPE_E2M1};

	(void)state;
	for (int code = 0; code < 256; code++) {
		uint8_t byte = (uint8_t)code;
		float value = decode_e8m0(byte);

		assert_true(value == codes_decode(SHUNT_DTYPE_E8M0, byte) ||
			    (code == 255 && isnan(value)));
		for (int i = 0; i < 4; i++) {
			float want = codes_decode(
				codes[i], codes_get(codes[i], &byte, 0));

			value = decode_element(codes[i], &byte, 0);
			if (isnan(want))
				assert_true(isnan(value));
			else
				assert_int_equal(operand_to_bits(value),
					operand_to_bits(want));
		}
	}
}

/* Modes whose scale is one f32 for all, or one code per group. */
static const enum shunt_quant backs[] = {SHUNT_QUANT_INT8, SHUNT_QUANT_E4M3FN,
	SHUNT_QUANT_E5M2, SHUNT_QUANT_E4M3FN_STATIC, SHUNT_QUANT_MXFP8_E4M3FN,
	SHUNT_QUANT_MXFP8_E5M2, SHUNT_QUANT_MXFP4_E2M1, SHUNT_QUANT_NVFP4_E2M1};

static void check_back(enum shunt_quant quant, enum shunt_dtype dtype,
	const void *scales, float row_scale)
{
	uint8_t q[256];
	float want[256], x[256];
	struct reference_codes reference = {
		.quant = quant,
		.dtype = dtype,
		.hidden = 256,
		.q = q,
		.scales = scales,
		.fixed_is_one = true,
		.row_scale = row_scale,
		.x = want,
	};
	struct quant_codes codes = {
		.x = x,
		.q = q,
		.scales = scales,
		.fixed_is_one = true,
		.row_scale = row_scale,
		.hidden = 256,
	};

	for (int i = 0; i < 256; i++)
		q[i] = (uint8_t)i;
	reference_dequantize_row(&reference);
	for (int level = 0; level < num_levels; level++) {
		levels[level]->back[quant][0][dtype](&codes);
		assert_memory_equal(x, want, 256 * convert_bytes(dtype));
	}
}

/* In each type, by all codes of scales and by floats that overflow, become
 * denormal, or are none. */
static void every_code_comes_back_times_every_scale(void **state)
{
	static const float hard[] = {0.0f, 1.0f, 0.03f, 0x1p-149f, 0x1p-20f,
		0x1.8p-14f, -0.7f, 600.0f, 3e38f, INFINITY, NAN};

	(void)state;
	for (size_t i = 0; i < sizeof(backs) / sizeof(backs[0]); i++) {
		for (int byte = 0; byte < 256; byte++) {
			uint8_t bytes[16];
			float number = hard[byte % 11];
			bool is_code = backs[i] >= SHUNT_QUANT_MXFP8_E4M3FN;

			memset(bytes, byte, sizeof(bytes));
			for (int type = SHUNT_DTYPE_F32;
				type <= SHUNT_DTYPE_BF16; type++)
				check_back(backs[i], (enum shunt_dtype)type,
					is_code ? (void *)bytes
						: (void *)&number,
					number);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			every_tie_and_its_neighbours_are_rounded_right),
		cmocka_unit_test(static_scales_saturate),
		cmocka_unit_test(every_code_has_its_value),
		cmocka_unit_test(every_code_comes_back_times_every_scale),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
