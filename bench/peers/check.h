/* The toy experts, and whether a step did what it had to. */
#ifndef PEERS_CHECK_H
#define PEERS_CHECK_H

#include "inputs.h"
#include "step.h"

/* Fills step->y from what was dispatched. */
void check_run_experts(struct step *step);

/* Whether the last step, of input `number`, is right: the rows here are those
 * that tokens chose, in the order of (expert, rank, token), and `out` is to
 * the bit what the experts' answers to our own tokens sum up to. */
bool check_step(const struct step *step, const struct inputs *inputs,
	int64_t number, const uint16_t *out);

#endif
