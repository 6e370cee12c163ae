/*
 * Who is there and who holds what. The job's ranks are `members` here: P EP
 * groups of W ranks one behind the other. With --elastic some are left out;
 * the load then numbers experts and ranks as a step with the table does
 * ("new"), and without it the two numberings are one.
 */
#ifndef BENCH_SHAPE_H
#define BENCH_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

struct shape {
	int32_t num_members;      /* P * W */
	int32_t num_tp;           /* P */
	int32_t num_ranks;        /* W */
	int32_t num_shared_ranks; /* S */
	int64_t num_shared;       /* s; 0 without shared ranks */
	int64_t num_experts;      /* E */
	int64_t num_special;
	/* What is left, W', S' and E'. */
	int32_t left_ranks, left_shared_ranks;
	int64_t left_experts;
	int32_t *expert_rank; /* (E) */
	int64_t *first_local; /* (W + 1): where a rank's experts begin in: */
	int64_t *locals;      /* (E): experts by rank, then by id */
	int64_t *range_first, *range_count; /* (W) */
	int32_t *old_of_new;                /* (W') */
	int32_t *new_of_old;                /* (W), -1: left out */
	int32_t *table; /* elastic_info; NULL without --elastic */
};

/* On failure `error` says why. Owes shape_fini(), also then. */
bool shape_init(struct shape *shape, const struct options *options,
	char error[ROUTING_ERROR]);
void shape_fini(struct shape *shape);

static inline int32_t shape_member(
	const struct shape *shape, int32_t tp, int32_t rank)
{
	return tp * shape->num_ranks + rank;
}

static inline int32_t shape_rank(const struct shape *shape, int32_t member)
{
	return member % shape->num_ranks;
}

static inline int32_t shape_tp(const struct shape *shape, int32_t member)
{
	return member / shape->num_ranks;
}

/* A member's new rank; -1: it is left out. */
static inline int32_t shape_new_rank(const struct shape *shape, int32_t member)
{
	return shape->new_of_old[shape_rank(shape, member)];
}

/* Experts on a rank, L; their ids; a shared expert j is E + j. */
int64_t shape_num_local(const struct shape *shape, int32_t rank);
int64_t shape_local(const struct shape *shape, int32_t rank, int64_t local);

/* The number that the load has for local expert `local` of a rank that is not
 * left out: its new one, E' + j for shared expert j. */
int64_t shape_new_local(const struct shape *shape, int32_t rank, int64_t local);

/* The replica of shared expert j that serves `rank`, both original. */
int32_t shape_replica(const struct shape *shape, int64_t j, int32_t rank);

#endif
