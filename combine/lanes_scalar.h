/*
 * 16 lanes of f32 in plain C: the definition of lanes_avx2.h, which gives the
 * same bits. A file of kernels includes one of the two, then acc_template.h,
 * which is written in these words.
 *
 * Loads take the first `count` (1 .. 16) elements from element i on; lanes
 * beyond are +0.0f, and what lies there is not touched. Types are constants at
 * each call.
 */
#ifndef COMBINE_LANES_SCALAR_H
#define COMBINE_LANES_SCALAR_H

#include <math.h>

#include "base/half.h"
#include "quant/decode.h"

#define LANES_INLINE static inline __attribute__((always_inline))

struct lanes {
	float v[16];
};

LANES_INLINE struct lanes lanes_set(float value)
{
	struct lanes lanes;

	for (int j = 0; j < 16; j++)
		lanes.v[j] = value;
	return lanes;
}

/* The lower half of the lanes, and the upper one. */
LANES_INLINE struct lanes lanes_set2(float low, float high)
{
	struct lanes lanes;

	for (int j = 0; j < 16; j++)
		lanes.v[j] = j < 8 ? low : high;
	return lanes;
}

LANES_INLINE struct lanes lanes_add(struct lanes a, struct lanes b)
{
	for (int j = 0; j < 16; j++)
		a.v[j] = a.v[j] + b.v[j];
	return a;
}

LANES_INLINE struct lanes lanes_mul(struct lanes a, struct lanes b)
{
	for (int j = 0; j < 16; j++)
		a.v[j] = a.v[j] * b.v[j];
	return a;
}

/* Lanes i and i + 8 are added, then i and i + 4, i + 2, i + 1. */
LANES_INLINE float lanes_fold(struct lanes lanes)
{
	for (int half = 8; half > 0; half /= 2)
		for (int j = 0; j < half; j++)
			lanes.v[j] = lanes.v[j] + lanes.v[j + half];
	return lanes.v[0];
}

/* The largest |value| in each half of the lanes, none of which is NaN. */
LANES_INLINE void lanes_top(struct lanes lanes, float *low, float *high)
{
	*low = 0.0f;
	*high = 0.0f;
	for (int j = 0; j < 8; j++) {
		*low = fmaxf(*low, fabsf(lanes.v[j]));
		*high = fmaxf(*high, fabsf(lanes.v[j + 8]));
	}
}

/* Each lane the one of larger |value|, as |value|; none is NaN. */
LANES_INLINE struct lanes lanes_larger(struct lanes a, struct lanes b)
{
	for (int j = 0; j < 16; j++)
		a.v[j] = fmaxf(fabsf(a.v[j]), fabsf(b.v[j]));
	return a;
}

/* NaN and Inf become +0; *nan and *odd are the lanes that are NaN, and either
 * of the two, one bit each. */
LANES_INLINE struct lanes lanes_finite(
	struct lanes lanes, uint32_t *nan, uint32_t *odd)
{
	*nan = 0;
	*odd = 0;
	for (int j = 0; j < 16; j++) {
		uint32_t magnitude = half_bits(lanes.v[j]) & HALF_F32_ABS;

		*nan |= (uint32_t)(magnitude > HALF_F32_INF) << j;
		*odd |= (uint32_t)(magnitude >= HALF_F32_INF) << j;
		if (magnitude >= HALF_F32_INF)
			lanes.v[j] = 0.0f;
	}
	return lanes;
}

/* Elements of F32, F16 or BF16. */
LANES_INLINE struct lanes lanes_load(
	enum shunt_dtype dtype, const void *x, int64_t i, int count)
{
	struct lanes lanes = {{0.0f}};

	for (int j = 0; j < count; j++)
		lanes.v[j] = half_load(dtype, x, i + j);
	return lanes;
}

/* Elements of I8 or E4M3FN. */
LANES_INLINE struct lanes lanes_load_codes(
	enum shunt_dtype code, const void *q, int64_t i, int count)
{
	struct lanes lanes = {{0.0f}};

	for (int j = 0; j < count; j++)
		lanes.v[j] = decode_element(code, q, i + j);
	return lanes;
}

/* Elements i .. i + count - 1 of x become the lanes, rounded as half_store()
 * rounds. */
LANES_INLINE void lanes_store(enum shunt_dtype dtype, void *x, int64_t i,
	struct lanes lanes, int count)
{
	for (int j = 0; j < count; j++)
		half_store(dtype, x, i + j, lanes.v[j]);
}

/*
 * Elements of int8 become lanes / scale, rounded to nearest even and held in
 * -127 .. 127; 0 where the scale is 0 or the lane NaN, but +-127 where it is
 * infinite.
 */
LANES_INLINE void lanes_store_i8(
	void *q, int64_t i, struct lanes lanes, struct lanes scale, int count)
{
	int8_t *codes = (int8_t *)q + i;

	for (int j = 0; j < count; j++) {
		float value = lanes.v[j] / scale.v[j];

		if (isnan(lanes.v[j]) ||
			(scale.v[j] == 0.0f && !isinf(lanes.v[j])))
			value = 0.0f;
		value = value > 127.0f ? 127.0f : value;
		value = value < -127.0f ? -127.0f : value;
		codes[j] = (int8_t)lrintf(value);
	}
}

/* Elements of an accumulator: as they are. */
LANES_INLINE void lanes_store_acc(
	float *acc, int64_t i, struct lanes lanes, int count)
{
	memcpy(acc + i, lanes.v, (size_t)count * sizeof(float));
}

/* f32 of the lanes rounded to the type. */
LANES_INLINE struct lanes lanes_round(
	enum shunt_dtype dtype, struct lanes lanes)
{
	if (dtype == SHUNT_DTYPE_F32)
		return lanes;
	for (int j = 0; j < 16; j++)
		lanes.v[j] = dtype == SHUNT_DTYPE_F16
				     ? half_from_f16(half_to_f16(lanes.v[j]))
				     : half_from_bf16(half_to_bf16(lanes.v[j]));
	return lanes;
}

#endif
