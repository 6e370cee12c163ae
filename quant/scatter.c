/* Owns the copies of one row to many places. */
#include "quant/scatter.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

void scatter_copy(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes)
{
	for (int64_t i = 0; i < num_dst; i++)
		memcpy(dst[i], src, (size_t)bytes);
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
static void stream(char *dst, const char *src, int64_t bytes)
{
	int64_t head = (int64_t)(-(uintptr_t)dst % LINE);
	int64_t at;

	if (head > bytes)
		head = bytes;
	memcpy(dst, src, (size_t)head);
	for (at = head; at + LINE <= bytes; at += LINE)
		stream_line(dst + at, src + at);
	memcpy(dst + at, src + at, (size_t)(bytes - at));
}

void scatter_stream(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes)
{
	for (int64_t i = 0; i < num_dst; i++)
		stream(dst[i], src, bytes);
}

void scatter_fence(void)
{
	_mm_sfence();
}

#else

/* Plain C has no way past the caches; its stores need no fence. */
void scatter_stream(
	void *const *dst, int64_t num_dst, const void *src, int64_t bytes)
{
	scatter_copy(dst, num_dst, src, bytes);
}

void scatter_fence(void)
{
}

#endif
