/* One token of this rank: its x, and the row and scales that it becomes. */
#ifndef DISPATCH_TOKEN_H
#define DISPATCH_TOKEN_H

#include "exchange/exchange.h"
#include "quant/ahead.h"

/* A row's scales, as the kernels leave them; valid until the next token. */
struct token_scales {
	const uint8_t *scales; /* NULL: none */
	float row_scale;
};

const uint8_t *token_x(const struct shunt_exchange *exchange,
	const struct step *step, int64_t token);

/* The x that is read after that of `token`: asked for while this is written. */
struct ahead token_ahead(const struct shunt_exchange *exchange,
	const struct step *step, int64_t token);

/* Quantizes a token into q for the expert with row `scale_row` of scales. `next`
 * is what to ask memory for meanwhile, or NULL. */
struct token_scales token_quantize(struct shunt_exchange *exchange,
	struct step *step, int64_t token, int64_t scale_row, void *q,
	const void *next);

/* The scales that x brings along, where it is not quantized here. */
struct token_scales token_brought(const struct shunt_exchange *exchange,
	const struct step *step, int64_t token);

#endif
