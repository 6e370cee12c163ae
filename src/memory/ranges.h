/*
 * Which ranges of a segment are taken: a list by ascending offset, in plain
 * memory. What is not in it is free, so that giving back needs no memory and
 * neighbours that are free are one gap. The caller locks.
 */
#ifndef MEMORY_RANGES_H
#define MEMORY_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct range;

struct ranges {
	struct range *first;
	uint64_t end; /* ranges lie in [0, end) */
	uint64_t used_bytes;
};

/* All of [0, end) is free. False if there is no memory for the list. */
bool ranges_init(struct ranges *ranges, uint64_t end);

/* Forgets all ranges. */
void ranges_fini(struct ranges *ranges);

/* Takes the first gap of `bytes` (at least 1) that begins at a multiple of
 * `align`, a power of two. False if there is none, or no memory to note it. */
bool ranges_take(struct ranges *ranges, uint64_t bytes, uint64_t align,
	uint64_t *offset);

/* Whether exactly this range is taken. */
bool ranges_taken(const struct ranges *ranges, uint64_t offset, uint64_t bytes);

/* Gives back exactly what was taken; nothing if it is not. */
void ranges_give(struct ranges *ranges, uint64_t offset, uint64_t bytes);

/* The first range that begins at or behind `from`; false if there is none. */
bool ranges_next(const struct ranges *ranges, uint64_t from, uint64_t *offset,
	uint64_t *bytes);

/* Bytes of the largest gap. */
uint64_t ranges_largest(const struct ranges *ranges);

#endif
