/* Whether the receivers fetched the rows of a step that is in flight. */
#ifndef SUPPORT_FETCHED_H
#define SUPPORT_FETCHED_H

#include "exchange/exchange.h"
#include "support/ranks.h"

/* Ends this rank unless they did, or did not: without this a test could pass
 * though no step goes the way that it is about. */
static inline void fetched_expect(struct seat *seat,
	const struct shunt_exchange *exchange, struct shunt_handle handle,
	bool expected)
{
	uint64_t depth = (uint64_t)exchange_shape(exchange)->depth;
	const struct step *step = &exchange->steps[handle.epoch % depth];

	SEAT_CHECK(seat, step->epoch == handle.epoch,
		"step %llu is not in its slot",
		(unsigned long long)handle.epoch);
	SEAT_CHECK(seat, step->is_fetched == expected, "rows were %s",
		expected ? "written, not fetched" : "fetched, not written");
}

#endif
