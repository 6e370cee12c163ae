/*
 * Identity experts give x back: each expert turns its row back into numbers and
 * rounds them to the row type, the weights of a token add up to one, and what
 * combine returns is within the formats' own error of x, in every mode.
 *
 * The bound, for an element x of a group with scale s (what q is multiplied
 * by), is derived and not tuned. Let u be half the spacing of a type next to 1:
 * 2^-24 for f32, 2^-11 for f16, 2^-8 for bf16.
 *
 *	int8		q is the whole number nearest to x / s:	s / 2
 *	fp8, fp4	half the spacing at x / s: for M fraction bits
 *			2^-(M + 1) |x|, but at least half the least positive
 *			value, times s
 *	MX		as fp8; besides, what lies between FMAX and the next
 *			power of two becomes FMAX, which is up to 1/8 (E4M3FN:
 *			64 of 512; E5M2: 8192 of 65536) or 1/4 (E2M1: 2 of 8)
 *			off: 2^-3 |x|, 2^-2 |x|
 *	NVFP4		as fp4; the scale is itself rounded to E4M3FN, 2^-4
 *			off at most, so that x / s is at most 6 / (1 - 2^-4) =
 *			6.4, and 0.4 of 6.4 is less than 2^-2 |x|
 *
 * with s = amax / FMAX, twice that where it goes up to a power of two, and
 * exactly 2^(code - 127) in MX. The f32 operations on the way (f, y * f,
 * 1 / f, q * s, and so on) add less than 8 * 2^-24 of the group's largest
 * value. The expert's rounding adds u of the row type, and where that is f16,
 * 2^-25 for denormals. Combine's communication quantization is one of the modes
 * again, on y; int8 by 8 has its scale rounded to the row type besides, which
 * adds u |y|. The weights are powers of two, so that products are exact, and
 * three sums add 3 * 2^-24. The output's rounding adds u of its type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <shunt/quant.h>

#include "reference/convert.h"
#include "reference/inputs.h"
#include "support/ranks.h"

#define NUM_RANKS 4
#define TOKENS    6
#define HIDDEN    300 /* no multiple of any group */
#define TOPK      4
#define EXPERTS   6

static const float weights[TOPK] = {0.5f, 0.25f, 0.125f, 0.125f};

/* One mode of dispatch. */
struct mode {
	enum shunt_quant quant;
	enum shunt_scale_form form;
};

static const struct mode modes[] = {
	{SHUNT_QUANT_NONE, SHUNT_SCALE_F32},
	{SHUNT_QUANT_INT8, SHUNT_SCALE_F32},
	{SHUNT_QUANT_E4M3FN, SHUNT_SCALE_F32},
	{SHUNT_QUANT_E5M2, SHUNT_SCALE_F32},
	{SHUNT_QUANT_INT8_GROUP, SHUNT_SCALE_F32},
	{SHUNT_QUANT_INT8_GROUP, SHUNT_SCALE_POW2},
	{SHUNT_QUANT_INT8_GROUP, SHUNT_SCALE_E8M0},
	{SHUNT_QUANT_E4M3FN_GROUP, SHUNT_SCALE_F32},
	{SHUNT_QUANT_E4M3FN_GROUP, SHUNT_SCALE_POW2},
	{SHUNT_QUANT_E4M3FN_GROUP, SHUNT_SCALE_E8M0},
	{SHUNT_QUANT_E5M2_GROUP, SHUNT_SCALE_F32},
	{SHUNT_QUANT_E5M2_GROUP, SHUNT_SCALE_E8M0},
	{SHUNT_QUANT_INT8_STATIC, SHUNT_SCALE_F32},
	{SHUNT_QUANT_E4M3FN_STATIC, SHUNT_SCALE_F32},
	{SHUNT_QUANT_MXFP8_E4M3FN, SHUNT_SCALE_F32},
	{SHUNT_QUANT_MXFP8_E5M2, SHUNT_SCALE_F32},
	{SHUNT_QUANT_MXFP4_E2M1, SHUNT_SCALE_F32},
	{SHUNT_QUANT_NVFP4_E2M1, SHUNT_SCALE_F32},
};

/* ---- the bound -------------------------------------------------------- */

/* What a number may lose in a format: by itself, and by its group. */
struct loss {
	int64_t group; /* elements */
	double relative;
	double of_amax;
};

/* int8 and fp8 with scales of amax / FMAX; `up`: to powers of two. */
static struct loss int8_loss(int64_t group, double up)
{
	return (struct loss){group, 0, up / 2 / 127};
}

static struct loss e4m3fn_loss(int64_t group, double up)
{
	return (struct loss){group, 0x1p-4, up * 0x1p-10 / 448};
}

static struct loss e5m2_loss(int64_t group, double up)
{
	return (struct loss){group, 0x1p-3, up * 0x1p-17 / 57344};
}

/* In MX the scale is at most amax / 2^emax. */
static struct loss mode_loss(const struct mode *mode)
{
	double up = mode->form == SHUNT_SCALE_F32 ? 1 : 2;

	switch (mode->quant) {
	case SHUNT_QUANT_NONE:
		return (struct loss){HIDDEN, 0, 0};
	case SHUNT_QUANT_INT8:
		return int8_loss(HIDDEN, 1);
	case SHUNT_QUANT_E4M3FN:
		return e4m3fn_loss(HIDDEN, 1);
	case SHUNT_QUANT_E5M2:
		return e5m2_loss(HIDDEN, 1);
	case SHUNT_QUANT_INT8_GROUP:
		return int8_loss(128, up);
	case SHUNT_QUANT_E4M3FN_GROUP:
		return e4m3fn_loss(128, up);
	case SHUNT_QUANT_E5M2_GROUP:
		return e5m2_loss(128, up);
	case SHUNT_QUANT_MXFP8_E4M3FN:
		return (struct loss){32, 0x1p-3, 0x1p-10 / 256};
	case SHUNT_QUANT_MXFP8_E5M2:
		return (struct loss){32, 0x1p-3, 0x1p-17 / 32768};
	case SHUNT_QUANT_MXFP4_E2M1:
		return (struct loss){32, 0x1p-2, 0.25 / 4};
	case SHUNT_QUANT_NVFP4_E2M1:
		return (struct loss){16, 0x1p-2, 0.25 / 6 * (1 + 0x1p-4)};
	default:
		/* Static scales: see static_scale(). */
		return (struct loss){HIDDEN, 0, 0};
	}
}

static struct loss travel_loss(enum shunt_combine_quant quant, double u)
{
	struct loss loss = {HIDDEN, 0, 0};

	switch (quant) {
	case SHUNT_COMBINE_QUANT_INT8_8:
		loss = int8_loss(8, 1);
		loss.of_amax += u; /* the scale's rounding, at q = 127 */
		return loss;
	case SHUNT_COMBINE_QUANT_INT8_128:
		return int8_loss(128, 1);
	case SHUNT_COMBINE_QUANT_E4M3FN_128:
		return e4m3fn_loss(128, 1);
	case SHUNT_COMBINE_QUANT_MXFP8:
		return (struct loss){32, 0x1p-3, 0x1p-10 / 256};
	default:
		return loss;
	}
}

static double half_spacing(enum shunt_dtype dtype)
{
	if (dtype == SHUNT_DTYPE_F32)
		return 0x1p-24;
	return dtype == SHUNT_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}

static double amax_of(const float *x, int64_t i, int64_t group)
{
	int64_t first = i / group * group, end = first + group;
	double amax = 0;

	for (int64_t h = first; h < end && h < HIDDEN; h++)
		amax = fmax(amax, fabs((double)x[h]));
	return amax;
}

static double loss_at(const struct loss *loss, const float *x, int64_t i)
{
	double amax = amax_of(x, i, loss->group);

	return fmax(loss->relative * fabs((double)x[i]), loss->of_amax * amax) +
	       8 * 0x1p-24 * amax;
}

/* ---- a step ----------------------------------------------------------- */

struct trip {
	struct mode mode;
	enum shunt_dtype dtype;
	enum shunt_combine_quant travel;
};

static bool is_static(const struct mode *mode)
{
	return mode->quant == SHUNT_QUANT_INT8_STATIC ||
	       mode->quant == SHUNT_QUANT_E4M3FN_STATIC;
}

/* |x| is at most 131070 / 37837 < 3.5: no saturation. A power of two, so that
 * its reciprocal is exact. */
static float static_scale(const struct mode *mode)
{
	return mode->quant == SHUNT_QUANT_INT8_STATIC ? 32 : 128;
}

static double static_loss(const struct mode *mode, float x)
{
	double value = fabs((double)x * (double)static_scale(mode));
	double lost = mode->quant == SHUNT_QUANT_INT8_STATIC
			      ? 0.5
			      : fmax(0x1p-4 * value, 0x1p-10);

	return lost / (double)static_scale(mode);
}

/* The bound of element i. */
static double bound(const struct trip *trip, const float *x, int64_t i)
{
	double u = half_spacing(trip->dtype), size = fabs((double)x[i]);
	struct loss there = mode_loss(&trip->mode);
	struct loss back = travel_loss(trip->travel, u);
	double denormal = trip->dtype == SHUNT_DTYPE_F16 ? 0x1p-24 : 0;
	double lost, amax, scale;

	if (is_static(&trip->mode))
		lost = static_loss(&trip->mode, x[i]);
	else if (trip->mode.quant == SHUNT_QUANT_NONE)
		lost = 0;
	else
		lost = loss_at(&there, x, i);
	lost += u * (size + lost) + denormal;
	if (trip->travel != SHUNT_COMBINE_QUANT_NONE) {
		/* y is not x: its size and its group's amax are larger by what
		 * any element may have lost so far. */
		amax = amax_of(x, i, back.group);
		scale = 1 + u + there.relative +
			there.of_amax * amax_of(x, i, there.group) / amax;
		if (is_static(&trip->mode))
			scale += 0x1p-4 + 0.5 / 32 / amax;
		lost += fmax(back.relative * (size + lost),
				back.of_amax * amax * scale) +
			8 * 0x1p-24 * amax * scale;
		/* A scale of f16 that is denormal, 127 times. */
		lost += 127 * denormal;
	}
	lost += 3 * 0x1p-24 * (size + lost);
	return lost + u * (size + lost) + denormal;
}

/* Rows of different sizes; not with static scales, nor in f16 where most of
 * them would be denormal. */
static void fill_x(struct seat *seat, const struct trip *trip, void *x)
{
	struct input_key key = {11, trip->mode.quant, seat->rank};
	int64_t bytes = HIDDEN * (int64_t)convert_bytes(trip->dtype);
	int factor = trip->dtype == SHUNT_DTYPE_F16 ? 1 : 9;
	float values[HIDDEN];
	void *row;

	for (int t = 0; t < TOKENS; t++) {
		row = (uint8_t *)x + t * bytes;
		input_x_row(&key, INPUT_NORMAL, trip->dtype, HIDDEN, t, row);
		if (is_static(&trip->mode))
			continue;
		convert_load(trip->dtype, row, HIDDEN, values);
		for (int h = 0; h < HIDDEN; h++)
			values[h] = ldexpf(values[h], (t - 2) * factor);
		convert_store(trip->dtype, values, HIDDEN, row);
	}
}

/* What an identity expert does, for all rows. */
static void give_back(struct seat *seat, const struct trip *trip,
	const struct shunt_dispatch_out *out)
{
	struct shunt_dequantize_args args = SHUNT_DEQUANTIZE_ARGS_INIT;
	const float scale = 1 / static_scale(&trip->mode);

	args.quant = trip->mode.quant;
	args.scale_form = trip->mode.form;
	args.dtype = trip->dtype;
	args.num_rows = out->num_rows;
	args.hidden = HIDDEN;
	args.q = out->expand_x;
	args.scales = out->dynamic_scales;
	args.scale_row_stride = out->scale_row_stride;
	args.scale_group_stride = out->scale_group_stride;
	args.row_scales = out->row_scales;
	if (is_static(&trip->mode)) {
		args.scales = &scale;
		args.scale_row_stride = 0;
		args.scale_group_stride = 0;
	}
	args.x = out->expert_rows;
	SEAT_OK(seat, shunt_dequantize_rows(&args));
}

static void check_back(struct seat *seat, const struct trip *trip,
	const void *x, const void *back)
{
	int64_t bytes = HIDDEN * (int64_t)convert_bytes(trip->dtype);
	float there[HIDDEN], here[HIDDEN];
	double off;

	for (int t = 0; t < TOKENS; t++) {
		convert_load(trip->dtype, (const uint8_t *)x + t * bytes,
			HIDDEN, there);
		convert_load(trip->dtype, (const uint8_t *)back + t * bytes,
			HIDDEN, here);
		for (int h = 0; h < HIDDEN; h++) {
			off = fabs((double)here[h] - (double)there[h]);
			SEAT_CHECK(seat, off <= bound(trip, there, h),
				"token %d element %d: %a came back as %a, "
				"the bound is %g",
				t, h, (double)there[h], (double)here[h],
				bound(trip, there, h));
		}
	}
}

static struct shunt_exchange_config config_of(const struct trip *trip)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = TOKENS;
	config.hidden = HIDDEN;
	config.topk = TOPK;
	config.num_experts = EXPERTS;
	config.dtype = trip->dtype;
	config.expert_dtype = trip->dtype;
	config.quant = trip->mode.quant;
	config.scale_form = trip->mode.form;
	config.combine_quant = trip->travel;
	return config;
}

static void go_and_return(struct seat *seat, const struct trip *trip)
{
	struct shunt_exchange_config config = config_of(trip);
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	const float scale = static_scale(&trip->mode);
	float x[TOKENS * HIDDEN], back[TOKENS * HIDDEN];
	float all_weights[TOKENS * TOPK];
	int32_t ids[TOKENS * TOPK];
	struct shunt_exchange *exchange;
	struct shunt_handle handle;

	for (int i = 0; i < TOKENS * TOPK; i++) {
		ids[i] = (i * 5 + seat->rank + i / TOPK) % EXPERTS;
		all_weights[i] = weights[i % TOPK];
	}
	fill_x(seat, trip, x);
	args.x = x;
	args.num_tokens = TOKENS;
	args.expert_ids = ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = all_weights;
	args.static_scales = is_static(&trip->mode) ? &scale : NULL;
	combine.out = back;
	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	give_back(seat, trip, &out);
	combine.y = out.expert_rows;
	SEAT_OK(seat, shunt_combine(handle, &combine));
	check_back(seat, trip, x, back);
	shunt_exchange_destroy(exchange);
}

static void all_modes(struct seat *seat)
{
	struct trip trip;

	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		trip.mode = modes[m];
		for (int dtype = SHUNT_DTYPE_F32; dtype <= SHUNT_DTYPE_BF16;
			dtype++) {
			for (int travel = 0;
				travel <= SHUNT_COMBINE_QUANT_MXFP8; travel++) {
				trip.dtype = (enum shunt_dtype)dtype;
				trip.travel = (enum shunt_combine_quant)travel;
				seat_label(seat,
					"quant %d form %d dtype %d back %d: ",
					trip.mode.quant, trip.mode.form, dtype,
					travel);
				go_and_return(seat, &trip);
			}
		}
	}
}

static void identity_experts_give_x_back(void **state)
{
	(void)state;
	ranks_run_both(NUM_RANKS, all_modes, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity_experts_give_x_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
