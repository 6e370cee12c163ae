/* From expert ids to counts; see route.h. */
#include "dispatch/route.h"

#include <string.h>

#include "base/error.h"
#include "dispatch/args.h"
#include "dispatch/share.h"
#include "exchange/step.h"

/* ---- who takes part --------------------------------------------------- */

/* True if the view has a rank that an earlier table has left out. */
static bool brings_back(
	const struct shunt_exchange *exchange, const struct view *view)
{
	for (int32_t r = 0; r < view->num_ranks; r++)
		if (exchange->left_out[view->original[r]])
			return true;
	return false;
}

static enum shunt_status view_of_table(struct shunt_exchange *exchange,
	struct route *route, const int32_t *table, uint64_t hash)
{
	const struct shape *shape = exchange_shape(exchange);
	enum shunt_status status = SHUNT_OK;

	if (!shape->elastic)
		return error_set(SHUNT_INVALID,
			"elastic_info is given, but the exchange was made "
			"without elastic (rank %d)",
			exchange->rank);
	if (route->own_view.table != hash)
		status = view_fill_table(
			&route->own_view, shape, &exchange->whole, table);
	if (status == SHUNT_OK && brings_back(exchange, &route->own_view))
		status = error_set(SHUNT_INVALID,
			"elastic_info brings back a rank that an earlier table "
			"has left out (rank %d)",
			exchange->rank);
	return status;
}

static enum shunt_status choose_view(struct shunt_exchange *exchange,
	struct route *route, const int32_t *table)
{
	uint64_t hash =
		view_table_hash(table, exchange_shape(exchange)->num_ranks);
	enum shunt_status status;

	route->view = exchange_present(exchange);
	if (hash) {
		status = view_of_table(exchange, route, table, hash);
		if (status == SHUNT_OK)
			route->view = &route->own_view;
		return status;
	}
	if (route->view->table)
		return error_set(SHUNT_INVALID,
			"elastic_info is missing: an earlier table has left "
			"out ranks (rank %d)",
			exchange->rank);
	/* Not the present one: a later step's table will change that. */
	route->view = &exchange->whole;
	return SHUNT_OK;
}

/* A cached dispatch copies the routing that it repeats. */
static enum shunt_status copy_route(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct route *route)
{
	const struct shape *shape = exchange_shape(exchange);
	uint64_t epoch = args->cached.epoch;
	const struct route *from =
		&exchange->routes[epoch % (uint64_t)shape->num_routes];
	int64_t places;

	if (args->cached.exchange == exchange->id && from->epoch == epoch &&
		from != route && !from->is_placed)
		return error_set(SHUNT_STATE,
			"cached is step %llu, whose dispatch has not ended "
			"well: finish it first (rank %d)",
			(unsigned long long)epoch, exchange->rank);
	if (args->cached.exchange != exchange->id || from->epoch != epoch ||
		from == route)
		return error_set(SHUNT_STATE,
			"cached is no step of this exchange whose routing is "
			"kept: that of step %llu is asked for in step %llu, "
			"and %d steps are kept (rank %d)",
			(unsigned long long)epoch,
			(unsigned long long)exchange->epoch + 1,
			shape->num_routes - 1, exchange->rank);
	if (from->view->table != route->view->table)
		return error_set(SHUNT_INVALID,
			"elastic_info is not that of the cached handle (rank "
			"%d)",
			exchange->rank);
	if (args->num_tokens != from->num_tokens)
		return error_set(SHUNT_INVALID,
			"num_tokens is %lld, must be %lld as with the cached "
			"handle (rank %d)",
			(long long)args->num_tokens,
			(long long)from->num_tokens, exchange->rank);
	places = from->num_tokens * shape->num_sends;
	route->num_tokens = from->num_tokens;
	route->has_weights = from->has_weights;
	memcpy(route->weights, from->weights,
		(size_t)(from->num_tokens * shape->topk) * sizeof(float));
	memcpy(route->active, from->active, (size_t)from->num_tokens);
	memcpy(route->unit, from->unit, (size_t)places * sizeof(int32_t));
	memcpy(route->row, from->row, (size_t)places * sizeof(int32_t));
	if (shape->hosts)
		memcpy(route->home_row, from->home_row,
			(size_t)places * sizeof(int32_t));
	route_copy_counts(route, from, shape, exchange_layout(exchange));
	return SHUNT_OK;
}

enum shunt_status route_begin(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct route **out,
	const struct view **view)
{
	uint64_t epoch = exchange->epoch + 1;
	uint64_t num_routes = (uint64_t)exchange_shape(exchange)->num_routes;
	struct route *route = &exchange->routes[epoch % num_routes];
	enum shunt_status status;

	status = choose_view(exchange, route, args->elastic_info);
	route->epoch = epoch;
	route->is_placed = false;
	*out = route;
	*view = route->view;
	if (status == SHUNT_OK && args_are_cached(args))
		status = copy_route(exchange, args, route);
	return status;
}

/* ---- own choices ------------------------------------------------------ */

static int64_t id_at(const struct shunt_dispatch_args *args, int64_t i)
{
	if (args->ids_type == SHUNT_INDEX_I32)
		return ((const int32_t *)args->expert_ids)[i];
	return ((const int64_t *)args->expert_ids)[i];
}

static bool is_masked(
	const struct shunt_dispatch_args *args, int64_t token, int64_t choice)
{
	switch (args->mask) {
	case SHUNT_MASK_TOKENS:
		return !args->active_mask[token];
	case SHUNT_MASK_CHOICES:
		return !args->active_mask[choice];
	case SHUNT_MASK_NONE:
		break;
	}
	return false;
}

/* Ids below it are experts of ranks or special ones. */
static int64_t num_ids(
	const struct shunt_exchange *exchange, const struct view *view)
{
	return view->num_experts + exchange_shape(exchange)->num_special;
}

static enum shunt_status refuse_id(const struct shunt_exchange *exchange,
	const struct view *view, int64_t token, int64_t k, int64_t id)
{
	return error_set(SHUNT_INVALID,
		"expert_ids[%lld, %lld] is %lld, must be -1 .. %lld (rank %d)",
		(long long)token, (long long)k, (long long)id,
		(long long)num_ids(exchange, view) - 1, exchange->rank);
}

static enum shunt_status refuse_twice(const struct shunt_exchange *exchange,
	int64_t token, int64_t k, int64_t id)
{
	return error_set(SHUNT_INVALID,
		"expert_ids[%lld, %lld] is %lld again, but distinct_experts "
		"promises distinct ids within a token (rank %d)",
		(long long)token, (long long)k, (long long)id, exchange->rank);
}

/* Where choice (token, k) goes; *active becomes true if it makes the token an
 * active one. */
static enum shunt_status route_choice(struct shunt_exchange *exchange,
	struct step *step, int64_t token, int64_t k, int32_t *unit,
	uint8_t *active)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = step->route->view;
	int64_t choice = token * shape->topk + k;
	uint32_t *stamp = exchange->scratch.stamp;
	int64_t id;

	*unit = ROUTE_NONE;
	if (is_masked(&step->dispatch, token, choice))
		return SHUNT_OK;
	id = id_at(&step->dispatch, choice);
	if (id == -1)
		return SHUNT_OK;
	*active = 1;
	if (id < -1 || id >= num_ids(exchange, view)) {
		if (exchange->accepted.config.bad_id == SHUNT_BAD_ID_REFUSE)
			return refuse_id(exchange, view, token, k, id);
		step->dropped++;
		return SHUNT_OK;
	}
	if (id >= view->num_experts) {
		*unit = ROUTE_SPECIAL - (int32_t)(id - view->num_experts);
		return SHUNT_OK;
	}
	if (shape->distinct) {
		if (stamp[id] == (uint32_t)token + 1)
			return refuse_twice(exchange, token, k, id);
		stamp[id] = (uint32_t)token + 1;
	}
	*unit = (int32_t)id;
	return SHUNT_OK;
}

/* An active token goes to one replica of each shared expert. */
static void route_shared(struct shunt_exchange *exchange,
	const struct route *route, int32_t *unit, bool active)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = route->view;

	for (int64_t j = 0; j < shape->num_shared; j++)
		unit[j] = active ? (int32_t)view->num_experts +
					   view_replica(
						   view, shape, view->rank, j)
				 : ROUTE_NONE;
}

enum shunt_status route_count(
	struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	struct route *route = step->route;
	uint32_t *counts = route->own_counts;
	size_t bytes = (size_t)shape->num_units * sizeof(*counts);
	int32_t *unit = route->unit;
	enum shunt_status status;

	route->num_tokens = step->dispatch.num_tokens;
	memset(counts, 0, bytes);
	if (shape->distinct)
		memset(exchange->scratch.stamp, 0, bytes);
	for (int64_t t = 0; t < route->num_tokens; t++) {
		uint8_t active = 0;

		for (int64_t k = 0; k < shape->topk; k++) {
			status = route_choice(
				exchange, step, t, k, &unit[k], &active);
			if (status != SHUNT_OK)
				return status;
		}
		route_shared(exchange, route, unit + shape->topk, active);
		for (int64_t k = 0; k < shape->num_sends; k++)
			if (unit[k] >= 0)
				counts[unit[k]]++;
		route->active[t] = active;
		unit += shape->num_sends;
	}
	memcpy(exchange_counts(exchange, exchange->rank, step), counts, bytes);
	return SHUNT_OK;
}

/* ---- everybody's counts ----------------------------------------------- */

void route_clear(struct shunt_exchange *exchange, struct route *route)
{
	const struct shape *shape = exchange_shape(exchange);
	size_t bytes = (size_t)shape->num_units * sizeof(uint32_t);

	memset(route->next, 0, bytes);
	memset(route->total, 0, bytes * (size_t)shape->tp_size);
}

/* Shared experts get each token once, at the sender's replica. */
static bool shared_counts_are_sound(const struct shape *shape,
	const struct view *view, int32_t source, int64_t num_tokens,
	const uint32_t *counts)
{
	int32_t replicas = view_replicas(view, shape);

	for (int32_t i = 0; i < view->num_shared_ranks; i++) {
		int32_t replica =
			view_replica(view, shape, source, i / replicas);

		if (counts[i] > (i == replica ? num_tokens : 0))
			return false;
	}
	return true;
}

/* Every rank reads the counts of all ranks: no branch, so that the loop is one
 * of vectors. A count with its sign bit set is too large, too. */
static bool counts_are_within(
	const uint32_t *counts, int64_t num, uint32_t most, int64_t *sum_out)
{
	uint32_t over = 0;
	uint64_t sum = 0;

	for (int64_t e = 0; e < num; e++) {
		over |= counts[e] | (most - counts[e]);
		sum += counts[e];
	}
	*sum_out = (int64_t)sum;
	return !(over >> 31);
}

static bool counts_are_sound(const struct shape *shape, const struct view *view,
	int32_t source, int64_t num_tokens, const uint32_t *counts)
{
	int64_t per_expert;
	int64_t sum;

	if (num_tokens < 0 || num_tokens > shape->max_tokens)
		return false;
	per_expert = num_tokens * (shape->distinct ? 1 : shape->topk);
	if (per_expert > SHAPE_MAX_ROWS)
		per_expert = SHAPE_MAX_ROWS;
	return counts_are_within(
		       counts, view->num_experts, (uint32_t)per_expert, &sum) &&
	       sum <= num_tokens * shape->topk &&
	       shared_counts_are_sound(shape, view, source, num_tokens,
		       counts + view->num_experts);
}

/* Adds a rank's counts; those of lower ranks come before the own rows. */
static void add_counts(struct shunt_exchange *exchange, struct route *route,
	int32_t tp, int32_t source, const uint32_t *counts)
{
	int64_t units = exchange_shape(exchange)->num_units;
	int64_t used = route->view->placement.num_units;
	uint32_t *total = route->total + tp * units;

	for (int64_t u = 0; u < used; u++)
		total[u] += counts[u];
	if (tp == exchange->tp_rank && source < route->view->rank)
		for (int64_t u = 0; u < used; u++)
			route->next[u] += counts[u];
}

/* Notes what rank `source` of EP group `tp` sends to this rank's experts. */
static void note_blocks(
	struct route *route, int32_t tp, int32_t source, const uint32_t *counts)
{
	const struct view *view = route->view;
	const struct placement *placement = &view->placement;
	const int32_t *mine = placement->order + placement->first[view->rank];
	int64_t num_local = placement_num_local(placement, view->rank);

	for (int64_t l = 0; l < num_local; l++)
		route->blocks[(tp * num_local + l) * view->num_ranks + source] =
			(int32_t)counts[mine[l]];
}

/* With sums by host: where the rows of a member begin whose tokens this rank adds
 * up, behind those of lower ranks. */
static void note_before(struct shunt_exchange *exchange, struct step *step,
	int32_t member, int32_t tp)
{
	const struct shape *shape = exchange_shape(exchange);
	int64_t units = shape->num_units;

	if (!shape->sums_by_host ||
		exchange_rail(exchange, step, member) != exchange->rank)
		return;
	memcpy(step->route->before + exchange->landing_kept[member] * units,
		step->route->total + tp * units,
		(size_t)units * sizeof(uint32_t));
}

/* Counts the places of tokens that a rank offers, and keeps them; false if one
 * is none. */
static bool count_offer(struct shunt_exchange *exchange, struct step *step,
	int32_t source, const int32_t *offered, int64_t num_tokens)
{
	const struct shape *shape = exchange_shape(exchange);
	int64_t num_units = step->view->placement.num_units;
	uint32_t *counts = exchange->scratch.counts;
	int32_t *places =
		step->offered + source * shape->fetch_tokens * shape->num_sends;
	int64_t num_places;

	if (num_tokens < 0 || num_tokens > shape->fetch_tokens)
		return false;
	num_places = num_tokens * shape->num_sends;
	memcpy(places, offered, (size_t)num_places * sizeof(*places));
	memset(counts, 0, (size_t)num_units * sizeof(*counts));
	for (int64_t at = 0; at < num_places; at++) {
		if (places[at] >= num_units)
			return false;
		if (places[at] >= 0)
			counts[places[at]]++;
	}
	return true;
}

/* What member `index` of the view says it sends, in scratch.counts; false if
 * that cannot be. */
static bool take_counts(struct shunt_exchange *exchange, struct step *step,
	int32_t index, int64_t num_tokens, bool offered)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = step->view;
	int32_t member = view->members[index];
	int32_t source = index % view->num_ranks;
	uint32_t *counts = exchange->scratch.counts;
	const uint32_t *told = exchange_counts(exchange, member, step);
	const int32_t *places = share_of(exchange, step, member).places;

	if (member == exchange->rank) {
		/* Not what lies in the window: peers could have changed it. */
		told = step->route->own_counts;
		places = step->route->unit;
		num_tokens = step->route->num_tokens;
		offered = step->is_offered;
	}
	if (!offered)
		memcpy(counts, told,
			(size_t)view->placement.num_units * sizeof(*counts));
	else if (shape->fetch_tokens == 0 ||
		 !count_offer(exchange, step, source, places, num_tokens))
		return false;
	return counts_are_sound(shape, view, source, num_tokens, counts);
}

void route_absorb(struct shunt_exchange *exchange, struct step *step,
	int32_t index, int64_t num_tokens, bool offered)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = step->view;
	const uint32_t *counts = exchange->scratch.counts;
	int32_t member = view->members[index];
	int32_t tp = index / view->num_ranks;
	int32_t source = index % view->num_ranks;
	char name[48];

	if (!take_counts(exchange, step, index, num_tokens, offered)) {
		step_fail(step, SHUNT_PEER_FAULT, member,
			"%s sent counts or places out of range in step %llu: "
			"%lld tokens (must be 0 .. %lld), or more choices than "
			"they have",
			group_rank_text(exchange->group, member, name),
			(unsigned long long)step->epoch, (long long)num_tokens,
			(long long)(offered ? shape->fetch_tokens
					    : shape->max_tokens));
		return;
	}
	note_before(exchange, step, member, tp);
	add_counts(exchange, step->route, tp, source, counts);
	note_blocks(step->route, tp, source, counts);
}
