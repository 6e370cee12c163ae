/*
 * Routing: from expert ids to counts, this rank's and everybody's. Every rank
 * reads every rank's counts, so all compute the same offsets, and all come to
 * the same verdict on a step that cannot be.
 */
#ifndef DISPATCH_ROUTE_H
#define DISPATCH_ROUTE_H

#include "exchange/exchange.h"

/*
 * Finds the ranks that take part in the coming step, by its arguments, and
 * readies its route. *view is set in any case. Errors: INVALID (the table; or
 * none, though ranks have been left out before), STATE (the cached handle's
 * routing is not kept any more).
 */
enum shunt_status route_begin(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct route **route,
	const struct view **view);

/*
 * Counts this rank's rows per unit into its own window, and notes where each
 * choice goes (route->unit). Ids of masked choices are not read.
 * Errors: INVALID (a bad id, or the same one twice against the promise).
 */
enum shunt_status route_count(
	struct shunt_exchange *exchange, struct step *step);

/* Clears the sums that route_absorb() adds to. */
void route_clear(struct shunt_exchange *exchange, struct route *route);

/*
 * Takes in the counts of member `index` of the view, who says that they are of
 * num_tokens tokens; in ascending order. `offered`: it offers its rows, and its
 * places are counted and kept instead. What the peer wrote is copied once,
 * checked, then used. If it is not sound, the step fails.
 */
void route_absorb(struct shunt_exchange *exchange, struct step *step,
	int32_t index, int64_t num_tokens, bool offered);

#endif
