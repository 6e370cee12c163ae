/* Placing: from everybody's counts to rows. */
#ifndef DISPATCH_PLACE_H
#define DISPATCH_PLACE_H

#include "exchange/exchange.h"

/* Turns counts into offsets and rows, when all are in. False if a rank would
 * receive more rows than it has room for; the step has failed then. */
bool place_rows(struct shunt_exchange *exchange, struct step *step);

#endif
