/*
 * Experts' rows on their way to other hosts, by RDMA: what ranks of this host read
 * where it is. A row comes to the place (token * sends + k) of its token in `back`
 * of the token's rank; with TP, results first come to `tp_back` of the TP ranks
 * that add them up.
 */
#ifndef COMBINE_HOME_H
#define COMBINE_HOME_H

#include "exchange/exchange.h"

/* Sends the rows of one local expert, or of all, to their tokens' ranks on other
 * hosts; they have them behind the next signal. False if what this rank's window
 * says of them cannot be: the step has failed then. */
bool home_send_expert(
	struct shunt_exchange *exchange, struct step *step, int64_t local);
bool home_send_rows(struct shunt_exchange *exchange, struct step *step);

/* With TP: sends this rank's results to the ranks of its TP group on other hosts,
 * each those of its EP group. */
void home_send_results(struct shunt_exchange *exchange, struct step *step);

#endif
