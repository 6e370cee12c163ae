/*
 * Codes of bf16 rows without smooth or static scales, finite and of a factor
 * that is not 0, for AVX2: what dispatch does most.
 *
 * What can be done with 16-bit words is done with them: 16 of them fit in a
 * register of 32 bytes. A shift and an AND take even and odd elements apart
 * into f32, and a shift and a blend put their results together again in order,
 * which spares the shuffles of widening. Signs are left out and come back at
 * the end, since saturation to bytes keeps the sign of the bf16 itself.
 */
#ifndef QUANT_WORDS_AVX2_H
#define QUANT_WORDS_AVX2_H

#if defined(__AVX2__)

#include <immintrin.h>

#include "quant/element.h"
#include "quant/table.h"

/* 16 elements. */
QUANT_INLINE __m256i words_load(const void *x, int64_t i)
{
	return _mm256_loadu_si256((const void *)((const char *)x + 2 * i));
}

QUANT_INLINE __m256i words_magnitude(__m256i x)
{
	return _mm256_and_si256(x, _mm256_set1_epi16(0x7fff));
}

/* Elements 0, 2, 4 ... and 1, 3, 5 ... as f32. */
QUANT_INLINE __m256 words_even(__m256i x)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}

QUANT_INLINE __m256 words_odd(__m256i x)
{
	return _mm256_castsi256_ps(
		_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000)));
}

/* The lower and the upper halves of dwords that lie apart like that. */
QUANT_INLINE __m256i words_lower(__m256i even, __m256i odd)
{
	return _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
}

QUANT_INLINE __m256i words_upper(__m256i even, __m256i odd)
{
	return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
}

/* ---- the largest of groups --------------------------------------------- */

/* The largest magnitude of each of 16 words' column in a group. */
QUANT_INLINE __m256i words_group_top(const void *x, int64_t i, int64_t group)
{
	__m256i top = words_magnitude(words_load(x, i));

	for (int64_t h = 16; h < group; h += 16)
		top = _mm256_max_epu16(
			top, words_magnitude(words_load(x, i + h)));
	return top;
}

/*
 * A tournament: a round puts the words of two vectors side by side, in units
 * of 1, 2, 4 and at last 8 words, and keeps the larger ones. In the end word g
 * is the largest of group g. Depth first, since registers are few.
 */
#define WORDS_LARGER(unit, a, b)                          \
	_mm256_max_epu16(_mm256_unpacklo_epi##unit(a, b), \
		_mm256_unpackhi_epi##unit(a, b))

QUANT_INLINE __m256i words_top2(const void *x, int64_t i, int64_t group)
{
	__m256i a = words_group_top(x, i, group);
	__m256i b = words_group_top(x, i + group, group);

	return WORDS_LARGER(16, a, b);
}

QUANT_INLINE __m256i words_top4(const void *x, int64_t i, int64_t group)
{
	__m256i a = words_top2(x, i, group);
	__m256i b = words_top2(x, i + 2 * group, group);

	return WORDS_LARGER(32, a, b);
}

QUANT_INLINE __m256i words_top8(const void *x, int64_t i, int64_t group)
{
	__m256i a = words_top4(x, i, group);
	__m256i b = words_top4(x, i + 4 * group, group);

	return WORDS_LARGER(64, a, b);
}

QUANT_INLINE __m256i words_top16(const void *x, int64_t i, int64_t group)
{
	__m256i a = words_top8(x, i, group);
	__m256i b = words_top8(x, i + 8 * group, group);

	return _mm256_max_epu16(_mm256_permute2x128_si256(a, b, 0x20),
		_mm256_permute2x128_si256(a, b, 0x31));
}

/* The largest magnitude of each of 16 groups, NaN and Inf included. */
QUANT_INLINE void words_tops(
	const void *x, int64_t first, int64_t group, float amax[16])
{
	__m256i tops = words_top16(x, first, group);
	__m256i low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(tops));
	__m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(tops, 1));

	_mm256_storeu_ps(amax, _mm256_castsi256_ps(_mm256_slli_epi32(low, 16)));
	_mm256_storeu_ps(
		amax + 8, _mm256_castsi256_ps(_mm256_slli_epi32(high, 16)));
}

/* ---- codes of 16 elements, as words ------------------------------------ */

/* Of I8, with their sign: code_round() in vectors. */
QUANT_INLINE __m256i words_int8(__m256i x, __m256 factor)
{
	const __m256 magic = _mm256_set1_ps(0x1.8p23f);
	__m256 even = _mm256_mul_ps(words_even(x), factor);
	__m256 odd = _mm256_mul_ps(words_odd(x), factor);

	return words_lower(_mm256_castps_si256(_mm256_add_ps(even, magic)),
		_mm256_castps_si256(_mm256_add_ps(odd, magic)));
}

/*
 * Of the small floats, of magnitudes m, by any factor; they may be too large.
 * As in quant/code.h: what 2^(E + 23 - M) + p has in its lower half is k, and
 * (E - e) << M belongs to it. E - e is found, and not below 0, for all 16 at
 * once.
 */
QUANT_INLINE __m256i words_float(
	enum shunt_dtype code, __m256i m, __m256 factor)
{
	const int bits = code_fraction_bits(code);
	const int least = (int)(code_least_normal(code) >> 16);
	const __m256i mask =
		_mm256_set1_epi16((short)(CODE_F32_EXPONENT >> 16));
	const __m256i up =
		_mm256_set1_epi16((short)(least + ((23 - bits) << 7)));
	__m256 even = _mm256_mul_ps(words_even(m), factor);
	__m256 odd = _mm256_mul_ps(words_odd(m), factor);
	__m256i above = _mm256_subs_epu16(
		_mm256_and_si256(words_upper(_mm256_castps_si256(even),
					 _mm256_castps_si256(odd)),
			mask),
		_mm256_set1_epi16((short)least));
	__m256i magic = _mm256_add_epi16(above, up);

	even = _mm256_add_ps(even, words_even(magic));
	odd = _mm256_add_ps(odd, words_odd(magic));
	return _mm256_add_epi16(_mm256_srli_epi16(above, 7 - bits),
		words_lower(
			_mm256_castps_si256(even), _mm256_castps_si256(odd)));
}

/* ---- the same by a factor of a power of two ---------------------------- */

/* The exponent of bf16 that becomes exponent 0 of the code, which is that of
 * its denormals, by a factor of 2^(127 - byte). */
QUANT_INLINE int words_origin(enum shunt_dtype code, uint8_t byte)
{
	return byte - (127 - (int)(code_least_normal(code) >> 23) + 1);
}

/* False for scales that are next to those of bf16's own denormals. */
QUANT_INLINE bool words_may_shift(enum shunt_dtype code, uint8_t byte)
{
	/* The exponent of E2M1's 1/4, one below, must not be 0 either. */
	return words_origin(code, byte) >= (code == SHUNT_DTYPE_E2M1 ? 2 : 0);
}

/*
 * Such a factor only moves exponents, so bf16 is rounded as the integer that it
 * is; `off` is 128 times words_origin(). vpmulhrsw rounds halves up: those that
 * lie above an even code are made a little smaller before.
 */
QUANT_INLINE __m256i words_shifted(
	enum shunt_dtype code, __m256i m, __m256i off)
{
	const int drop = 7 - code_fraction_bits(code);
	const __m256i half = _mm256_set1_epi16((short)(1 << (drop - 1)));
	const __m256i mask = _mm256_set1_epi16((short)((2 << drop) - 1));
	const __m256i shift = _mm256_set1_epi16((short)(1 << (15 - drop)));
	__m256i tie = _mm256_cmpeq_epi16(_mm256_and_si256(m, mask), half);
	__m256i moved = _mm256_subs_epu16(_mm256_add_epi16(m, tie), off);
	__m256i below;

	if (code != SHUNT_DTYPE_E2M1)
		return _mm256_mulhrs_epi16(moved, shift);
	/* What is below 1.0 (code 2) is one less below 3/4, and one up to 1/4. */
	below = _mm256_add_epi16(
		_mm256_cmpgt_epi16(
			_mm256_add_epi16(off, _mm256_set1_epi16(64)), m),
		_mm256_cmpgt_epi16(
			_mm256_sub_epi16(off, _mm256_set1_epi16(127)), m));
	moved = _mm256_max_epi16(moved, _mm256_set1_epi16(128));
	return _mm256_add_epi16(_mm256_mulhrs_epi16(moved, shift), below);
}

/* ---- codes of 32 elements, as bytes in order --------------------------- */

/* The words of two vectors, as packed below. */
QUANT_INLINE __m256i words_in_order(__m256i bytes)
{
	return _mm256_permute4x64_epi64(bytes, 0xd8);
}

/* Without sign, and out of order. */
QUANT_INLINE __m256i words_pack(
	enum shunt_dtype code, __m256i codes0, __m256i codes1)
{
	const int top = code == SHUNT_DTYPE_E4M3FN ? 0x7e
			: code == SHUNT_DTYPE_E5M2 ? 0x7b
						   : 0x7;

	return _mm256_min_epu8(_mm256_packus_epi16(codes0, codes1),
		_mm256_set1_epi8((char)top));
}

/* Signed saturation keeps the sign of the bf16 themselves. */
QUANT_INLINE __m256i words_sign(
	enum shunt_dtype code, __m256i x0, __m256i x1, __m256i bytes)
{
	__m256i sign = _mm256_packs_epi16(x0, x1);
	__m256i bit = _mm256_set1_epi8((char)0x80);

	if (code == SHUNT_DTYPE_E2M1) {
		sign = _mm256_srli_epi16(sign, 4);
		bit = _mm256_set1_epi8(0x8);
	}
	return words_in_order(
		_mm256_or_si256(bytes, _mm256_and_si256(sign, bit)));
}

/* Elements i .. i + 31 of x, the first 16 and the others by a factor each. */
QUANT_INLINE __m256i words_encode(enum shunt_dtype code, const void *x,
	int64_t i, __m256 factor0, __m256 factor1)
{
	__m256i x0 = words_load(x, i), x1 = words_load(x, i + 16);
	__m256i codes0, codes1;

	if (code == SHUNT_DTYPE_I8)
		return words_in_order(_mm256_packs_epi16(
			words_int8(x0, factor0), words_int8(x1, factor1)));
	codes0 = words_float(code, words_magnitude(x0), factor0);
	codes1 = words_float(code, words_magnitude(x1), factor1);
	return words_sign(code, x0, x1, words_pack(code, codes0, codes1));
}

/* The same by a shift; false if that is wrong, because some of them become
 * denormal codes. Those of E2M1 are no trouble. */
QUANT_INLINE bool words_encode_shifted(enum shunt_dtype code, const void *x,
	int64_t i, __m256i off, __m256i *bytes)
{
	const __m256i normal =
		_mm256_set1_epi8((char)(1 << code_fraction_bits(code)));
	__m256i x0 = words_load(x, i), x1 = words_load(x, i + 16);
	__m256i m0 = words_magnitude(x0), m1 = words_magnitude(x1);
	__m256i codes = words_pack(code, words_shifted(code, m0, off),
		words_shifted(code, m1, off));

	*bytes = words_sign(code, x0, x1, codes);
	return code == SHUNT_DTYPE_E2M1 ||
	       _mm256_testz_si256(_mm256_cmpgt_epi8(normal, codes),
		       _mm256_packus_epi16(m0, m1));
}

#endif
#endif
