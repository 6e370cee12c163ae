/*
 * What the ranks bring to their steps: a ring of LOAD_STEPS different steps,
 * made ahead of all timing, in memory that all ranks share (the floor and the
 * check look at other ranks' inputs too).
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

#define LOAD_STEPS 4

/* Where a choice goes; rank -1: nowhere. */
struct load_target {
	int32_t rank;
	int32_t row;
};

struct load {
	int32_t num_ranks;
	int64_t num_tokens, topk, num_experts;
	int64_t x_row_bytes;
	/* Of one rank's step: */
	int64_t x_bytes, num_choices;
	/* (step, rank, ...): */
	uint8_t *x;
	int64_t *ids;
	float *weights;
	uint8_t *mask;   /* (T); NULL without --mask */
	int32_t *counts; /* (E): choices for each expert */
	/* The same for all: */
	float *smooth; /* (E, H), or NULL */
	size_t bytes;  /* of all of it */
	void *memory;
};

/* Reserves the memory and draws everything but x. False with errno set. */
bool load_init(struct load *load, const struct options *options);
void load_fini(struct load *load);

/* Draws x of one rank, so that its memory is first touched there. */
void load_fill_x(
	struct load *load, const struct options *options, int32_t rank);

/* Rank's part of a step of the ring. */
uint8_t *load_x(const struct load *load, int64_t step, int32_t rank);
int64_t *load_ids(const struct load *load, int64_t step, int32_t rank);
float *load_weights(const struct load *load, int64_t step, int32_t rank);
uint8_t *load_mask(const struct load *load, int64_t step, int32_t rank);

/* Rows that `rank` receives in a step. */
int64_t load_num_rows(const struct load *load, const struct routing *routing,
	int64_t step, int32_t rank);

/* The same, the most of any rank and step. */
int64_t load_most_rows(const struct load *load, const struct routing *routing);

/* Where the choices of a rank's step go: targets[T * K]. False if out of
 * memory. */
bool load_place(const struct load *load, const struct routing *routing,
	int64_t step, int32_t rank, struct load_target *targets);

/* Bytes that a dispatch, and a combine, of one rank's step must move. */
int64_t load_dispatch_bytes(
	const struct load *load, int64_t step, int32_t rank, int64_t row_bytes);
int64_t load_combine_bytes(
	const struct load *load, int64_t step, int32_t rank, int64_t row_bytes);

#endif
