/*
 * half.h's conversions for 16 elements at a time, the same bits. Functions
 * that use them are marked HALF_AVX512, so that files need no flags of their
 * own. FMA is left out of it: nothing here may be contracted.
 *
 * `lanes` selects elements: the others are neither read (they become +0.0f)
 * nor written. HALF_ALL_LANES costs nothing.
 */
#ifndef BASE_HALF_AVX512_H
#define BASE_HALF_AVX512_H

#include <immintrin.h>

#include "base/half.h"

#define HALF_AVX512 \
	__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define HALF_AVX512_INLINE \
	static inline __attribute__((always_inline)) HALF_AVX512

#define HALF_ALL_LANES ((__mmask16)0xffff)

/* The first min(count, 16) lanes; count >= 0. */
HALF_AVX512_INLINE __mmask16 half_lanes(int64_t count)
{
	return count >= 16 ? HALF_ALL_LANES : (__mmask16)((1u << count) - 1);
}

/* f32 of elements i .. i + 15 of x. `dtype` is a constant at each call. */
HALF_AVX512_INLINE __m512 half_load_lanes(
	enum shunt_dtype dtype, const void *x, int64_t i, __mmask16 lanes)
{
	__m256i codes;

	if (dtype == SHUNT_DTYPE_F32)
		return _mm512_maskz_loadu_ps(lanes, (const char *)x + 4 * i);
	codes = _mm256_maskz_loadu_epi16(lanes, (const char *)x + 2 * i);
	if (dtype == SHUNT_DTYPE_F16)
		return _mm512_cvtph_ps(codes);
	return _mm512_castsi512_ps(
		_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16));
}

/* To bf16 by integers: vcvtneps2bf16 would flush denormals. */
HALF_AVX512_INLINE __m256i half_round_bf16(__m512 values, __mmask16 nan)
{
	__m512i bits = _mm512_castps_si512(values);
	__m512i odd = _mm512_and_si512(
		_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
	__m512i sum = _mm512_add_epi32(
		_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
	__m512i codes = _mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), nan,
		_mm512_set1_epi32(HALF_NAN_BF16));

	return _mm512_cvtepi32_epi16(codes);
}

/* Elements i .. i + 15 of x become `values`, rounded. */
HALF_AVX512_INLINE void half_store_lanes(enum shunt_dtype dtype, void *x,
	int64_t i, __m512 values, __mmask16 lanes)
{
	__mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
	__m256i codes;

	if (dtype == SHUNT_DTYPE_BF16) {
		codes = half_round_bf16(values, nan);
	} else {
		values = _mm512_mask_mov_ps(values, nan,
			_mm512_castsi512_ps(
				_mm512_set1_epi32((int)HALF_NAN_F32)));
		if (dtype == SHUNT_DTYPE_F32) {
			_mm512_mask_storeu_ps((char *)x + 4 * i, lanes, values);
			return;
		}
		codes = _mm512_cvtps_ph(values, /* makes it HALF_NAN_F16 */
			_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	}
	_mm256_mask_storeu_epi16((char *)x + 2 * i, lanes, codes);
}

#endif
