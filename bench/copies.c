/*
 * Plain copy loops: memcpy; wide regular stores; wide streaming stores. A
 * merge reads K rows side by side and writes one, by exclusive or, which
 * costs nothing beside the loads; memcpy's merge copies the rows one after
 * the other to the same place.
 */
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "copies.h"

static void finish_nothing(void)
{
}

/* ---- memcpy ----------------------------------------------------------- */

static void copy_memcpy(uint8_t *to, const uint8_t *from, size_t num_bytes)
{
	memcpy(to, from, num_bytes);
}

static void merge_memcpy(uint8_t *to, const uint8_t *const *from, int64_t count,
	size_t num_bytes)
{
	if (count == 0)
		memset(to, 0, num_bytes);
	for (int64_t i = 0; i < count; i++) {
		memcpy(to, from[i], num_bytes);
		/* So that no copy but the last is found to be useless. */
		__asm__ volatile("" : : "r"(to) : "memory");
	}
}

/* ---- wide stores ------------------------------------------------------ */

/* How far ahead of its loads a merge asks for a row's lines, past the row's end
 * too, where it never faults: with many rows side by side this is a few per
 * cent faster than what the processor does by itself. */
#define MERGE_AHEAD 768

/* 64 bytes at any address; the compiler makes of it what the target has. */
typedef uint64_t wide_t __attribute__((vector_size(64), aligned(1), may_alias));

/* Bytes before `to` is aligned for streaming, at most num_bytes. */
static size_t head_of(const uint8_t *to, size_t num_bytes, bool stream)
{
	size_t head = stream ? -(uintptr_t)to & 63 : 0;

	return head < num_bytes ? head : num_bytes;
}

/* Bytes first .. end - 1 of a merge, for the ragged ends. */
static void merge_bytes(uint8_t *to, const uint8_t *const *from, int64_t count,
	size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		uint8_t merged = 0;

		for (int64_t k = 0; k < count; k++)
			merged ^= from[k][i];
		to[i] = merged;
	}
}

#if defined(__x86_64__)

static void finish_streaming(void)
{
	_mm_sfence();
}

/* Without AVX-512 a line is streamed in quarters, which the CPU joins. */
static inline void stream_quarters(uint8_t *to, const void *line)
{
	const char *from = line;

	for (size_t i = 0; i < 64; i += 16)
		_mm_stream_si128((void *)(to + i),
			_mm_loadu_si128((const void *)(from + i)));
}

#define WIDE(name)  name##_avx512
#define WIDE_TARGET __attribute__((target("avx512f")))
#define WIDE_STREAM(to, line) \
	_mm512_stream_si512((void *)(to), (__m512i) * (line))
#include "copies_template.h"

#define WIDE(name)            name##_avx2
#define WIDE_TARGET           __attribute__((target("avx2")))
#define WIDE_STREAM(to, line) stream_quarters(to, line)
#include "copies_template.h"

#define WIDE(name) name##_plain
#define WIDE_TARGET
#define WIDE_STREAM(to, line) stream_quarters(to, line)
#include "copies_template.h"

#else

static void finish_streaming(void)
{
}

/* No streaming stores known for this CPU: both kinds are regular. */
#define WIDE(name) name##_plain
#define WIDE_TARGET
#define WIDE_STREAM(to, line) (*(wide_t *)(to) = *(line))
#include "copies_template.h"

#endif

/* ---- the list --------------------------------------------------------- */

int copies_list(struct copies list[COPIES_MAX])
{
	static const struct copies with_memcpy = {
		"memcpy", copy_memcpy, merge_memcpy, finish_nothing};
	const struct copies *wide = wide_plain;

#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		wide = wide_avx512;
	else if (__builtin_cpu_supports("avx2"))
		wide = wide_avx2;
#endif
	list[0] = with_memcpy;
	list[1] = wide[0];
	list[2] = wide[1];
	return 3;
}
