/* Rows that receivers fetch; see fetch.h. */
#include "dispatch/fetch.h"

#include <string.h>

#include "base/clock.h"
#include "dispatch/args.h"
#include "dispatch/beside.h"
#include "dispatch/send.h"
#include "dispatch/share.h"
#include "exchange/step.h"
#include "quant/kernels.h"

/* ---- offering ----------------------------------------------------------- */

bool fetch_is_possible(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct shunt_dispatch_args *args = &step->dispatch;
	int64_t most = exchange_shape(exchange)->fetch_tokens;

	return most > 0 && args->num_tokens <= most && !args_are_cached(args) &&
	       !send_rows_vary(args);
}

void fetch_offer(struct shunt_exchange *exchange, struct step *step)
{
	share_rows(exchange, step, 0, step->route->num_tokens);
	share_places(exchange, step);
}

/* ---- fetching ----------------------------------------------------------- */

/* A member's share, and where its rows go here. */
struct fetch {
	struct shunt_exchange *exchange;
	struct step *step;
	struct share share;
	const int32_t *places; /* of all its tokens, checked; or unchecked */
	int32_t source;        /* rank of the view */
	int64_t num_tokens;
	bool vary;
	/* Of each unit of this rank: the row that comes next. */
	uint32_t *next;
	/* And that behind the last one of the source; NULL: its places are those
	 * that were counted. */
	uint32_t *end;
	scatter_fn *scatter;
};

/* Writes what goes with the row of place k of a token to row `row`, which row
 * `index` of the share becomes. */
static void fetch_beside(const struct fetch *fetch, int64_t token, int64_t k,
	int64_t index, int64_t row)
{
	static const float one = 1.0f; /* of shared experts */
	const struct shape *shape = exchange_shape(fetch->exchange);
	int64_t scale_bytes = shape_scale_bytes(shape);
	const struct share *share = &fetch->share;
	bool has_scales = scale_bytes > 0 && (fetch->exchange->quantize ||
						     fetch->step->has_x_scales);
	struct beside beside = {
		.source = fetch->source,
		.token = (int32_t)token,
		.k = (int32_t)k,
		.scales =
			{
				has_scales ? share->scales + index * scale_bytes
					   : NULL,
				share->row_scales[index],
			},
	};

	if (fetch->step->route->has_weights)
		beside.weight =
			k < shape->topk
				? &share->weights[token * shape->topk + k]
				: &one;
	beside_write(fetch->exchange, fetch->step, fetch->exchange->rank, row,
		&beside);
}

/* The row of this rank's that place k of a token goes to; -1 if to none. */
static int64_t take_row(struct fetch *fetch, const int32_t *places, int64_t k)
{
	const struct view *view = fetch->step->view;
	int32_t unit = *(const volatile int32_t *)&places[k];

	if (unit < 0 || unit >= view->placement.num_units ||
		view->placement.rank[unit] != view->rank ||
		(fetch->end && fetch->next[unit] == fetch->end[unit]))
		return -1;
	return fetch->next[unit]++;
}

/* Places are a peer's: each is read once. */
static void fetch_token(struct fetch *fetch, int64_t token)
{
	struct shunt_exchange *exchange = fetch->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const int32_t *places = fetch->places + token * shape->num_sends;
	bool copies = shape->layout != SHUNT_LAYOUT_INDEXED;
	int64_t row_bytes = shape->format.row_bytes;
	uint8_t *rows = exchange_array(exchange, exchange->rank,
		exchange_layout(exchange)->rows_off, fetch->step);
	void **to = exchange->scratch.places;
	struct ahead none = {NULL, 0};
	int64_t num = 0;

	for (int64_t k = 0; k < shape->num_sends; k++) {
		int64_t at = token * shape->num_sends + k;
		int64_t index = fetch->vary ? at : token;
		int64_t row = take_row(fetch, places, k);

		if (row < 0)
			continue;
		fetch_beside(fetch, token, k, index, row);
		to[num++] = rows + row * row_bytes;
		if (!fetch->vary || !copies)
			continue;
		num = 0;
		fetch->scatter(to, 1, fetch->share.rows + index * row_bytes,
			row_bytes, none);
	}
	if (copies && num > 0)
		fetch->scatter(to, num, fetch->share.rows + token * row_bytes,
			row_bytes, none);
}

/* ---- rows by source ------------------------------------------------------ */

static const int32_t *own_units(const struct step *step)
{
	const struct placement *placement = &step->view->placement;

	return placement->order + placement->first[step->view->rank];
}

static int64_t num_own_units(const struct step *step)
{
	return placement_num_local(&step->view->placement, step->view->rank);
}

/* Rows of an expert lie by their source, and then as these count them. */
static void begin_units(const struct fetch *fetch)
{
	const struct step *step = fetch->step;
	const int32_t *mine = own_units(step);

	for (int64_t l = 0; l < num_own_units(step); l++) {
		uint32_t first = (uint32_t)step->route->expert_first_row[l];

		fetch->next[mine[l]] = first;
		if (fetch->end)
			fetch->end[mine[l]] = first;
	}
}

/* How far the rows of member `index` of the view go, as it has counted them. */
static void find_ends(struct fetch *fetch, int32_t index)
{
	const struct step *step = fetch->step;
	const struct view *view = step->view;
	const int32_t *mine = own_units(step);
	int64_t num_units = num_own_units(step);
	const int32_t *rows =
		step->route->blocks +
		index / view->num_ranks * num_units * view->num_ranks +
		index % view->num_ranks;

	for (int64_t l = 0; l < num_units; l++)
		fetch->end[mine[l]] += (uint32_t)rows[l * view->num_ranks];
}

/* Member `index` of the view is the next whose rows lie here. */
static void begin_source(struct fetch *fetch, int32_t index)
{
	const struct step *step = fetch->step;
	const struct view *view = step->view;

	fetch->source = index % view->num_ranks;
	fetch->share = share_of(fetch->exchange, step, view->members[index]);
	fetch->vary = step->vary[index];
	if (fetch->end)
		find_ends(fetch, index);
}

/* Did the source bring all rows that it has counted? */
static bool source_is_whole(const struct fetch *fetch, int32_t index)
{
	const int32_t *mine = own_units(fetch->step);
	int32_t member = fetch->step->view->members[index];
	char name[48];

	for (int64_t l = 0; fetch->end && l < num_own_units(fetch->step); l++) {
		if (fetch->next[mine[l]] == fetch->end[mine[l]])
			continue;
		step_fail(fetch->step, SHUNT_PEER_FAULT, member,
			"%s told other places of its tokens than it counted "
			"in step %llu: fewer for expert %d",
			group_rank_text(fetch->exchange->group, member, name),
			(unsigned long long)fetch->step->epoch, mine[l]);
		return false;
	}
	return true;
}

/* The places of a member's tokens: as they were checked with its counts, or the
 * own ones, or where it has them. */
static void find_places(struct fetch *fetch, int32_t index)
{
	const struct step *step = fetch->step;
	const struct shape *shape = exchange_shape(fetch->exchange);
	int32_t member = step->view->members[index];

	fetch->places = fetch->share.places;
	fetch->num_tokens = step->told_tokens[index];
	if (member == fetch->exchange->rank)
		fetch->places = step->route->unit;
	else if (step->is_fetched)
		fetch->places = step->offered + fetch->source *
							shape->fetch_tokens *
							shape->num_sends;
}

static bool fetch_source(struct fetch *fetch, int32_t index)
{
	begin_source(fetch, index);
	find_places(fetch, index);
	for (int64_t t = 0; t < fetch->num_tokens; t++)
		fetch_token(fetch, t);
	return source_is_whole(fetch, index);
}

bool fetch_rows(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct quant_kernels *kernels = quant_kernels();
	bool stream = step->route->num_rows * shape->format.row_bytes >
		      exchange->stream_bytes;
	bool rank_order = exchange->accepted.config.tp_rank_order;
	int64_t from = clock_now();
	struct fetch fetch = {
		.exchange = exchange,
		.step = step,
		.next = exchange->scratch.counts,
		.end = step->is_fetched ? NULL : exchange->scratch.totals,
		.scatter = stream ? kernels->scatter_stream : kernels->scatter,
	};
	bool whole = true;

	begin_units(&fetch);
	for (int32_t order = 0; order < shape->tp_size; order++) {
		int32_t tp =
			route_group_at(order, exchange->tp_rank, rank_order);

		for (int32_t s = 0; s < step->view->num_ranks && whole; s++)
			whole = fetch_source(
				&fetch, tp * step->view->num_ranks + s);
	}
	scatter_fence();
	send_count(exchange, step);
	exchange->work_ns += clock_now() - from;
	return whole;
}
