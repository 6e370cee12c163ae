/* What the ranks bring: the ids that `shunt bench` hands over in a file, and
 * tokens and weights of the kind that it has. */
#ifndef PEERS_INPUTS_H
#define PEERS_INPUTS_H

#include "ids.h"
#include "step.h"

struct inputs {
	struct ids_head head;
	const int32_t *ids; /* (steps, ranks, T, K) */
	struct input *steps;
};

/* Reads the file. On failure says why, and returns false. */
bool inputs_read(struct inputs *inputs, const char *path);

/* Draws the tokens and weights of our rank; the file is read. */
void inputs_draw(
	struct inputs *inputs, const struct shape *shape, uint64_t seed);
void inputs_free(struct inputs *inputs);

/* The (T, K) ids of any rank in a step. */
const int32_t *inputs_ids(const struct inputs *inputs, int64_t step, int rank);

/* The most rows that any step brings to this rank. */
int64_t inputs_most_rows(
	const struct inputs *inputs, const struct shape *shape);

#endif
