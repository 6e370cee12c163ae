/*
 * decode.h for 8 elements at a time, the same values. Whole vectors only. For
 * files that are compiled for AVX2 and F16C.
 */
#ifndef QUANT_DECODE_AVX2_H
#define QUANT_DECODE_AVX2_H

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>

#include "quant/decode.h"

DECODE_INLINE __m256 decode_e5m2_x8(__m128i bytes)
{
	__m128i halves = _mm_unpacklo_epi8(_mm_setzero_si128(), bytes);

	return _mm256_cvtph_ps(halves);
}

DECODE_INLINE __m256 decode_e4m3fn_x8(__m128i bytes)
{
	__m128i words = _mm_unpacklo_epi8(_mm_setzero_si128(), bytes);
	__m128i magnitude =
		_mm_srli_epi16(_mm_and_si128(words, _mm_set1_epi16(0x7f00)), 1);
	__m128i sign = _mm_and_si128(words, _mm_set1_epi16((short)0x8000));
	__m128i nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x3f80));
	__m128i halves = _mm_or_si128(_mm_or_si128(magnitude, sign),
		_mm_and_si128(nan, _mm_set1_epi16(HALF_NAN_F16)));

	return _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0f));
}

/* The low nibbles of 8 dwords; what is above them does not matter. */
DECODE_INLINE __m256 decode_e2m1_dwords(__m256i nibbles)
{
	const __m256 values = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
	__m256i sign = _mm256_and_si256(_mm256_slli_epi32(nibbles, 28),
		_mm256_set1_epi32((int)0x80000000));

	return _mm256_or_ps(_mm256_permutevar8x32_ps(values, nibbles),
		_mm256_castsi256_ps(sign));
}

/* 8 nibbles in the lowest 4 bytes. */
DECODE_INLINE __m256 decode_e2m1_x8(__m128i bytes)
{
	const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);

	return decode_e2m1_dwords(
		_mm256_srlv_epi32(_mm256_broadcastd_epi32(bytes), shifts));
}

DECODE_INLINE __m256 decode_i8_x8(__m128i bytes)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

DECODE_INLINE __m256 decode_e8m0_x8(__m128i bytes)
{
	__m256i codes = _mm256_cvtepu8_epi32(bytes);
	__m256i zero = _mm256_cmpeq_epi32(codes, _mm256_setzero_si256());
	__m256i nan = _mm256_cmpeq_epi32(codes, _mm256_set1_epi32(255));
	__m256i bits = _mm256_slli_epi32(codes, 23);

	bits = _mm256_or_si256(
		bits, _mm256_and_si256(zero, _mm256_set1_epi32(0x00400000)));
	bits = _mm256_or_si256(
		bits, _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000)));
	return _mm256_castsi256_ps(bits);
}

/* Elements i .. i + 7 of a row of I8, E4M3FN, E5M2 or E2M1 (i even). `code` is
 * a constant at each call. */
DECODE_INLINE __m256 decode_load8(
	enum shunt_dtype code, const void *q, int64_t i)
{
	const char *at = q;
	int nibbles;
	__m128i bytes;

	if (code == SHUNT_DTYPE_E2M1) {
		memcpy(&nibbles, at + i / 2, sizeof(nibbles));
		return decode_e2m1_x8(_mm_cvtsi32_si128(nibbles));
	}
	bytes = _mm_loadl_epi64((const void *)(at + i));
	if (code == SHUNT_DTYPE_E4M3FN)
		return decode_e4m3fn_x8(bytes);
	if (code == SHUNT_DTYPE_E5M2)
		return decode_e5m2_x8(bytes);
	return decode_i8_x8(bytes);
}

#endif
#endif
