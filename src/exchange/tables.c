/* The private memory of an exchange: one block, laid out here. */
#include <stdlib.h>

#include "base/error.h"
#include "exchange/create.h"

/* Hands out pieces of a block; with no block it only counts. */
struct carver {
	uint8_t *block;
	uint64_t used;
};

static void *carve(struct carver *carver, int64_t count, size_t item_bytes)
{
	uint64_t start = carver->used;

	carver->used += ((uint64_t)count * item_bytes + 63) / 64 * 64;
	return carver->block ? carver->block + start : NULL;
}

static void carve_route(struct carver *carver, const struct shape *shape,
	const struct layout *layout, struct route *route)
{
	int64_t num_local = layout->num_local;
	int64_t num_landings = layout->num_landings;
	int64_t choices = shape->max_tokens * shape->topk;
	int64_t sends = shape->max_tokens * shape->num_sends;
	int64_t totals = shape->num_units * shape->tp_size;
	int64_t blocks = num_local * shape->num_members;

	route->weights = carve(carver, choices, sizeof(*route->weights));
	route->active = carve(carver, shape->max_tokens, 1);
	route->unit = carve(carver, sends, sizeof(*route->unit));
	route->row = carve(carver, sends, sizeof(*route->row));
	route->home_row = route->row;
	if (shape->hosts)
		route->home_row =
			carve(carver, sends, sizeof(*route->home_row));
	route->before = carve(carver,
		shape->sums_by_host ? num_landings * shape->num_units : 0,
		sizeof(*route->before));
	route->own_counts =
		carve(carver, shape->num_units, sizeof(*route->own_counts));
	route->next = carve(carver, shape->num_units, sizeof(*route->next));
	route->total = carve(carver, totals, sizeof(*route->total));
	route->start = carve(carver, totals, sizeof(*route->start));
	route->expert_rows =
		carve(carver, num_local, sizeof(*route->expert_rows));
	route->expert_first_row =
		carve(carver, num_local, sizeof(*route->expert_first_row));
	route->blocks = carve(carver, blocks, sizeof(*route->blocks));
}

static void carve_early(
	struct carver *carver, const struct shape *shape, struct early *early)
{
	early->first =
		carve(carver, shape->num_units + 1, sizeof(*early->first));
	early->tokens = carve(carver, shape->max_tokens * shape->num_sends,
		sizeof(*early->tokens));
	early->missing =
		carve(carver, shape->max_tokens, sizeof(*early->missing));
	early->awaited =
		carve(carver, shape->num_units, sizeof(*early->awaited));
	early->num_awaited =
		carve(carver, shape->num_ranks, sizeof(*early->num_awaited));
	early->ready = carve(carver, shape->max_tokens, sizeof(*early->ready));
}

static void carve_step(struct carver *carver, const struct shape *shape,
	int64_t num_local, struct step *step)
{
	step->vary = carve(carver, shape->num_members, 1);
	step->met = carve(carver,
		shape->elastic && shape->hosts ? shape->num_members : 0,
		sizeof(*step->met));
	step->awaited_since =
		carve(carver, shape->num_ranks, sizeof(*step->awaited_since));
	step->waited_ns =
		carve(carver, shape->num_ranks, sizeof(*step->waited_ns));
	step->token_nums = carve(carver, num_local, sizeof(*step->token_nums));
	step->padded_nums =
		carve(carver, num_local, sizeof(*step->padded_nums));
	step->first_row = carve(carver, num_local, sizeof(*step->first_row));
	step->recv_counts = carve(carver, num_local * shape->num_members,
		sizeof(*step->recv_counts));
	step->tp_counts =
		carve(carver, shape->tp_size, sizeof(*step->tp_counts));
	/* Across hosts they are checked as they are read. */
	step->offered = carve(carver,
		shape->num_ranks * shape->fetch_tokens * shape->num_sends,
		sizeof(*step->offered));
	step->told_tokens =
		carve(carver, shape->num_members, sizeof(*step->told_tokens));
	step->fed = carve(carver, num_local, 1);
	step->row_places =
		carve(carver, shape->num_members, sizeof(*step->row_places));
	if (!shape_signals_done(shape))
		return;
	step->sent_done = carve(carver, num_local * shape->num_members,
		sizeof(*step->sent_done));
	carve_early(carver, shape, &step->early);
}

static void carve_scratch(struct carver *carver, const struct shape *shape,
	struct scratch *scratch)
{
	int64_t places = shape->num_sends * shape->tp_size;
	int64_t terms = shape->num_sends + 1;

	scratch->counts =
		carve(carver, shape->num_units, sizeof(*scratch->counts));
	scratch->totals =
		carve(carver, shape->num_units, sizeof(*scratch->totals));
	scratch->stamp =
		carve(carver, shape->num_units, sizeof(*scratch->stamp));
	scratch->row = carve(carver, shape->format.row_bytes, 1);
	scratch->row_scales = carve(carver, shape_scale_bytes(shape), 1);
	scratch->places = carve(carver, places, sizeof(void *));
	scratch->results = carve(carver, 2 * terms, sizeof(void *));
	scratch->weights = carve(carver, 2 * terms, sizeof(float));
	scratch->acc = carve(carver, shape->hidden, sizeof(float));
	scratch->unpacked =
		carve(carver, shape->sums_by_host ? shape->result_bytes : 0, 1);
	scratch->partial = carve(
		carver, shape->sums_by_host ? shape->partial_bytes : 0, 1);
	scratch->host_stamp =
		carve(carver, shape->hosts ? shape->hosts->num_hosts : 0,
			sizeof(*scratch->host_stamp));
	scratch->tp_rows = carve(carver, shape->tp_size, sizeof(void *));
}

/* Everything but the arrays of steps and routes; those hold pointers into the
 * same block. */
static void carve_rest(struct carver *carver, const struct shape *shape,
	int64_t num_local, struct shunt_exchange *exchange)
{
	exchange->counters.expert_rows =
		carve(carver, num_local, sizeof(int64_t));
	exchange->counters.expert_rows_base =
		carve(carver, num_local, sizeof(int64_t));
	exchange->left_out = carve(carver, shape->num_ranks, 1);
	exchange->absent_since = carve(carver,
		shape->elastic && shape->hosts ? shape->num_members : 0,
		sizeof(*exchange->absent_since));
	exchange->landing_kept =
		carve(carver, shape->hosts ? shape->num_members : 0,
			sizeof(*exchange->landing_kept));
	exchange->landing_there =
		carve(carver, shape->hosts ? shape->num_members : 0,
			sizeof(*exchange->landing_there));
	exchange->blank_row = carve(carver,
		shape->layout == SHUNT_LAYOUT_INDEXED ? shape->format.row_bytes
						      : 0,
		1);
	exchange->sums.next =
		carve(carver, shape->sums_by_host ? shape->num_units : 0,
			sizeof(*exchange->sums.next));
	exchange->sums.end =
		carve(carver, shape->sums_by_host ? shape->num_units : 0,
			sizeof(*exchange->sums.end));
	carve_scratch(carver, shape, &exchange->scratch);
}

uint64_t tables_bytes(const struct shape *shape, const struct layout *layout)
{
	int64_t num_local = layout->num_local;
	struct shunt_exchange exchange;
	struct carver carver = {0};
	struct route route;
	struct step step;
	uint64_t views = 1;

	carve(&carver, shape->depth, sizeof(struct step));
	carve(&carver, shape->num_routes, sizeof(struct route));
	for (int32_t i = 0; i < shape->depth; i++)
		carve_step(&carver, shape, num_local, &step);
	for (int32_t i = 0; i < shape->num_routes; i++)
		carve_route(&carver, shape, layout, &route);
	carve_rest(&carver, shape, num_local, &exchange);
	if (shape->elastic)
		views += 1 + (uint64_t)shape->num_routes;
	return carver.used + views * view_bytes(shape);
}

/* Views are blocks of their own. */
static enum shunt_status views_init(struct shunt_exchange *exchange)
{
	const struct shape *shape = exchange_shape(exchange);
	enum shunt_status status =
		view_init(&exchange->whole, shape, exchange->rank);

	if (status != SHUNT_OK)
		return status;
	view_fill_whole(&exchange->whole, shape, &exchange->accepted.placement,
		exchange->ep_rank);
	if (!shape->elastic)
		return SHUNT_OK;
	status = view_init(&exchange->present, shape, exchange->rank);
	if (status != SHUNT_OK)
		return status;
	view_fill_whole(&exchange->present, shape,
		&exchange->accepted.placement, exchange->ep_rank);
	for (int32_t i = 0; i < shape->num_routes && !status; i++)
		status = view_init(
			&exchange->routes[i].own_view, shape, exchange->rank);
	return status;
}

/* The keepers of a view are those of the whole one, or with tables every rank has
 * a landing, with the same number on all of a host. */
static void find_landings(struct shunt_exchange *exchange)
{
	const struct shape *shape = exchange_shape(exchange);
	bool by_keeper = shape->rows_by_host && !shape->elastic;
	int32_t me = exchange->rank;

	for (int32_t m = 0; shape->hosts && m < shape->num_members; m++) {
		int32_t keeper = me;

		if (by_keeper && !hosts_share(shape->hosts, m, me))
			keeper = view_rail(
				&exchange->whole, m, shape->hosts->host[me]);
		exchange->landing_kept[m] = layout_landing(shape, keeper, m);
		exchange->landing_there[m] = layout_landing(shape, m, me);
	}
}

enum shunt_status tables_init(struct shunt_exchange *exchange)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = &exchange->layouts[exchange->rank];
	int64_t num_local = layout->num_local;
	uint64_t bytes = tables_bytes(shape, layout);
	struct carver carver = {.block = calloc(1, bytes)};
	enum shunt_status status;

	if (!carver.block)
		return error_set(SHUNT_NO_MEMORY,
			"the tables of an exchange need %llu bytes, which "
			"there are not (rank %d)",
			(unsigned long long)bytes, exchange->rank);
	exchange->tables = carver.block;
	exchange->share = layout_share(shape);
	exchange->steps = carve(&carver, shape->depth, sizeof(struct step));
	exchange->routes =
		carve(&carver, shape->num_routes, sizeof(struct route));
	for (int32_t i = 0; i < shape->depth; i++) {
		exchange->steps[i].slot = i;
		carve_step(&carver, shape, num_local, &exchange->steps[i]);
	}
	for (int32_t i = 0; i < shape->num_routes; i++)
		carve_route(&carver, shape, layout, &exchange->routes[i]);
	carve_rest(&carver, shape, num_local, exchange);
	status = views_init(exchange);
	if (status == SHUNT_OK)
		find_landings(exchange);
	return status;
}

void tables_fini(struct shunt_exchange *exchange)
{
	view_fini(&exchange->whole);
	view_fini(&exchange->present);
	for (int32_t i = 0;
		exchange->routes && i < exchange_shape(exchange)->num_routes;
		i++)
		view_fini(&exchange->routes[i].own_view);
	free(exchange->tables);
}

enum shunt_status layouts_init(
	const struct accepted *accepted, int32_t rank, struct layout **out)
{
	int32_t num_ranks = accepted->shape.num_ranks;
	int32_t num_members = accepted->shape.num_members;
	struct layout *layouts = calloc((size_t)num_members, sizeof(*layouts));
	enum shunt_status status = SHUNT_OK;

	if (!layouts)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %d layouts", rank, num_members);
	for (int32_t m = 0; m < num_members && !status; m++)
		status = layout_init(&layouts[m], &accepted->shape,
			placement_num_local(
				&accepted->placement, m % num_ranks),
			m);
	if (status != SHUNT_OK) {
		free(layouts);
		return status;
	}
	*out = layouts;
	return SHUNT_OK;
}
