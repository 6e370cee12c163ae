/*
 * The quad: a plain step with TP, of two EP groups of two ranks; and groups for
 * TP of any size. World rank p * W + r is rank r of EP group p.
 *
 * Experts 0 and 1 are on EP rank 0, 2 and 3 on EP rank 1; T_max 2, K 2.
 */
#ifndef SUPPORT_QUAD_H
#define SUPPORT_QUAD_H

#include "support/plain.h"

struct quad_groups {
	struct shunt_group *ep, *tp;
};

/* The groups of this rank: EP groups of num_ranks. Owes quad_drop_groups(). */
struct quad_groups quad_make_groups(struct seat *seat, int32_t num_ranks);
void quad_drop_groups(struct quad_groups *groups);

extern const int32_t quad_ids[4][4];
extern const int64_t quad_tokens[4];

/* Expert e multiplies by 2^e on TP rank 0, and by 16 * 2^e on TP rank 1: their
 * sum is 17 * 2^e. */
extern const float quad_factors[4][2];

/* What each rank receives, own rows first. */
extern const struct plain_row quad_own_first[4][6];

struct shunt_exchange_config quad_config(const struct quad_groups *groups);

/* What this rank brings to a step. */
void quad_bring(struct plain *plain);

/* Combines; ends this rank unless the sums are as they should be. */
void quad_combine(struct plain *plain);

/* Makes the exchange and dispatches. Owes plain_fini(). */
void quad_dispatch(struct plain *plain, struct seat *seat,
	const struct quad_groups *groups,
	const struct shunt_exchange_config *config);

/* Ends this rank unless the dispatch is as it should be, and combine too. */
void quad_expect_step(struct plain *plain, bool rank_order);

#endif
