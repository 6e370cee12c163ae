/*
 * Ranges of a segment that a device can reach, by ascending offset, disjoint:
 * of the own segment with their registrations, of a peer's with their keys.
 * The caller locks.
 */
#ifndef TRANSPORT_VERBS_RANGES_H
#define TRANSPORT_VERBS_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/far.h"

struct ibv_mr;

struct verbs_range {
	uint64_t offset;
	uint64_t bytes;
	struct ibv_mr *mrs[FAR_MAX_DEVICES]; /* of the own segment */
	uint32_t rkeys[FAR_MAX_DEVICES];     /* of a peer's, by its device */
	uint32_t num_rkeys;                  /* those of devices 0 .. */
};

struct verbs_ranges {
	struct verbs_range *ranges;
	uint32_t num;
	uint32_t capacity;
};

/* Frees the list, not what is registered. */
void verbs_ranges_fini(struct verbs_ranges *ranges);

/* The range that holds all of [offset, offset + bytes); NULL if none does. */
struct verbs_range *verbs_ranges_find(
	const struct verbs_ranges *ranges, uint64_t offset, uint64_t bytes);

/* The range that begins at the offset; NULL if none does. */
struct verbs_range *verbs_ranges_at(
	const struct verbs_ranges *ranges, uint64_t offset);

/* Adds a copy. False if it overlaps another (then *full is false) or there is
 * no memory (true). */
bool verbs_ranges_add(struct verbs_ranges *ranges,
	const struct verbs_range *range, bool *full);

/* Removes one of the list's. */
void verbs_ranges_remove(
	struct verbs_ranges *ranges, struct verbs_range *range);

#endif
