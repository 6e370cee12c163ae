/* Rows that receivers fetch; see fetch.h. */
#include "dispatch/fetch.h"

#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "dispatch/args.h"
#include "dispatch/beside.h"
#include "dispatch/send.h"
#include "quant/kernels.h"

/* What a member offers in a step. */
struct offer {
	int32_t *places;
	float *weights;
	float *row_scales;
	uint8_t *scales;
	uint8_t *rows;
};

static struct offer offer_of(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member)
{
	const struct layout *layout = &exchange->layouts[member];
	struct layout_offer at = layout_offer(exchange_shape(exchange));
	uint8_t *base =
		exchange_array(exchange, member, layout->offer_off, step);

	return (struct offer){
		.places = (int32_t *)(void *)base,
		.weights = (float *)(void *)(base + at.weights),
		.row_scales = (float *)(void *)(base + at.row_scales),
		.scales = base + at.scales,
		.rows = exchange_array(
			exchange, member, layout->kept_off, step),
	};
}

/* ---- offering ----------------------------------------------------------- */

bool fetch_is_possible(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct shunt_dispatch_args *args = &step->dispatch;
	int64_t most = exchange_shape(exchange)->fetch_tokens;

	return most > 0 && args->num_tokens <= most && !args_are_cached(args) &&
	       !send_rows_vary(args);
}

static bool goes_anywhere(const int32_t *places, int64_t num_sends)
{
	for (int64_t k = 0; k < num_sends; k++)
		if (places[k] >= 0)
			return true;
	return false;
}

static void offer_token(struct shunt_exchange *exchange, struct step *step,
	const struct offer *offer, int64_t token)
{
	const struct shape *shape = exchange_shape(exchange);
	uint8_t *row = offer->rows + token * shape->format.row_bytes;
	int64_t scale_bytes = shape_scale_bytes(shape);
	struct token_scales scales;

	if (exchange->quantize) {
		scales = token_quantize(exchange, step, token, 0, row,
			token_ahead(exchange, step, token).next);
	} else {
		scales = token_brought(exchange, step, token);
		memcpy(row, token_x(exchange, step, token),
			(size_t)shape->format.row_bytes);
	}
	if (scales.scales)
		memcpy(offer->scales + token * scale_bytes, scales.scales,
			(size_t)scale_bytes);
	offer->row_scales[token] = scales.row_scale;
}

void fetch_offer(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct route *route = step->route;
	struct offer offer = offer_of(exchange, step, exchange->rank);
	int64_t places = route->num_tokens * shape->num_sends;
	struct fpenv caller = fpenv_enter();

	for (int64_t t = 0; t < route->num_tokens; t++)
		if (goes_anywhere(route->unit + t * shape->num_sends,
			    shape->num_sends))
			offer_token(exchange, step, &offer, t);
	fpenv_leave(&caller);
	if (places == 0)
		return;
	memcpy(offer.places, route->unit, (size_t)places * sizeof(int32_t));
	if (step->dispatch.weights)
		memcpy(offer.weights, route->weights,
			(size_t)(route->num_tokens * shape->topk) *
				sizeof(float));
}

/* ---- fetching ----------------------------------------------------------- */

/* A rank's offer, and where its rows go here. */
struct fetch {
	struct shunt_exchange *exchange;
	struct step *step;
	struct offer offer;
	int32_t source;
	const int32_t *places; /* as checked: not the peer's */
	uint32_t *next;        /* [units]: the next row of each own one */
	scatter_fn *scatter;
};

/* Place k of a token becomes row `row` here, but for the row itself. */
static void fetch_beside(
	const struct fetch *fetch, int64_t token, int64_t k, int64_t row)
{
	static const float one = 1.0f; /* of shared experts */
	const struct shape *shape = exchange_shape(fetch->exchange);
	const struct offer *offer = &fetch->offer;
	int64_t scale_bytes = shape_scale_bytes(shape);
	bool has_scales = scale_bytes > 0 && (fetch->exchange->quantize ||
						     fetch->step->has_x_scales);
	struct beside beside = {
		.source = fetch->source,
		.token = (int32_t)token,
		.k = (int32_t)k,
		.scales =
			{
				has_scales ? offer->scales + token * scale_bytes
					   : NULL,
				offer->row_scales[token],
			},
	};

	if (fetch->step->route->has_weights)
		beside.weight =
			k < shape->topk
				? &offer->weights[token * shape->topk + k]
				: &one;
	beside_write(fetch->exchange, fetch->step, fetch->exchange->rank, row,
		&beside);
}

static void fetch_token(const struct fetch *fetch, int64_t token)
{
	struct shunt_exchange *exchange = fetch->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = fetch->step->view;
	const int32_t *places = fetch->places + token * shape->num_sends;
	int64_t row_bytes = shape->format.row_bytes;
	const uint8_t *from = fetch->offer.rows + token * row_bytes;
	uint8_t *rows = exchange_array(exchange, exchange->rank,
		exchange->layouts[exchange->rank].rows_off, fetch->step);
	struct ahead none = {NULL, 0};
	int64_t num = 0;

	for (int64_t k = 0; k < shape->num_sends; k++) {
		int64_t row;

		if (places[k] < 0 ||
			view->placement.rank[places[k]] != view->rank)
			continue;
		row = fetch->next[places[k]]++;
		fetch_beside(fetch, token, k, row);
		exchange->scratch.places[num++] = rows + row * row_bytes;
	}
	fetch->scatter(exchange->scratch.places, num, from, row_bytes, none);
}

/* Rows of an expert lie by their source, and then as these count them. */
static void begin_units(const struct step *step, uint32_t *next)
{
	const struct view *view = step->view;
	const struct placement *placement = &view->placement;
	const int32_t *mine = placement->order + placement->first[view->rank];

	for (int64_t l = 0; l < placement_num_local(placement, view->rank); l++)
		next[mine[l]] = (uint32_t)step->route->expert_first_row[l];
}

void fetch_rows(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct quant_kernels *kernels = quant_kernels();
	bool stream = step->route->num_rows * shape->format.row_bytes >
		      exchange->stream_bytes;
	int64_t from = clock_now();
	struct fetch fetch = {
		.exchange = exchange,
		.step = step,
		.next = exchange->scratch.counts,
		.scatter = stream ? kernels->scatter_stream : kernels->scatter,
	};

	begin_units(step, fetch.next);
	for (int32_t s = 0; s < step->view->num_ranks; s++) {
		fetch.source = s;
		fetch.offer = offer_of(exchange, step, step->view->members[s]);
		fetch.places = step->offered +
			       s * shape->fetch_tokens * shape->num_sends;
		for (int64_t t = 0; t < step->num_offered[s]; t++)
			fetch_token(&fetch, t);
	}
	scatter_fence();
	send_count(exchange, step);
	exchange->work_ns += clock_now() - from;
}
