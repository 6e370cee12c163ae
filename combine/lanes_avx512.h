/* The words of lanes_scalar.h for AVX-512: one vector, and a mask for what is
 * short. */
#ifndef COMBINE_LANES_AVX512_H
#define COMBINE_LANES_AVX512_H

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
	defined(__AVX512DQ__)

#include <math.h>

#include "base/half_avx512.h"
#include "quant/decode_avx512.h"

#define LANES_INLINE static inline __attribute__((always_inline))

struct lanes {
	__m512 v;
};

LANES_INLINE struct lanes lanes_set(float value)
{
	return (struct lanes){_mm512_set1_ps(value)};
}

LANES_INLINE struct lanes lanes_set2(float low, float high)
{
	return (struct lanes){_mm512_mask_mov_ps(
		_mm512_set1_ps(low), 0xff00, _mm512_set1_ps(high))};
}

LANES_INLINE struct lanes lanes_add(struct lanes a, struct lanes b)
{
	return (struct lanes){_mm512_add_ps(a.v, b.v)};
}

LANES_INLINE struct lanes lanes_mul(struct lanes a, struct lanes b)
{
	return (struct lanes){_mm512_mul_ps(a.v, b.v)};
}

LANES_INLINE float lanes_fold(struct lanes lanes)
{
	__m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(lanes.v),
		_mm512_extractf32x8_ps(lanes.v, 1));
	__m128 by4 = _mm_add_ps(
		_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
	__m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));

	return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

LANES_INLINE float lanes_top8(__m256 value)
{
	__m256 by8 = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), value);
	__m128 by4 = _mm_max_ps(
		_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
	__m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));

	return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
}

LANES_INLINE void lanes_top(struct lanes lanes, float *low, float *high)
{
	*low = lanes_top8(_mm512_castps512_ps256(lanes.v));
	*high = lanes_top8(_mm512_extractf32x8_ps(lanes.v, 1));
}

LANES_INLINE struct lanes lanes_larger(struct lanes a, struct lanes b)
{
	return (struct lanes){
		_mm512_max_ps(_mm512_abs_ps(a.v), _mm512_abs_ps(b.v))};
}

LANES_INLINE struct lanes lanes_finite(
	struct lanes lanes, uint32_t *nan, uint32_t *odd)
{
	__mmask16 is_finite = _mm512_cmp_ps_mask(
		_mm512_abs_ps(lanes.v), _mm512_set1_ps(INFINITY), _CMP_LT_OQ);

	*nan = _mm512_cmp_ps_mask(lanes.v, lanes.v, _CMP_UNORD_Q);
	*odd = (uint32_t)is_finite ^ 0xffff;
	return (struct lanes){_mm512_maskz_mov_ps(is_finite, lanes.v)};
}

LANES_INLINE struct lanes lanes_load(
	enum shunt_dtype dtype, const void *x, int64_t i, int count)
{
	return (struct lanes){half_load_lanes(dtype, x, i, half_lanes(count))};
}

LANES_INLINE struct lanes lanes_load_codes(
	enum shunt_dtype code, const void *q, int64_t i, int count)
{
	return (struct lanes){decode_load_lanes(code, q, i, half_lanes(count))};
}

LANES_INLINE void lanes_store(enum shunt_dtype dtype, void *x, int64_t i,
	struct lanes lanes, int count)
{
	half_store_lanes(dtype, x, i, lanes.v, half_lanes(count));
}

LANES_INLINE void lanes_store_i8(
	void *q, int64_t i, struct lanes lanes, struct lanes scale, int count)
{
	__mmask16 is_number = _mm512_cmp_ps_mask(lanes.v, lanes.v, _CMP_ORD_Q);
	__mmask16 is_inf = _mm512_cmp_ps_mask(
		_mm512_abs_ps(lanes.v), _mm512_set1_ps(INFINITY), _CMP_EQ_OQ);
	__mmask16 has_scale =
		_mm512_cmp_ps_mask(scale.v, _mm512_setzero_ps(), _CMP_NEQ_OQ);
	__m512 value = _mm512_maskz_div_ps(
		is_number & (is_inf | has_scale), lanes.v, scale.v);

	value = _mm512_min_ps(value, _mm512_set1_ps(127.0f));
	value = _mm512_max_ps(value, _mm512_set1_ps(-127.0f));
	_mm_mask_storeu_epi8((char *)q + i, half_lanes(count),
		_mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(value)));
}

LANES_INLINE void lanes_store_acc(
	float *acc, int64_t i, struct lanes lanes, int count)
{
	_mm512_mask_storeu_ps(acc + i, half_lanes(count), lanes.v);
}

LANES_INLINE struct lanes lanes_round(
	enum shunt_dtype dtype, struct lanes lanes)
{
	__mmask16 nan = _mm512_cmp_ps_mask(lanes.v, lanes.v, _CMP_UNORD_Q);
	__m256i codes;

	if (dtype == SHUNT_DTYPE_F32)
		return lanes;
	if (dtype == SHUNT_DTYPE_F16) {
		codes = _mm512_cvtps_ph(
			lanes.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
		return (struct lanes){_mm512_cvtph_ps(codes)};
	}
	codes = half_round_bf16(lanes.v, nan);
	return (struct lanes){_mm512_castsi512_ps(
		_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16))};
}

#endif
#endif
