/*
 * The row kernels of one instruction set, written over operations that
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
 *	bool span_tops(dtype, source, first, group, amax)
 *		span_top() of 16 groups from `first` on, as floats; false if
 *		there is no better way than one by one
 *	uint32_t span_groups(dtype, code, source, q, first, group, factors,
 *			     pow2)
 *		the codes of 16 groups from `first` on, finite ones; `pow2` has
 *		the E8M0 codes of scales that are powers of two, or is NULL.
 *		Bit g is set if group g is still to be done
 *
 * A span is read twice: to find its top, from memory, and to encode, from the
 * first-level cache. NaN and Inf show in the top, so that only spans that have
 * some pay for them. group_template.h has the modes of many scales.
 */
#include <string.h>

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

/* The largest finite magnitude of a span; `special` tells whether there are
 * others. */
QUANT_INLINE uint32_t row_finite(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t end,
	struct quant_tally *tally, bool *special)
{
	uint32_t top = span_top(dtype, source, first, end);

	*special = top >= HALF_F32_INF;
	if (__builtin_expect(*special, 0))
		return rare_finite[dtype](*source, first, end, tally);
	return top;
}

QUANT_INLINE void row_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source,
	const struct element_target *target, bool special, int64_t first,
	int64_t end)
{
	if (__builtin_expect(special || target->factor == 0.0f, 0))
		rare_encode[dtype][code](*source, *target, first, end);
	else
		span_encode(dtype, code, source, target, first, end);
}

/* ---- one scale for the row --------------------------------------------- */

QUANT_INLINE void dynamic_row_by(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row, const struct element_source *source)
{
	struct element_target target = {
		.q = row->q,
		.scaled = true,
		.low = -127.0f,
	};
	bool special;
	uint32_t top =
		row_finite(dtype, source, 0, row->hidden, row->tally, &special);
	struct element_scale scale =
		element_scale(code_max(code), half_float(top));

	memcpy(row->scales, &scale.scale, sizeof(scale.scale));
	target.factor = scale.factor;
	row_encode(dtype, code, source, &target, special, 0, row->hidden);
}

/* Two copies, so that no loop asks for smooth. */
QUANT_INLINE void dynamic_row(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row)
{
	struct element_source source = {.x = row->x, .next = row->next};

	if (row->smooth) {
		source.smooth = row->smooth;
		dynamic_row_by(dtype, code, row, &source);
	} else {
		dynamic_row_by(dtype, code, row, &source);
	}
}

QUANT_INLINE void static_row(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row)
{
	const struct element_source source = {
		.x = row->x,
		.smooth = row->smooth,
		.next = row->next,
		.fixed = row->fixed,
		.fixed_is_one = row->fixed_is_one,
	};
	struct element_target target = {
		.q = row->q,
		.factor = 1.0f,
		.clamped = true,
		.low = -128.0f,
	};
	bool special;

	row_finite(dtype, &source, 0, row->hidden, row->tally, &special);
	row_encode(dtype, code, &source, &target, special, 0, row->hidden);
}
