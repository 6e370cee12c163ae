/* Owns the row kernels with AVX-512: 16 elements at a time, 32 where they are
 * bf16. */
#include "quant/kernels.h"

#include "base/half_avx512.h"
#include "quant/decode_avx512.h"
#include "quant/element.h"
#include "quant/scatter.h"
#include "quant/table.h"

/* ---- the largest ------------------------------------------------------- */

/* y of elements i .. i + 15; lanes that are left out are 0, whatever the
 * scales. */
QUANT_INLINE __m512 load_y(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, __mmask16 lanes)
{
	__m512 y = half_load_lanes(dtype, source->x, i, lanes);

	if (source->smooth)
		y = _mm512_mul_ps(
			y, _mm512_maskz_loadu_ps(lanes, source->smooth + i));
	if (!source->fixed)
		return y;
	if (source->fixed_is_one)
		return _mm512_maskz_mul_ps(lanes, y,
			_mm512_set1_ps(
				half_load(SHUNT_DTYPE_F32, source->fixed, 0)));
	return _mm512_mul_ps(
		y, _mm512_maskz_loadu_ps(lanes, source->fixed + i));
}

QUANT_INLINE __m512i magnitude(__m512 y)
{
	return _mm512_and_si512(
		_mm512_castps_si512(y), _mm512_set1_epi32(HALF_F32_ABS));
}

QUANT_INLINE uint32_t top_wide(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end)
{
	__m512i top0 = _mm512_setzero_si512(), top1 = top0;

	for (; i + 32 <= end; i += 32) {
		__m512 y0 = load_y(dtype, source, i, HALF_ALL_LANES);
		__m512 y1 = load_y(dtype, source, i + 16, HALF_ALL_LANES);

		top0 = _mm512_max_epu32(top0, magnitude(y0));
		top1 = _mm512_max_epu32(top1, magnitude(y1));
	}
	for (; i < end; i += 16) {
		__m512 y = load_y(dtype, source, i, half_lanes(end - i));

		top0 = _mm512_max_epu32(top0, magnitude(y));
	}
	return _mm512_reduce_max_epu32(_mm512_max_epu32(top0, top1));
}

/* The f32 bits of the largest of 16 codes without sign. The one instruction
 * that looks across a vector finds the least. */
QUANT_INLINE uint32_t largest_code(enum shunt_dtype dtype, __m256i wide)
{
	const __m128i all = _mm_set1_epi16(0x7fff);
	__m128i codes = _mm_max_epu16(_mm256_castsi256_si128(wide),
		_mm256_extracti128_si256(wide, 1));
	__m128i least = _mm_minpos_epu16(_mm_xor_si128(codes, all));
	uint16_t code = (uint16_t)(_mm_cvtsi128_si32(least) ^ 0x7fff);

	return half_bits(half_load(dtype, &code, 0));
}

/* The same for 16-bit types alone: their codes order like their magnitudes
 * too, and 32 of them fit in a vector, or the 16 of an NVFP4 block in half. */
QUANT_INLINE uint32_t top_narrow(
	enum shunt_dtype dtype, const void *x, int64_t i, int64_t end)
{
	const char *codes = x;
	__m512i top = _mm512_setzero_si512();
	__m512i abs = _mm512_set1_epi16(0x7fff);

	if (end - i == 16)
		return largest_code(
			dtype, _mm256_and_si256(_mm512_castsi512_si256(abs),
				       _mm256_loadu_si256(
					       (const void *)(codes + 2 * i))));
	for (; i < end; i += 32) {
		int64_t left = end - i;
		__mmask32 lanes = left >= 32 ? ~0u : (1u << left) - 1;
		__m512i next = _mm512_maskz_loadu_epi16(lanes, codes + 2 * i);

		top = _mm512_max_epu16(top, _mm512_and_si512(abs, next));
	}
	return largest_code(dtype, _mm256_max_epu16(_mm512_castsi512_si256(top),
					   _mm512_extracti64x4_epi64(top, 1)));
}

QUANT_INLINE uint32_t span_top(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t end)
{
	if (dtype == SHUNT_DTYPE_F32 || source->smooth || source->fixed)
		return top_wide(dtype, source, first, end);
	return top_narrow(dtype, source->x, first, end);
}

QUANT_INLINE uint32_t span_finite(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end,
	struct quant_tally *tally)
{
	const __m512i inf = _mm512_set1_epi32(HALF_F32_INF);
	__m512i top = _mm512_setzero_si512();

	for (; i < end; i += 16) {
		__m512i next = magnitude(
			load_y(dtype, source, i, half_lanes(end - i)));
		__mmask16 infs = _mm512_cmpeq_epi32_mask(next, inf);
		__mmask16 nans = _mm512_cmpgt_epi32_mask(next, inf);

		tally->inf_elements += (uint64_t)__builtin_popcount(infs);
		tally->nan_elements += (uint64_t)__builtin_popcount(nans);
		top = _mm512_mask_max_epu32(
			top, (__mmask16) ~(infs | nans), top, next);
	}
	return _mm512_reduce_max_epu32(top);
}

/* ---- codes ------------------------------------------------------------- */

/* quant/code.h in vectors; the code is in the lowest byte of each dword. */
QUANT_INLINE __m512i encode_float(enum shunt_dtype code, __m512 p, bool clamped)
{
	/* Of two in magnitude, with the sign of the first. */
	enum { SMALLER = 0x2, LARGER = 0x3 };
	const __m512 max = _mm512_set1_ps(code_max(code));
	const __m512 least = _mm512_castsi512_ps(
		_mm512_set1_epi32((int)code_least_normal(code)));
	__m512i sign = _mm512_srli_epi32(
		_mm512_castps_si512(p), code == SHUNT_DTYPE_E2M1 ? 28 : 24);
	__m512i exponent, sum;

	if (clamped)
		p = _mm512_range_ps(p, max, SMALLER);
	exponent = _mm512_and_si512(
		_mm512_castps_si512(_mm512_range_ps(p, least, LARGER)),
		_mm512_set1_epi32((int)0xff800000));
	sum = _mm512_castps_si512(_mm512_add_ps(
		p, _mm512_castsi512_ps(_mm512_add_epi32(exponent,
			   _mm512_set1_epi32((int)code_magic(code))))));
	sum = _mm512_add_epi32(
		sum, _mm512_srli_epi32(exponent,
			     (unsigned int)(23 - code_fraction_bits(code))));
	if (code == SHUNT_DTYPE_E2M1)
		return _mm512_or_si512(
			_mm512_and_si512(sum, _mm512_set1_epi32(0x7)),
			_mm512_and_si512(sign, _mm512_set1_epi32(0x8)));
	/* The sign's bit from `sign`, the others from `sum`. */
	return _mm512_ternarylogic_epi32(
		_mm512_set1_epi32(0x80), sign, sum, 0xca);
}

/* The product p where y may not be finite: Inf becomes the largest value, NaN
 * 0; with a factor of 0 the rest becomes +0. */
QUANT_INLINE __m512 mend(enum shunt_dtype code,
	const struct element_target *target, __m512 y, __m512 p, __mmask16 nan)
{
	const int keep = target->factor == 0.0f ? 0 : -1;
	const float max =
		code == SHUNT_DTYPE_I8 ? -target->low : code_max(code);
	__mmask16 inf = _mm512_cmpeq_epi32_mask(
		magnitude(y), _mm512_set1_epi32(HALF_F32_INF));
	__m512i sign = _mm512_and_si512(
		_mm512_castps_si512(y), _mm512_set1_epi32((int)0x80000000));
	__m512i largest =
		_mm512_or_si512(sign, _mm512_castps_si512(_mm512_set1_ps(max)));
	__m512i bits = _mm512_and_si512(
		_mm512_castps_si512(p), _mm512_set1_epi32(keep));

	bits = _mm512_mask_mov_epi32(bits, inf, largest);
	bits = _mm512_mask_mov_epi32(bits, nan, _mm512_setzero_si512());
	return _mm512_castsi512_ps(bits);
}

/* The codes of y, in the lowest byte of each dword. */
QUANT_INLINE __m512i encode(
	enum shunt_dtype code, const struct element_target *target, __m512 y)
{
	__m512 p = y;
	__mmask16 nan = 0;
	__m512i codes;

	if (target->scaled)
		p = _mm512_mul_ps(y, _mm512_set1_ps(target->factor));
	if (target->special) {
		nan = _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q);
		p = mend(code, target, y, p, nan);
	}
	if (code == SHUNT_DTYPE_I8) {
		if (target->clamped)
			p = _mm512_max_ps(
				_mm512_min_ps(p, _mm512_set1_ps(127.0f)),
				_mm512_set1_ps(target->low));
		return _mm512_cvtps_epi32(p);
	}
	codes = encode_float(code, p, target->clamped);
	if (target->special)
		codes = _mm512_mask_mov_epi32(
			codes, nan, _mm512_set1_epi32(code_nan(code)));
	return codes;
}

/* Elements i .. i + 15 of q. */
QUANT_INLINE void store_codes(enum shunt_dtype code, void *q, int64_t i,
	__m512i codes, __mmask16 lanes)
{
	char *at = q;
	__m128i bytes;

	if (code != SHUNT_DTYPE_E2M1) {
		bytes = _mm512_cvtepi32_epi8(codes);
		_mm_mask_storeu_epi8(at + i, lanes, bytes);
		return;
	}
	/* Each qword has a pair. */
	codes = _mm512_or_si512(codes, _mm512_srli_epi64(codes, 28));
	bytes = _mm512_cvtepi64_epi8(codes);
	if (lanes == HALF_ALL_LANES) {
		_mm_storel_epi64((void *)(at + i / 2), bytes);
		return;
	}
	lanes = (__mmask16)((1u << (__builtin_popcount(lanes) + 1) / 2) - 1);
	_mm_mask_storeu_epi8(at + i / 2, lanes, bytes);
}

/*
 * 32 elements of bf16. A shift and an AND take even and odd ones apart, and
 * their codes, put together the same way, are in order again: that spares the
 * shuffles of widening.
 */
QUANT_INLINE void encode_bf16(enum shunt_dtype code,
	const struct element_target *target, const void *x, int64_t i)
{
	char *q = target->q;
	__m512i pairs = _mm512_loadu_si512((const char *)x + 2 * i);
	__m512i high = _mm512_set1_epi32((int)0xffff0000);
	__m512i even = encode(code, target,
		_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)));
	__m512i odd = encode(code, target,
		_mm512_castsi512_ps(_mm512_and_si512(pairs, high)));

	if (code == SHUNT_DTYPE_E2M1) {
		even = _mm512_or_si512(even, _mm512_slli_epi32(odd, 4));
		_mm_storeu_si128(
			(void *)(q + i / 2), _mm512_cvtepi32_epi8(even));
		return;
	}
	even = _mm512_mask_mov_epi16(
		even, 0xaaaaaaaa, _mm512_slli_epi32(odd, 16));
	_mm256_storeu_si256((void *)(q + i), _mm512_cvtepi16_epi8(even));
}

/* Asks for the line of element i of the x that comes next. */
QUANT_INLINE void prefetch(
	enum shunt_dtype dtype, const struct element_source *source, int64_t i)
{
	int64_t element_bytes = dtype == SHUNT_DTYPE_F32 ? 4 : 2;

	if (source->next)
		_mm_prefetch((const char *)source->next + i * element_bytes,
			_MM_HINT_T0);
}

QUANT_INLINE void span_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source,
	const struct element_target *target, int64_t i, int64_t end)
{
	if (dtype == SHUNT_DTYPE_BF16 && !source->smooth && !source->fixed) {
		for (; i + 32 <= end; i += 32) {
			prefetch(dtype, source, i);
			encode_bf16(code, target, source->x, i);
		}
	}
	for (; i < end; i += 16) {
		__mmask16 lanes = half_lanes(end - i);

		prefetch(dtype, source, i);
		store_codes(code, target->q, i,
			encode(code, target, load_y(dtype, source, i, lanes)),
			lanes);
	}
}

/* ---- the way back ------------------------------------------------------ */

QUANT_INLINE void span_decode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes, float scale, const void *scales,
	int64_t i, int64_t end)
{
	__m512 factor = _mm512_set1_ps(scale);

	for (; i < end; i += 16) {
		__mmask16 lanes = half_lanes(end - i);
		__m512 value = decode_load_lanes(code, codes->q, i, lanes);

		if (scales)
			factor = half_load_lanes(
				SHUNT_DTYPE_F32, scales, i, lanes);
		half_store_lanes(dtype, codes->x, i,
			_mm512_mul_ps(value, factor), lanes);
	}
}

#include "quant/row_template.h"

#include "quant/group_template.h"

#include "quant/back_template.h"

#include "quant/instances_template.h"

const struct quant_kernels quant_kernels_avx512 = {
	.name = "avx512",
	.row = ROW_KERNELS,
	.back = BACK_KERNELS,
	.scatter = scatter_copy,
	.scatter_stream = scatter_stream_avx512,
};
