/*
 * A world: this rank's membership of a job. Owns the segment, the heap, the
 * attached peers, and the ranges that were given up but that peers may still
 * touch (retire.h).
 */
#ifndef WORLD_WORLD_H
#define WORLD_WORLD_H

#include <pthread.h>
#include <stdbool.h>

#include <shunt/shunt.h>

#include "memory/control.h"
#include "memory/heap.h"
#include "memory/segment.h"
#include "transport/far.h"
#include "transport/transport.h"

struct retired;
struct group_count;

struct shunt_world {
	int32_t rank;
	int32_t num_ranks;
	unsigned long generation; /* of the fork guard */
	struct segment *segment;
	struct control *control;
	struct heap *heap;
	struct peer **peers; /* [num_ranks], the own one included */
	struct far *far;     /* towards other hosts; NULL: there are none */
	struct shunt_group *group; /* all ranks, in order */
	int64_t spin_ns; /* how long a wait spins before it yields and sleeps */

	pthread_mutex_t lock; /* guards what follows */
	uint32_t next_entry;  /* of the directory, to look at for a free one */
	struct retired *retired;
	struct group_count *group_counts;
};

/* Notes what this rank does now, for the reports of others. */
void world_beat(
	struct shunt_world *world, enum beat_phase phase, uint64_t epoch);

/* The name of a phase as a report puts it: "dispatch start". */
const char *world_phase_name(uint64_t phase);

#endif
