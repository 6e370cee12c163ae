/*
 * The least step that has everything: two ranks, one expert on each, every
 * token goes to both and comes back as twice itself. For tests of what is
 * around the arithmetic of combine.
 */
#ifndef SUPPORT_ROUND_H
#define SUPPORT_ROUND_H

#include <shunt/shunt.h>

#include "support/ranks.h"

#define ROUND_RANKS  2
#define ROUND_TOKENS 3
#define ROUND_HIDDEN 16
#define ROUND_ROWS   (ROUND_TOKENS * ROUND_RANKS) /* of each rank */

/* What the exchange has. */
enum round_kind {
	ROUND_PLAIN,
	ROUND_SPECIAL, /* a copy and a constant expert, not chosen */
	ROUND_PACKED,  /* combine_quant INT8_128 */
};

struct round {
	float x[ROUND_TOKENS][ROUND_HIDDEN];
	float out[ROUND_TOKENS][ROUND_HIDDEN];
	float norm_out[ROUND_TOKENS][ROUND_HIDDEN];
	float gamma[ROUND_HIDDEN], rstd[ROUND_TOKENS];
	float constants[2][ROUND_HIDDEN];
	struct shunt_dispatch_out dispatched;
	struct shunt_handle handle;
	struct shunt_combine_args args;
};

/* Of depth 2. */
struct shunt_exchange *round_exchange(struct seat *seat, enum round_kind kind);

/* Dispatches, fills expert_rows, and fills in good arguments for combine. */
void round_begin(struct seat *seat, struct shunt_exchange *exchange,
	struct round *round);

/* Ends the rank unless round->out is right. Not with ROUND_PACKED. */
void round_check(struct seat *seat, const struct round *round);

/* A whole step, checked. */
void round_good(struct seat *seat, struct shunt_exchange *exchange);

#endif
