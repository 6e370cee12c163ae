/*
 * The caller's tokens. Where all terms of a token are plain rows, as they are
 * in most exchanges, they are summed in registers, by one pass (sum.h); else
 * one by one in an accumulator (acc.h). Both give the same bits.
 */
#include "combine/tokens.h"

#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/fpenv.h"
#include "base/half.h"
#include "combine/acc.h"
#include "combine/host_sums.h"
#include "combine/sum.h"
#include "combine/terms.h"

/* ---- one token's sum ----------------------------------------------------- */

static void add_constant(
	const struct terms *terms, const struct term *term, const float *weight)
{
	const struct shunt_exchange *exchange = terms->exchange;
	const struct shunt_combine_args *args = &terms->step->combine;
	const struct acc_kernels *kernels = acc_kernels();
	const struct shape *shape = exchange_shape(exchange);
	enum shunt_dtype dtype = exchange->accepted.config.expert_dtype;
	int64_t offset = term->constant * shape->result_bytes;
	const uint8_t *alpha1 = args->constant_alpha1;
	const uint8_t *alpha2 = args->constant_alpha2;
	const uint8_t *v = args->constant_v;
	struct acc_constant constant = {.x = term->row, .v = v + offset};

	acc_softmax(
		kernels->dot[dtype](alpha1 + offset, term->row, shape->hidden),
		kernels->dot[dtype](alpha2 + offset, term->row, shape->hidden),
		&constant.p1, &constant.p2);
	kernels->add_constant[dtype](
		exchange->scratch.acc, &constant, weight, shape->hidden);
}

static void add_term(const struct terms *terms, const struct term *term)
{
	const struct shunt_exchange_config *config =
		&terms->exchange->accepted.config;
	const struct acc_kernels *kernels = acc_kernels();
	enum shunt_dtype dtype = config->expert_dtype;
	const float *weight = terms->weights ? &term->weight : NULL;
	float *acc = terms->exchange->scratch.acc;

	if (term->kind == TERM_ROW)
		kernels->add_row[dtype](acc, term->row, weight, config->hidden);
	else if (term->kind == TERM_PACKED)
		kernels->add_quantized[config->combine_quant][dtype](acc,
			term->row, term->row + config->hidden, weight,
			config->hidden);
	else
		add_constant(terms, term, weight);
}

/* The token's sum, in scratch.acc. */
static void accumulate(struct terms *terms, int64_t token)
{
	float *acc = terms->exchange->scratch.acc;
	int64_t hidden = exchange_shape(terms->exchange)->hidden;
	struct term term;

	memset(acc, 0, (size_t)hidden * sizeof(*acc));
	if (terms->sums_by_host)
		host_sums_add(terms, token, acc);
	for (int64_t i = 0; i < terms->num_places; i++)
		if (terms_get(terms, token, i, &term))
			add_term(terms, &term);
}

/* Tokens to be summed, in this order. */
struct token_list {
	const int32_t *tokens; /* NULL: 0, 1, ... */
	int64_t num_tokens;
};

static int64_t token_at(const struct token_list *list, int64_t i)
{
	return list->tokens ? list->tokens[i] : i;
}

/* The token's sum if all its terms are plain rows: where they lie. */
struct row_list {
	const void **rows;
	float *weights;
	int64_t num_rows; /* -1: they are not */
};

/* Of the i-th token. */
static struct row_list list_rows(
	struct terms *terms, const struct token_list *tokens, int64_t i)
{
	const struct shunt_exchange *exchange = terms->exchange;
	const struct scratch *scratch = &exchange->scratch;
	int64_t half = i % 2 * (exchange_shape(exchange)->num_sends + 1);
	int64_t bytes_read = terms->bytes_read;
	struct row_list list = {
		scratch->results + half, scratch->weights + half, 0};

	if (i >= tokens->num_tokens)
		return list;
	if (!terms_get_rows(terms, token_at(tokens, i), list.rows, list.weights,
		    &list.num_rows)) {
		terms->bytes_read = bytes_read;
		list.num_rows = -1;
	}
	return list;
}

/* `out` of type `to` becomes the token's sum. */
static void sum_token(struct terms *terms, int64_t token,
	const struct row_list *list, const struct row_list *next,
	enum shunt_dtype to, void *out)
{
	const struct shunt_exchange *exchange = terms->exchange;
	enum shunt_dtype dtype = exchange->accepted.config.expert_dtype;
	int64_t hidden = exchange_shape(exchange)->hidden;
	float *acc = exchange->scratch.acc;

	if (list->num_rows >= 0) {
		sum_kernels()->rows[dtype][to](out, list->rows,
			terms->weights ? list->weights : NULL, list->num_rows,
			hidden, (struct sum_next){next->rows, next->num_rows});
		return;
	}
	accumulate(terms, token);
	if (out != acc)
		acc_kernels()->store[to](out, acc, hidden);
}

/* ---- the fused tail ------------------------------------------------------ */

/* Row `token` of an array of rows; NULL if there is none. */
static void *row_of(const void *array, enum shunt_dtype dtype, int64_t stride,
	int64_t token)
{
	return array ? (uint8_t *)(uintptr_t)array +
			       token * dtype_row_bytes(dtype, stride)
		     : NULL;
}

static void finish_token(const struct terms *terms, int64_t token)
{
	const struct shunt_combine_args *args = &terms->step->combine;
	const struct acc_kernels *kernels = acc_kernels();
	int64_t hidden = exchange_shape(terms->exchange)->hidden;
	enum shunt_dtype dtype = args->out_dtype;
	float *acc = terms->exchange->scratch.acc;
	float squares, rstd;

	squares = kernels->tail_add[dtype](
		row_of(args->out, dtype, args->out_stride, token), acc,
		row_of(args->residual, dtype, args->residual_stride, token),
		hidden);
	if (!args->gamma)
		return;
	rstd = acc_rstd(squares, hidden, args->norm_eps);
	kernels->tail_norm[dtype][args->gamma_dtype](
		row_of(args->norm_out, dtype, args->norm_out_stride, token),
		acc, rstd, args->gamma, hidden);
	if (args->rstd)
		half_store(SHUNT_DTYPE_F32, args->rstd, token, rstd);
}

/* ---- all tokens ---------------------------------------------------------- */

static void sum_whole_token(struct terms *terms, int64_t token,
	const struct row_list *list, const struct row_list *next)
{
	const struct shunt_combine_args *args = &terms->step->combine;

	if (args->residual || args->gamma) {
		sum_token(terms, token, list, next, SHUNT_DTYPE_F32,
			terms->exchange->scratch.acc);
		finish_token(terms, token);
	} else {
		sum_token(terms, token, list, next, args->out_dtype,
			row_of(args->out, args->out_dtype, args->out_stride,
				token));
	}
}

/* Returns how many tokens were summed: all, or those until past `until`. Adds to
 * *bytes_read. */
static int64_t sum_list(struct shunt_exchange *exchange, struct step *step,
	const struct token_list *tokens, int64_t until, int64_t *bytes_read)
{
	struct fpenv caller = fpenv_enter();
	struct row_list list, next;
	int64_t i = 0, ahead = 0; /* bytes of the next token's rows */
	struct terms terms;

	terms_init(&terms, exchange, step);
	list = list_rows(&terms, tokens, 0);
	while (i < tokens->num_tokens) {
		ahead = -terms.bytes_read;
		next = list_rows(&terms, tokens, i + 1);
		ahead += terms.bytes_read;
		sum_whole_token(&terms, token_at(tokens, i++), &list, &next);
		if (until != INT64_MAX && clock_now() >= until)
			break;
		list = next;
	}
	fpenv_leave(&caller);
	*bytes_read += terms.bytes_read - ahead;
	return i;
}

void tokens_sum(struct shunt_exchange *exchange, struct step *step)
{
	struct token_list all = {NULL, step->route->num_tokens};
	int64_t bytes_read = 0;

	sum_list(exchange, step, &all, INT64_MAX, &bytes_read);
	tokens_count_bytes(exchange, bytes_read);
}

int64_t tokens_sum_some(struct shunt_exchange *exchange, struct step *step,
	const int32_t *tokens, int64_t num_tokens, int64_t until,
	int64_t *bytes_read)
{
	struct token_list some = {tokens, num_tokens};

	return sum_list(exchange, step, &some, until, bytes_read);
}

void tokens_count_bytes(struct shunt_exchange *exchange, int64_t bytes_read)
{
	exchange->counters.now.combine_bytes += bytes_read;
}
