/* The toy experts, and whether a step did what it had to. */
#ifndef PEERS_CHECK_H
#define PEERS_CHECK_H

#include "step.h"

/* Fills step->y from what was dispatched. */
void check_run_experts(struct step *step);

/* Whether the last step, of input `number`, is right: each row here was chosen
 * by the token that it says it comes from, and `out` is to the bit what the
 * experts' answers to our own tokens sum up to. */
bool check_step(const struct step *step, const struct input *input,
	int64_t number, const uint16_t *out);

#endif
