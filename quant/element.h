/*
 * The rules for one element, in plain C: what the scalar kernels are made of,
 * and what the vector kernels use for tails.
 */
#ifndef QUANT_ELEMENT_H
#define QUANT_ELEMENT_H

#include <math.h>
#include <stdint.h>

#include "base/half.h"
#include "quant/kernels.h"

/* The bits of abs(y). As integers they order like the numbers; Inf is
 * HALF_F32_INF and NaN is above it. */
static inline uint32_t element_magnitude(float y)
{
	return half_bits(y) & HALF_F32_ABS;
}

/* Counts y if it is not finite. */
static inline void element_count(float y, struct quant_tally *tally)
{
	uint32_t magnitude = element_magnitude(y);

	tally->nan_elements += magnitude > HALF_F32_INF;
	tally->inf_elements += magnitude == HALF_F32_INF;
}

/*
 * What a finite y is multiplied by; 0, with scale 0, if the row has no finite
 * element but zeros, or so small ones that 127 / amax is not finite.
 */
static inline float element_int8_factor(float amax, float *scale)
{
	float factor = 127.0f / amax;

	if (amax == 0.0f || !isfinite(factor))
		factor = 0.0f;
	*scale = factor == 0.0f ? 0.0f : 1.0f / factor;
	return factor;
}

/* q of y. Of a finite y the product never rounds beyond 127, because y is not
 * above amax: the clamp is for Inf. */
static inline int8_t element_int8(float y, float factor)
{
	uint32_t magnitude = element_magnitude(y);

	if (magnitude > HALF_F32_INF)
		return 0;
	if (magnitude == HALF_F32_INF)
		return y > 0.0f ? 127 : -127;
	return (int8_t)lrintf(y * factor);
}

/* y of element i: x alone, or times its smooth scale. */
static inline float element_load(
	enum shunt_dtype dtype, const void *x, const float *smooth, int64_t i)
{
	float value = half_load(dtype, x, i);

	return smooth ? value * smooth[i] : value;
}

#endif
