/*
 * Steps whose rows the receivers fetch.
 *
 * Where each rank has few tokens, time goes to the two phases and to lines that
 * move between cores, not to bytes. So a rank with few tokens makes its rows in
 * its own window before it announces its counts, and offers them: it tells the
 * places of its tokens, with their weights and scales. If all ranks have, each
 * fetches the rows of its experts when it has all counts, and waits for nobody
 * any more: one phase, and a row crosses over once per rank, not once per
 * expert. If one has not, all write their rows as in any other step (send.h).
 *
 * Where ranks are on several hosts all steps go that way, whatever their size;
 * shares of other hosts come by RDMA (cross.h).
 *
 * All ranks see the same heads, so all do the same. Rows are where they would
 * be otherwise, and have the same bits. What is offered stays as it is until all
 * have signalled ROWS, which they do when they have fetched.
 */
#ifndef DISPATCH_FETCH_H
#define DISPATCH_FETCH_H

#include "exchange/exchange.h"

/* True if this rank's rows may be fetched in the step. On one host. */
bool fetch_is_possible(
	const struct shunt_exchange *exchange, const struct step *step);

/* Makes the rows and what goes with them, before the step is announced. */
void fetch_offer(struct shunt_exchange *exchange, struct step *step);

/* All have offered, and rows are placed: fetches those of this rank's experts
 * (with INDEXED only what goes with them). False if the places that a member told
 * are not those that it counted: the step has failed then. */
bool fetch_rows(struct shunt_exchange *exchange, struct step *step);

#endif
