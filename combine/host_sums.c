/* Sums by host; see host_sums.h. */
#include "combine/host_sums.h"

#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "combine/partial.h"
#include "exchange/span.h"

/* ---- weights ------------------------------------------------------------- */

static uint64_t weights_bytes(
	const struct shunt_exchange *exchange, int64_t num_tokens)
{
	return (uint64_t)num_tokens * (uint64_t)exchange_shape(exchange)->topk *
	       sizeof(float);
}

void host_sums_tell(struct shunt_exchange *exchange, struct step *step)
{
	struct step_head *note = exchange_note(exchange, exchange->rank, step);
	const float *weights = terms_weights(step);
	uint64_t bytes = weights_bytes(exchange, step->route->num_tokens);
	float *told = exchange_own(
		exchange, layout_told(exchange_layout(exchange), step->slot));

	note->given = weights ? GIVEN_WEIGHTS : GIVEN_NO_WEIGHTS;
	if (!weights || bytes == 0)
		return;
	memcpy(told, weights, bytes);
	for (int32_t h = 0; h < step->view->num_hosts; h++) {
		int32_t rail = view_rail(step->view, exchange->rank, h);

		if (rail < 0 || !exchange_is_far(exchange, rail))
			continue;
		span_put(exchange, PHASE_RESULTS, rail,
			layout_told_landed(&exchange->layouts[rail],
				exchange_shape(exchange),
				exchange->landing_there[rail], step->slot),
			told, bytes);
	}
}

/* ---- adding up ------------------------------------------------------------ */

/* A rank of another host whose tokens' rows are added up here. What it and others
 * wrote is read once and checked. */
struct owner {
	struct shunt_exchange *exchange;
	struct step *step;
	int32_t member, tp;
	int32_t landing;
	const volatile int32_t *places;
	const float *weights; /* NULL: a plain sum */
	/* Of each unit on this host: its next row of the owner, and the end of all
	 * of the owner's EP group. */
	uint32_t *next, *end;
};

/* Where the rows of rank `rank` of the view are read, for the owner's group. */
static struct row_place place_of(const struct owner *owner, int32_t rank)
{
	const struct shunt_exchange *exchange = owner->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = owner->step->view;
	int32_t member = view->members[owner->tp * view->num_ranks + rank];

	if (shape->tp_size == 1)
		return owner->step->row_places[rank];
	return (struct row_place){
		exchange_array(exchange, member,
			exchange->layouts[member].travel_off, owner->step),
		shape->travel_bytes,
	};
}

static bool is_here(const struct owner *owner, int32_t unit)
{
	const struct view *view = owner->step->view;

	return !exchange_is_far(
		owner->exchange, view->members[owner->tp * view->num_ranks +
					       view->placement.rank[unit]]);
}

/* Rows of the owner's EP group for a unit, at the owner's TP place: where they
 * begin, without those of the owner. */
static uint32_t group_start(const struct owner *owner, int32_t unit)
{
	const struct shunt_exchange *exchange = owner->exchange;
	const struct route *route = owner->step->route;
	int64_t units = exchange_shape(exchange)->num_units;
	bool rank_order = exchange->accepted.config.tp_rank_order;
	int64_t own = route_group_offset(route->total, units, unit, rank_order,
		owner->tp, exchange->tp_rank);
	int64_t theirs = route_group_offset(
		route->total, units, unit, rank_order, owner->tp, owner->tp);

	return (uint32_t)(route->start[owner->tp * units + unit] -
			  route->next[unit] - own + theirs);
}

static struct owner owner_of(
	struct shunt_exchange *exchange, struct step *step, int32_t index)
{
	const struct view *view = step->view;
	struct owner owner = {
		.exchange = exchange,
		.step = step,
		.member = view->members[index],
		.tp = index / view->num_ranks,
		.next = exchange->sums.next,
		.end = exchange->sums.end,
	};

	owner.landing = exchange->landing_kept[owner.member];
	owner.places =
		(const volatile int32_t *)(void *)(exchange_share(exchange,
							   step, owner.member) +
						   exchange->share.places);
	if (exchange_note(exchange, owner.member, step)->given & GIVEN_WEIGHTS)
		owner.weights = exchange_own(
			exchange, layout_told_landed(exchange_layout(exchange),
					  exchange_shape(exchange),
					  owner.landing, step->slot));
	return owner;
}

/* Before the first of its tokens. */
static void find_rows(struct owner *owner)
{
	const struct shape *shape = exchange_shape(owner->exchange);
	const struct view *view = owner->step->view;
	const struct route *route = owner->step->route;
	int64_t units = shape->num_units;

	for (int32_t u = 0; u < view->placement.num_units; u++) {
		uint32_t first;

		if (!is_here(owner, u))
			continue;
		first = group_start(owner, u);
		owner->next[u] =
			first + route->before[owner->landing * units + u];
		owner->end[u] = first + route->total[owner->tp * units + u];
	}
}

/* The rows that a token of the owner has on this host; returns the place of the first
 * one. */
static int64_t list_here(
	struct owner *owner, int64_t token, struct partial_rows *here)
{
	const struct shape *shape = exchange_shape(owner->exchange);
	const struct view *view = owner->step->view;
	int64_t first = 0;

	here->num_rows = 0;
	for (int64_t k = 0; k < shape->topk; k++) {
		int64_t at = token * shape->num_sends + k;
		int32_t unit = owner->places[at];
		struct row_place place;

		/* Units of shared experts come behind those of MoE experts. */
		if (unit < 0 || unit >= view->num_experts ||
			!is_here(owner, unit) ||
			owner->next[unit] >= owner->end[unit])
			continue;
		place = place_of(owner, view->placement.rank[unit]);
		if (here->num_rows == 0)
			first = at;
		if (owner->weights)
			here->weights[here->num_rows] =
				owner->weights[token * shape->topk + k];
		here->rows[here->num_rows++] =
			place.base + owner->next[unit]++ * place.pitch;
	}
	return first;
}

/* Sums are sent from `partial`: those of a round, when all of the one before have
 * gone. */
static bool has_room(const struct shunt_exchange *exchange)
{
	uint64_t num_sent = exchange->sums.num_sent;

	return num_sent % PARTIAL_ROWS != 0 || num_sent == 0 ||
	       span_is_flushed(exchange);
}

static void send_sum(struct owner *owner, int64_t token)
{
	struct shunt_exchange *exchange = owner->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = &exchange->layouts[owner->member];
	struct partial_rows here = {
		.rows = exchange->scratch.results,
		.weights = exchange->scratch.weights,
		.weighted = owner->weights != NULL,
	};
	int64_t first = list_here(owner, token, &here);
	uint8_t *partial;

	if (here.num_rows == 0)
		return;
	partial = exchange_own(
		exchange, exchange_layout(exchange)->partial_off +
				  exchange->sums.num_sent++ % PARTIAL_ROWS *
					  (uint64_t)shape->back_bytes);
	partial_make(exchange, &owner->step->combine_tally, &here, partial);
	span_put(exchange, PHASE_SUMS, owner->member,
		layout_slot(layout, layout->back_off, owner->step->slot) +
			(uint64_t)(first * shape->back_bytes),
		partial, (uint64_t)shape->partial_bytes);
}

/* The sums of the member's tokens that are left; false if some still are. */
static bool send_sums_of(
	struct shunt_exchange *exchange, struct step *step, int32_t index)
{
	struct sums_cursor *cursor = &exchange->sums;
	struct owner owner;

	if (exchange_rail(exchange, step, step->view->members[index]) !=
		exchange->rank)
		return true;
	owner = owner_of(exchange, step, index);
	if (cursor->token < 0) {
		find_rows(&owner);
		cursor->token = 0;
	}
	for (; cursor->token < step->told_tokens[index]; cursor->token++) {
		if (!has_room(exchange))
			return false;
		send_sum(&owner, cursor->token);
	}
	return true;
}

/* A step that has been given up has no turn any more. */
static bool is_turn_of_other(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct sums_cursor *cursor = &exchange->sums;
	const struct step *other =
		&exchange->steps[cursor->epoch %
				 (uint64_t)exchange_shape(exchange)->depth];

	return cursor->epoch != step->epoch && other->epoch == cursor->epoch &&
	       other->state == STEP_COMBINING &&
	       cursor->index < other->view->num_members;
}

bool host_sums_send(struct shunt_exchange *exchange, struct step *step)
{
	struct sums_cursor *cursor = &exchange->sums;
	struct fpenv caller;
	int64_t began;

	if (is_turn_of_other(exchange, step))
		return false;
	if (cursor->epoch != step->epoch) {
		cursor->epoch = step->epoch;
		cursor->index = 0;
		cursor->token = -1;
	} else if (!has_room(exchange)) {
		return false; /* as before: no work */
	}
	caller = fpenv_enter();
	began = clock_now();
	while (cursor->index < step->view->num_members &&
		send_sums_of(exchange, step, cursor->index)) {
		cursor->index++;
		cursor->token = -1;
	}
	fpenv_leave(&caller);
	exchange->work_ns += clock_now() - began;
	return cursor->index == step->view->num_members;
}

/* ---- at home -------------------------------------------------------------- */

/* The host of the MoE row at place `at` of own tokens; -1: there is none. */
static int32_t host_of_row(const struct terms *terms, int64_t at)
{
	const struct shunt_exchange *exchange = terms->exchange;
	const struct view *view = terms->step->view;
	int32_t unit = terms->step->route->unit[at];

	if (unit < 0)
		return -1;
	return exchange_shape(exchange)
		->hosts
		->host[view->members[exchange->tp_rank * view->num_ranks +
				     view->placement.rank[unit]]];
}

/* The lowest host above `host` that has a MoE row of the token; *first is the place
 * of its first one. num_hosts: there is none. */
static int32_t next_host(
	const struct terms *terms, int64_t token, int32_t host, int64_t *first)
{
	const struct shape *shape = exchange_shape(terms->exchange);
	int32_t found = terms->step->view->num_hosts;

	for (int64_t k = 0; k < shape->topk; k++) {
		int64_t at = token * shape->num_sends + k;
		int32_t here = host_of_row(terms, at);

		if (here <= host || here >= found)
			continue;
		found = here;
		*first = at;
	}
	return found;
}

/* Adds up the token's MoE rows on the own host, as others do on theirs. */
static const uint8_t *make_own(
	struct terms *terms, int64_t token, int32_t own_host)
{
	const struct shunt_exchange *exchange = terms->exchange;
	const struct scratch *scratch = &exchange->scratch;
	const struct shape *shape = exchange_shape(exchange);
	const struct route *route = terms->step->route;
	const int32_t *rank_of = terms->step->view->placement.rank;
	struct partial_rows rows = {
		.rows = scratch->results,
		.weights = scratch->weights,
		.weighted = terms->weights != NULL,
	};

	for (int64_t k = 0; k < shape->topk; k++) {
		int64_t at = token * shape->num_sends + k;
		const struct row_place *place;

		if (host_of_row(terms, at) != own_host)
			continue;
		place = &terms->places[rank_of[route->unit[at]]];
		if (rows.weighted)
			rows.weights[rows.num_rows] =
				terms->weights[token * shape->topk + k];
		rows.rows[rows.num_rows++] =
			place->base + route->home_row[at] * place->pitch;
	}
	terms->bytes_read += rows.num_rows * shape->result_bytes;
	partial_make(exchange, terms->tally, &rows, scratch->partial);
	return scratch->partial;
}

void host_sums_add(struct terms *terms, int64_t token, float *acc)
{
	const struct shunt_exchange *exchange = terms->exchange;
	const struct shape *shape = exchange_shape(exchange);
	int32_t own_host = shape->hosts->host[exchange->rank];
	const uint8_t *back = exchange_array(exchange, exchange->rank,
		exchange_layout(exchange)->back_off, terms->step);
	int64_t first = 0;
	int32_t host = next_host(terms, token, -1, &first);

	while (host < terms->step->view->num_hosts) {
		partial_add(exchange, acc,
			host == own_host ? make_own(terms, token, own_host)
					 : back + first * shape->back_bytes);
		host = next_host(terms, token, host, &first);
	}
}
