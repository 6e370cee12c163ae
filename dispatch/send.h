/*
 * Sending: each row is read once, quantized, and written once into the
 * windows of the ranks of its experts, with its scale, weight and source.
 */
#ifndef DISPATCH_SEND_H
#define DISPATCH_SEND_H

#include "exchange/exchange.h"

/* Writes all rows of the step to where route_place() put them. */
void send_rows(struct shunt_exchange *exchange, struct step *step);

/* Adds to the statistics what the rows of this rank's tokens make. */
void send_count(struct shunt_exchange *exchange, const struct step *step);

/* True if a token is quantized anew for each of its experts: INDEXED keeps a
 * row per place then, else one per token. */
bool send_rows_vary(const struct shunt_dispatch_args *args);

#endif
