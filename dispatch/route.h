/*
 * Routing: from expert ids to rows. Every rank reads every rank's counts, so
 * all compute the same offsets, and all come to the same verdict on a step
 * that cannot be.
 */
#ifndef DISPATCH_ROUTE_H
#define DISPATCH_ROUTE_H

#include "exchange/exchange.h"

/*
 * Counts this rank's choices per expert into its own window, and notes where
 * each choice goes (step->expert). Ids of masked choices are not read.
 * Errors: INVALID (a bad id, or the same one twice against the promise).
 */
enum shunt_status route_count(
	struct shunt_exchange *exchange, struct step *step);

/* Clears the sums that route_absorb() adds to. */
void route_begin(struct shunt_exchange *exchange, struct step *step);

/*
 * Takes in the counts of rank `source`, in ascending order of ranks. What the
 * peer wrote is copied once, checked, then used. If it is not sound, the step
 * fails.
 */
void route_absorb(
	struct shunt_exchange *exchange, struct step *step, int32_t source);

/* Turns counts into offsets, when all are in. False if a rank would receive
 * more rows than it has room for; the step has failed then. */
bool route_place(struct shunt_exchange *exchange, struct step *step);

#endif
