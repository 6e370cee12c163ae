/*
 * Which ranges of a segment are taken: a list by ascending offset, in plain
 * memory. What is not in it is free, so that giving back needs no memory and
 * neighbours that are free are one gap. The caller locks.
 */
#ifndef MEMORY_RANGES_H
#define MEMORY_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/status.h>

struct range;

struct ranges {
	struct range *first;
	uint64_t end; /* ranges lie in [0, end) */
	uint64_t used_bytes;
};

/* All of [0, end) is free. */
void ranges_init(struct ranges *ranges, uint64_t end);

/* Forgets all ranges. */
void ranges_fini(struct ranges *ranges);

/* Takes the first gap of `bytes` (at least 1) that begins at a multiple of
 * `align`, a power of two. Errors: NO_MEMORY. */
enum shunt_status ranges_take(struct ranges *ranges, uint64_t bytes,
	uint64_t align, uint64_t *offset);

/* Gives back exactly what was taken; false if there is no such range. */
bool ranges_give(struct ranges *ranges, uint64_t offset, uint64_t bytes);

#endif
