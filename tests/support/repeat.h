/*
 * A plain step of two ranks and its repetitions: dispatches whose routing is
 * that of an earlier step, by `cached`. Experts 0 and 1 are on rank 0, 2 and 3
 * on rank 1; T_max 2, K 2.
 */
#ifndef SUPPORT_REPEAT_H
#define SUPPORT_REPEAT_H

#include "support/plain.h"

#define REPEAT_RANKS 2

extern const int32_t repeat_ids[REPEAT_RANKS][4];
extern const int64_t repeat_tokens[REPEAT_RANKS];
extern const float repeat_weights[REPEAT_RANKS][4];

/* Experts multiply by 1, 2, 4 and 8; the sums of tokens without weights. */
extern const float repeat_factors[REPEAT_RANKS][2];
extern const float repeat_plain_sums[REPEAT_RANKS][2];

struct shunt_exchange_config repeat_config(void);

/* Makes the exchange, dispatches the first step, with weights, and destroys its
 * handle, which it returns: its routing can be repeated. Owes plain_fini(). */
struct shunt_handle repeat_begin(struct plain *plain, struct seat *seat,
	const struct shunt_exchange_config *config);

/* What this rank brings: the first step, whose routing is announced; or only x
 * and the handle of the step whose routing is repeated. */
void repeat_bring_first(struct plain *plain);
void repeat_bring_cached(struct plain *plain, struct shunt_handle handle);

/* Ends this rank unless the dispatch has the rows of the first step, or its
 * weights. */
void repeat_expect_rows(struct plain *plain);
void repeat_expect_weights(struct plain *plain);

/* Combines; the sums must be those of the first step, with weights. */
void repeat_combine(struct plain *plain);

/* A whole step that repeats the handle's: rows, weights and sums checked. */
void repeat_step(struct plain *plain, struct shunt_handle handle);

#endif
