/* Streaming by whole lines: one store each, and masks at the ragged ends. */
#include "quant/scatter.h"

#include <immintrin.h>

#define LINE 64

static inline __mmask64 first_bytes(int64_t count)
{
	return count >= LINE ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

/* Up to a line, through the caches; see stream() in scatter.c. */
static inline void store_some(char *dst, const char *src, int64_t count)
{
	__mmask64 mask = first_bytes(count);

	_mm512_mask_storeu_epi8(dst, mask, _mm512_maskz_loadu_epi8(mask, src));
}

static inline void stream(char *dst, const char *src, int64_t bytes)
{
	int64_t at = (int64_t)(-(uintptr_t)dst % LINE);

	if (at > bytes)
		at = bytes;
	store_some(dst, src, at);
	for (; at + LINE <= bytes; at += LINE)
		_mm512_stream_si512((__m512i *)(void *)(dst + at),
			_mm512_loadu_si512(src + at));
	store_some(dst + at, src + at, bytes - at);
}

void scatter_stream_avx512(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes)
{
	for (int64_t i = 0; i < num_dst; i++)
		stream(dst[i], src, bytes);
}
