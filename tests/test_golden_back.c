/*
 * Golden rows the other way: quantized rows back to f32, f16 and bf16, and what
 * combine's communication quantization makes of a row, worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <shunt/quant.h>

#include "reference/quantize.h"

struct golden_back {
	const char *name;
	enum shunt_quant quant;
	enum shunt_scale_form form;
	int hidden;
	uint8_t q[8];
	union {
		float floats[8];
		uint8_t bytes[8];
	} scales;
	float row_scale;
	bool fixed_is_one;
	enum shunt_dtype dtype;
	union {
		float floats[8];
		uint16_t halves[8];
	} x;
};

static const struct golden_back backs[] = {
	{
		.name = "int8, f32",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 4,
		.q = {127, 0x81, 0, 3},
		.scales = {.floats = {0.1f}},
		.dtype = SHUNT_DTYPE_F32,
		.x = {.floats = {127 * 0.1f, -127 * 0.1f, 0, 3 * 0.1f}},
	},
	{
		/* 5 * 0.1f and 3 * 0.1f, in f32 and then in bf16. */
		.name = "int8, bf16",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 2,
		.q = {5, 3},
		.scales = {.floats = {0.1f}},
		.dtype = SHUNT_DTYPE_BF16,
		.x = {.halves = {0x3f00, 0x3e9a}},
	},
	{
		.name = "e4m3fn, f16: too large is Inf, NaN the usual one",
		.quant = SHUNT_QUANT_E4M3FN,
		.hidden = 4,
		.q = {0x7e, 0xfe, 0x7f, 0x38},
		.scales = {.floats = {256}},
		.dtype = SHUNT_DTYPE_F16,
		.x = {.halves = {0x7c00, 0xfc00, 0x7e00, 0x5c00}},
	},
	{
		.name = "e5m2: Inf and NaN codes",
		.quant = SHUNT_QUANT_E5M2,
		.hidden = 4,
		.q = {0x7c, 0xfc, 0xfe, 0xc0},
		.scales = {.floats = {0.5f}},
		.dtype = SHUNT_DTYPE_BF16,
		.x = {.halves = {0x7f80, 0xff80, 0x7fc0, 0xbf80}},
	},
	{
		.name = "int8 by group as E8M0",
		.quant = SHUNT_QUANT_INT8_GROUP,
		.form = SHUNT_SCALE_E8M0,
		.hidden = 2,
		.q = {127, 0xff},
		.scales = {.bytes = {0}},
		.dtype = SHUNT_DTYPE_F32,
		.x = {.floats = {0x7fp-127f, -0x1p-127f}},
	},
	{
		.name = "int8 static, one scale",
		.quant = SHUNT_QUANT_INT8_STATIC,
		.hidden = 2,
		.q = {0x80, 100},
		.scales = {.floats = {0.5f}},
		.fixed_is_one = true,
		.dtype = SHUNT_DTYPE_F32,
		.x = {.floats = {-64, 50}},
	},
	{
		.name = "e4m3fn static, a scale per element",
		.quant = SHUNT_QUANT_E4M3FN_STATIC,
		.hidden = 2,
		.q = {0x38, 0x38},
		.scales = {.floats = {0.5f, 3}},
		.dtype = SHUNT_DTYPE_F32,
		.x = {.floats = {0.5f, 3}},
	},
	{
		.name = "mxfp8: 2^119 and NaN codes",
		.quant = SHUNT_QUANT_MXFP8_E4M3FN,
		.hidden = 3,
		.q = {0x7e, 0x01, 0xff},
		.scales = {.bytes = {246, 0}},
		.dtype = SHUNT_DTYPE_F32,
		.x = {.floats = {0x1.cp127f, 0x1p110f, NAN}},
	},
	{
		.name = "mxfp4: odd",
		.quant = SHUNT_QUANT_MXFP4_E2M1,
		.hidden = 3,
		.q = {0xf1, 0x05},
		.scales = {.bytes = {128, 0}},
		.dtype = SHUNT_DTYPE_F16,
		.x = {.halves = {0x3c00, 0xca00, 0x4600}},
	},
	{
		/* Times 448 * 2^-10. */
		.name = "nvfp4: both scales",
		.quant = SHUNT_QUANT_NVFP4_E2M1,
		.hidden = 2,
		.q = {0xa7},
		.scales = {.bytes = {0x7e}},
		.row_scale = 0x1p-10f,
		.dtype = SHUNT_DTYPE_F32,
		.x = {.floats = {2.625f, -0.4375f}},
	},
};

static void check_back(const struct golden_back *back, const void *x)
{
	const uint8_t *expected = (const uint8_t *)&back->x, *got = x;
	int bytes = back->hidden * (back->dtype == SHUNT_DTYPE_F32 ? 4 : 2);

	for (int i = 0; i < bytes; i++)
		if (got[i] != expected[i])
			fail_msg("%s: byte %d of x is 0x%02x, not 0x%02x",
				back->name, i, got[i], expected[i]);
}

static void reference_gives_the_golden_rows_back(void **state)
{
	uint8_t x[32];

	(void)state;
	for (size_t i = 0; i < sizeof(backs) / sizeof(backs[0]); i++) {
		const struct golden_back *back = &backs[i];
		struct reference_codes codes = {
			.quant = back->quant,
			.form = back->form,
			.dtype = back->dtype,
			.hidden = back->hidden,
			.q = back->q,
			.scales = back->scales.bytes,
			.fixed_is_one = back->fixed_is_one,
			.row_scale = back->row_scale,
			.x = x,
		};

		reference_dequantize_row(&codes);
		check_back(back, x);
	}
}

static void library_gives_the_golden_rows_back(void **state)
{
	uint8_t x[32];

	(void)state;
	for (size_t i = 0; i < sizeof(backs) / sizeof(backs[0]); i++) {
		const struct golden_back *back = &backs[i];
		struct shunt_dequantize_args args = SHUNT_DEQUANTIZE_ARGS_INIT;

		args.quant = back->quant;
		args.scale_form = back->form;
		args.dtype = back->dtype;
		args.num_rows = 1;
		args.hidden = back->hidden;
		args.q = back->q;
		args.scales = back->scales.bytes;
		if (back->quant == SHUNT_QUANT_INT8_STATIC ||
			back->quant == SHUNT_QUANT_E4M3FN_STATIC)
			args.static_shape = back->fixed_is_one
						    ? SHUNT_STATIC_ONE
						    : SHUNT_STATIC_HIDDEN;
		if (back->quant == SHUNT_QUANT_NVFP4_E2M1)
			args.row_scales = &back->row_scale;
		args.x = x;
		if (shunt_dequantize_rows(&args) != SHUNT_OK)
			fail_msg("%s: %s", back->name, shunt_error_message());
		check_back(back, x);
	}
}

/* ---- combine's communication quantization ----------------------------- */

/* sc = 1 / 127, which in f16 is 0x1.02p-7. */
static void int8_by_8_has_its_scale_in_the_row_s_type(void **state)
{
	const uint16_t x[9] = {
		0x3c00, 0xb800, 0x7e00, 0x7c00, 0, 0x8000, 0, 0, 0x0001};
	const float scale = 0x1.02p-7f;
	int64_t nans = 0, infs = 0;
	float values[9];

	(void)state;
	reference_travel_row(SHUNT_COMBINE_QUANT_INT8_8, SHUNT_DTYPE_F16, x, 9,
		values, &nans, &infs);
	assert_true(values[0] == 127 * scale);
	assert_true(values[1] == -64 * scale); /* -63.5 is a tie */
	assert_true(values[2] == 0);
	assert_true(values[3] == 127 * scale);
	assert_true(values[4] == 0 && values[5] == 0);
	/* A group of its own, whose scale is too small for f16. */
	assert_true(values[8] == 0);
	assert_int_equal(nans, 1);
	assert_int_equal(infs, 1);
}

static void int8_by_128_has_its_scale_in_f32(void **state)
{
	float x[130] = {[0] = 254, [1] = -3, [128] = 0, [129] = -INFINITY};
	int64_t nans = 0, infs = 0;
	float values[130];

	(void)state;
	reference_travel_row(SHUNT_COMBINE_QUANT_INT8_128, SHUNT_DTYPE_F32, x,
		130, values, &nans, &infs);
	assert_true(values[0] == 254);
	assert_true(values[1] == -4); /* -1.5 is a tie */
	assert_true(values[128] == 0 && values[129] == 0);
	assert_int_equal(infs, 1);
}

static void fp8_travels_as_in_dispatch(void **state)
{
	float x[129] = {[0] = 448, [1] = 17, [2] = NAN, [128] = 28};
	int64_t nans = 0, infs = 0;
	float values[129];

	(void)state;
	reference_travel_row(SHUNT_COMBINE_QUANT_E4M3FN_128, SHUNT_DTYPE_F32, x,
		129, values, &nans, &infs);
	assert_true(values[0] == 448 && values[1] == 16 && values[128] == 28);
	assert_true(isnan(values[2]));
	reference_travel_row(SHUNT_COMBINE_QUANT_MXFP8, SHUNT_DTYPE_F32, x, 129,
		values, &nans, &infs);
	assert_true(values[0] == 448 && values[1] == 16 && values[128] == 28);
	assert_true(isnan(values[2]));
	assert_int_equal(nans, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reference_gives_the_golden_rows_back),
		cmocka_unit_test(library_gives_the_golden_rows_back),
		cmocka_unit_test(int8_by_8_has_its_scale_in_the_row_s_type),
		cmocka_unit_test(int8_by_128_has_its_scale_in_f32),
		cmocka_unit_test(fp8_travels_as_in_dispatch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
