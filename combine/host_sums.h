/*
 * Sums by host: of the rows of MoE experts that a token has on another host, the rank
 * there with this rank's number adds up all, in the order of choices, and sends one
 * row. The token's rank does so with those of its own host, and adds up these sums in
 * the order of hosts, before all other terms. docs/numerics.md, "Sums over hosts".
 */
#ifndef COMBINE_HOST_SUMS_H
#define COMBINE_HOST_SUMS_H

#include "combine/terms.h"

/* Tells the weights in force to those who will add up; before RESULTS. */
void host_sums_tell(struct shunt_exchange *exchange, struct step *step);

/* All rows of this host can be read where step->row_places says, with TP in
 * `travel`: adds up those of the tokens of other hosts that are this rank's to add
 * up, and sends the sums home; before SUMS. False if some are left, because there is
 * no room for them before earlier ones have gone, or because it is another step's
 * turn: to be called again. */
bool host_sums_send(struct shunt_exchange *exchange, struct step *step);

/* Behind SUMS of all: adds the token's sums of all hosts to acc. */
void host_sums_add(struct terms *terms, int64_t token, float *acc);

#endif
