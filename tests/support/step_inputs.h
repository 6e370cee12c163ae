/* The inputs of all ranks of a step. Internal to step.c. */
#ifndef SUPPORT_STEP_INPUTS_H
#define SUPPORT_STEP_INPUTS_H

#include "support/step.h"

/* Numbers that a step draws, besides those of reference/inputs.h. */
enum step_purpose {
	STEP_TOKENS_OF = 1,
	STEP_ONE_RANK,
	STEP_MASK_OF,
	STEP_HAS_SMOOTH,
	STEP_REFUSED_CHOICE,
	STEP_GARBAGE,
	STEP_WIDE_IDS,
	STEP_STRIDE_X,
	STEP_SHIFT_X,
	STEP_SHIFT_IDS,
	STEP_OWN_Y,
	STEP_STRIDE_Y,
	STEP_SHIFT_Y,
	STEP_STRIDE_OUT,
	STEP_SHIFT_OUT,
	STEP_PREFIX
};

/* A number in [low, high] for rank `rank` of the step. */
int64_t step_draw(const struct step_rule *rule, int32_t rank,
	enum step_purpose purpose, int64_t low, int64_t high);

/* True if this rank's ids are 64-bit. */
bool step_has_wide_ids(const struct step_rule *rule, int32_t rank);

/* Makes rank's inputs, dense; *refuses tells whether it gives a bad id. False
 * if memory is out. */
bool step_inputs_init(const struct step_rule *rule, int32_t rank,
	struct reference_input *input, bool *refuses);
void step_inputs_fini(struct reference_input *input);

#endif
