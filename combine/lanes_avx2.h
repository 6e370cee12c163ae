/* The words of lanes_scalar.h for AVX2: two vectors of 8. Short loads and
 * stores go by way of a copy of 16 elements. */
#ifndef COMBINE_LANES_AVX2_H
#define COMBINE_LANES_AVX2_H

#if defined(__AVX2__) && defined(__F16C__)

#include <math.h>

#include "base/half_avx2.h"
#include "quant/decode_avx2.h"

#define LANES_INLINE static inline __attribute__((always_inline))

struct lanes {
	__m256 low;
	__m256 high;
};

LANES_INLINE struct lanes lanes_set2(float low, float high)
{
	return (struct lanes){_mm256_set1_ps(low), _mm256_set1_ps(high)};
}

LANES_INLINE struct lanes lanes_set(float value)
{
	return lanes_set2(value, value);
}

LANES_INLINE struct lanes lanes_add(struct lanes a, struct lanes b)
{
	return (struct lanes){
		_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

LANES_INLINE struct lanes lanes_mul(struct lanes a, struct lanes b)
{
	return (struct lanes){
		_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

LANES_INLINE float lanes_fold(struct lanes lanes)
{
	__m256 by8 = _mm256_add_ps(lanes.low, lanes.high);
	__m128 by4 = _mm_add_ps(
		_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
	__m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));

	return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

LANES_INLINE __m256 lanes_abs(__m256 value)
{
	return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), value);
}

LANES_INLINE float lanes_top8(__m256 value)
{
	__m256 by8 = lanes_abs(value);
	__m128 by4 = _mm_max_ps(
		_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
	__m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));

	return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
}

LANES_INLINE void lanes_top(struct lanes lanes, float *low, float *high)
{
	*low = lanes_top8(lanes.low);
	*high = lanes_top8(lanes.high);
}

LANES_INLINE struct lanes lanes_larger(struct lanes a, struct lanes b)
{
	return (struct lanes){_mm256_max_ps(lanes_abs(a.low), lanes_abs(b.low)),
		_mm256_max_ps(lanes_abs(a.high), lanes_abs(b.high))};
}

LANES_INLINE __m256 lanes_finite8(__m256 value, uint32_t *nan, uint32_t *odd)
{
	__m256 is_finite = _mm256_cmp_ps(
		lanes_abs(value), _mm256_set1_ps(INFINITY), _CMP_LT_OQ);
	__m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);

	*nan = (uint32_t)_mm256_movemask_ps(is_nan);
	*odd = (uint32_t)_mm256_movemask_ps(is_finite) ^ 0xff;
	return _mm256_and_ps(value, is_finite);
}

LANES_INLINE struct lanes lanes_finite(
	struct lanes lanes, uint32_t *nan, uint32_t *odd)
{
	uint32_t high_nan, high_odd;

	lanes.low = lanes_finite8(lanes.low, nan, odd);
	lanes.high = lanes_finite8(lanes.high, &high_nan, &high_odd);
	*nan |= high_nan << 8;
	*odd |= high_odd << 8;
	return lanes;
}

LANES_INLINE struct lanes lanes_load(
	enum shunt_dtype dtype, const void *x, int64_t i, int count)
{
	size_t width = dtype == SHUNT_DTYPE_F32 ? 4 : 2;
	const char *at = (const char *)x + (size_t)i * width;
	char copy[64] = {0};

	if (count < 16) {
		memcpy(copy, at, (size_t)count * width);
		at = copy;
	}
	return (struct lanes){
		half_load8(dtype, at, 0), half_load8(dtype, at, 8)};
}

LANES_INLINE struct lanes lanes_load_codes(
	enum shunt_dtype code, const void *q, int64_t i, int count)
{
	const char *at = (const char *)q + i;
	char copy[16] = {0};

	if (count < 16) {
		memcpy(copy, at, (size_t)count);
		at = copy;
	}
	return (struct lanes){
		decode_load8(code, at, 0), decode_load8(code, at, 8)};
}

LANES_INLINE void lanes_store(enum shunt_dtype dtype, void *x, int64_t i,
	struct lanes lanes, int count)
{
	size_t width = dtype == SHUNT_DTYPE_F32 ? 4 : 2;
	char *at = (char *)x + (size_t)i * width;
	char copy[64];
	char *to = count < 16 ? copy : at;

	half_store8(dtype, to, 0, lanes.low);
	half_store8(dtype, to, 8, lanes.high);
	if (count < 16)
		memcpy(at, copy, (size_t)count * width);
}

LANES_INLINE __m256i lanes_to_i8x8(__m256 value, __m256 scale)
{
	__m256 is_number = _mm256_cmp_ps(value, value, _CMP_ORD_Q);
	__m256 is_inf = _mm256_cmp_ps(
		lanes_abs(value), _mm256_set1_ps(INFINITY), _CMP_EQ_OQ);
	__m256 has_scale =
		_mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_NEQ_OQ);
	__m256 q = _mm256_div_ps(value, scale);

	q = _mm256_and_ps(
		q, _mm256_and_ps(is_number, _mm256_or_ps(is_inf, has_scale)));
	q = _mm256_min_ps(q, _mm256_set1_ps(127.0f));
	q = _mm256_max_ps(q, _mm256_set1_ps(-127.0f));
	return _mm256_cvtps_epi32(q);
}

LANES_INLINE void lanes_store_i8(
	void *q, int64_t i, struct lanes lanes, struct lanes scale, int count)
{
	__m256i low = lanes_to_i8x8(lanes.low, scale.low);
	__m256i high = lanes_to_i8x8(lanes.high, scale.high);
	__m256i words =
		_mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
	__m128i codes = _mm_packs_epi16(_mm256_castsi256_si128(words),
		_mm256_extracti128_si256(words, 1));
	char *at = (char *)q + i;

	if (count < 16)
		memcpy(at, &codes, (size_t)count);
	else
		_mm_storeu_si128((void *)at, codes);
}

LANES_INLINE void lanes_store_acc(
	float *acc, int64_t i, struct lanes lanes, int count)
{
	if (count < 16) {
		memcpy(acc + i, &lanes, (size_t)count * sizeof(float));
		return;
	}
	_mm256_storeu_ps(acc + i, lanes.low);
	_mm256_storeu_ps(acc + i + 8, lanes.high);
}

LANES_INLINE struct lanes lanes_round(
	enum shunt_dtype dtype, struct lanes lanes)
{
	char copy[64];

	if (dtype == SHUNT_DTYPE_F32)
		return lanes;
	lanes_store(dtype, copy, 0, lanes, 16);
	return lanes_load(dtype, copy, 0, 16);
}

#endif
#endif
