/*
 * Reading rows of other ranks where they are: in their windows, or in memory
 * of the caller's that lies in their segment, of which their note tells. What
 * a note says is checked before it is used as an address.
 */
#ifndef COMBINE_REACH_H
#define COMBINE_REACH_H

#include "exchange/exchange.h"

/* True if peers can read the rows of y, of `pitch` bytes, where they are: in
 * expert_rows, or elsewhere in the segment; the latter goes into the note. */
bool reach_announce(struct shunt_exchange *exchange, struct step *step,
	const void *y, int64_t pitch);

/*
 * All have signalled RESULTS: do they mean the same ranks, and is the y of some
 * read where it is? False if the step has failed: MISMATCH.
 */
bool reach_agree(struct shunt_exchange *exchange, struct step *step,
	bool *any_announced);

/*
 * These note in step->row_places where rows of members of the view are.
 * False if the step has failed: PEER_FAULT (a note leads outside of the
 * segment of its rank).
 */

/* Of members first, first + by, ... */
bool reach_locate(struct shunt_exchange *exchange, struct step *step,
	int32_t first, int32_t by);

/* Of the own EP group, without TP. */
bool reach_locate_rows(struct shunt_exchange *exchange, struct step *step);

/* Without TP, before anything is announced: where fed rows are. */
void reach_locate_fed(struct shunt_exchange *exchange, struct step *step);

/* Member i of the view has signalled RESULTS, the others not yet. False if its
 * rows are not to be read: the step is going to fail, when all have. */
bool reach_locate_announced(
	struct shunt_exchange *exchange, struct step *step, int32_t i);

/* What the own EP group has made for travel. */
void reach_locate_travel(struct shunt_exchange *exchange, struct step *step);

/*
 * Behind reading rows of members first, first + by, ...: were all of them there
 * to the end? False if one took its y back meanwhile: the step has failed with
 * PEER_REFUSED, and what was made of the rows is nothing.
 */
bool reach_recheck(struct shunt_exchange *exchange, struct step *step,
	int32_t first, int32_t by);

#endif
