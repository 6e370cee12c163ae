/*
 * A trial: one step of an exchange, from a seed. Every rank works out every
 * rank's inputs, so it knows by itself what must come out, and compares byte
 * by byte.
 *
 *	trial_create()		inputs, arguments, expected outputs
 *	  shunt_dispatch*(..., &step.args, ...)
 *	trial_check_dispatch()	compares; then spoils the inputs
 *	trial_make_rows()	the toy experts' rows
 *	  shunt_combine*(step.handle, &step.combine)
 *	  trial_feed()		where step.combine.feed
 *	trial_check_combine()	compares, guard bytes included
 *	trial_destroy()
 */
#ifndef SUPPORT_TRIAL_H
#define SUPPORT_TRIAL_H

#include "reference/inputs.h"
#include "reference/reference.h"
#include "support/ranks.h"
#include "support/trial_rows.h"

/* How many tokens ranks bring. */
enum trial_tokens {
	TRIAL_TOKENS_RANDOM, /* 0 .. T_max each */
	TRIAL_TOKENS_FULL,   /* T_max each */
	TRIAL_TOKENS_ONE,    /* one rank T_max, the others 0 */
	TRIAL_TOKENS_NONE,
	TRIAL_TOKENS_NUM
};

/* Inputs of a step; the same on all ranks. A rank is member p * num_ranks + r,
 * rank r of EP group p. */
struct trial_rule {
	uint64_t seed;
	int64_t step;
	int32_t num_ranks;      /* W */
	int32_t num_tp;         /* P; 0: 1 */
	const int32_t *members; /* by rank of the world; NULL: the same */
	const struct shunt_exchange_config *config;
	const int32_t *expert_rank; /* (E), see reference_place_experts() */
	const int32_t *table;       /* elastic_info, or NULL */
	/* By member: its host; NULL: all are on one. */
	const int32_t *hosts;
	bool adds_partial_sums; /* as the exchange's info tells */
	/* Repeats the routing of the step with this number, whose rule was the
	 * same but for `step`; the handle is the caller's to fill in. */
	bool cached;
	int64_t routing_step;
	enum trial_tokens tokens;
	const int64_t *token_list; /* (num_ranks) instead, or NULL */
	enum input_style style;
	enum input_routing routing;
	int percent_none, percent_bad, percent_masked, percent_special;
	enum shunt_mask mask; /* on even ranks; on odd ones by chance */
	bool weights_at_dispatch, weights_at_combine;
	bool smooth;                          /* on some ranks at least */
	enum shunt_static_shape static_shape; /* on even ranks */
	bool plain;        /* no strides, odd alignments or 64-bit ids */
	uint64_t refusers; /* bit m: member m gives a bad id, if it can */
	enum shunt_dtype out_dtype;
	bool shared_x, residual, gamma, gamma_f32;
	bool may_feed; /* the combine is by start and finish */
};

/* Where the experts' rows are. */
enum trial_place {
	TRIAL_IN_EXPERT_ROWS,
	TRIAL_IN_OWN_BLOCK,
	TRIAL_IN_REGISTERED, /* memory of shunt_alloc() */
	TRIAL_IN_POINTERS,   /* y_rows */
	TRIAL_BY_FEED,
	TRIAL_NUM_PLACES
};

struct trial {
	struct trial_rule rule;
	struct reference_place place;
	int32_t member;
	struct reference_job job;
	struct reference_input *inputs; /* (num_tp, num_ranks) */
	uint64_t refusers;              /* those who could */
	enum shunt_status due;          /* what the dispatch must answer */
	struct shunt_world *world;
	struct shunt_dispatch_args args;
	struct shunt_handle handle;
	struct shunt_dispatch_out out;
	struct shunt_combine_args combine;
	float *weights_at_combine;
	/* Arguments of this rank, whole, with what lies around them. */
	struct trial_rows x, ids, y, ori_x, shared_x, residual, gamma;
	struct trial_rows alpha1, alpha2, v;
	enum trial_place y_place;
	uint8_t *registered;
	const void **y_pointers;
	int64_t *performance;
	/* Outputs and what they should be, guard bytes included. */
	struct trial_rows got[3], wanted[3];
	int64_t got_counts[2], wanted_counts[2];
	struct reference_received expected;
	struct reference_sent expected_sent;
};

/* Fills a step for the seat's rank; owes trial_destroy(). */
void trial_create(
	struct seat *seat, struct trial *step, const struct trial_rule *rule);
void trial_destroy(struct trial *step);

/* Checks `out`, then spoils all inputs of the dispatch. */
void trial_check_dispatch(struct seat *seat, struct trial *step);

/* Makes the experts' rows, wherever the step has them. */
void trial_make_rows(struct seat *seat, struct trial *step);

/* Spoils y, if it was copied: for after combine_start. */
void trial_spoil_rows(struct trial *step);

/* Feeds all experts, in any order. Nothing without combine.feed. */
void trial_feed(struct seat *seat, struct trial *step);

void trial_check_combine(struct seat *seat, struct trial *step);

/* A whole step: create, dispatch, check, combine, check, destroy. */
void trial_run(struct seat *seat, struct shunt_exchange *exchange,
	const struct trial_rule *rule);

/* A config with placement by default, for tests that need one like any. */
struct shunt_exchange_config trial_config(
	int64_t max_tokens, int64_t hidden, int64_t topk, int64_t num_experts);

#endif
