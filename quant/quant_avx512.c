/* Owns the row kernels with AVX-512. Rows that hold NaN or Inf are left to
 * the plain kernel: they are rare, and the rules then live in one place. */
#include "quant/kernels.h"

#if defined(__x86_64__)

#include "base/half_avx512.h"
#include "quant/element.h"
#include "quant/scatter.h"

/* y of elements i .. i + 15. */
HALF_AVX512_INLINE __m512 load_y(enum shunt_dtype dtype, const void *x,
	const float *smooth, int64_t i, __mmask16 lanes)
{
	__m512 y = half_load_lanes(dtype, x, i, lanes);

	if (smooth)
		y = _mm512_mul_ps(y, _mm512_maskz_loadu_ps(lanes, smooth + i));
	return y;
}

/* The bits of the largest abs(y), NaN being above Inf, Inf above the rest. */
HALF_AVX512_INLINE uint32_t row_magnitude(enum shunt_dtype dtype, const void *x,
	const float *smooth, int64_t hidden)
{
	__m512i abs = _mm512_set1_epi32(HALF_F32_ABS);
	__m512i max0 = _mm512_setzero_si512(), max1 = max0;
	int64_t i = 0;

	for (; i + 32 <= hidden; i += 32) {
		__m512 y0 = load_y(dtype, x, smooth, i, HALF_ALL_LANES);
		__m512 y1 = load_y(dtype, x, smooth, i + 16, HALF_ALL_LANES);

		max0 = _mm512_max_epu32(
			max0, _mm512_and_si512(abs, _mm512_castps_si512(y0)));
		max1 = _mm512_max_epu32(
			max1, _mm512_and_si512(abs, _mm512_castps_si512(y1)));
	}
	for (; i < hidden; i += 16) {
		__m512 y = load_y(dtype, x, smooth, i, half_lanes(hidden - i));

		max0 = _mm512_max_epu32(
			max0, _mm512_and_si512(abs, _mm512_castps_si512(y)));
	}
	return _mm512_reduce_max_epu32(_mm512_max_epu32(max0, max1));
}

/* The same for 16-bit types without smoothing: their codes order like their
 * magnitudes too, and 32 of them fit in a vector. */
HALF_AVX512_INLINE uint32_t code_magnitude(
	enum shunt_dtype dtype, const void *x, int64_t hidden)
{
	const char *codes = x;
	__m512i max = _mm512_setzero_si512();
	__m512i abs = _mm512_set1_epi16(0x7fff);
	uint16_t code;

	for (int64_t i = 0; i < hidden; i += 32) {
		int64_t left = hidden - i;
		__mmask32 lanes = left >= 32 ? ~0u : (1u << left) - 1;
		__m512i next = _mm512_maskz_loadu_epi16(lanes, codes + 2 * i);

		max = _mm512_max_epu16(max, _mm512_and_si512(abs, next));
	}
	max = _mm512_max_epu16(max, _mm512_srli_epi32(max, 16));
	max = _mm512_and_si512(max, _mm512_set1_epi32(0xffff));
	code = (uint16_t)_mm512_reduce_max_epu32(max);
	return half_bits(half_load(dtype, &code, 0));
}

/* q of elements i .. i + 15, all finite: no product rounds beyond 127. */
HALF_AVX512_INLINE void store_q(
	int8_t *q, int64_t i, __m512 y, __m512 factor, __mmask16 lanes)
{
	__m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(y, factor));

	_mm512_mask_cvtepi32_storeu_epi8(q + i, lanes, rounded);
}

/*
 * q of 32 finite bf16 elements. A shift and an AND take even and odd ones
 * apart, and the integers, put together the same way, are in order again:
 * that spares the shuffles of widening.
 */
HALF_AVX512_INLINE void store_q_bf16(
	int8_t *q, const char *codes, __m512 factor)
{
	__m512i pairs = _mm512_loadu_si512(codes);
	__m512i high = _mm512_set1_epi32((int)0xffff0000);
	__m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
	__m512 odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, high));
	__m512i low_q = _mm512_cvtps_epi32(_mm512_mul_ps(even, factor));
	__m512i high_q = _mm512_cvtps_epi32(_mm512_mul_ps(odd, factor));
	__m512i both = _mm512_mask_mov_epi16(
		low_q, 0xaaaaaaaa, _mm512_slli_epi32(high_q, 16));

	_mm256_storeu_si256((void *)q, _mm512_cvtepi16_epi8(both));
}

/*
 * Asks for the line of element i, which may be past the row's end: rows mostly
 * follow each other, and while this one is in work memory would idle. Only a
 * hint, it never faults.
 */
HALF_AVX512_INLINE void prefetch(
	enum shunt_dtype dtype, const void *x, int64_t i)
{
	int64_t element_bytes = dtype == SHUNT_DTYPE_F32 ? 4 : 2;
	uintptr_t at = (uintptr_t)x + (uintptr_t)(i * element_bytes);

	_mm_prefetch((const char *)at, _MM_HINT_T0);
}

/* A row without NaN and Inf. */
HALF_AVX512_INLINE void quantize(enum shunt_dtype dtype, int8_t *q,
	const void *x, const float *smooth, int64_t hidden, float factor)
{
	__m512 factors = _mm512_set1_ps(factor);
	const char *codes = x;
	int64_t i = 0;

	if (dtype == SHUNT_DTYPE_BF16 && !smooth) {
		for (; i + 32 <= hidden; i += 32) {
			prefetch(dtype, x, hidden + i);
			store_q_bf16(q + i, codes + 2 * i, factors);
		}
	}
	for (; i < hidden; i += 16) {
		__mmask16 lanes = half_lanes(hidden - i);

		prefetch(dtype, x, hidden + i);
		store_q(q, i, load_y(dtype, x, smooth, i, lanes), factors,
			lanes);
	}
}

HALF_AVX512_INLINE void int8_row(enum shunt_dtype dtype, int8_t *q,
	float *scale, const void *x, const float *smooth, int64_t hidden,
	struct quant_tally *tally)
{
	uint32_t magnitude = smooth || dtype == SHUNT_DTYPE_F32
				     ? row_magnitude(dtype, x, smooth, hidden)
				     : code_magnitude(dtype, x, hidden);

	if (magnitude >= HALF_F32_INF)
		quant_kernels_scalar.int8_row[dtype](
			q, scale, x, smooth, hidden, tally);
	else
		quantize(dtype, q, x, smooth, hidden,
			element_int8_factor(half_float(magnitude), scale));
}

/* x of elements i .. i + 15. */
HALF_AVX512_INLINE void dequantize_lanes(enum shunt_dtype dtype, void *x,
	const int8_t *q, __m512 scale, int64_t i, __mmask16 lanes)
{
	__m128i codes = _mm_maskz_loadu_epi8(lanes, q + i);
	__m512 values = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));

	half_store_lanes(dtype, x, i, _mm512_mul_ps(values, scale), lanes);
}

HALF_AVX512_INLINE void int8_dequantize_row(enum shunt_dtype dtype, void *x,
	const int8_t *q, float scale, int64_t hidden)
{
	__m512 scales = _mm512_set1_ps(scale);
	int64_t i = 0;

	for (; i + 16 <= hidden; i += 16)
		dequantize_lanes(dtype, x, q, scales, i, HALF_ALL_LANES);
	if (i < hidden)
		dequantize_lanes(
			dtype, x, q, scales, i, half_lanes(hidden - i));
}

/* One pair of row kernels per type, so that the type is a constant in each,
 * and so is whether there are smooth scales. */
#define AVX512_ROWS(suffix, dtype)                                           \
	HALF_AVX512 static void int8_row_##suffix(int8_t *q, float *scale,   \
		const void *x, const float *smooth, int64_t hidden,          \
		struct quant_tally *tally)                                   \
	{                                                                    \
		if (smooth)                                                  \
			int8_row(dtype, q, scale, x, smooth, hidden, tally); \
		else                                                         \
			int8_row(dtype, q, scale, x, NULL, hidden, tally);   \
	}                                                                    \
	HALF_AVX512 static void int8_dequantize_row_##suffix(                \
		void *x, const int8_t *q, float scale, int64_t hidden)       \
	{                                                                    \
		int8_dequantize_row(dtype, x, q, scale, hidden);             \
	}

AVX512_ROWS(f32, SHUNT_DTYPE_F32)
AVX512_ROWS(f16, SHUNT_DTYPE_F16)
AVX512_ROWS(bf16, SHUNT_DTYPE_BF16)

const struct quant_kernels quant_kernels_avx512 = {
	.name = "avx512",
	.int8_row =
		{
			[SHUNT_DTYPE_F32] = int8_row_f32,
			[SHUNT_DTYPE_F16] = int8_row_f16,
			[SHUNT_DTYPE_BF16] = int8_row_bf16,
		},
	.int8_dequantize_row =
		{
			[SHUNT_DTYPE_F32] = int8_dequantize_row_f32,
			[SHUNT_DTYPE_F16] = int8_dequantize_row_f16,
			[SHUNT_DTYPE_BF16] = int8_dequantize_row_bf16,
		},
	.scatter = scatter_copy,
	.scatter_stream = scatter_stream,
};

#endif
