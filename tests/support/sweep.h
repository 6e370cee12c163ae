/*
 * Cases of the sweep: each is a number that a whole exchange and all its steps
 * follow from, the same on all ranks.
 */
#ifndef SUPPORT_SWEEP_H
#define SUPPORT_SWEEP_H

#include "support/trial.h"

#define SWEEP_MAX_SEATS  64
#define SWEEP_MAX_DEPTH  3
#define SWEEP_MAX_GROUPS 3
#define SWEEP_MAX_STEPS  (SWEEP_MAX_DEPTH * SWEEP_MAX_GROUPS)
#define SWEEP_MAX_TABLES 2

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
	int32_t num_seats;
	int64_t number;
	int32_t num_tp, num_ranks;        /* P and W; seats = P * W */
	int32_t members[SWEEP_MAX_SEATS]; /* by rank of the world */
	bool shuffled;
	int32_t num_hosts, hosts[SWEEP_MAX_SEATS]; /* by member */
	struct shunt_exchange_config config;
	int32_t *expert_rank; /* as the reference needs it */
	/* Placement arrays of the config, or NULL. */
	int64_t *first_expert, *expert_count;
	int32_t *full_map;
	int64_t num_groups;
	/* elastic_info: groups from first_table on have one each. */
	int64_t first_table, num_tables;
	int32_t tables[SWEEP_MAX_TABLES][4 + 2 * SWEEP_MAX_SEATS];
};

/* Makes case `number`, of ranks on these hosts (by rank of the world; NULL:
 * one); owes sweep_case_fini(). False if memory is out. */
bool sweep_case_init(struct sweep_case *sweep, uint64_t seed, int32_t num_seats,
	const int32_t *hosts, int64_t number);
void sweep_case_fini(struct sweep_case *sweep);

/* Says in words what the case is, for who looks into a failure. */
void sweep_print(const struct sweep_case *sweep);

/* The flow of a group of steps, and how many steps it has. */
enum sweep_flow sweep_flow(const struct sweep_case *sweep, int64_t group);
int64_t sweep_depth(const struct sweep_case *sweep);

/* The table of a group, or NULL. */
const int32_t *sweep_table(const struct sweep_case *sweep, int64_t group);

/* The rule of a step. */
struct trial_rule sweep_rule(const struct sweep_case *sweep, int64_t step);

/* How many steps back step `step` takes its routing from, if it can; 0: it has
 * a routing of its own. */
int64_t sweep_cached_from(const struct sweep_case *sweep, int64_t step);

/* Makes `rule` repeat the routing of `earlier`. */
void sweep_repeat(struct trial_rule *rule, const struct trial_rule *earlier);

/* Writes an order of 0 .. count - 1 of the rank's own to order. */
void sweep_order(const struct sweep_case *sweep, int32_t rank, int64_t salt,
	int64_t count, int64_t *order);

/* Runs the case on the seat's rank. */
void sweep_run(struct seat *seat, const struct sweep_case *sweep);

/* ---- drawing; internal to sweep_*.c ----------------------------------- */

/* What a case draws; step draws have the step as index. */
enum sweep_draw {
	DRAW_BIG = 5000,
	DRAW_TP,
	DRAW_MEMBERS,
	DRAW_HOSTS,
	DRAW_SHARED,
	DRAW_SPECIAL,
	DRAW_HIDDEN,
	DRAW_TOPK,
	DRAW_EXPERTS,
	DRAW_TOKENS,
	DRAW_DTYPE,
	DRAW_EXPERT_DTYPE,
	DRAW_QUANT,
	DRAW_SCALES,
	DRAW_COMBINE_QUANT,
	DRAW_LAYOUT,
	DRAW_ALIGNMENT,
	DRAW_TAIL,
	DRAW_CAPACITY,
	DRAW_ELASTIC,
	DRAW_TABLE,
	DRAW_BAD_ID,
	DRAW_DISTINCT,
	DRAW_DEPTH,
	DRAW_KEPT,
	DRAW_FETCH,
	DRAW_PLACEMENT,
	DRAW_PLACE,
	DRAW_GROUPS,
	DRAW_FLOW,
	DRAW_ORDER,
	DRAW_WEIGHTS,
	DRAW_STYLE,
	DRAW_ROUTING,
	DRAW_STEP_TOKENS,
	DRAW_NONE,
	DRAW_SPOIL,
	DRAW_MASK,
	DRAW_SMOOTH,
	DRAW_STATIC,
	DRAW_OUT_DTYPE,
	DRAW_TERMS,
	DRAW_CACHED,
	DRAW_REFUSE,
	DRAW_REFUSERS,
	DRAW_PROGRESS
};

int64_t sweep_draw(const struct sweep_case *sweep, enum sweep_draw what,
	int64_t index, int64_t low, int64_t high);
bool sweep_chance(const struct sweep_case *sweep, enum sweep_draw what,
	int64_t index, int percent);

/* sweep_table.c: the tables of an elastic case. */
void sweep_draw_tables(struct sweep_case *sweep);

/* sweep_hosts.c: who is on which host, and what the exchange says of it. */
void sweep_draw_hosts(struct sweep_case *sweep, const int32_t *hosts);
void sweep_check_info(struct seat *seat, const struct sweep_case *sweep,
	const struct shunt_exchange_info *info);

#endif
