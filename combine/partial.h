/*
 * What a token's rows on one host add up to, in the form in which it travels: of
 * expert_dtype, or quantized from that, or in f32. docs/numerics.md, "Sums over
 * hosts". The caller has called fpenv_enter().
 */
#ifndef COMBINE_PARTIAL_H
#define COMBINE_PARTIAL_H

#include "exchange/exchange.h"

/* Rows of a token, of expert_dtype, in the order in which they are added. */
struct partial_rows {
	const void **rows;
	float *weights;
	bool weighted; /* else weights are not read */
	int64_t num_rows;
};

/* `to` (partial_bytes) becomes their sum. */
void partial_make(const struct shunt_exchange *exchange,
	struct quant_tally *tally, const struct partial_rows *rows, void *to);

/* acc = acc + the sum. */
void partial_add(const struct shunt_exchange *exchange, float *acc,
	const uint8_t *partial);

#endif
