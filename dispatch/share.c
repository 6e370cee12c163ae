/* Making what a rank offers; see share.h. */
#include "dispatch/share.h"

#include <string.h>

#include "base/fpenv.h"
#include "dispatch/args.h"
#include "dispatch/send.h"
#include "dispatch/token.h"

struct share share_of(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member)
{
	const struct layout_share *at = &exchange->share;
	uint8_t *base = exchange_share(exchange, step, member);

	return (struct share){
		.rows = base,
		.places = (int32_t *)(void *)(base + at->places),
		.weights = (float *)(void *)(base + at->weights),
		.row_scales = (float *)(void *)(base + at->row_scales),
		.scales = base + at->scales,
	};
}

/* Keeps the scales of row `index`. */
static void keep_scales(const struct shape *shape, const struct share *share,
	int64_t index, const struct token_scales *scales)
{
	int64_t bytes = shape_scale_bytes(shape);

	if (scales->scales)
		memcpy(share->scales + index * bytes, scales->scales,
			(size_t)bytes);
	share->row_scales[index] = scales->row_scale;
}

static bool goes_anywhere(const int32_t *places, int64_t num_sends)
{
	for (int64_t k = 0; k < num_sends; k++)
		if (places[k] >= 0)
			return true;
	return false;
}

/* The one row of a token. */
static void share_token(struct shunt_exchange *exchange, struct step *step,
	const struct share *share, int64_t token)
{
	const struct shape *shape = exchange_shape(exchange);
	uint8_t *row = share->rows + token * shape->format.row_bytes;
	struct token_scales scales;

	if (exchange->quantize) {
		scales = token_quantize(exchange, step, token, 0, row,
			token_ahead(exchange, step, token).next);
	} else {
		scales = token_brought(exchange, step, token);
		memcpy(row, token_x(exchange, step, token),
			(size_t)shape->format.row_bytes);
	}
	keep_scales(shape, share, token, &scales);
}

/* The rows of a token that differ from expert to expert. */
static void share_each_place(struct shunt_exchange *exchange, struct step *step,
	const struct share *share, int64_t token)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct route *route = step->route;

	for (int64_t k = 0; k < shape->num_sends; k++) {
		int64_t at = token * shape->num_sends + k;
		struct token_scales scales;

		if (route->unit[at] < 0)
			continue;
		scales = token_quantize(exchange, step, token,
			route->view->scale_row[route->unit[at]],
			share->rows + at * shape->format.row_bytes,
			token_ahead(exchange, step, token).next);
		keep_scales(shape, share, at, &scales);
	}
}

void share_rows(struct shunt_exchange *exchange, struct step *step,
	int64_t first, int64_t end)
{
	const struct shape *shape = exchange_shape(exchange);
	struct share share = share_of(exchange, step, exchange->rank);
	bool vary = send_rows_vary(&step->dispatch);
	struct fpenv caller = fpenv_enter();

	for (int64_t t = first; t < end; t++) {
		if (!goes_anywhere(step->route->unit + t * shape->num_sends,
			    shape->num_sends))
			continue;
		if (vary)
			share_each_place(exchange, step, &share, t);
		else
			share_token(exchange, step, &share, t);
	}
	fpenv_leave(&caller);
}

bool share_has_weights(const struct step *step)
{
	const struct shunt_dispatch_args *args = &step->dispatch;

	return args->weights ||
	       (args_are_cached(args) && step->route->has_weights);
}

void share_places(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct route *route = step->route;
	struct share share = share_of(exchange, step, exchange->rank);
	int64_t places = route->num_tokens * shape->num_sends;

	if (places == 0)
		return;
	memcpy(share.places, route->unit, (size_t)places * sizeof(int32_t));
	if (share_has_weights(step))
		memcpy(share.weights, route->weights,
			(size_t)(route->num_tokens * shape->topk) *
				sizeof(float));
}
