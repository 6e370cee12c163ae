/* Communication quantization: a row as it travels, its scales behind it. */
#ifndef COMBINE_PACK_H
#define COMBINE_PACK_H

#include "exchange/exchange.h"

/* `to` becomes the row, of expert_dtype, in the exchange's combine_quant, which is
 * not NONE. The caller has called fpenv_enter(). */
void pack_row(const struct shunt_exchange *exchange, struct quant_tally *tally,
	uint8_t *to, const void *row);

#endif
