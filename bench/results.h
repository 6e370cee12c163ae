/* What a run of `shunt bench` found out. */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench.h"
#include "stats.h"

/* Dispatch or combine. */
struct results_phase {
	struct stats time;
	struct stats floor;     /* of the copy loop with the least median */
	const char *floor_loop; /* its name; NULL: there is no floor */
	double ratio;           /* median to median; 0 if the floor is 0 */
	double signals;         /* what time has above the floor, in these */
	int64_t bytes;          /* of all ranks, in the mean of the steps */
	double gbps;            /* bytes over the median time */
	/* While an accelerator works: how long, and what is left behind it. */
	double span_us; /* 0: it does not */
	struct stats exposed;
};

/* From nothing to the first step; the slowest rank's times. */
struct results_startup {
	double world_us;
	struct stats exchange;
	int64_t query_bytes, memory_bytes; /* of all ranks */
	bool memory_known;
};

struct results {
	bool ok;
	char error[1200]; /* why not */
	struct results_phase phase[BENCH_NUM_PHASES];
	struct results_phase roundtrip; /* the phases' times added */
	struct travel_phase travel[BENCH_NUM_PHASES]; /* with --hosts */
	struct stats signal; /* one way; all 0 for one rank, or --hosts */
	struct results_startup startup;
	uint64_t digest; /* with --check */
};

/* Works the results out of what the ranks have left. Reorders the times.
 * False if memory is out. */
bool results_collect(struct results *results, const struct bench *bench);

/* Works out ratio and GB/s from time, floor and bytes. */
void results_finish_phase(struct results_phase *result);

#endif
