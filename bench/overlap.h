/*
 * What goes on while an accelerator works: --expert-us has it make the rows of
 * the local experts one after the other, --compute-us has it do something else
 * between start and finish. Its work is a time of known length in which this core
 * is free, and only asks the library for progress. What the library does behind
 * that time is exposed, the rest is hidden.
 *
 * A phase is measured both ways in the same run: by itself (with --expert-us
 * behind the last expert), as BENCH_REAL, and overlapped, as BENCH_OVERLAP. Both
 * times are without that of the accelerator.
 */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "rank.h"

/* How long the accelerator works in a phase, in ns; 0: it does not. */
int64_t overlap_span(const struct bench *bench, enum bench_phase phase);

static inline bool overlap_is_asked(const struct bench *bench)
{
	return overlap_span(bench, BENCH_COMBINE) > 0;
}

/* Waits until the accelerator has done what comes before the step's own time,
 * and returns when that time began: a phase opened at opened_ns. */
int64_t overlap_open(
	const struct rank *self, enum bench_phase phase, int64_t opened_ns);

/* The overlapped calls; the phase has just opened. */
enum shunt_status overlap_dispatch(struct rank *self,
	const struct shunt_dispatch_args *args, struct shunt_dispatch_out *out);
enum shunt_status overlap_combine(const struct rank *self,
	const struct shunt_combine_args *args,
	const struct shunt_dispatch_out *sent);

#endif
