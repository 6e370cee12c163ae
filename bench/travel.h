/*
 * --hosts: what goes between hosts, and how. Each rank notes what the library
 * says and has counted; the report sums it up.
 */
#ifndef BENCH_TRAVEL_H
#define BENCH_TRAVEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include <shunt/shunt.h>

struct bench;
struct results;

/* Ways to reach a rank, as shunt_world_transport() calls them. */
enum travel_way {
	TRAVEL_SELF,
	TRAVEL_THREADS,
	TRAVEL_SHM,
	TRAVEL_VERBS,
	TRAVEL_NUM_WAYS
};

extern const char *const travel_ways[TRAVEL_NUM_WAYS];

/* Of one rank, on its page. */
struct travel_rank {
	int32_t host;
	int32_t num_hosts; /* that the ranks are on */
	int32_t peers[TRAVEL_NUM_WAYS];
	enum shunt_algorithm dispatch, combine;
	bool adds_partial_sums;
	char why[256];
};

/* Asks the library. False, with `error`, if a way has no name here, or if the
 * ranks are not on as many hosts as --hosts says. */
bool travel_note(struct travel_rank *travel, const struct bench *bench,
	const struct shunt_world *world, const struct shunt_exchange *exchange,
	char *error, size_t error_bytes);

/* A phase of all ranks; means of the steps. */
struct travel_phase {
	double wire_bytes, wire_requests;
	double ideal_bytes; /* dispatch: each token to each host once; else 0 */
	double memory_bytes; /* of rows that stay on their host */
	double wire_gbps;    /* over the median time; 0: nothing went */
};

/* What the plan says of one member's step: rows, with scales, that stay on the
 * host on their way to experts and back, and what must go to other hosts at
 * least. `hosts` has the host of each member. */
struct travel_plan {
	int64_t dispatch_memory_bytes, combine_memory_bytes;
	int64_t ideal_bytes;
};
bool travel_plan(const struct bench *bench, const int32_t *hosts, int64_t step,
	int32_t member, struct travel_plan *plan);

/* Fills results->travel. False if memory is out. */
bool travel_collect(struct results *results, const struct bench *bench);

void travel_print(
	FILE *stream, const struct bench *bench, const struct results *results);
void travel_add_json(
	cJSON *root, const struct bench *bench, const struct results *results);

#endif
