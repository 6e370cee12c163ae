/* How long a call waits for each rank: what performance_info adds up. */
#ifndef EXCHANGE_TIMING_H
#define EXCHANGE_TIMING_H

#include "exchange/exchange.h"

/* A phase's waiting begins: for every rank of the own EP group. What was waited
 * for before is settled; the last work_ns were no waiting. */
void timing_begin(
	struct shunt_exchange *exchange, struct step *step, int64_t work_ns);

/* The last work_ns of a phase's waiting were no waiting. */
void timing_skip(struct step *step, int64_t work_ns);

/* Notes who has come since. */
void timing_look(struct shunt_exchange *exchange, struct step *step);

/* The call ends: adds to performance_info, in microseconds. */
void timing_end(struct shunt_exchange *exchange, struct step *step,
	int64_t *performance_info);

#endif
