/* The experts' rows at the rank of the experts; see rows.h. */
#include "combine/rows.h"

#include <string.h>

#include "base/dtype.h"
#include "base/fpenv.h"
#include "combine/acc.h"
#include "combine/pack.h"
#include "combine/reach.h"

/* Rows as a caller has them: in one piece, or a pointer to each. */
struct supply {
	const uint8_t *base;
	int64_t first; /* number of the row at base */
	int64_t pitch;
	const void *const *each;
};

static const void *supply_row(const struct supply *supply, int64_t row)
{
	if (supply->each)
		return supply->each[row];
	return supply->base + (row - supply->first) * supply->pitch;
}

static uint8_t *own_array(const struct shunt_exchange *exchange,
	const struct step *step, uint64_t array_off)
{
	return exchange_array(exchange, exchange->rank, array_off, step);
}

static uint8_t *own_results(
	const struct shunt_exchange *exchange, const struct step *step)
{
	return own_array(
		exchange, step, exchange->layouts[exchange->rank].results_off);
}

static uint8_t *own_travel(
	const struct shunt_exchange *exchange, const struct step *step)
{
	return own_array(
		exchange, step, exchange->layouts[exchange->rank].travel_off);
}

bool rows_are_packed(const struct shunt_exchange *exchange,
	const struct view *view, int32_t rank)
{
	return exchange->accepted.config.combine_quant !=
		       SHUNT_COMBINE_QUANT_NONE &&
	       (!exchange_shape(exchange)->sums_by_host ||
		       rank < view->num_shared_ranks);
}

bool rows_travel(const struct shunt_exchange *exchange, const struct view *view,
	int32_t rank)
{
	return exchange_shape(exchange)->tp_size > 1 ||
	       rows_are_packed(exchange, view, rank);
}

/* This rank's are quantized as they come. With TP that is later, after the sum. */
static bool are_packed_at_once(
	const struct shunt_exchange *exchange, const struct step *step)
{
	return exchange_shape(exchange)->tp_size == 1 &&
	       rows_are_packed(exchange, step->view, step->view->rank);
}

struct row_place rows_results(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct shunt_combine_args *args = &step->combine;

	if (step->y_is_announced)
		return (struct row_place){args->y,
			dtype_row_bytes(exchange->accepted.config.expert_dtype,
				args->y_stride)};
	return (struct row_place){own_results(exchange, step),
		exchange_shape(exchange)->result_bytes};
}

struct row_place rows_place(
	const struct shunt_exchange *exchange, const struct step *step)
{
	if (rows_travel(exchange, step->view, step->view->rank))
		return (struct row_place){own_travel(exchange, step),
			exchange_shape(exchange)->travel_bytes};
	return rows_results(exchange, step);
}

/* ---- taking rows in ------------------------------------------------------ */

/* Rows first .. first + count - 1 of `supply`. */
static void take(const struct shunt_exchange *exchange, struct step *step,
	const struct supply *supply, int64_t first, int64_t count)
{
	const struct shape *shape = exchange_shape(exchange);
	uint8_t *results = own_results(exchange, step);
	uint8_t *travel = own_travel(exchange, step);
	bool packed = are_packed_at_once(exchange, step);

	for (int64_t row = first; row < first + count; row++) {
		const void *from = supply_row(supply, row);
		uint8_t *to = results + row * shape->result_bytes;

		if (packed)
			pack_row(exchange, &step->combine_tally,
				travel + row * shape->travel_bytes, from);
		else if (to != from)
			memmove(to, from, (size_t)shape->result_bytes);
	}
}

static void take_expert(const struct shunt_exchange *exchange,
	struct step *step, const struct supply *supply, int64_t local)
{
	const struct route *route = step->route;
	struct fpenv caller = fpenv_enter();

	take(exchange, step, supply, route->expert_first_row[local],
		route->expert_rows[local]);
	fpenv_leave(&caller);
}

void rows_begin(struct shunt_exchange *exchange, struct step *step)
{
	const int32_t *table = step->combine.elastic_info;
	struct step_head *note = exchange_note(exchange, exchange->rank, step);

	note->epoch = step->epoch;
	note->table = table ? view_table_hash(table,
				      exchange_shape(exchange)->num_ranks)
			    : step->view->table;
	note->y_offset = 0;
	note->y_pitch = 0;
	step->y_is_announced = false;
}

void rows_take(struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_combine_args *args = &step->combine;
	const struct view *view = step->view;
	int64_t num_local = placement_num_local(&view->placement, view->rank);
	struct supply supply = {
		.base = args->y,
		.pitch = dtype_row_bytes(
			exchange->accepted.config.expert_dtype, args->y_stride),
		.each = args->y_rows,
	};

	if (step->route->num_rows == 0)
		return;
	if (args->y && !are_packed_at_once(exchange, step) &&
		reach_announce(exchange, step, args->y, supply.pitch))
		return;
	for (int64_t l = 0; l < num_local; l++)
		take_expert(exchange, step, &supply, l);
}

void rows_feed(struct shunt_exchange *exchange, struct step *step,
	int64_t local, const void *y, int64_t y_bytes)
{
	struct supply supply = {
		.base = y ? y : own_results(exchange, step),
		.first = y ? step->route->expert_first_row[local] : 0,
		.pitch = y ? y_bytes : exchange_shape(exchange)->result_bytes,
	};

	take_expert(exchange, step, &supply, local);
}

/* ---- TP ------------------------------------------------------------------ */

/* Where among the rows of a unit at TP rank `tp` those of the own EP group
 * begin. */
static int64_t group_offset(const struct shunt_exchange *exchange,
	const struct step *step, int64_t unit, int32_t tp)
{
	const struct shape *shape = exchange_shape(exchange);

	return route_group_offset(step->route->total, shape->num_units, unit,
		exchange->accepted.config.tp_rank_order, tp, exchange->tp_rank);
}

/* One row: rows[p] of all TP ranks become row `to` of travel. */
static void reduce_row(struct shunt_exchange *exchange, struct step *step,
	int64_t to, const void *const *rows)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	const struct shape *shape = exchange_shape(exchange);
	uint8_t *travel = own_travel(exchange, step) + to * shape->travel_bytes;
	bool packed = rows_are_packed(exchange, step->view, step->view->rank);
	void *sum = packed ? (void *)exchange->scratch.acc : travel;

	acc_kernels()->sum_ranks[config->expert_dtype](
		sum, rows, shape->tp_size, shape->hidden);
	if (packed)
		pack_row(exchange, &step->combine_tally, travel, sum);
}

/* The rows of the own EP group for one local expert. */
static void reduce_expert(
	struct shunt_exchange *exchange, struct step *step, int64_t local)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = step->view;
	const struct scratch *scratch = &exchange->scratch;
	int64_t first = step->route->expert_first_row[local];
	int64_t unit =
		view->placement
			.order[view->placement.first[view->rank] + local];
	int64_t rows =
		step->route->total[exchange->tp_rank * shape->num_units + unit];
	int64_t to =
		first + group_offset(exchange, step, unit, exchange->tp_rank);

	for (int32_t p = 0; p < shape->tp_size; p++) {
		const struct row_place *place =
			&step->row_places[p * view->num_ranks + view->rank];

		/* Those of another host came in the order that they have
		 * here. */
		int32_t order =
			exchange_is_far(exchange,
				view->members[p * view->num_ranks + view->rank])
				? exchange->tp_rank
				: p;

		scratch->tp_rows[p] =
			place->base +
			(first + group_offset(exchange, step, unit, order)) *
				place->pitch;
	}
	for (int64_t i = 0; i < rows; i++) {
		reduce_row(exchange, step, to + i, scratch->tp_rows);
		for (int32_t p = 0; p < shape->tp_size; p++)
			scratch->tp_rows[p] =
				(const uint8_t *)scratch->tp_rows[p] +
				step->row_places[p * view->num_ranks +
						 view->rank]
					.pitch;
	}
}

void rows_reduce(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;
	int64_t num_local = placement_num_local(&view->placement, view->rank);
	struct fpenv caller = fpenv_enter();

	for (int64_t l = 0; l < num_local; l++)
		reduce_expert(exchange, step, l);
	fpenv_leave(&caller);
}
