/*
 * What a rank offers to others in a step: its rows, kept in its own window, and
 * for each token where it goes, with its weights and scales. Whoever has the
 * experts fetches what it needs (fetch.h), and a member of another host gets a
 * copy of it where it can (cross.h).
 */
#ifndef DISPATCH_SHARE_H
#define DISPATCH_SHARE_H

#include "exchange/exchange.h"

/* The arrays of a share; see struct layout_share. */
struct share {
	uint8_t *rows; /* by token, or by place where they vary */
	int32_t *places;
	float *weights;
	float *row_scales; /* as rows */
	uint8_t *scales;   /* as rows */
};

/* Of any member, where this rank can read it. */
struct share share_of(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member);

/* True if the step's weights are known: given, or those of the routing that it
 * repeats. */
bool share_has_weights(const struct step *step);

/* Makes the rows of tokens first .. end - 1 with their scales, and behind all of
 * them what is told of tokens. */
void share_rows(struct shunt_exchange *exchange, struct step *step,
	int64_t first, int64_t end);
void share_places(struct shunt_exchange *exchange, struct step *step);

#endif
