/*
 * What the parts of `shunt bench` share. The launcher (bench.c) fills it and
 * starts the ranks (rank.c), which see it unchanged; what ranks write lies in
 * shared memory, so that forked ranks can report.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "barrier.h"
#include "channel.h"
#include "expert.h"
#include "floor.h"
#include "load.h"
#include "machine.h"
#include "options.h"
#include "pingpong.h"
#include "plan.h"
#include "rendezvous.h"
#include "shape.h"
#include "travel.h"

enum bench_phase { BENCH_DISPATCH, BENCH_COMBINE, BENCH_NUM_PHASES };

/* Series of times: the real steps, each copy loop of the floor, and the real
 * steps while an accelerator works; see overlap.h. */
#define BENCH_REAL       0
#define BENCH_FLOOR(i)   (1 + (i))
#define BENCH_OVERLAP    BENCH_FLOOR(COPIES_MAX)
#define BENCH_NUM_SERIES (BENCH_OVERLAP + 1)

/* A rank's page of results; written by that rank alone. */
struct bench_rank {
	alignas(128) _Atomic int64_t num_steps; /* done, floor steps too */
	_Atomic int32_t failure; /* 0: none; else the n-th rank to fail */
	char message[1024];      /* of the failure */
	uint64_t digest;
	int64_t world_ns; /* from the start of all to the own world */
	/* What the exchange takes by the library's word, and what the first
	 * creation took; as threads rank 0 sees to all of the latter. */
	int64_t query_bytes, memory_bytes;
	bool memory_known;
	struct shunt_stats stats;  /* with --stats or --hosts */
	struct travel_rank travel; /* with --hosts */
};

/* Room for what shunt_stats_text() says of a rank. */
#define BENCH_TEXT_BYTES (INT64_C(1) << 20)

struct bench {
	struct options options;
	struct shunt_exchange_config config;
	struct machine machine;
	struct rendezvous rendezvous;
	char meeting[64]; /* the rendezvous of the world config */
	bool pinned;
	struct shape shape;
	struct load load;
	struct plan plan;
	struct floor floor;
	struct expert expert;
	int64_t num_rounds;     /* blocks that the timed steps come in */
	int64_t block_warmup;   /* untimed steps at the head of each */
	int64_t num_steps;      /* that a rank makes, floor steps too */
	struct channel channel; /* to ranks that are elsewhere, if joined */
	/* Shared: */
	struct barrier *barrier;
	_Atomic int32_t *num_failures;
	struct signal *signal;
	struct bench_rank *ranks;
	int64_t *times;     /* ns; see bench_time() */
	int64_t *creations; /* ns; see bench_creation() */
	int64_t *waits;     /* us; see bench_waits() */
	char *texts;        /* (rank, BENCH_TEXT_BYTES) */
};

/* Ranks on this host. */
static inline int64_t bench_num_local(const struct bench *bench)
{
	const struct options *options = &bench->options;

	if (!options->joined)
		return options->num_ranks;
	if (options->job.num_local > 0)
		return options->job.num_local;
	return (options->num_ranks + options->num_hosts - 1) /
	       options->num_hosts;
}

/* Where a rank puts the time of one iteration. */
static inline int64_t *bench_time(const struct bench *bench, int series,
	enum bench_phase phase, int64_t iteration, int32_t rank)
{
	int64_t row = (series * BENCH_NUM_PHASES + phase) *
			      bench->options.num_iterations +
		      iteration;

	return &bench->times[row * bench->options.num_ranks + rank];
}

/* Times that the exchange is created: the last one stays. */
static inline int64_t bench_num_creations(const struct bench *bench)
{
	return bench->options.startup + 1;
}

/* Where a rank puts the time of the n-th creation of the exchange. */
static inline int64_t *bench_creation(
	const struct bench *bench, int64_t n, int32_t rank)
{
	return &bench->creations[n * bench->options.num_ranks + rank];
}

/* Where performance_info of a rank's timed steps adds up: (W). */
static inline int64_t *bench_waits(
	const struct bench *bench, int phase, int32_t rank)
{
	int64_t row = (int64_t)phase * bench->shape.num_members + rank;

	return bench->waits + row * bench->shape.num_ranks;
}

/* The life of a rank; `context` is the struct bench. Returns an exit status;
 * on failure the rank's page tells why. */
int rank_main(void *context, int32_t rank);

/* Steps that rank_main() makes. */
int64_t rank_num_steps(const struct bench *bench);

#endif
