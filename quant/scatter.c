/* Owns the copies of one row to many places. */
#include "quant/scatter.h"

#include <string.h>

/* Bytes for one memcpy, which is at its best with no fewer. */
#define COPY 4096

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

void scatter_copy(void *const *dst, int64_t num_dst, const void *src,
	int64_t bytes, struct ahead ahead)
{
	int64_t pace = ahead_pace(&ahead, num_dst * bytes);

	for (int64_t i = 0; i < num_dst; i++)
		for (int64_t at = 0; at < bytes; at += COPY) {
			int64_t left = bytes - at;

			ahead_ask(&ahead, pace * (COPY / AHEAD_BLOCK));
			memcpy((char *)dst[i] + at, (const char *)src + at,
				(size_t)(left < COPY ? left : COPY));
		}
}

#if defined(__x86_64__)

#define LINE 64

/* One whole line of dst, which is aligned to it, past the caches. SSE2 is
 * enough: the four stores leave the write-combining buffer as one. */
static inline void stream_line(char *dst, const char *src)
{
	for (int i = 0; i < LINE; i += 16)
		_mm_stream_si128((__m128i *)(void *)(dst + i),
			_mm_loadu_si128(
				(const __m128i *)(const void *)(src + i)));
}

/* Lines that dst covers in part are stored through the caches: a partial
 * write past them is a read, a merge and a write in the memory controller. */
static void stream(char *dst, const char *src, int64_t bytes,
	struct ahead *ahead, int64_t pace)
{
	int64_t at = (int64_t)(-(uintptr_t)dst % LINE);

	if (at > bytes)
		at = bytes;
	memcpy(dst, src, (size_t)at);
	for (; at + AHEAD_BLOCK <= bytes; at += AHEAD_BLOCK) {
		ahead_ask(ahead, pace);
		for (int64_t line = at; line < at + AHEAD_BLOCK; line += LINE)
			stream_line(dst + line, src + line);
	}
	for (; at + LINE <= bytes; at += LINE)
		stream_line(dst + at, src + at);
	memcpy(dst + at, src + at, (size_t)(bytes - at));
}

void scatter_stream(void *const *dst, int64_t num_dst, const void *src,
	int64_t bytes, struct ahead ahead)
{
	int64_t pace = ahead_pace(&ahead, num_dst * bytes);

	for (int64_t i = 0; i < num_dst; i++)
		stream(dst[i], src, bytes, &ahead, pace);
}

void scatter_fence(void)
{
	_mm_sfence();
}

#else

/* Plain C has no way past the caches; its stores need no fence. */
void scatter_stream(void *const *dst, int64_t num_dst, const void *src,
	int64_t bytes, struct ahead ahead)
{
	scatter_copy(dst, num_dst, src, bytes, ahead);
}

void scatter_fence(void)
{
}

#endif
