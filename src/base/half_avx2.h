/*
 * 8 or 16 elements as f32 vectors: loads, and rounding stores, of all element
 * types and any alignment. Whole vectors only: tails are for half.h, which has
 * the same bits.
 */
#ifndef BASE_HALF_AVX2_H
#define BASE_HALF_AVX2_H

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/half.h"

#define HALF_INLINE static inline __attribute__((always_inline))

/* Elements i .. i + 7 of x. */
HALF_INLINE __m256 half_load8(enum shunt_dtype dtype, const void *x, int64_t i)
{
	const char *at = x;
	__m128i codes;

	if (dtype == SHUNT_DTYPE_F32)
		return _mm256_loadu_ps((const void *)(at + 4 * i));
	codes = _mm_loadu_si128((const void *)(at + 2 * i));
	if (dtype == SHUNT_DTYPE_F16)
		return _mm256_cvtph_ps(codes);
	return _mm256_castsi256_ps(
		_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
}

/* NaN becomes the canonical one. */
HALF_INLINE __m256 half_canonical(__m256 value)
{
	__m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);

	return _mm256_blendv_ps(value,
		_mm256_castsi256_ps(_mm256_set1_epi32(HALF_NAN_F32)), nan);
}

/* The bits of canonical f32, rounded to nearest even in the upper 16; what the
 * lower 16 hold is left over. */
HALF_INLINE __m256i half_round_bf16(__m256 value)
{
	__m256i bits = _mm256_castps_si256(half_canonical(value));
	__m256i odd = _mm256_and_si256(
		_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

	return _mm256_add_epi32(
		bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}

HALF_INLINE __m128i half_to_bf16x8(__m256 value)
{
	__m256i codes = _mm256_srli_epi32(half_round_bf16(value), 16);

	return _mm_packus_epi32(_mm256_castsi256_si128(codes),
		_mm256_extracti128_si256(codes, 1));
}

/* Elements i .. i + 7 of x become `value`, rounded. */
HALF_INLINE void half_store8(
	enum shunt_dtype dtype, void *x, int64_t i, __m256 value)
{
	char *at = x;
	__m128i codes;

	if (dtype == SHUNT_DTYPE_F32) {
		_mm256_storeu_ps((void *)(at + 4 * i), half_canonical(value));
		return;
	}
	if (dtype == SHUNT_DTYPE_F16)
		codes = _mm256_cvtps_ph(half_canonical(value),
			_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	else
		codes = half_to_bf16x8(value);
	_mm_storeu_si128((void *)(at + 2 * i), codes);
}

/*
 * 16 elements of one row. Those of bf16 lie apart by parity, because one shift
 * and one AND take them apart where widening in order costs two shuffles:
 *
 *	bf16		a = 0 2 4 ... 14	b = 1 3 5 ... 15
 *	f16, f32	a = 0 1 2 ... 7		b = 8 9 ... 15
 */
struct half_pair {
	__m256 a;
	__m256 b;
};

HALF_INLINE struct half_pair half_load_pair(
	enum shunt_dtype dtype, const void *x, int64_t i)
{
	struct half_pair pair;
	__m256i codes;

	if (dtype != SHUNT_DTYPE_BF16) {
		pair.a = half_load8(dtype, x, i);
		pair.b = half_load8(dtype, x, i + 8);
		return pair;
	}
	codes = _mm256_loadu_si256((const void *)((const char *)x + 2 * i));
	pair.a = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 16));
	pair.b = _mm256_castsi256_ps(
		_mm256_and_si256(codes, _mm256_set1_epi32((int)0xffff0000)));
	return pair;
}

/* From by parity to in order. */
HALF_INLINE struct half_pair half_zip(struct half_pair pair)
{
	__m256 low = _mm256_unpacklo_ps(pair.a, pair.b);
	__m256 high = _mm256_unpackhi_ps(pair.a, pair.b);

	pair.a = _mm256_permute2f128_ps(low, high, 0x20);
	pair.b = _mm256_permute2f128_ps(low, high, 0x31);
	return pair;
}

/* From in order to by parity. */
HALF_INLINE struct half_pair half_unzip(struct half_pair pair)
{
	__m256d even =
		_mm256_castps_pd(_mm256_shuffle_ps(pair.a, pair.b, 0x88));
	__m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(pair.a, pair.b, 0xdd));

	pair.a = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
	pair.b = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
	return pair;
}

/* From the order of the type `from` to that of `to`. */
HALF_INLINE struct half_pair half_reorder(
	enum shunt_dtype from, enum shunt_dtype to, struct half_pair pair)
{
	bool apart = from == SHUNT_DTYPE_BF16;

	if (apart == (to == SHUNT_DTYPE_BF16))
		return pair;
	return apart ? half_zip(pair) : half_unzip(pair);
}

/* Elements i .. i + 15 of x become `pair`, in the order of dtype, rounded. */
HALF_INLINE void half_store_pair(
	enum shunt_dtype dtype, void *x, int64_t i, struct half_pair pair)
{
	__m256i a, b;

	if (dtype != SHUNT_DTYPE_BF16) {
		half_store8(dtype, x, i, pair.a);
		half_store8(dtype, x, i + 8, pair.b);
		return;
	}
	a = _mm256_srli_epi32(half_round_bf16(pair.a), 16);
	b = half_round_bf16(pair.b);
	_mm256_storeu_si256(
		(void *)((char *)x + 2 * i), _mm256_blend_epi16(a, b, 0xaa));
}

#endif
#endif
