/*
 * Golden rows: what each mode makes of a row, worked out by hand from the
 * specification (and the OCP MX and NVFP4 texts). The reference is measured
 * by them, and the library by the same.
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

#define MOST 320 /* elements of a row */

/* A row of f32 and what becomes of it; scales as they lie in memory. */
struct golden {
	const char *name;
	enum shunt_quant quant;
	enum shunt_scale_form form;
	int hidden, num_bytes, scale_bytes;
	/* Elements that are not given are 0, and so are bytes. */
	float x[MOST];
	uint8_t q[MOST];
	union {
		float floats[8];
		uint8_t bytes[8];
	} scales;
	float row_scale;
	int nans, infs;
	const float *smooth, *fixed;
	bool fixed_is_one;
};

static const float halves[8] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
static const float two = 2, huge = 10;
static const float mixed[4] = {1, 2, 4, 0.25f};

static const struct golden goldens[] = {
	{
		.name = "int8: f = 1/2, ties to even, NaN and Inf by "
			"themselves",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 8,
		.num_bytes = 8,
		.scale_bytes = 4,
		.x = {254, -1, 1, 3, 5, NAN, INFINITY, -INFINITY},
		.q = {127, 0, 0, 2, 2, 0, 127, 0x81},
		.scales = {.floats = {2}},
		.nans = 1,
		.infs = 2,
	},
	{
		.name = "int8: smooth scales before amax",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 4,
		.num_bytes = 4,
		.scale_bytes = 4,
		.x = {127, 63.5f, 8, 4},
		.q = {127, 127, 32, 1},
		.scales = {.floats = {1}},
		.smooth = mixed,
	},
	{
		.name = "int8: a zero row",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 3,
		.num_bytes = 3,
		.scale_bytes = 4,
		.x = {0, -0.0f, 0},
		.q = {0},
		.scales = {.floats = {0}},
	},
	{
		.name = "int8: 127 * 2^-128 is too small: 127 / amax is "
			"infinite",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 3,
		.num_bytes = 3,
		.scale_bytes = 4,
		.x = {0x1.fcp-122f, -0x1p-122f, 0},
		.q = {0, 0, 0},
		.scales = {.floats = {0}},
	},
	{
		/* f = 127 * 2^121; 1 / f = 2^28 / 127 quanta of 2^-149. */
		.name = "int8: 2^-121 is not, and the scale is a denormal",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 3,
		.num_bytes = 3,
		.scale_bytes = 4,
		.x = {0x1p-121f, -0x1p-122f, 0x1p-149f},
		.q = {127, 0xc0, 0},
		.scales = {.floats = {0x1.020408p-128f}},
	},
	{
		.name = "int8: nothing finite: scale 0, Inf is still 127",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 3,
		.num_bytes = 3,
		.scale_bytes = 4,
		.x = {INFINITY, NAN, -INFINITY},
		.q = {127, 0, 0x81},
		.scales = {.floats = {0}},
		.nans = 1,
		.infs = 2,
	},
	{
		.name = "int8: zeros besides Inf",
		.quant = SHUNT_QUANT_INT8,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 4,
		.x = {INFINITY, 0},
		.q = {127, 0},
		.scales = {.floats = {0}},
		.infs = 1,
	},
	{
		/* Ties: 1.0625, 1.1875, 2^-10, 3 * 2^-10, 432, 17. */
		.name = "e4m3fn: f = 1, ties to the even code",
		.quant = SHUNT_QUANT_E4M3FN,
		.hidden = 13,
		.num_bytes = 13,
		.scale_bytes = 4,
		.x = {448, 1, -1, 1.0625f, 1.1875f, 0x1p-10f, 0x3p-10f,
			-0x1p-10f, NAN, INFINITY, -INFINITY, 432, 17},
		.q = {0x7e, 0x38, 0xb8, 0x38, 0x3a, 0x00, 0x02, 0x80, 0x7f,
			0x7e, 0xfe, 0x7e, 0x58},
		.scales = {.floats = {1}},
		.nans = 1,
		.infs = 2,
	},
	{
		.name = "e4m3fn: f = 4, the sign of zero stays",
		.quant = SHUNT_QUANT_E4M3FN,
		.hidden = 3,
		.num_bytes = 3,
		.scale_bytes = 4,
		.x = {112, -0.0f, 0.25f},
		.q = {0x7e, 0x80, 0x38},
		.scales = {.floats = {0.25f}},
	},
	{
		.name = "e4m3fn: a zero row is +0",
		.quant = SHUNT_QUANT_E4M3FN,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 4,
		.x = {-0.0f, 0},
		.q = {0, 0},
		.scales = {.floats = {0}},
	},
	{
		/* f = 448 * 2^119 = 1.75 * 2^127 is finite ... */
		.name = "e4m3fn: the smallest power of two that is quantized",
		.quant = SHUNT_QUANT_E4M3FN,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 4,
		.x = {0x1p-119f, -0x1p-120f},
		.q = {0x7e, 0xf6},
		.scales = {.floats = {0x1.249248p-128f}},
	},
	{
		/* ... and 448 * 2^120 is not. */
		.name = "e4m3fn: half of that is zeros, and NaN among them",
		.quant = SHUNT_QUANT_E4M3FN,
		.hidden = 3,
		.num_bytes = 3,
		.scale_bytes = 4,
		.x = {0x1p-120f, -0x1p-120f, NAN},
		.q = {0, 0, 0x7f},
		.scales = {.floats = {0}},
		.nans = 1,
	},
	{
		/* Ties: 1.125, 1.375, 2^-17, 3 * 2^-17, 53248. */
		.name = "e5m2: f = 1, ties to the even code",
		.quant = SHUNT_QUANT_E5M2,
		.hidden = 9,
		.num_bytes = 9,
		.scale_bytes = 4,
		.x = {57344, 1.125f, -1.375f, 0x1p-17f, 0x3p-17f, NAN, INFINITY,
			-INFINITY, 53248},
		.q = {0x7b, 0x3c, 0xbe, 0x00, 0x02, 0x7e, 0x7b, 0xfb, 0x7a},
		.scales = {.floats = {1}},
		.nans = 1,
		.infs = 2,
	},
	{
		.name = "int8 by group: 128 and a short one",
		.quant = SHUNT_QUANT_INT8_GROUP,
		.form = SHUNT_SCALE_F32,
		.hidden = 130,
		.num_bytes = 130,
		.scale_bytes = 8,
		.x = {[0] = 127, [1] = 64, [127] = -5, [128] = 254, [129] = 3},
		.q = {[0] = 127,
			[1] = 64,
			[127] = 0xfb,
			[128] = 127,
			[129] = 2},
		.scales = {.floats = {1, 2}},
	},
	{
		.name = "int8 by group: an Inf is its own group's",
		.quant = SHUNT_QUANT_INT8_GROUP,
		.form = SHUNT_SCALE_F32,
		.hidden = 258,
		.num_bytes = 258,
		.scale_bytes = 12,
		.x = {[0] = INFINITY, [128] = 127, [129] = 1, [256] = NAN},
		.q = {[0] = 127, [128] = 127, [129] = 1},
		.scales = {.floats = {0, 1, 0}},
		.nans = 1,
		.infs = 1,
	},
	{
		/* 1 / (448 / 672) = 1.5, up to 2; 336 is a tie, 160 is not. */
		.name = "e4m3fn by group: the scale goes up to a power of two",
		.quant = SHUNT_QUANT_E4M3FN_GROUP,
		.form = SHUNT_SCALE_POW2,
		.hidden = 129,
		.num_bytes = 129,
		.scale_bytes = 8,
		.x = {[0] = 672, [1] = -320, [128] = 448},
		.q = {[0] = 0x7a, [1] = 0xf2, [128] = 0x7e},
		.scales = {.floats = {2, 1}},
	},
	{
		.name = "e4m3fn by group: the same as E8M0",
		.quant = SHUNT_QUANT_E4M3FN_GROUP,
		.form = SHUNT_SCALE_E8M0,
		.hidden = 129,
		.num_bytes = 129,
		.scale_bytes = 2,
		.x = {[0] = 672, [1] = -320, [128] = 448},
		.q = {[0] = 0x7a, [1] = 0xf2, [128] = 0x7e},
		.scales = {.bytes = {128, 127}},
	},
	{
		/* 1 / f is below 2^-127, which is the least: 2^-119 * 2^127. */
		.name = "e4m3fn by group: no scale below 2^-127",
		.quant = SHUNT_QUANT_E4M3FN_GROUP,
		.form = SHUNT_SCALE_POW2,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 4,
		.x = {0x1p-119f, -0x1p-127f},
		.q = {0x78, 0xb8},
		.scales = {.floats = {0x1p-127f}},
	},
	{
		.name = "e4m3fn by group: that is E8M0's 0, as is a zero "
			"group's",
		.quant = SHUNT_QUANT_E4M3FN_GROUP,
		.form = SHUNT_SCALE_E8M0,
		.hidden = 129,
		.num_bytes = 129,
		.scale_bytes = 2,
		.x = {[0] = 0x1p-119f, [128] = -0.0f},
		.q = {[0] = 0x78},
		.scales = {.bytes = {0, 0}},
	},
	{
		.name = "int8 by group, E8M0: 2^-120",
		.quant = SHUNT_QUANT_INT8_GROUP,
		.form = SHUNT_SCALE_E8M0,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 1,
		.x = {0x1.fcp-114f, 0x1p-121f},
		.q = {127, 0},
		.scales = {.bytes = {7}},
	},
	{
		.name = "e5m2 by group: one of its scales",
		.quant = SHUNT_QUANT_E5M2_GROUP,
		.form = SHUNT_SCALE_F32,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 4,
		.x = {28672, -0.5f},
		.q = {0x7b, 0xbc},
		.scales = {.floats = {0.5f}},
	},
	{
		.name = "int8 static: ties to even, -128 to 127, Inf too",
		.quant = SHUNT_QUANT_INT8_STATIC,
		.hidden = 9,
		.num_bytes = 9,
		.scale_bytes = 0,
		.x = {100, -64, -65, 0.25f, 0.75f, -0.75f, NAN, -INFINITY,
			INFINITY},
		.q = {127, 0x80, 0x80, 0, 2, 0xfe, 0, 0x80, 127},
		.nans = 1,
		.infs = 2,
		.fixed = &two,
		.fixed_is_one = true,
	},
	{
		.name = "int8 static: what the scale makes infinite is an Inf",
		.quant = SHUNT_QUANT_INT8_STATIC,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 0,
		.x = {1e38f, -1e38f},
		.q = {127, 0x80},
		.infs = 2,
		.fixed = &huge,
		.fixed_is_one = true,
	},
	{
		.name = "int8 static: a scale per element, behind smooth "
			"scales",
		.quant = SHUNT_QUANT_INT8_STATIC,
		.hidden = 4,
		.num_bytes = 4,
		.scale_bytes = 0,
		.x = {10, 10, 10, 100},
		.q = {5, 10, 20, 12},
		.smooth = halves,
		.fixed = mixed,
	},
	{
		.name = "e4m3fn static: saturates at 448",
		.quant = SHUNT_QUANT_E4M3FN_STATIC,
		.hidden = 6,
		.num_bytes = 6,
		.scale_bytes = 0,
		.x = {232, 240, -1000, 0.5f, NAN, -INFINITY},
		.q = {0x7e, 0x7e, 0xfe, 0x38, 0x7f, 0xfe},
		.nans = 1,
		.infs = 1,
		.fixed = &two,
		.fixed_is_one = true,
	},
	{
		/* Exponent 127 - 8 = 119: times 2^8. */
		.name = "mxfp8 e4m3fn: one block and the code without elements",
		.quant = SHUNT_QUANT_MXFP8_E4M3FN,
		.hidden = 8,
		.num_bytes = 8,
		.scale_bytes = 2,
		.x = {1, 1.9999999f, -0.5f, 0x1p-17f, 0x1p-18f, NAN, -INFINITY,
			-0.0f},
		.q = {0x78, 0x7e, 0xf0, 0x01, 0x00, 0x7f, 0xfe, 0x80},
		.scales = {.bytes = {119, 0}},
		.nans = 1,
		.infs = 1,
	},
	{
		.name = "mxfp8 e4m3fn: zero, nothing finite, a last short one",
		.quant = SHUNT_QUANT_MXFP8_E4M3FN,
		.hidden = 65,
		.num_bytes = 65,
		.scale_bytes = 4,
		.x = {[1] = -0.0f,
			[32] = NAN,
			[33] = INFINITY,
			[34 ... 63] = NAN,
			[64] = 512},
		.q = {[1] = 0x80,
			[32] = 0x7f,
			[33] = 0x7e,
			[34 ... 63] = 0x7f,
			[64] = 0x78},
		.scales = {.bytes = {0, 0, 128, 0}},
		.nans = 31,
		.infs = 1,
	},
	{
		.name = "mxfp8 e4m3fn: the largest exponent, and below the "
			"least code",
		.quant = SHUNT_QUANT_MXFP8_E4M3FN,
		.hidden = 64,
		.num_bytes = 64,
		.scale_bytes = 2,
		.x = {[0] = 0x1p127f,
			[1] = 0x1p109f,
			[32] = 0x1p-130f,
			[33] = -0x1p-119f},
		.q = {[0] = 0x78, [1] = 0x00, [32] = 0x20, [33] = 0xf8},
		.scales = {.bytes = {246, 0}},
	},
	{
		/* Exponent 127 - 15 = 112: times 2^15. */
		.name = "mxfp8 e5m2: one block",
		.quant = SHUNT_QUANT_MXFP8_E5M2,
		.hidden = 5,
		.num_bytes = 5,
		.scale_bytes = 2,
		.x = {1, 1.75f, -1.9f, NAN, INFINITY},
		.q = {0x78, 0x7b, 0xfb, 0x7e, 0x7b},
		.scales = {.bytes = {112, 0}},
		.nans = 1,
		.infs = 1,
	},
	{
		.name = "mxfp8 e5m2: a block of denormals",
		.quant = SHUNT_QUANT_MXFP8_E5M2,
		.hidden = 2,
		.num_bytes = 2,
		.scale_bytes = 2,
		.x = {0x1p-140f, -0x1p-144f},
		.q = {0x08, 0x80},
		.scales = {.bytes = {0, 0}},
	},
	{
		/* Exponent 129 - 2 = 127: times 1. Nibbles, low first:
		 * 6 7 6 4 6 0 2 c 0 f 7, and an empty one. */
		.name = "mxfp4: ties to the even code, two in a byte",
		.quant = SHUNT_QUANT_MXFP4_E2M1,
		.hidden = 11,
		.num_bytes = 6,
		.scale_bytes = 2,
		.x = {4, 6, 5, 2.5f, 3.5f, 0.25f, 0.75f, -1.75f, NAN, -INFINITY,
			7.9f},
		.q = {0x76, 0x46, 0x06, 0xc2, 0xf0, 0x07},
		.scales = {.bytes = {127, 0}},
		.nans = 1,
		.infs = 1,
	},
	{
		/* amax 2688: enc = dec = 1. Blocks: 448 (1/448 each), 6 / 6,
		 * zeros, and 6 * 2^-10 whose code is a tie that goes to 0. */
		.name = "nvfp4: blocks of 448, 1, 0 and what is too small",
		.quant = SHUNT_QUANT_NVFP4_E2M1,
		.hidden = 49,
		.num_bytes = 25,
		.scale_bytes = 4,
		.x = {[0] = 2688,
			[1] = -1344,
			[2] = 448,
			[16] = 6,
			[17] = -5,
			[18] = 0.25f,
			[19] = 0.75f,
			[20] = -0.0f,
			[32] = -0.0f,
			[48] = 0x6p-10f},
		.q = {[0] = 0xd7,
			[1] = 0x02,
			[8] = 0xe7,
			[9] = 0x20,
			[10] = 0x08},
		.scales = {.bytes = {0x7e, 0x38, 0, 0}},
		.row_scale = 1,
	},
	{
		.name = "nvfp4: NaN is +0 and Inf is 6, whatever the block",
		.quant = SHUNT_QUANT_NVFP4_E2M1,
		.hidden = 18,
		.num_bytes = 9,
		.scale_bytes = 2,
		.x = {[0] = 2688,
			[1] = NAN,
			[2] = -INFINITY,
			[16] = -NAN,
			[17] = INFINITY},
		.q = {[0] = 0x07, [1] = 0x0f, [8] = 0x70},
		.scales = {.bytes = {0x7e, 0}},
		.row_scale = 1,
		.nans = 2,
		.infs = 2,
	},
	{
		.name = "nvfp4: a zero row",
		.quant = SHUNT_QUANT_NVFP4_E2M1,
		.hidden = 3,
		.num_bytes = 2,
		.scale_bytes = 1,
		.x = {-0.0f, 0, INFINITY},
		.q = {0x00, 0x07},
		.scales = {.bytes = {0}},
		.row_scale = 0,
		.infs = 1,
	},
};

/* What somebody made of a golden row. */
struct made {
	uint8_t q[MOST], scales[32];
	float row_scale;
	int64_t nans, infs;
};

static void check_bytes(const struct golden *golden, const char *what,
	const uint8_t *expected, const uint8_t *got, int count)
{
	for (int i = 0; i < count; i++)
		if (got[i] != expected[i])
			fail_msg("%s: %s[%d] is 0x%02x, not 0x%02x",
				golden->name, what, i, got[i], expected[i]);
}

static void check_made(const struct golden *golden, const struct made *made)
{
	check_bytes(golden, "q", golden->q, made->q, golden->num_bytes);
	check_bytes(golden, "scales", golden->scales.bytes, made->scales,
		golden->scale_bytes);
	if (made->row_scale != golden->row_scale)
		fail_msg("%s: row scale %a", golden->name,
			(double)made->row_scale);
	if (made->nans != golden->nans || made->infs != golden->infs)
		fail_msg("%s: %d NaN, %d Inf", golden->name, (int)made->nans,
			(int)made->infs);
}

static void make_by_reference(const struct golden *golden, struct made *made)
{
	struct reference_row row = {
		.quant = golden->quant,
		.form = golden->form,
		.dtype = SHUNT_DTYPE_F32,
		.hidden = golden->hidden,
		.x = golden->x,
		.smooth = golden->smooth,
		.fixed = golden->fixed,
		.fixed_is_one = golden->fixed_is_one,
		.q = made->q,
		.scales = made->scales,
		.row_scale = &made->row_scale,
	};

	reference_quantize_row(&row);
	made->nans = row.nan_elements;
	made->infs = row.inf_elements;
}

static void make_by_library(const struct golden *golden, struct made *made)
{
	struct shunt_quantize_args args = SHUNT_QUANTIZE_ARGS_INIT;

	args.quant = golden->quant;
	args.scale_form = golden->form;
	args.dtype = SHUNT_DTYPE_F32;
	args.num_rows = 1;
	args.hidden = golden->hidden;
	args.x = golden->x;
	args.smooth_scales = golden->smooth;
	args.static_scales = golden->fixed;
	if (!golden->fixed_is_one && golden->fixed != NULL)
		args.static_shape = SHUNT_STATIC_HIDDEN;
	args.q = made->q;
	if (golden->scale_bytes > 0)
		args.scales = made->scales;
	if (golden->quant == SHUNT_QUANT_NVFP4_E2M1)
		args.row_scales = &made->row_scale;
	args.nan_elements = &made->nans;
	args.inf_elements = &made->infs;
	if (shunt_quantize_rows(&args) != SHUNT_OK)
		fail_msg("%s: %s", golden->name, shunt_error_message());
}

static void reference_gives_the_golden_rows(void **state)
{
	struct made made;

	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		memset(&made, 0, sizeof(made));
		make_by_reference(&goldens[i], &made);
		check_made(&goldens[i], &made);
	}
}

static void library_gives_the_golden_rows(void **state)
{
	struct made made;

	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		memset(&made, 0, sizeof(made));
		make_by_library(&goldens[i], &made);
		check_made(&goldens[i], &made);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reference_gives_the_golden_rows),
		cmocka_unit_test(library_gives_the_golden_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
