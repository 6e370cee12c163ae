/* What a token's choices add to it; see terms.h. */
#include "combine/terms.h"

#include "base/dtype.h"

const float *terms_weights(const struct step *step)
{
	if (!step->combine.weights && step->route->has_weights)
		return step->route->weights;
	return step->combine.weights;
}

void terms_init(struct terms *terms, const struct shunt_exchange *exchange,
	struct step *step)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	const struct shunt_combine_args *args = &step->combine;

	*terms = (struct terms){
		.exchange = exchange,
		.step = step,
		.weights = terms_weights(step),
		.sums_by_host = exchange_shape(exchange)->sums_by_host,
		.places = step->row_places +
			  exchange->tp_rank * step->view->num_ranks,
		.kind_of_rows =
			config->combine_quant == SHUNT_COMBINE_QUANT_NONE
				? TERM_ROW
				: TERM_PACKED,
		.ori_x_bytes = dtype_row_bytes(
			config->expert_dtype, args->ori_x_stride),
		.shared_x_bytes = dtype_row_bytes(
			config->expert_dtype, args->shared_expert_x_stride),
		.tally = &step->combine_tally,
		.num_places = exchange_shape(exchange)->num_sends +
			      (args->shared_expert_x != NULL),
	};
}

/* The row of a MoE or shared expert. */
static void get_row(struct terms *terms, int64_t at, struct term *term)
{
	const struct route *route = terms->step->route;
	int32_t rank = terms->step->view->placement.rank[route->unit[at]];
	const struct row_place *place = &terms->places[rank];

	term->kind = terms->kind_of_rows;
	term->row = place->base + route->home_row[at] * place->pitch;
	terms->bytes_read += exchange_shape(terms->exchange)->home_bytes;
}

/* Special expert z, in the order zero, copy, constant. */
static bool get_special(
	struct terms *terms, int64_t token, int64_t z, struct term *term)
{
	const struct shunt_exchange_config *config =
		&terms->exchange->accepted.config;
	const uint8_t *ori_x = terms->step->combine.ori_x;

	z -= config->num_zero_experts;
	if (z < 0)
		return false;
	term->row = ori_x + token * terms->ori_x_bytes;
	term->kind = TERM_ROW;
	term->constant = z - config->num_copy_experts;
	if (term->constant >= 0)
		term->kind = TERM_CONSTANT;
	return true;
}

static bool get_shared_x(struct terms *terms, int64_t token, struct term *term)
{
	const uint8_t *x = terms->step->combine.shared_expert_x;

	if (!terms->step->route->active[token])
		return false;
	term->kind = TERM_ROW;
	term->row = x + token * terms->shared_x_bytes;
	return true;
}

bool terms_get(struct terms *terms, int64_t token, int64_t i, struct term *term)
{
	const struct shape *shape = exchange_shape(terms->exchange);
	const struct route *route = terms->step->route;
	int64_t at = token * shape->num_sends + i;

	term->weight = 1.0f;
	if (i == shape->num_sends)
		return get_shared_x(terms, token, term);
	if (route->unit[at] == ROUTE_NONE)
		return false;
	if (route->unit[at] <= ROUTE_SPECIAL &&
		!get_special(
			terms, token, ROUTE_SPECIAL - route->unit[at], term))
		return false;
	if (route->unit[at] >= 0) {
		if (terms->sums_by_host && i < shape->topk)
			return false;
		get_row(terms, at, term);
	}
	/* After what adds nothing: its weight may be anything, even NaN. */
	if (i < shape->topk && terms->weights)
		term->weight = terms->weights[token * shape->topk + i];
	return true;
}

/* A term that is not simply the row of an expert. */
static bool get_other_row(struct terms *terms, int64_t token, int64_t i,
	const void **row, float *weight, int64_t *num_rows)
{
	struct term term;

	if (!terms_get(terms, token, i, &term))
		return true;
	*row = term.row;
	*weight = term.weight;
	++*num_rows;
	return term.kind == TERM_ROW;
}

bool terms_get_rows(struct terms *terms, int64_t token, const void **rows,
	float *weights, int64_t *num_rows)
{
	const struct shape *shape = exchange_shape(terms->exchange);
	const struct route *route = terms->step->route;
	const int32_t *rank_of = terms->step->view->placement.rank;
	const int32_t *unit = route->unit + token * shape->num_sends;
	const int32_t *row = route->home_row + token * shape->num_sends;
	const float *given =
		terms->weights ? terms->weights + token * shape->topk : NULL;
	int64_t n = 0;

	if (terms->kind_of_rows != TERM_ROW || terms->sums_by_host)
		return false;
	for (int64_t i = 0; i < terms->num_places; i++) {
		const struct row_place *place;

		if (i >= shape->num_sends || unit[i] < 0) {
			if (!get_other_row(
				    terms, token, i, &rows[n], &weights[n], &n))
				return false;
			continue;
		}
		place = &terms->places[rank_of[unit[i]]];
		rows[n] = place->base + row[i] * place->pitch;
		weights[n++] = given && i < shape->topk ? given[i] : 1.0f;
		terms->bytes_read += shape->home_bytes;
	}
	*num_rows = n;
	return true;
}
