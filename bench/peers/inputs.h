/* What the ranks bring: the ids that `shunt bench --routing uniform` draws
 * with the same seed, and tokens and weights of the same kind. */
#ifndef PEERS_INPUTS_H
#define PEERS_INPUTS_H

#include "step.h"

/* Inputs that steps take in turn. */
#define INPUTS 4

void inputs_make(struct input inputs[INPUTS], const struct shape *shape);
void inputs_free(struct input inputs[INPUTS]);

/* The most rows that any input brings to this rank. */
int64_t inputs_most_rows(const struct shape *shape);

/* The (T, K) ids of any rank. */
void inputs_draw_ids(
	const struct shape *shape, int64_t number, int rank, int32_t *ids);

#endif
