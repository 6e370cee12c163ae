/*
 * Retired ranges: memory of this rank's segment that it has given up, while a
 * slow peer may still read it or add to a counter in it. A range is freed
 * when every peer has closed its side (its last access), or is gone. So
 * destroying is local, and still nobody is harmed.
 *
 * Each range holds one closed line per member at closed_off; member i adds to
 * line i when it will not touch the range again.
 */
#ifndef WORLD_RETIRE_H
#define WORLD_RETIRE_H

#include <stdint.h>

struct shunt_world;

/* A counter with its cache lines to itself. */
struct line {
	_Alignas(128) _Atomic uint64_t value;
};

/*
 * Hands the range to the world. `members` are the world ranks, num_members
 * of them, this rank included; copied. When memory is short the range stays
 * taken until the world ends, which is safe.
 */
void retire_range(struct shunt_world *world, uint64_t offset, uint64_t bytes,
	uint64_t closed_off, const int32_t *members, int32_t num_members);

/* Frees the ranges that nobody can touch any more. */
void retire_sweep(struct shunt_world *world);

/* Forgets all records; the segment itself is about to go. */
void retire_drop(struct shunt_world *world);

#endif
