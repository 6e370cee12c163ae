/*
 * The row kernels in registers of 256 bits: 8 elements at a time, 32 where a
 * store takes them. The plain rules of element.h do what is left over at a
 * row's end. One source for AVX2 and for AVX-512, where the compiler makes one
 * instruction of two or three logical ones, and has twice the registers.
 *
 * Not 512 bits: docs/performance.md, "Which registers kernels use".
 */
#include "base/half_avx2.h"
#include "quant/decode_avx2.h"
#include "quant/element.h"
#include "quant/scatter.h"
#include "quant/table.h"
#include "quant/tail.h"
#include "quant/words_avx2.h"

/* ---- the largest ------------------------------------------------------- */

/* y of elements i .. i + 7. */
QUANT_INLINE __m256 load_y(
	enum shunt_dtype dtype, const struct element_source *source, int64_t i)
{
	__m256 y = half_load8(dtype, source->x, i);

	if (source->smooth)
		y = _mm256_mul_ps(y, _mm256_loadu_ps(source->smooth + i));
	if (!source->fixed)
		return y;
	if (source->fixed_is_one)
		return _mm256_mul_ps(y,
			_mm256_set1_ps(
				half_load(SHUNT_DTYPE_F32, source->fixed, 0)));
	return _mm256_mul_ps(y, _mm256_loadu_ps(source->fixed + i));
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

QUANT_INLINE uint32_t top_wide(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end)
{
	__m256i top0 = _mm256_setzero_si256(), top1 = top0;
	uint32_t top;

#pragma GCC unroll 1
	for (; i + 16 <= end; i += 16) {
		__m256 y0 = load_y(dtype, source, i);
		__m256 y1 = load_y(dtype, source, i + 8);

		top0 = _mm256_max_epu32(top0, magnitude(y0));
		top1 = _mm256_max_epu32(top1, magnitude(y1));
	}
	top = largest(_mm256_max_epu32(top0, top1));
	return i < end ? tail_top(dtype, *source, i, end, top) : top;
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
 * too, and 16 of them fit in a vector. */
QUANT_INLINE uint32_t top_narrow(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end)
{
	const __m256i abs = _mm256_set1_epi16(0x7fff);
	const char *at = source->x;
	__m256i top = _mm256_setzero_si256();
	uint32_t result;

	for (; i + 16 <= end; i += 16) {
		__m256i codes = _mm256_loadu_si256((const void *)(at + 2 * i));

		top = _mm256_max_epu16(top, _mm256_and_si256(codes, abs));
	}
	result = largest_code(dtype, top);
	return i < end ? tail_top(dtype, *source, i, end, result) : result;
}

QUANT_INLINE uint32_t span_top(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t end)
{
	if (dtype == SHUNT_DTYPE_F32 || source->smooth || source->fixed)
		return top_wide(dtype, source, first, end);
	return top_narrow(dtype, source, first, end);
}

QUANT_INLINE bool span_tops(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t group,
	float amax[16])
{
	if (dtype != SHUNT_DTYPE_BF16 || source->smooth)
		return false;
	words_tops(source->x, first, group, amax);
	return true;
}

QUANT_INLINE uint32_t span_finite(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end,
	struct quant_tally *tally)
{
	const __m256i inf = _mm256_set1_epi32(HALF_F32_INF);
	__m256i top = _mm256_setzero_si256();

#pragma GCC unroll 1
	for (; i + 8 <= end; i += 8) {
		__m256i next = magnitude(load_y(dtype, source, i));
		__m256i infs = _mm256_cmpeq_epi32(next, inf);
		__m256i nans = _mm256_cmpgt_epi32(next, inf);
		__m256i special = _mm256_or_si256(infs, nans);

		tally->inf_elements += (uint64_t)__builtin_popcount(
			(unsigned int)_mm256_movemask_ps(
				_mm256_castsi256_ps(infs)));
		tally->nan_elements += (uint64_t)__builtin_popcount(
			(unsigned int)_mm256_movemask_ps(
				_mm256_castsi256_ps(nans)));
		top = _mm256_max_epu32(top, _mm256_andnot_si256(special, next));
	}
	if (i < end) {
		uint32_t rest = tail_finite(dtype, *source, i, end, tally);

		top = _mm256_max_epu32(top, _mm256_set1_epi32((int)rest));
	}
	return largest(top);
}

/* ---- codes ------------------------------------------------------------- */

/* quant/code.h in vectors; the code is a whole dword. */
QUANT_INLINE __m256i encode_float(enum shunt_dtype code, __m256 p, bool clamped)
{
	__m256i bits = _mm256_castps_si256(p);
	__m256 positive = _mm256_castsi256_ps(magnitude(p));
	__m256i exponent, sum, sign;

	if (clamped)
		positive =
			_mm256_min_ps(positive, _mm256_set1_ps(code_max(code)));
	exponent =
		_mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(positive),
					 _mm256_set1_epi32(CODE_F32_EXPONENT)),
			_mm256_set1_epi32((int)code_least_normal(code)));
	sum = _mm256_castps_si256(_mm256_add_ps(
		positive, _mm256_castsi256_ps(_mm256_add_epi32(exponent,
				  _mm256_set1_epi32((int)code_magic(code))))));
	sum = _mm256_add_epi32(sum,
		_mm256_srli_epi32(exponent, 23 - code_fraction_bits(code)));
	if (code == SHUNT_DTYPE_E2M1) {
		sum = _mm256_and_si256(sum, _mm256_set1_epi32(0x7));
		sign = _mm256_and_si256(
			_mm256_srli_epi32(bits, 28), _mm256_set1_epi32(0x8));
	} else {
		sum = _mm256_and_si256(sum, _mm256_set1_epi32(0x7f));
		sign = _mm256_and_si256(
			_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
	}
	return _mm256_or_si256(sum, sign);
}

/* The product p where y may not be finite: Inf becomes the largest value, NaN
 * 0; with a factor of 0 the rest becomes +0. */
QUANT_INLINE __m256 mend(enum shunt_dtype code,
	const struct element_target *target, __m256 y, __m256 p, __m256 nan)
{
	const int keep = target->factor == 0.0f ? 0 : -1;
	const float max =
		code == SHUNT_DTYPE_I8 ? -target->low : code_max(code);
	__m256i inf = _mm256_cmpeq_epi32(
		magnitude(y), _mm256_set1_epi32(HALF_F32_INF));
	__m256 sign = _mm256_and_ps(y, _mm256_set1_ps(-0.0f));
	__m256 top = _mm256_or_ps(sign, _mm256_set1_ps(max));

	p = _mm256_and_ps(p, _mm256_castsi256_ps(_mm256_set1_epi32(keep)));
	p = _mm256_blendv_ps(p, top, _mm256_castsi256_ps(inf));
	return _mm256_andnot_ps(nan, p);
}

/* The codes of 8 y, as dwords; of I8 with their sign. */
QUANT_INLINE __m256i encode(
	enum shunt_dtype code, const struct element_target *target, __m256 y)
{
	__m256 p = y, nan = _mm256_setzero_ps();
	__m256i codes;

	if (target->scaled)
		p = _mm256_mul_ps(y, _mm256_set1_ps(target->factor));
	if (target->special) {
		nan = _mm256_cmp_ps(y, y, _CMP_UNORD_Q);
		p = mend(code, target, y, p, nan);
	}
	if (code == SHUNT_DTYPE_I8) {
		if (target->clamped)
			p = _mm256_max_ps(
				_mm256_min_ps(p, _mm256_set1_ps(127.0f)),
				_mm256_set1_ps(target->low));
		return _mm256_cvtps_epi32(p);
	}
	codes = encode_float(code, p, target->clamped);
	if (target->special)
		codes = _mm256_blendv_epi8(codes,
			_mm256_set1_epi32(code_nan(code)),
			_mm256_castps_si256(nan));
	return codes;
}

/* 32 dwords to bytes; the packs work within 128 bits, so dwords come out of
 * order. */
QUANT_INLINE __m256i pack32(enum shunt_dtype code, const __m256i part[4])
{
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	__m256i ab = _mm256_packs_epi32(part[0], part[1]);
	__m256i cd = _mm256_packs_epi32(part[2], part[3]);
	__m256i bytes = code == SHUNT_DTYPE_I8 ? _mm256_packs_epi16(ab, cd)
					       : _mm256_packus_epi16(ab, cd);

	return _mm256_permutevar8x32_epi32(bytes, order);
}

/* 8 dwords to bytes, in the lowest 8. */
QUANT_INLINE __m128i pack8(enum shunt_dtype code, __m256i codes)
{
	__m128i words = _mm_packs_epi32(_mm256_castsi256_si128(codes),
		_mm256_extracti128_si256(codes, 1));

	return code == SHUNT_DTYPE_I8 ? _mm_packs_epi16(words, words)
				      : _mm_packus_epi16(words, words);
}

/* Elements i .. i + 31 of q. */
QUANT_INLINE void store32(
	enum shunt_dtype code, void *q, int64_t i, __m256i bytes)
{
	char *at = q;

	if (code != SHUNT_DTYPE_E2M1) {
		_mm256_storeu_si256((void *)(at + i), bytes);
		return;
	}
	/* Of each pair: the first, and 16 times the second. */
	bytes = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x1001));
	_mm_storeu_si128((void *)(at + i / 2),
		_mm_packus_epi16(_mm256_castsi256_si128(bytes),
			_mm256_extracti128_si256(bytes, 1)));
}

/* Elements i .. i + 7 of q. */
QUANT_INLINE void store8(
	enum shunt_dtype code, void *q, int64_t i, __m128i bytes)
{
	char *at = q;
	int pairs;

	if (code != SHUNT_DTYPE_E2M1) {
		_mm_storel_epi64((void *)(at + i), bytes);
		return;
	}
	bytes = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x1001));
	pairs = _mm_cvtsi128_si32(_mm_packus_epi16(bytes, bytes));
	memcpy(at + i / 2, &pairs, sizeof(pairs));
}

/* Asks for 32 elements of the next row: one line, or two of f32. */
QUANT_INLINE void prefetch(
	enum shunt_dtype dtype, const struct element_source *source, int64_t i)
{
	const int64_t width = dtype == SHUNT_DTYPE_F32 ? 4 : 2;
	const char *at = source->next;

	if (!at)
		return;
	_mm_prefetch(at + i * width, _MM_HINT_T0);
	if (width == 4)
		_mm_prefetch(at + i * width + 64, _MM_HINT_T0);
}

QUANT_INLINE void span_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source,
	const struct element_target *target, int64_t i, int64_t end)
{
	if (dtype == SHUNT_DTYPE_BF16 && !source->smooth && !source->fixed &&
		!target->special) {
		const __m256 factor = _mm256_set1_ps(target->factor);

#pragma GCC unroll 1
		for (; i + 32 <= end; i += 32) {
			prefetch(dtype, source, i);
			store32(code, target->q, i,
				words_encode(
					code, source->x, i, factor, factor));
		}
	}
#pragma GCC unroll 1
	for (; i + 32 <= end; i += 32) {
		__m256i part[4];

		prefetch(dtype, source, i);
#pragma GCC unroll 4
		for (int p = 0; p < 4; p++)
			part[p] = encode(
				code, target, load_y(dtype, source, i + 8 * p));
		store32(code, target->q, i, pack32(code, part));
	}
	for (; i + 8 <= end; i += 8)
		store8(code, target->q, i,
			pack8(code, encode(code, target,
					    load_y(dtype, source, i))));
	if (i < end)
		tail_encode(dtype, code, *source, *target, i, end);
}

/* 16 groups of powers of two. */
QUANT_INLINE uint32_t shift_groups(enum shunt_dtype code,
	const struct element_source *source, void *q, int64_t i, int64_t group,
	const uint8_t scales[16])
{
	uint32_t off[16], undone = 0, unable = 0;

	for (int g = 0; g < 16; g++) {
		off[g] = (uint32_t)words_origin(code, scales[g]) << 7;
		off[g] = off[g] << 16 | (off[g] & 0xffff);
		unable |= !words_may_shift(code, scales[g]);
	}
	if (unable)
		return ~0u;
	for (int g = 0; g < 16; g++) {
		const __m256i by = _mm256_set1_epi32((int)off[g]);

		for (int64_t end = i + group; i < end; i += 32) {
			__m256i bytes;

			prefetch(SHUNT_DTYPE_BF16, source, i);
			if (!words_encode_shifted(
				    code, source->x, i, by, &bytes))
				undone |= 1u << g;
			store32(code, q, i, bytes);
		}
	}
	return undone;
}

/* 16 groups of 16 elements, of any factors but 0. */
QUANT_INLINE uint32_t pair_groups(enum shunt_dtype code,
	const struct element_source *source, void *q, int64_t i,
	const float factors[16])
{
	const __m256 zero = _mm256_setzero_ps();
	__m256 low = _mm256_loadu_ps(factors);
	__m256 high = _mm256_loadu_ps(factors + 8);

	for (int g = 0; g < 16; g += 2, i += 32) {
		prefetch(SHUNT_DTYPE_BF16, source, i);
		store32(code, q, i,
			words_encode(code, source->x, i,
				_mm256_set1_ps(factors[g]),
				_mm256_set1_ps(factors[g + 1])));
	}
	low = _mm256_cmp_ps(low, zero, _CMP_EQ_OQ);
	high = _mm256_cmp_ps(high, zero, _CMP_EQ_OQ);
	return (uint32_t)_mm256_movemask_ps(low) |
	       (uint32_t)_mm256_movemask_ps(high) << 8;
}

QUANT_INLINE uint32_t span_groups(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source, void *q, int64_t first,
	int64_t group, const float factors[16], const uint8_t *pow2)
{
	if (dtype != SHUNT_DTYPE_BF16 || source->smooth)
		return ~0u;
	if (pow2)
		return shift_groups(code, source, q, first, group, pow2);
	if (group == 16)
		return pair_groups(code, source, q, first, factors);
	return ~0u;
}

/* ---- the way back ------------------------------------------------------ */

QUANT_INLINE void span_decode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes, float scale, const void *scales,
	int64_t i, int64_t end)
{
	__m256 factor = _mm256_set1_ps(scale);

#pragma GCC unroll 1
	for (; i + 8 <= end; i += 8) {
		__m256 value = decode_load8(code, codes->q, i);

		if (scales)
			factor = half_load8(SHUNT_DTYPE_F32, scales, i);
		half_store8(dtype, codes->x, i, _mm256_mul_ps(value, factor));
	}
	if (i < end)
		tail_decode(dtype, code, codes, scale, scales, i, end);
}

#include "quant/row_template.h"

#include "quant/group_template.h"

#include "quant/back_template.h"

#include "quant/instances_template.h"
