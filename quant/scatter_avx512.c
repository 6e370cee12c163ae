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

static inline void stream_line(char *dst, const char *src)
{
	_mm512_stream_si512((__m512i *)(void *)dst, _mm512_loadu_si512(src));
}

static inline void stream(char *dst, const char *src, int64_t bytes,
	struct ahead *ahead, int64_t pace)
{
	int64_t at = (int64_t)(-(uintptr_t)dst % LINE);

	if (at > bytes)
		at = bytes;
	store_some(dst, src, at);
	for (; at + AHEAD_BLOCK <= bytes; at += AHEAD_BLOCK) {
		ahead_ask(ahead, pace);
		for (int64_t line = at; line < at + AHEAD_BLOCK; line += LINE)
			stream_line(dst + line, src + line);
	}
	for (; at + LINE <= bytes; at += LINE)
		stream_line(dst + at, src + at);
	store_some(dst + at, src + at, bytes - at);
}

void scatter_stream_avx512(void *const *dst, int64_t num_dst, const void *src,
	int64_t bytes, struct ahead ahead)
{
	int64_t pace = ahead_pace(&ahead, num_dst * bytes);

	for (int64_t i = 0; i < num_dst; i++)
		stream(dst[i], src, bytes, &ahead, pace);
}
