/*
 * Ranks of other hosts that a step's table leaves out. One of them may be alive, and
 * in the middle of an earlier step of the slot that this rank has given up: its rows
 * of that step, or its sums, would come to `back` of this one. On one host a
 * handshake settles such things (dispatch/revoke.h); here the absent rank would have
 * to answer, and it may be stopped. So this rank ends its link to it, and no one
 * writes to its `back` before that is done: it says ROWS only then.
 *
 * Who may still write follows from two things. From what this rank has announced: in
 * a step that was not announced to the absent as one of its own it gets no further
 * than COUNTS. And from what the absent has said in the last step that was: behind
 * RESULTS, and SUMS if it adds up for this rank, it puts nothing more. So who has
 * ended its steps keeps its link. It may have told the application so by a way that
 * is faster than these signals: they are waited for a little.
 *
 * Where there is no table this costs one store for each step.
 */
#ifndef EXCHANGE_ABSENT_H
#define EXCHANGE_ABSENT_H

#include "exchange/exchange.h"

/* This rank is about to announce the step to the ranks of its view: these may write
 * to its slot. */
void absent_note(const struct shunt_exchange *exchange, struct step *step);

/* True while member `rank`, which the step's table has left out, may put something
 * of an earlier step to the slot. Never of a member of this host, of one that is
 * gone, or without a table. */
bool absent_can_write(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank);

/* True once no rank that the step's table has left out can write to its slot. Waits
 * half a second for them to say that they are through, then ends the links to those
 * that do not; that takes a moment. */
bool absent_are_out(
	const struct shunt_exchange *exchange, const struct step *step);

#endif
