/* From counts to rows; see place.h. */
#include "dispatch/place.h"

#include <string.h>

#include "exchange/step.h"

/* Rows that all EP groups send to each unit. */
static const uint32_t *add_groups(
	struct shunt_exchange *exchange, const struct route *route)
{
	const struct shape *shape = exchange_shape(exchange);
	uint32_t *totals = exchange->scratch.totals;
	int64_t units = shape->num_units;

	if (shape->tp_size == 1)
		return route->total;
	memset(totals, 0, (size_t)units * sizeof(*totals));
	for (int32_t p = 0; p < shape->tp_size; p++)
		for (int64_t u = 0; u < units; u++)
			totals[u] += route->total[p * units + u];
	return totals;
}

static bool fail_rank(struct shunt_exchange *exchange, struct step *step,
	int32_t rank, int64_t rows)
{
	int32_t member = step->view->members[rank];
	char name[48];

	step_fail(step, SHUNT_CAPACITY, member,
		"%s would receive %lld rows in step %llu, and max_recv_rows "
		"gives it %lld",
		group_rank_text(exchange->group, member, name), (long long)rows,
		(unsigned long long)step->epoch,
		(long long)exchange->layouts[member].recv_rows);
	return false;
}

static bool fail_expert(struct shunt_exchange *exchange, struct step *step,
	int32_t rank, int32_t unit, int64_t rows)
{
	int32_t member = step->view->members[rank];
	char name[48];

	step_fail(step, SHUNT_CAPACITY, member,
		"expert %d of %s would receive %lld rows in step %llu, and "
		"rows_per_expert gives it %lld",
		unit, group_rank_text(exchange->group, member, name),
		(long long)rows, (unsigned long long)step->epoch,
		(long long)exchange_shape(exchange)->rows_per_expert);
	return false;
}

/* Where this rank's rows for a unit begin, at each TP rank. */
static void start_unit(struct shunt_exchange *exchange, struct route *route,
	int32_t unit, int64_t first)
{
	const struct shape *shape = exchange_shape(exchange);
	int64_t units = shape->num_units;
	bool rank_order = exchange->accepted.config.tp_rank_order;

	for (int32_t q = 0; q < shape->tp_size; q++)
		route->start[q * units + unit] =
			(uint32_t)(first + route_group_offset(route->total,
						   units, unit, rank_order, q,
						   exchange->tp_rank)) +
			route->next[unit];
}

/*
 * The rows of the units of a rank where nothing is padded and there is no TP.
 * Every rank does this for all units in every step, and with few tokens it is
 * what a step takes: a running sum, and nothing that could be loaded again.
 */
static int64_t place_dense(const struct route *route,
	const struct placement *placement, int32_t rank)
{
	const int32_t *order = placement->order + placement->first[rank];
	int64_t num_units = placement_num_local(placement, rank);
	const uint32_t *restrict total = route->total;
	const uint32_t *restrict next = route->next;
	uint32_t *restrict start = route->start;
	int64_t rows = 0;

	for (int64_t i = 0; i < num_units; i++) {
		int32_t unit = order[i];

		start[unit] = (uint32_t)rows + next[unit];
		rows += total[unit];
	}
	return rows;
}

/* The same with padding and TP; false if a unit has too many. */
static bool place_units(struct shunt_exchange *exchange, struct step *step,
	const uint32_t *totals, int32_t rank, int64_t *rows_out)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct placement *placement = &step->view->placement;
	bool padded = shape->layout == SHUNT_LAYOUT_PADDED;
	int64_t rows = 0;

	for (int64_t i = placement->first[rank]; i < placement->first[rank + 1];
		i++) {
		int32_t unit = placement->order[i];

		if (padded && totals[unit] > shape->rows_per_expert)
			return fail_expert(
				exchange, step, rank, unit, totals[unit]);
		start_unit(exchange, step->route, unit, rows);
		rows += padded ? shape->rows_per_expert
			       : shape_align(shape, totals[unit]);
	}
	*rows_out = rows;
	return true;
}

static bool is_dense(const struct shape *shape)
{
	return shape->tp_size == 1 && shape->alignment == 1 &&
	       shape->layout != SHUNT_LAYOUT_PADDED;
}

/* Places the rows of the units of `rank`; false if they are too many. */
static bool place_rank(struct shunt_exchange *exchange, struct step *step,
	const uint32_t *totals, int32_t rank)
{
	const struct view *view = step->view;
	int32_t member = view->members[rank];
	int64_t rows;

	if (is_dense(exchange_shape(exchange)))
		rows = place_dense(step->route, &view->placement, rank);
	else if (!place_units(exchange, step, totals, rank, &rows))
		return false;
	if (rows <= exchange->layouts[member].recv_rows)
		return true;
	return fail_rank(exchange, step, rank, rows);
}

/* What this rank's experts receive. */
static void place_own(struct shunt_exchange *exchange, struct step *step,
	const uint32_t *totals)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct placement *placement = &step->view->placement;
	int32_t rank = step->view->rank;
	const int32_t *mine = placement->order + placement->first[rank];
	struct route *route = step->route;
	int64_t first = 0;

	route->num_rows = 0;
	for (int64_t l = 0; l < placement_num_local(placement, rank); l++) {
		int64_t rows = totals[mine[l]];

		route->expert_rows[l] = rows;
		route->expert_first_row[l] = first;
		route->num_rows += rows;
		first += shape->layout == SHUNT_LAYOUT_PADDED
				 ? shape->rows_per_expert
				 : shape_align(shape, rows);
	}
	route->extent_rows = first;
}

/* What comes back from another host comes to its place. */
static void number_home_rows(
	const struct shunt_exchange *exchange, struct route *route)
{
	const struct view *view = route->view;
	const int32_t *own =
		view->members + exchange->tp_rank * view->num_ranks;
	int64_t places =
		route->num_tokens * exchange_shape(exchange)->num_sends;

	for (int64_t at = 0; at < places; at++) {
		int32_t unit = route->unit[at];

		if (unit < 0)
			continue;
		route->home_row[at] = exchange_is_far(exchange,
					      own[view->placement.rank[unit]])
					      ? (int32_t)at
					      : route->row[at];
	}
}

/* Each place's row, at the own TP rank. */
static void number_rows(struct shunt_exchange *exchange, struct route *route)
{
	const struct shape *shape = exchange_shape(exchange);
	uint32_t *next = exchange->scratch.counts;
	int64_t places = route->num_tokens * shape->num_sends;

	memcpy(next, route->start + exchange->tp_rank * shape->num_units,
		(size_t)shape->num_units * sizeof(*next));
	for (int64_t at = 0; at < places; at++)
		if (route->unit[at] >= 0)
			route->row[at] = (int32_t)next[route->unit[at]]++;
	if (exchange_shape(exchange)->hosts)
		number_home_rows(exchange, route);
}

bool place_rows(struct shunt_exchange *exchange, struct step *step)
{
	const uint32_t *totals = add_groups(exchange, step->route);

	for (int32_t r = 0; r < step->view->num_ranks; r++)
		if (!place_rank(exchange, step, totals, r))
			return false;
	place_own(exchange, step, totals);
	number_rows(exchange, step->route);
	step->route->is_placed = true;
	return true;
}
