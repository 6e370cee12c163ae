/*
 * The terms of a token's sum, in the order in which they are added: its K
 * choices, then its shared experts, then shared_expert_x. With sums by host rows of
 * MoE experts are no terms; host_sums.h has what comes before the others.
 */
#ifndef COMBINE_TERMS_H
#define COMBINE_TERMS_H

#include "exchange/exchange.h"

enum term_kind {
	TERM_ROW,      /* elements of expert_dtype */
	TERM_PACKED,   /* in the communication quantization */
	TERM_CONSTANT, /* a constant expert */
};

struct term {
	enum term_kind kind;
	const uint8_t *row;
	int64_t constant; /* its number */
	float weight;     /* 1 for what has none; not read without weights */
};

/* What is the same for all tokens of a combine. */
struct terms {
	const struct shunt_exchange *exchange;
	const struct step *step;
	const float *weights; /* (T, K) in force; NULL: a plain sum */
	/* By rank of the view: of the own EP group. */
	const struct row_place *places;
	enum term_kind kind_of_rows; /* of the experts' rows */
	int64_t ori_x_bytes;         /* from row to row */
	int64_t shared_x_bytes;
	int64_t num_places; /* a token has; terms_get() takes 0 .. this - 1 */
	bool sums_by_host;
	int64_t bytes_read;        /* of experts' rows, so far */
	struct quant_tally *tally; /* of what is quantized here */
};

/* Where the experts' rows lie is known: step->row_places is filled. */
void terms_init(struct terms *terms, const struct shunt_exchange *exchange,
	struct step *step);

/* The weights in force, (T, K); NULL: a plain sum. */
const float *terms_weights(const struct step *step);

/* What place i of the token adds; false if nothing, or if it is part of the sum of a
 * host. */
bool terms_get(
	struct terms *terms, int64_t token, int64_t i, struct term *term);

/*
 * All terms of a token at once, if all are plain rows, as they mostly are: fills
 * in rows and weights (num_places each) and their number. False if one is not, or
 * there are sums by host.
 */
bool terms_get_rows(struct terms *terms, int64_t token, const void **rows,
	float *weights, int64_t *num_rows);

#endif
