/* From the experts' rows to the caller's tokens. */
#ifndef COMBINE_TOKENS_H
#define COMBINE_TOKENS_H

#include "exchange/exchange.h"

/* Writes out, and norm_out and rstd where asked for, of all tokens. Where the
 * rows lie is in scratch.row_places. */
void tokens_sum(struct shunt_exchange *exchange, struct step *step);

#endif
