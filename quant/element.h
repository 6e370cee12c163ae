/*
 * The rules for one element, and for the scale of a group, in plain C: what
 * the scalar kernels are made of, and what the vector kernels use for tails.
 */
#ifndef QUANT_ELEMENT_H
#define QUANT_ELEMENT_H

#include <stdint.h>

#include "base/half.h"
#include "quant/code.h"
#include "quant/decode.h"
#include "quant/row.h"

/* Where elements come from. */
struct element_source {
	const void *x;
	const float *smooth; /* or NULL */
	const float *fixed;  /* or NULL */
	bool fixed_is_one;
	const void *next; /* x to ask memory for meanwhile, or NULL */
};

/* What they become. */
struct element_target {
	void *q;
	float factor; /* y is multiplied by it; 0: q = 0 for finite y */
	bool scaled;  /* by the factor; else it is 1, or 0 */
	bool clamped; /* a finite product may be too large */
	bool special; /* there may be NaN and Inf, or the factor be 0; then
		       * clamped, too */
	float low;    /* of I8 */
};

/* y of element i: x alone, or times its smooth and its static scale. */
CODE_INLINE float element_load(
	enum shunt_dtype dtype, const struct element_source *source, int64_t i)
{
	float y = half_load(dtype, source->x, i);

	if (source->smooth)
		y *= half_load(SHUNT_DTYPE_F32, source->smooth, i);
	if (source->fixed)
		y *= half_load(SHUNT_DTYPE_F32, source->fixed,
			source->fixed_is_one ? 0 : i);
	return y;
}

/* The bits of abs(y). As integers they order like the numbers; Inf is
 * HALF_F32_INF and NaN is above it. */
CODE_INLINE uint32_t element_magnitude(float y)
{
	return half_bits(y) & HALF_F32_ABS;
}

/* Counts y if it is not finite. */
CODE_INLINE void element_count(float y, struct quant_tally *tally)
{
	uint32_t magnitude = element_magnitude(y);

	tally->nan_elements += magnitude > HALF_F32_INF;
	tally->inf_elements += magnitude == HALF_F32_INF;
}

/* The largest magnitude of elements [i, end), or `top`. */
CODE_INLINE uint32_t element_top(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end,
	uint32_t top)
{
	for (; i < end; i++) {
		uint32_t magnitude =
			element_magnitude(element_load(dtype, source, i));

		top = magnitude > top ? magnitude : top;
	}
	return top;
}

/* The largest finite magnitude of elements [i, end); counts the others. */
CODE_INLINE uint32_t element_finite(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end,
	struct quant_tally *tally)
{
	uint32_t top = 0;

	for (; i < end; i++) {
		float y = element_load(dtype, source, i);
		uint32_t magnitude = element_magnitude(y);

		if (magnitude >= HALF_F32_INF)
			element_count(y, tally);
		else if (magnitude > top)
			top = magnitude;
	}
	return top;
}

/* The code of y. */
CODE_INLINE uint8_t element_encode(
	enum shunt_dtype code, const struct element_target *target, float y)
{
	float p = target->scaled ? y * target->factor : y;

	if (target->special) {
		uint32_t magnitude = element_magnitude(y);

		if (magnitude > HALF_F32_INF)
			return code_nan(code);
		if (magnitude == HALF_F32_INF)
			p = y; /* clamped below */
		else if (target->factor == 0.0f)
			return 0;
	}
	if (code != SHUNT_DTYPE_I8)
		return code_encode_float(code, p);
	return target->clamped ? code_encode_int8(p, target->low)
			       : code_round(p);
}

/* Elements [i, end) of q; i is even with E2M1. */
CODE_INLINE void element_encode_span(enum shunt_dtype dtype,
	enum shunt_dtype code, const struct element_source *source,
	const struct element_target *target, int64_t i, int64_t end)
{
	const struct element_source from = *source; /* not what q changes */
	const struct element_target to = *target;
	uint8_t *q = to.q;

	for (; i < end; i++) {
		uint8_t next = element_encode(
			code, &to, element_load(dtype, &from, i));

		if (code != SHUNT_DTYPE_E2M1)
			q[i] = next;
		else if (i % 2 == 0)
			q[i / 2] = next;
		else
			q[i / 2] = (uint8_t)(q[i / 2] | next << 4);
	}
}

/* Elements [i, end) of x, times `scale` or, if not NULL, their own scales. */
CODE_INLINE void element_decode_span(enum shunt_dtype dtype,
	enum shunt_dtype code, const struct quant_codes *codes, float scale,
	const void *scales, int64_t i, int64_t end)
{
	for (; i < end; i++) {
		float s =
			scales ? half_load(SHUNT_DTYPE_F32, scales, i) : scale;

		half_store(dtype, codes->x, i,
			decode_element(code, codes->q, i) * s);
	}
}

/* ---- scales ------------------------------------------------------------ */

/* Functions without branches: loops over them become vectors. */
struct element_scale {
	float factor; /* what y is multiplied by */
	float scale;  /* what undoes it ... */
	uint8_t byte; /* ... or its code */
};

/* All 0 if amax is 0, or so small that max / amax is not finite. */
CODE_INLINE struct element_scale element_scale(float max, float amax)
{
	float factor = max / amax; /* of 0: Inf */
	struct element_scale scale = {
		.factor = half_bits(factor) < HALF_F32_INF ? factor : 0.0f,
		.scale = 1.0f / factor, /* of Inf: 0 */
	};

	return scale;
}

/* 1 / 2^(code - 127) of an E8M0 code below 254. */
CODE_INLINE float element_inverse(uint32_t code)
{
	return half_float((254 - code) << 23);
}

/* The scale rounded up to a power of two, 2^-127 or more. Its exponent field
 * is its E8M0 code, that of 2^-127 (a denormal) too. */
CODE_INLINE struct element_scale element_pow2_scale(float max, float amax)
{
	const uint32_t least = 0x00400000;
	struct element_scale scale = element_scale(max, amax);
	uint32_t bits = half_bits(scale.scale);
	uint32_t up = (bits + 0x7fffff) & 0xff800000;

	up = bits <= least ? least : up;
	up = bits == 0 ? 0 : up;
	scale.byte = (uint8_t)(up >> 23);
	scale.factor = bits == 0 ? 0.0f : element_inverse(up >> 23);
	scale.scale = half_float(up);
	return scale;
}

CODE_INLINE struct element_scale element_mx_scale(
	enum shunt_dtype code, float amax)
{
	uint32_t exponent = half_bits(amax) >> 23;
	uint32_t emax = code == SHUNT_DTYPE_E4M3FN ? 8
			: code == SHUNT_DTYPE_E5M2 ? 15
						   : 2;
	uint32_t byte = exponent > emax ? exponent - emax : 0;

	return (struct element_scale){
		.factor = element_inverse(byte),
		.byte = (uint8_t)byte,
	};
}

/* Of an NVFP4 row: enc and dec. */
CODE_INLINE struct element_scale element_nvfp4_row_scale(float amax)
{
	return element_scale(2688.0f, amax);
}

/* Of an NVFP4 block. A factor that is not finite belongs to a block that is
 * zero, or as good as zero: it gets code 0. */
CODE_INLINE struct element_scale element_nvfp4_scale(
	const struct element_scale *row, float amax)
{
	struct code_rounded code =
		code_round_float(SHUNT_DTYPE_E4M3FN, amax / 6.0f * row->factor);
	float factor = 1.0f / (code.value * row->scale);
	bool finite = half_bits(factor) < HALF_F32_INF;

	return (struct element_scale){
		.factor = finite ? factor : 0.0f,
		.byte = (uint8_t)(finite ? code.code : 0),
	};
}

#endif
