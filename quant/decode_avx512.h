/*
 * decode.h for 16 elements at a time, the same values. For files that are
 * compiled for AVX-512 F, BW, VL and DQ.
 */
#ifndef QUANT_DECODE_AVX512_H
#define QUANT_DECODE_AVX512_H

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)

#include <immintrin.h>

#include "quant/decode.h"

DECODE_INLINE __m512 decode_e5m2_x16(__m128i bytes)
{
	__m256i words = _mm256_cvtepu8_epi16(bytes);

	return _mm512_cvtph_ps(_mm256_slli_epi16(words, 8));
}

DECODE_INLINE __m512 decode_e4m3fn_x16(__m128i bytes)
{
	__m256i words = _mm256_cvtepi8_epi16(bytes);
	__m256i magnitude = _mm256_and_si256(
		_mm256_slli_epi16(words, 7), _mm256_set1_epi16(0x3f80));
	__mmask16 nan =
		_mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x3f80));
	__m256i sign =
		_mm256_and_si256(words, _mm256_set1_epi16((short)0x8000));
	__m256i halves = _mm256_mask_mov_epi16(_mm256_or_si256(magnitude, sign),
		nan, _mm256_set1_epi16(HALF_NAN_F16));

	return _mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(256.0f));
}

/* 16 nibbles in the lowest 8 bytes. */
DECODE_INLINE __m512 decode_e2m1_x16(__m128i bytes)
{
	const __m512 values =
		_mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f,
			-0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
	const __m512i shifts = _mm512_set1_epi64(0x0000000400000000);
	__m512i pairs = _mm512_cvtepu8_epi64(bytes);

	/* Each byte, in both halves of its qword, shifted by 0 and by 4. The
	 * permutation takes four bits. */
	pairs = _mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 32));
	return _mm512_permutexvar_ps(_mm512_srlv_epi32(pairs, shifts), values);
}

DECODE_INLINE __m512 decode_i8_x16(__m128i bytes)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

DECODE_INLINE __m512 decode_e8m0_x16(__m128i bytes)
{
	__m512i codes = _mm512_cvtepu8_epi32(bytes);
	__mmask16 zero = _mm512_testn_epi32_mask(codes, codes);
	__mmask16 nan = _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(255));
	__m512i bits = _mm512_slli_epi32(codes, 23);

	bits = _mm512_mask_mov_epi32(bits, zero, _mm512_set1_epi32(0x00400000));
	bits = _mm512_mask_mov_epi32(bits, nan, _mm512_set1_epi32(0x7fc00000));
	return _mm512_castsi512_ps(bits);
}

/*
 * Elements i .. i + 15 of a row of I8, E4M3FN, E5M2 or E2M1 (i even); those
 * that `lanes` leaves out are not read (of E2M1: nor is a byte without any).
 * `lanes` is a run from element i on. `code` is a constant at each call.
 */
DECODE_INLINE __m512 decode_load_lanes(
	enum shunt_dtype code, const void *q, int64_t i, __mmask16 lanes)
{
	const char *at = q;
	unsigned int count;
	__m128i bytes;

	if (code == SHUNT_DTYPE_E2M1) {
		count = (unsigned int)__builtin_popcount(lanes);
		lanes = (__mmask16)((1u << (count + 1) / 2) - 1);
		return decode_e2m1_x16(_mm_maskz_loadu_epi8(lanes, at + i / 2));
	}
	bytes = _mm_maskz_loadu_epi8(lanes, at + i);
	if (code == SHUNT_DTYPE_E4M3FN)
		return decode_e4m3fn_x16(bytes);
	if (code == SHUNT_DTYPE_E5M2)
		return decode_e5m2_x16(bytes);
	return decode_i8_x16(bytes);
}

#endif
#endif
