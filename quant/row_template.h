/*
 * The row kernels of one instruction set, written over three operations that
 * the including file has defined before, as always-inline functions (`dtype`,
 * `code` and the fields of *target are constants where that helps):
 *
 *	uint32_t span_top(dtype, source, first, end)
 *		the largest magnitude of elements [first, end), as bits, Inf
 *		and NaN included
 *	uint32_t span_finite(dtype, source, first, end, tally)
 *		the largest finite one; adds to the tally
 *	void span_encode(dtype, code, source, target, first, end)
 *		their codes
 *
 * A group is read twice: to find its top, from memory, and to encode, from the
 * first-level cache. NaN and Inf show in the top, so that only groups that
 * have some pay for them.
 */
#include <string.h>

#include "quant/decode.h"
#include "quant/element.h"
#include "quant/table.h"

/*
 * The paths that are rarely taken, one function each for all modes. They are
 * given copies: the address of a struct that no function has may be kept in
 * registers, whatever is stored through q.
 */
#define ROW_RARE_FINITE(dtype, type)                                      \
	static __attribute__((noinline))                                  \
	uint32_t rare_finite_##type(struct element_source source,         \
		int64_t first, int64_t end, struct quant_tally *tally)    \
	{                                                                 \
		return span_finite(                                       \
			SHUNT_DTYPE_##dtype, &source, first, end, tally); \
	}
#define ROW_RARE_ENCODE(dtype, type, code, name)                              \
	static __attribute__((noinline)) void rare_encode_##name##_##type(    \
		struct element_source source, struct element_target target,   \
		int64_t first, int64_t end)                                   \
	{                                                                     \
		target.special = true;                                        \
		target.scaled = true;                                         \
		target.clamped = true;                                        \
		span_encode(SHUNT_DTYPE_##dtype, SHUNT_DTYPE_##code, &source, \
			&target, first, end);                                 \
	}
#define ROW_RARE(dtype, type)                        \
	ROW_RARE_FINITE(dtype, type)                 \
	ROW_RARE_ENCODE(dtype, type, I8, i8)         \
	ROW_RARE_ENCODE(dtype, type, E4M3FN, e4m3fn) \
	ROW_RARE_ENCODE(dtype, type, E5M2, e5m2)     \
	ROW_RARE_ENCODE(dtype, type, E2M1, e2m1)
#define ROW_RARE_ENCODES(type)                                    \
	{                                                         \
		[SHUNT_DTYPE_I8] = rare_encode_i8_##type,         \
		[SHUNT_DTYPE_E4M3FN] = rare_encode_e4m3fn_##type, \
		[SHUNT_DTYPE_E5M2] = rare_encode_e5m2_##type,     \
		[SHUNT_DTYPE_E2M1] = rare_encode_e2m1_##type,     \
	}

ROW_RARE(F32, f32)
ROW_RARE(F16, f16)
ROW_RARE(BF16, bf16)

static uint32_t (*const rare_finite[QUANT_NUM_DTYPES])(
	struct element_source source, int64_t first, int64_t end,
	struct quant_tally *tally) = QUANT_TABLE(rare_finite);

static void (*const rare_encode[QUANT_NUM_DTYPES][SHUNT_DTYPE_E8M0])(
	struct element_source source, struct element_target target,
	int64_t first, int64_t end) = {
	[SHUNT_DTYPE_F32] = ROW_RARE_ENCODES(f32),
	[SHUNT_DTYPE_F16] = ROW_RARE_ENCODES(f16),
	[SHUNT_DTYPE_BF16] = ROW_RARE_ENCODES(bf16),
};

/*
 * The largest finite magnitude of a span; `special` tells whether there were
 * others. A short group, which is one at most of a row, takes the rare paths
 * as if it had some: a copy of the others would not be worth its size.
 */
QUANT_INLINE uint32_t row_finite(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t end,
	struct quant_tally *tally, bool *special)
{
	uint32_t top = 0;

	if (!*special) {
		top = span_top(dtype, source, first, end);
		*special = top >= HALF_F32_INF;
	}
	if (__builtin_expect(*special, 0)) {
		top = rare_finite[dtype](*source, first, end, tally);
	}
	return top;
}

QUANT_INLINE void row_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source,
	const struct element_target *target, bool special, int64_t first,
	int64_t end)
{
	if (__builtin_expect(special || target->factor == 0.0f, 0)) {
		rare_encode[dtype][code](*source, *target, first, end);
	} else {
		span_encode(dtype, code, source, target, first, end);
	}
}

/* The scale of group `index` is the byte, or the f32. */
QUANT_INLINE void row_put_byte(
	const struct quant_row *row, int64_t index, uint8_t scale)
{
	if (row->scale_step)
		index *= row->scale_step;
	((uint8_t *)row->scales)[index] = scale;
}

QUANT_INLINE void row_put_f32(
	const struct quant_row *row, int64_t index, float scale)
{
	if (row->scale_step)
		index *= row->scale_step;
	memcpy((char *)row->scales + 4 * index, &scale, sizeof(scale));
}

/* ---- dynamic, by row or group ------------------------------------------ */

QUANT_INLINE void dynamic_group(enum shunt_dtype dtype, enum shunt_dtype code,
	enum shunt_scale_form form, const struct quant_row *row,
	const struct element_source *source, int64_t index, int64_t first,
	int64_t end, bool special)
{
	struct element_target target = {
		.q = row->q,
		.scaled = true,
		.low = -127.0f,
	};
	float scale;
	float amax = half_float(
		row_finite(dtype, source, first, end, row->tally, &special));

	if (form == SHUNT_SCALE_F32)
		target.factor = element_factor(code, amax, &scale);
	else
		target.factor = element_factor_pow2(code, amax, &scale);
	if (form == SHUNT_SCALE_E8M0)
		row_put_byte(row, index, (uint8_t)(half_bits(scale) >> 23));
	else
		row_put_f32(row, index, scale);
	row_encode(dtype, code, source, &target, special, first, end);
}

/* The last group may be short; the others have a constant length. */
QUANT_INLINE void dynamic_groups(enum shunt_dtype dtype, enum shunt_dtype code,
	enum shunt_scale_form form, int64_t group, const struct quant_row *row,
	const struct element_source *source)
{
	int64_t first = 0, index = 0;

	for (; row->hidden - first >= group; first += group)
		dynamic_group(dtype, code, form, row, source, index++, first,
			first + group, false);
	if (first < row->hidden)
		dynamic_group(dtype, code, form, row, source, index, first,
			row->hidden, true);
}

/* Two copies, so that no loop asks for smooth. */
QUANT_INLINE void dynamic_row(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row)
{
	const struct element_source plain = {
		.x = row->x,
		.ahead = row->hidden,
	};
	const struct element_source smoothed = {
		.x = row->x,
		.smooth = row->smooth,
		.ahead = row->hidden,
	};

	if (row->smooth)
		dynamic_group(dtype, code, SHUNT_SCALE_F32, row, &smoothed, 0,
			0, row->hidden, false);
	else
		dynamic_group(dtype, code, SHUNT_SCALE_F32, row, &plain, 0, 0,
			row->hidden, false);
}

QUANT_INLINE void dynamic_group_row(enum shunt_dtype dtype,
	enum shunt_dtype code, enum shunt_scale_form form,
	const struct quant_row *row)
{
	const struct element_source plain = {
		.x = row->x,
		.ahead = row->hidden,
	};
	const struct element_source smoothed = {
		.x = row->x,
		.smooth = row->smooth,
		.ahead = row->hidden,
	};

	if (row->smooth)
		dynamic_groups(dtype, code, form, 128, row, &smoothed);
	else
		dynamic_groups(dtype, code, form, 128, row, &plain);
}

/* ---- static ------------------------------------------------------------ */

QUANT_INLINE void static_row(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row)
{
	const struct element_source source = {
		.x = row->x,
		.smooth = row->smooth,
		.ahead = row->hidden,
		.fixed = row->fixed,
		.fixed_is_one = row->fixed_is_one,
	};
	struct element_target target = {
		.q = row->q,
		.factor = 1.0f,
		.clamped = true,
		.low = -128.0f,
	};
	bool special = false;

	row_finite(dtype, &source, 0, row->hidden, row->tally, &special);
	row_encode(dtype, code, &source, &target, special, 0, row->hidden);
}

/* ---- MX ---------------------------------------------------------------- */

QUANT_INLINE void mx_block(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row, const struct element_source *source,
	int64_t index, int64_t first, int64_t end, bool special)
{
	struct element_target target = {
		.q = row->q,
		.scaled = true,
		.clamped = true,
	};
	uint8_t scale = element_mx_code(code,
		row_finite(dtype, source, first, end, row->tally, &special));

	row_put_byte(row, index, scale);
	target.factor = element_inverse(scale);
	row_encode(dtype, code, source, &target, special, first, end);
}

QUANT_INLINE void mx_row(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row)
{
	const struct element_source source = {
		.x = row->x,
		.ahead = row->hidden,
	};
	int64_t first = 0, index = 0;

	for (; row->hidden - first >= 32; first += 32)
		mx_block(dtype, code, row, &source, index++, first, first + 32,
			false);
	if (first < row->hidden)
		mx_block(dtype, code, row, &source, index++, first, row->hidden,
			true);
	if (index % 2)
		row_put_byte(row, index, 0);
}

/* ---- NVFP4 ------------------------------------------------------------- */

/* The factors of a row, both 0 if its finite elements become 0. */
struct nvfp4_factors {
	float enc;
	float dec;
};

/* A block's code, and what its elements are multiplied by. */
QUANT_INLINE uint8_t nvfp4_code(
	const struct nvfp4_factors *factors, float amax, float *factor)
{
	uint8_t code = code_encode_float(
		SHUNT_DTYPE_E4M3FN, amax / 6.0f * factors->enc);

	*factor = 1.0f / (decode_e4m3fn(code) * factors->dec);
	if (isfinite(*factor))
		return code;
	*factor = 0.0f;
	return 0;
}

QUANT_INLINE void nvfp4_block(enum shunt_dtype dtype,
	const struct quant_row *row, const struct nvfp4_factors *factors,
	const struct element_source *source, int64_t first, int64_t end,
	bool special)
{
	struct element_target target = {
		.q = row->q,
		.scaled = true,
		.clamped = true,
	};
	struct quant_tally counted = {0}; /* with the row already */
	float amax = half_float(
		row_finite(dtype, source, first, end, &counted, &special));

	row_put_byte(
		row, first / 16, nvfp4_code(factors, amax, &target.factor));
	row_encode(
		dtype, SHUNT_DTYPE_E2M1, source, &target, special, first, end);
}

QUANT_INLINE void nvfp4_row(enum shunt_dtype dtype, const struct quant_row *row)
{
	const struct element_source source = {
		.x = row->x,
		.ahead = row->hidden,
	};
	struct nvfp4_factors factors;
	int64_t first = 0;
	bool special = false;
	float amax = half_float(row_finite(
		dtype, &source, 0, row->hidden, row->tally, &special));

	factors.enc = 2688.0f / amax;
	if (amax == 0.0f || !isfinite(factors.enc))
		factors.enc = 0.0f;
	factors.dec = factors.enc == 0.0f ? 0.0f : 1.0f / factors.enc;
	memcpy(row->row_scale, &factors.dec, sizeof(factors.dec));
	for (; row->hidden - first >= 16; first += 16)
		nvfp4_block(dtype, row, &factors, &source, first, first + 16,
			false);
	if (first < row->hidden)
		nvfp4_block(dtype, row, &factors, &source, first, row->hidden,
			true);
}
