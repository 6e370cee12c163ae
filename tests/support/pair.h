/*
 * The pair: a plain step of two ranks that tests of layouts share. Experts 0
 * and 1 are on rank 0, 2 and 3 on rank 1; T_max 3, K 2. Expert 0 gets six rows,
 * 1 two, 2 two, 3 none.
 */
#ifndef SUPPORT_PAIR_H
#define SUPPORT_PAIR_H

#include "support/plain.h"

#define PAIR_RANKS 2

extern const int32_t pair_ids[PAIR_RANKS][6];
extern const int64_t pair_tokens[PAIR_RANKS];
extern const float pair_weights[PAIR_RANKS][6];

/* Experts multiply by 1, 2, 4 and 8; the sums of tokens without weights. */
extern const float pair_factors[PAIR_RANKS][2];
extern const float pair_sums[PAIR_RANKS][3];

/* The rows of each expert; for ROWS_LIST(). */
#define PAIR_ROWS_OF_EXPERT_0                                                 \
	{0, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 2, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}, \
	{                                                                     \
		1, 1, 1, 1                                                    \
	}
#define PAIR_ROWS_OF_EXPERT_1 \
	{0, 0, 0, 1},         \
	{                     \
		0, 0, 2, 0    \
	}
#define PAIR_ROWS_OF_EXPERT_2 \
	{0, 0, 1, 1},         \
	{                     \
		1, 1, 0, 0    \
	}

struct shunt_exchange_config pair_config(enum shunt_layout layout);

/* Makes the exchange and dispatches, with weights. Owes pair_combine(). */
void pair_dispatch(struct plain *plain, struct seat *seat,
	const struct shunt_exchange_config *config);

/* The rest of the step, with weights of one; then destroys the exchange. */
void pair_combine(struct plain *plain);

/* Ends this rank unless counts are as in every layout. */
void pair_expect_counts(struct plain *plain);

#endif
