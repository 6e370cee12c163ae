/*
 * Cases of the sweep: each is a number that a whole exchange and all its steps
 * follow from, the same on all ranks.
 */
#ifndef SUPPORT_SWEEP_H
#define SUPPORT_SWEEP_H

#include "support/trial.h"

#define SWEEP_MAX_DEPTH 3

/* How the steps of a group overlap. */
enum sweep_flow {
	SWEEP_WHOLE,    /* dispatch, combine, next step */
	SWEEP_SPLIT,    /* the same by start and finish */
	SWEEP_BATCH,    /* all dispatches, then all combines, by start and
			 * finish, each rank in an order of its own */
	SWEEP_REVERSED, /* whole dispatches, whole combines last to first */
	SWEEP_PIPELINE, /* a step's combine and the next one's dispatch cross */
	SWEEP_ABANDON,  /* handles destroyed, no combine */
	SWEEP_NUM_FLOWS
};

struct sweep_case {
	uint64_t seed;
	int32_t num_ranks;
	int64_t number;
	struct shunt_exchange_config config;
	int32_t *expert_rank; /* as the reference needs it */
	/* Placement arrays of the config, or NULL. */
	int64_t *first_expert, *expert_count;
	int32_t *full_map;
	int64_t num_groups;
};

/* Makes case `number`; owes sweep_case_fini(). False if memory is out. */
bool sweep_case_init(struct sweep_case *sweep, uint64_t seed, int32_t num_ranks,
	int64_t number);
void sweep_case_fini(struct sweep_case *sweep);

/* The flow of a group of steps, and how many steps it has. */
enum sweep_flow sweep_flow(const struct sweep_case *sweep, int64_t group);
int64_t sweep_depth(const struct sweep_case *sweep);

/* The rule of a step. */
struct trial_rule sweep_rule(const struct sweep_case *sweep, int64_t step);

/* Writes an order of 0 .. count - 1 of the rank's own to order. */
void sweep_order(const struct sweep_case *sweep, int32_t rank, int64_t salt,
	int64_t count, int64_t *order);

/* Runs the case on the seat's rank. */
void sweep_run(struct seat *seat, const struct sweep_case *sweep);

#endif
