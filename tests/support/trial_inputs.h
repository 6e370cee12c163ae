/* The inputs of all ranks of a step, and what a step draws. Internal to
 * trial*.c. */
#ifndef SUPPORT_TRIAL_INPUTS_H
#define SUPPORT_TRIAL_INPUTS_H

#include "support/trial.h"

/* Numbers that a step draws, besides those of reference/inputs.h. */
enum trial_purpose {
	TRIAL_TOKENS_OF = 1,
	TRIAL_ONE_RANK,
	TRIAL_MASK_OF,
	TRIAL_HAS_SMOOTH,
	TRIAL_STATIC_SHAPE,
	TRIAL_REFUSED_CHOICE,
	TRIAL_GARBAGE,
	TRIAL_WIDE_IDS,
	TRIAL_X,
	TRIAL_IDS,
	TRIAL_Y,
	TRIAL_Y_PLACE,
	TRIAL_FED_IN_PLACE,
	TRIAL_FEED_ORDER,
	TRIAL_OUT,
	TRIAL_NORM_OUT,
	TRIAL_RSTD,
	TRIAL_ORI_X,
	TRIAL_SHARED_X,
	TRIAL_RESIDUAL,
	TRIAL_PERFORMANCE,
	TRIAL_PREFIX,
	TRIAL_CONSTANTS,
	TRIAL_LATE_WEIGHTS,
	TRIAL_NUM_PURPOSES
};

/* A number in [low, high] for a member of the step. */
int64_t trial_draw(const struct trial_rule *rule, int32_t member,
	enum trial_purpose purpose, int64_t low, int64_t high);

/* Where the numbers of one kind of input come from. */
struct input_key trial_key(const struct trial_rule *rule, int32_t member,
	enum trial_purpose purpose);

/* True if this member's ids are 64-bit. */
bool trial_has_wide_ids(const struct trial_rule *rule, int32_t member);

/* E, with a table E'; and that with special experts. */
int64_t trial_num_experts(const struct trial_rule *rule);
int64_t trial_num_ids(const struct trial_rule *rule);

/* Makes a member's inputs, dense; *refuses tells whether it gives a bad id.
 * False if memory is out. */
bool trial_inputs_init(const struct trial_rule *rule, int32_t member,
	struct reference_input *input, bool *refuses);
void trial_inputs_fini(struct reference_input *input);

/* Writes (T, K) weights, NaN where they must not be read. */
void trial_weights(const struct trial_rule *rule, const struct input_key *key,
	const struct reference_input *input, float *weights);

/* Rows of smooth and static scales: one per expert, shared ones too. */
int64_t trial_scale_rows(const struct shunt_exchange_config *config);

/* ---- trial_indexed.c -------------------------------------------------- */

/* Where each row of an indexed dispatch lies, its references checked; NULL in
 * other layouts. The caller frees it. */
const void **trial_find_rows(struct seat *seat, struct trial *step);

/* ---- trial_combine.c -------------------------------------------------- */

/* Fills combine's arguments and what is expected of it. */
void trial_fill_combine(struct seat *seat, struct trial *step);
void trial_fini_combine(struct trial *step);

#endif
