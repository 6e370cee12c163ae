/*
 * What one signal costs here: the time from one rank's counted put of no bytes
 * until another rank sees it, with no other work on either. It is what the
 * waiting of a step is measured in.
 *
 * Two ranks play ping-pong as the library signals: an addition to a counter of
 * the other's, then a look at whether the other sleeps; the other looks at its
 * counter over and over. A signal is half of the way there and back.
 */
#ifndef BENCH_PINGPONG_H
#define BENCH_PINGPONG_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "barrier.h"

#define SIGNAL_MAX_SAMPLES 200

/* What a rank can be signalled at. The lines are apart as they are in a
 * window and a control page. */
struct signal_end {
	alignas(128) _Atomic uint64_t counter;
	alignas(128) _Atomic uint64_t sleepers; /* none, ever */
};

/* Shared by the two. */
struct signal {
	const struct barrier *barrier; /* ends the game if it is broken */
	int num_samples;               /* 0: there are not two ranks */
	int num_trips;                 /* of a sample, there and back */
	struct signal_end ends[2];
	int64_t trips_ns[SIGNAL_MAX_SAMPLES];
};

void signal_init(struct signal *signal, const struct barrier *barrier);

/* The ranks that play are those that are farthest apart in the order in which
 * ranks are given cores: 0 for the first of all, 1 for the last, else -1. */
int signal_end_of(int32_t rank, int32_t num_ranks);

/* Plays the n-th of `num_rounds` shares of the samples as one of the ends; both
 * must. False if the barrier is broken: the other is not coming any more. */
bool signal_play(
	struct signal *signal, int end, int64_t round, int64_t num_rounds);

#endif
