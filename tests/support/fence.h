/*
 * Memory that catches who goes past its end. An input lies right in front of
 * a page that nobody may read: an over-read is a crash. An output lies
 * between canaries, at a chosen misalignment.
 */
#ifndef SUPPORT_FENCE_H
#define SUPPORT_FENCE_H

#include <stddef.h>
#include <stdint.h>

/* An input of at most max_bytes; fence_fini() is owed. */
struct fence {
	uint8_t *base;
	size_t bytes; /* readable, from base */
};

void fence_init(struct fence *fence, size_t max_bytes);
void fence_fini(struct fence *fence);

/* A copy of `bytes` from `data` that ends `gap` bytes before the forbidden
 * page; gap 1 misaligns. Replaces the copy before. */
void *fence_put(
	struct fence *fence, const void *data, size_t bytes, size_t gap);

/* An output of at most max_bytes; moat_fini() is owed. */
struct moat {
	uint8_t *base;
	size_t max_bytes;
	size_t offset; /* of the output in force */
	size_t bytes;
};

void moat_init(struct moat *moat, size_t max_bytes);
void moat_fini(struct moat *moat);

/* An output of `bytes` whose address is `misalign` (0 .. 63) past a multiple
 * of 64. Everything is filled with canaries, the output too. */
void *moat_open(struct moat *moat, size_t bytes, size_t misalign);

/* Fails the test if a byte outside the output was written. */
void moat_check(const struct moat *moat);

#endif
