/* What an exchange counts; the public side is in stats.c. */
#ifndef EXCHANGE_STATS_H
#define EXCHANGE_STATS_H

#include <shunt/stats.h>

/* Sums since creation, and what they were at the last reset. Of struct
 * shunt_stats only the counters are used. */
struct counters {
	struct shunt_stats now, base;
	int64_t *expert_rows;      /* [L] */
	int64_t *expert_rows_base; /* [L] */
};

struct shunt_exchange;

/* Begins a new count for shunt_stats_get(). */
void counters_reset(struct shunt_exchange *exchange);

#endif
