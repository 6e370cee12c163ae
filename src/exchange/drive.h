/*
 * Driving the steps of an exchange: each step says in `advance` how it goes on,
 * and whoever waits for one, or asks for progress, moves all of them along.
 */
#ifndef EXCHANGE_DRIVE_H
#define EXCHANGE_DRIVE_H

#include "exchange/exchange.h"

/*
 * Drives all steps in flight until `step` waits for nothing more; `what` is for
 * messages, `timed` that of timing.h. Errors: TIMEOUT (the step goes on),
 * PEER_LOST (all steps are over and the exchange is broken).
 */
enum shunt_status drive_wait(struct shunt_exchange *exchange, struct step *step,
	const char *what, int64_t span_ns, bool timed);

/* A rank was lost, as the thread's error says: nothing goes on here. All who wait for
 * what this rank owes to its steps are told so; else they would wait to their
 * deadlines. */
void drive_break_down(struct shunt_exchange *exchange);

#endif
