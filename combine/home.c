/* Experts' rows on their way to other hosts; see home.h. */
#include "combine/home.h"

#include "base/clock.h"
#include "combine/rows.h"
#include "exchange/span.h"
#include "exchange/step.h"

struct home {
	struct shunt_exchange *exchange;
	struct step *step;
	struct row_place from;          /* of all rows of this rank */
	const volatile int32_t *source; /* peers could write to it */
};

static struct home home_of(struct shunt_exchange *exchange, struct step *step)
{
	return (struct home){
		.exchange = exchange,
		.step = step,
		.from = rows_place(exchange, step),
		.source = exchange_array(exchange, exchange->rank,
			exchange_layout(exchange)->source_off, step),
	};
}

/* One row, to its token's rank `member`. */
static bool send_row(struct home *home, int32_t member, int64_t row)
{
	struct shunt_exchange *exchange = home->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = &exchange->layouts[member];
	int32_t token = home->source[3 * row + 1];
	int32_t k = home->source[3 * row + 2];
	uint64_t place;

	if (token < 0 || token >= shape->max_tokens || k < 0 ||
		k >= shape->num_sends) {
		step_fail(home->step, SHUNT_PEER_FAULT, -1,
			"row %lld of step %llu says that it is of token %d, "
			"place %d: rank %d's window was written to",
			(long long)row, (unsigned long long)home->step->epoch,
			token, k, exchange->rank);
		step_end_failed(exchange, home->step);
		return false;
	}
	place = (uint64_t)token * (uint64_t)shape->num_sends + (uint64_t)k;
	span_put(exchange, PHASE_RESULTS, member,
		layout_slot(layout, layout->back_off, home->step->slot) +
			place * (uint64_t)shape->back_bytes,
		home->from.base + row * home->from.pitch,
		(uint64_t)shape->home_bytes);
	return true;
}

/* The blocks of local experts first .. end - 1. */
static bool send_blocks(struct shunt_exchange *exchange, struct step *step,
	int64_t first, int64_t end)
{
	const struct view *view = step->view;
	bool rank_order = exchange->accepted.config.tp_rank_order;
	int64_t began = clock_now();
	struct home home = home_of(exchange, step);
	struct row_cursor block = {.expert = first};
	bool sound = true;

	if (first < end)
		block.next = step->route->expert_first_row[first];
	while (sound && block.expert < end &&
		route_next_block(step->route, exchange_shape(exchange),
			rank_order, exchange->tp_rank, &block)) {
		int32_t member =
			view->members[block.tp * view->num_ranks + block.rank];

		if (block.tp != exchange->tp_rank ||
			!exchange_is_far(exchange, member))
			continue;
		for (int64_t i = 0; i < block.rows && sound; i++)
			sound = send_row(&home, member, block.row + i);
	}
	exchange->work_ns += clock_now() - began;
	return sound;
}

bool home_send_expert(
	struct shunt_exchange *exchange, struct step *step, int64_t local)
{
	return send_blocks(exchange, step, local, local + 1);
}

bool home_send_rows(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;

	return send_blocks(exchange, step, 0,
		placement_num_local(&view->placement, view->rank));
}

/* ---- TP ------------------------------------------------------------------ */

/* The rows of EP group `block->tp` for one expert and one source, to TP rank
 * block->tp, in the order that they have there. */
static void send_results(
	struct home *home, const struct row_cursor *block, int64_t there)
{
	struct shunt_exchange *exchange = home->exchange;
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = home->step->view;
	int32_t member =
		view->members[block->tp * view->num_ranks + view->rank];
	const struct layout *layout = &exchange->layouts[member];
	uint64_t to =
		layout_slot(layout, layout->tp_back_off, home->step->slot) +
		((uint64_t)exchange->tp_rank * (uint64_t)layout->recv_rows +
			(uint64_t)there) *
			(uint64_t)shape->result_bytes;
	uint64_t bytes = (uint64_t)shape->result_bytes;
	const uint8_t *from = home->from.base + block->row * home->from.pitch;

	if (home->from.pitch == shape->result_bytes) {
		span_put(exchange, PHASE_RESULTS, member, to, from,
			bytes * (uint64_t)block->rows);
		return;
	}
	for (int64_t i = 0; i < block->rows; i++)
		span_put(exchange, PHASE_RESULTS, member,
			to + (uint64_t)i * bytes, from + i * home->from.pitch,
			bytes);
}

void home_send_results(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = step->view;
	bool rank_order = exchange->accepted.config.tp_rank_order;
	const int32_t *mine =
		view->placement.order + view->placement.first[view->rank];
	int64_t began = clock_now();
	struct home home = home_of(exchange, step);
	struct row_cursor block = {0};

	home.from = rows_results(exchange, step);
	while (route_next_block(
		step->route, shape, rank_order, exchange->tp_rank, &block)) {
		int32_t unit = mine[block.local];
		int32_t member =
			view->members[block.tp * view->num_ranks + view->rank];

		/* The same rows, among those of the expert at TP rank
		 * block.tp. */
		if (exchange_is_far(exchange, member))
			send_results(&home, &block,
				block.row -
					route_group_offset(step->route->total,
						shape->num_units, unit,
						rank_order, exchange->tp_rank,
						block.tp) +
					route_group_offset(step->route->total,
						shape->num_units, unit,
						rank_order, block.tp,
						block.tp));
	}
	exchange->work_ns += clock_now() - began;
}
