/* From the experts' rows to the caller's tokens. */
#ifndef COMBINE_TOKENS_H
#define COMBINE_TOKENS_H

#include "exchange/exchange.h"

/* Writes out, and norm_out and rstd where asked for, of all tokens. Where the
 * rows lie is in step->row_places. */
void tokens_sum(struct shunt_exchange *exchange, struct step *step);

/* The same of some tokens, whose rows must be there, and no more of them once it
 * is `until` (INT64_MAX: never); returns how many. Adds the bytes of rows that were read to
 * *bytes_read; they are counted when the combine has ended well. */
int64_t tokens_sum_some(struct shunt_exchange *exchange, struct step *step,
	const int32_t *tokens, int64_t num_tokens, int64_t until,
	int64_t *bytes_read);
void tokens_count_bytes(struct shunt_exchange *exchange, int64_t bytes_read);

#endif
