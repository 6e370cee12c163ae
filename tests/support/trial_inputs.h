/* The inputs of all ranks of a step. Internal to step.c. */
#ifndef SUPPORT_TRIAL_INPUTS_H
#define SUPPORT_TRIAL_INPUTS_H

#include "support/trial.h"

/* Numbers that a step draws, besides those of reference/inputs.h. */
enum trial_purpose {
	TRIAL_TOKENS_OF = 1,
	TRIAL_ONE_RANK,
	TRIAL_MASK_OF,
	TRIAL_HAS_SMOOTH,
	TRIAL_REFUSED_CHOICE,
	TRIAL_GARBAGE,
	TRIAL_WIDE_IDS,
	TRIAL_STRIDE_X,
	TRIAL_SHIFT_X,
	TRIAL_SHIFT_IDS,
	TRIAL_OWN_Y,
	TRIAL_STRIDE_Y,
	TRIAL_SHIFT_Y,
	TRIAL_STRIDE_OUT,
	TRIAL_SHIFT_OUT,
	TRIAL_PREFIX
};

/* A number in [low, high] for rank `rank` of the step. */
int64_t trial_draw(const struct trial_rule *rule, int32_t rank,
	enum trial_purpose purpose, int64_t low, int64_t high);

/* True if this rank's ids are 64-bit. */
bool trial_has_wide_ids(const struct trial_rule *rule, int32_t rank);

/* Makes rank's inputs, dense; *refuses tells whether it gives a bad id. False
 * if memory is out. */
bool trial_inputs_init(const struct trial_rule *rule, int32_t rank,
	struct reference_input *input, bool *refuses);
void trial_inputs_fini(struct reference_input *input);

#endif
