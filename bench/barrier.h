/*
 * Starts a phase on all ranks at one moment. Lies in memory that threads and
 * forked processes share, or, where ranks have none in common, stands for a
 * channel of their own; no rank may be absent, but it can be broken.
 */
#ifndef BENCH_BARRIER_H
#define BENCH_BARRIER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "channel.h"

struct barrier {
	int32_t num_ranks;
	bool crowded; /* more ranks than cores: yield rather than spin */
	struct channel *channel; /* NULL: the ranks share this memory */
	alignas(128) _Atomic int32_t num_waiting;
	/* Written by the rank that comes last, read by the others. */
	alignas(128) _Atomic uint64_t round;
	_Atomic int64_t opened_ns;
	alignas(128) _Atomic bool broken;
};

void barrier_init(struct barrier *barrier, int32_t num_ranks, bool crowded);

/* Waits until every rank is here; false if the barrier is broken. */
bool barrier_wait(struct barrier *barrier);

/* The same for a measurement: all ranks are awake when it opens, and
 * *opened_ns is when (clock_ns()), one moment for every rank. */
bool barrier_start(struct barrier *barrier, int64_t *opened_ns);

/* Ends every wait, now and later: a rank is not coming any more. */
void barrier_break(struct barrier *barrier);

#endif
