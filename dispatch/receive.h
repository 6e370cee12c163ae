/* Receiving: what a rank does with the rows that others write to it: padding
 * around them, and the outputs that describe them. */
#ifndef DISPATCH_RECEIVE_H
#define DISPATCH_RECEIVE_H

#include "exchange/exchange.h"

/* Writes the padding, which no sender touches. Any time after place_rows(). */
void receive_padding(struct shunt_exchange *exchange, struct step *step);

/* Fills the outputs of a dispatch that is done; the struct has been checked. */
void receive_fill(struct shunt_exchange *exchange, struct step *step,
	struct shunt_dispatch_out *out);

#endif
