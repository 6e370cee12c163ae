/*
 * What moves where in a step, worked out from the routing: for the floor, for
 * the sizes of windows, and for the bytes of the report. Rows lie dense here,
 * with the padding of --align, whatever the layout.
 */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "load.h"

/* A row of a member's window; member -1: none. */
struct plan_target {
	int32_t member;
	int32_t row;
};

struct plan {
	const struct load *load;
	int64_t row_bytes;   /* of a row on its way to an expert */
	int64_t scale_bytes; /* of its scales */
	int64_t home_bytes;  /* of an expert's row on its way home, scales
			      * included */
	bool one_home;       /* rows come home from the own EP group only: what
			* TP adds up is then --combine-quant's to make */
	int64_t alignment;
	bool own_first; /* rows of the own EP group come first */
	bool indexed;   /* rows stay with their sender */
	bool varies;    /* a token's rows differ by expert */
	bool residual, norm;
	/* (W) with --zero-tail: rows that each rank's window has, else NULL. */
	int64_t *capacity;
	/* Of any member and step: rows with padding, rows of an expert. */
	int64_t most_rows, most_expert_rows;
};

/* Fills most_rows and most_expert_rows; what stands before is set. */
void plan_measure(struct plan *plan);

/* Rows that a member receives in a step; with padding. */
int64_t plan_num_rows(const struct plan *plan, int64_t step, int32_t member);
int64_t plan_extent(const struct plan *plan, int64_t step, int32_t member);

/* Rows that a member must fill with zeros. */
int64_t plan_zero_rows(const struct plan *plan, int64_t step, int32_t member);

/* Targets of a token: for each choice and shared expert one in each EP
 * group. */
int64_t plan_num_targets(const struct plan *plan);

/* Where the rows of a member's step go: targets[T * plan_num_targets()]. False
 * if out of memory. */
bool plan_targets(const struct plan *plan, int64_t step, int32_t member,
	struct plan_target *targets);

/* Rows that INDEXED keeps of a token, and of one that goes nowhere 0. */
int64_t plan_kept_rows(const struct plan *plan);

/* Bytes that a dispatch, and a combine, of one member's step must move. */
int64_t plan_dispatch_bytes(
	const struct plan *plan, int64_t step, int32_t member);
int64_t plan_combine_bytes(
	const struct plan *plan, int64_t step, int32_t member);

/* True if the token asks for a copy or constant expert. */
bool plan_reads_ori_x(
	const struct plan *plan, int64_t step, int32_t member, int64_t t);

#endif
