/*
 * Owns the AVX2 kernels. A row is read twice: for amax, from memory, and to
 * quantize, from the first-level cache. Rows that hold NaN or Inf are found by
 * the first pass (their magnitudes are the largest) and take a slower second.
 */
#include <stdbool.h>
#include <string.h>

#include "base/half_avx2.h"
#include "quant/element.h"
#include "quant/scatter.h"
#include "quant/table.h"

/* 8 elements of y: x alone, or times smooth. */
QUANT_INLINE __m256 load_y(
	enum shunt_dtype dtype, const void *x, const float *smooth, int64_t i)
{
	__m256 value = half_load8(dtype, x, i);

	return smooth ? _mm256_mul_ps(value, _mm256_loadu_ps(smooth + i))
		      : value;
}

QUANT_INLINE __m256i magnitude(__m256 y)
{
	return _mm256_and_si256(
		_mm256_castps_si256(y), _mm256_set1_epi32(HALF_F32_ABS));
}

/* The largest of 8 dwords. */
QUANT_INLINE uint32_t largest(__m256i wide)
{
	__m128i top = _mm_max_epu32(_mm256_castsi256_si128(wide),
		_mm256_extracti128_si256(wide, 1));

	top = _mm_max_epu32(top, _mm_shuffle_epi32(top, 0x4e));
	top = _mm_max_epu32(top, _mm_shuffle_epi32(top, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(top);
}

/* The largest magnitude of a row, NaN and Inf included. */
QUANT_INLINE uint32_t top_wide(enum shunt_dtype dtype, const void *x,
	const float *smooth, int64_t hidden)
{
	__m256i top[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
	int64_t i = 0;
	uint32_t result;

	for (; i + 16 <= hidden; i += 16) {
		__m256 y0 = load_y(dtype, x, smooth, i);
		__m256 y1 = load_y(dtype, x, smooth, i + 8);

		top[0] = _mm256_max_epu32(top[0], magnitude(y0));
		top[1] = _mm256_max_epu32(top[1], magnitude(y1));
	}
	result = largest(_mm256_max_epu32(top[0], top[1]));
	for (; i < hidden; i++) {
		uint32_t y =
			element_magnitude(element_load(dtype, x, smooth, i));

		result = y > result ? y : result;
	}
	return result;
}

/* The same for 16-bit types without smoothing: their codes order like their
 * magnitudes too, and 16 of them fit in a vector. */
QUANT_INLINE uint32_t top_narrow(
	enum shunt_dtype dtype, const void *x, int64_t hidden)
{
	const __m256i abs = _mm256_set1_epi16(0x7fff);
	const char *at = x;
	__m256i top = _mm256_setzero_si256();
	__m256i wide;
	int64_t i = 0;
	uint16_t code;
	uint32_t result;

	for (; i + 16 <= hidden; i += 16) {
		__m256i codes = _mm256_loadu_si256((const void *)(at + 2 * i));

		top = _mm256_max_epu16(top, _mm256_and_si256(codes, abs));
	}
	wide = _mm256_max_epu16(top, _mm256_srli_epi32(top, 16));
	wide = _mm256_and_si256(wide, _mm256_set1_epi32(0xffff));
	code = (uint16_t)largest(wide);
	result = half_bits(half_load(dtype, &code, 0));
	for (; i < hidden; i++) {
		uint32_t y = element_magnitude(half_load(dtype, x, i));

		result = y > result ? y : result;
	}
	return result;
}

/* q of 8 finite elements, as int32. None rounds beyond 127, since none is
 * above amax. */
QUANT_INLINE __m256i quantize(__m256 y, __m256 factor)
{
	return _mm256_cvtps_epi32(_mm256_mul_ps(y, factor));
}

/* 32 elements from four vectors; the packs work within 128 bits, so dwords
 * come out of order. */
QUANT_INLINE __m256i pack32(__m256i a, __m256i b, __m256i c, __m256i d)
{
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	__m256i ab = _mm256_packs_epi32(a, b);
	__m256i cd = _mm256_packs_epi32(c, d);

	return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
}

/* A row without NaN and Inf. */
QUANT_INLINE void quantize_row(enum shunt_dtype dtype, int8_t *q, const void *x,
	const float *smooth, int64_t hidden, float factor)
{
	const __m256 f = _mm256_set1_ps(factor);
	int64_t i = 0;

	for (; i + 32 <= hidden; i += 32) {
		__m256i part[4];

#pragma GCC unroll 4
		for (int p = 0; p < 4; p++)
			part[p] = quantize(
				load_y(dtype, x, smooth, i + 8 * p), f);
		_mm256_storeu_si256((void *)(q + i),
			pack32(part[0], part[1], part[2], part[3]));
	}
	for (; i < hidden; i++)
		q[i] = element_int8(element_load(dtype, x, smooth, i), factor);
}

QUANT_INLINE void int8_row_by(enum shunt_dtype dtype, int8_t *q, float *scale,
	const void *x, const float *smooth, int64_t hidden,
	struct quant_tally *tally)
{
	uint32_t top = smooth || dtype == SHUNT_DTYPE_F32
			       ? top_wide(dtype, x, smooth, hidden)
			       : top_narrow(dtype, x, hidden);

	/* A row with NaN or Inf is rare, and plain C is fast enough for it. */
	if (top >= HALF_F32_INF) {
		quant_kernels_scalar.int8_row[dtype](
			q, scale, x, smooth, hidden, tally);
		return;
	}
	quantize_row(dtype, q, x, smooth, hidden,
		element_int8_factor(half_float(top), scale));
}

/* Two copies, so that no loop asks for smooth. */
QUANT_INLINE void int8_row(enum shunt_dtype dtype, int8_t *q, float *scale,
	const void *x, const float *smooth, int64_t hidden,
	struct quant_tally *tally)
{
	if (smooth)
		int8_row_by(dtype, q, scale, x, smooth, hidden, tally);
	else
		int8_row_by(dtype, q, scale, x, NULL, hidden, tally);
}

QUANT_INLINE void int8_dequantize(enum shunt_dtype dtype, void *x,
	const int8_t *q, float scale, int64_t hidden)
{
	const __m256 s = _mm256_set1_ps(scale);
	int64_t i = 0;

	for (; i + 8 <= hidden; i += 8) {
		__m256i code = _mm256_cvtepi8_epi32(
			_mm_loadl_epi64((const void *)(q + i)));

		half_store8(dtype, x, i,
			_mm256_mul_ps(_mm256_cvtepi32_ps(code), s));
	}
	for (; i < hidden; i++)
		half_store(dtype, x, i, (float)q[i] * scale);
}

QUANT_DEFINE_ALL

const struct quant_kernels quant_kernels_avx2 = {
	.name = "avx2",
	.int8_row = QUANT_TABLE(int8_row),
	.int8_dequantize_row = QUANT_TABLE(int8_dequantize),
	.scatter = scatter_copy,
	.scatter_stream = scatter_stream,
};
