/*
 * A trial: one step of an exchange, as a test sees it: inputs of all ranks from
 *a rule, this rank's arguments, and the checks against the reference.
 *
 *	trial_create()		inputs, and what they should give
 *	  shunt_dispatch*(..., &step.args, ...)
 *	trial_check_dispatch()	compares; then spoils the inputs
 *	trial_make_rows()	the toy experts' rows
 *	  shunt_combine*(step.handle, &step.combine)
 *	trial_check_combine()	compares, guard bytes included
 *	trial_destroy()
 */
#ifndef SUPPORT_TRIAL_H
#define SUPPORT_TRIAL_H

#include "reference/inputs.h"
#include "reference/reference.h"
#include "support/ranks.h"

/* How many tokens ranks bring. */
enum trial_tokens {
	TRIAL_TOKENS_RANDOM, /* 0 .. T_max each */
	TRIAL_TOKENS_FULL,   /* T_max each */
	TRIAL_TOKENS_ONE,    /* one rank T_max, the others 0 */
	TRIAL_TOKENS_NONE,
	TRIAL_TOKENS_NUM
};

/* Inputs of a step; the same on all ranks. */
struct trial_rule {
	uint64_t seed;
	int64_t step;
	int32_t num_ranks;
	const struct shunt_exchange_config *config;
	const int32_t *expert_rank; /* (E), see reference_place() */
	enum trial_tokens tokens;
	const int64_t *token_list; /* (num_ranks) instead, or NULL */
	enum input_style style;
	enum input_routing routing;
	int percent_none, percent_bad, percent_masked;
	enum shunt_mask mask; /* on even ranks; on odd ones by chance */
	bool weights_at_dispatch, weights_at_combine;
	bool smooth;       /* on some ranks at least */
	bool plain;        /* no strides, odd alignments or 64-bit ids */
	uint64_t refusers; /* bit r: rank r gives a bad id, if it can */
	enum shunt_dtype out_dtype;
};

struct trial {
	struct trial_rule rule;
	int32_t rank;
	struct reference_job job;
	struct reference_input *inputs; /* (num_ranks) */
	uint64_t refusers;              /* those who could */
	struct shunt_dispatch_args args;
	struct shunt_handle handle;
	struct shunt_dispatch_out out;
	struct shunt_combine_args combine;
	float *weights_at_combine;
	/* This rank's blocks, whole, with what lies around the inputs. */
	uint8_t *x_block, *ids_block, *y_block, *out_block, *expected_block;
	int64_t x_bytes, ids_bytes, y_bytes, out_bytes;
	struct reference_received expected;
	struct reference_sent expected_sent;
};

/* Fills a step for the seat's rank; owes trial_destroy(). */
void trial_create(
	struct seat *seat, struct trial *step, const struct trial_rule *rule);
void trial_destroy(struct trial *step);

/* Checks `out`, then spoils all inputs of the dispatch. */
void trial_check_dispatch(struct seat *seat, struct trial *step);

/* Fills combine.y: the exchange's expert_rows, or a block of its own. */
void trial_make_rows(struct seat *seat, struct trial *step);

/* Spoils y, if it is a block of its own: for after combine_start. */
void trial_spoil_rows(struct trial *step);

void trial_check_combine(struct seat *seat, struct trial *step);

/* A whole step: create, dispatch, check, combine, check, destroy. */
void trial_run(struct seat *seat, struct shunt_exchange *exchange,
	const struct trial_rule *rule);

/* A config with placement by default, for tests that need one like any. */
struct shunt_exchange_config trial_config(
	int64_t max_tokens, int64_t hidden, int64_t topk, int64_t num_experts);

#endif
