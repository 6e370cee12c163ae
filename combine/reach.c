/* Where rows of other ranks are read; see reach.h. */
#include "combine/reach.h"

#include "base/order.h"
#include "combine/rows.h"
#include "exchange/loss.h"
#include "exchange/step.h"
#include "memory/segment.h"

/* Bytes from the first row to the end of the last; false if that is too much
 * for any memory. */
static bool span_of(const struct shape *shape, int64_t num_rows, uint64_t pitch,
	uint64_t *bytes)
{
	if (num_rows == 0) {
		*bytes = 0;
		return true;
	}
	return !__builtin_mul_overflow(
		       (uint64_t)(num_rows - 1), pitch, bytes) &&
	       !__builtin_add_overflow(
		       *bytes, (uint64_t)shape->result_bytes, bytes);
}

bool reach_announce(struct shunt_exchange *exchange, struct step *step,
	const void *y, int64_t pitch)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct segment *segment = exchange->world->segment;
	const void *results = exchange_array(exchange, exchange->rank,
		exchange->layouts[exchange->rank].results_off, step);
	struct step_head *note = exchange_note(exchange, exchange->rank, step);
	uint64_t offset = (uintptr_t)y - (uintptr_t)segment_base(segment);
	uint64_t reserved = segment_reserved_bytes(segment);
	uint64_t bytes;

	if (y == results && pitch == shape->result_bytes)
		return true;
	if (!span_of(
		    shape, step->route->extent_rows, (uint64_t)pitch, &bytes) ||
		offset > reserved || bytes > reserved - offset)
		return false;
	note->y_offset = offset;
	note->y_pitch = (uint64_t)pitch;
	step->y_is_announced = true;
	return true;
}

bool reach_agree(
	struct shunt_exchange *exchange, struct step *step, bool *any_announced)
{
	const struct view *view = step->view;

	*any_announced = false;
	for (int32_t i = 0; i < view->num_members; i++) {
		int32_t rank = view->members[i];
		const struct step_head *note =
			exchange_note(exchange, rank, step);
		char name[48];

		if (note->table != view->table) {
			step_fail(step, SHUNT_MISMATCH, rank,
				"elastic_info: %s gives another to combine "
				"than to the dispatch of step %llu",
				group_rank_text(exchange->group, rank, name),
				(unsigned long long)step->epoch);
			step_end_failed(exchange, step);
			return false;
		}
		if (note->y_offset != 0)
			*any_announced = true;
	}
	return true;
}

/* Rows, with padding, that rank `rank` of the view has in this step. */
static int64_t extent_of(
	const struct shape *shape, const struct route *route, int32_t rank)
{
	const struct placement *placement = &route->view->placement;
	int64_t extent = 0;

	if (shape->layout == SHUNT_LAYOUT_PADDED)
		return placement_num_local(placement, rank) *
		       shape->rows_per_expert;
	for (int64_t i = placement->first[rank]; i < placement->first[rank + 1];
		i++) {
		int64_t rows = 0;

		for (int32_t p = 0; p < shape->tp_size; p++)
			rows += route->total[p * shape->num_units +
					     placement->order[i]];
		extent += shape_align(shape, rows);
	}
	return extent;
}

/* The place that member i's note leads to; NULL if that is no place. */
static const uint8_t *place_of_note(const struct shunt_exchange *exchange,
	const struct step *step, int32_t i, uint64_t offset, uint64_t pitch)
{
	const struct shape *shape = exchange_shape(exchange);
	struct peer *peer = exchange->group->peers[step->view->members[i]];
	uint64_t bytes;

	if (pitch > (uint64_t)MAX_STRIDE * sizeof(float) ||
		!span_of(shape,
			extent_of(
				shape, step->route, i % step->view->num_ranks),
			pitch, &bytes))
		return NULL;
	return peer->ops->map(peer, offset, bytes);
}

/* Where those of member i, of another host, have come to: of a TP rank its
 * results, else what is on its way home. */
static struct row_place place_of_far(const struct shunt_exchange *exchange,
	const struct step *step, int32_t i)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = exchange_layout(exchange);
	int32_t tp = i / step->view->num_ranks;
	uint8_t *base;

	if (tp == exchange->tp_rank)
		return (struct row_place){
			exchange_array(exchange, exchange->rank,
				layout->back_off, step),
			shape->back_bytes};
	base = exchange_array(
		exchange, exchange->rank, layout->tp_back_off, step);
	return (struct row_place){
		base + tp * layout->recv_rows * shape->result_bytes,
		shape->result_bytes};
}

/* The rows of member i of the view are in its `results`. */
static void locate_results(
	struct shunt_exchange *exchange, struct step *step, int32_t i)
{
	int32_t rank = step->view->members[i];
	struct row_place *place = &step->row_places[i];

	if (exchange_is_far(exchange, rank)) {
		*place = place_of_far(exchange, step, i);
		return;
	}

	place->base = exchange_array(
		exchange, rank, exchange->layouts[rank].results_off, step);
	place->pitch = exchange_shape(exchange)->result_bytes;
}

/* What a note says of y; read once, since it is a peer's. */
struct y_claim {
	uint64_t offset, pitch;
};

/* The rows of member i are where its note says; false if that is no place. */
static bool locate_noted(struct shunt_exchange *exchange, struct step *step,
	int32_t i, struct y_claim *claim)
{
	const volatile struct step_head *note =
		exchange_note(exchange, step->view->members[i], step);
	const uint8_t *base;

	*claim = (struct y_claim){note->y_offset, note->y_pitch};
	if (claim->offset == 0 ||
		exchange_is_far(exchange, step->view->members[i])) {
		locate_results(exchange, step, i);
		return true;
	}
	base = place_of_note(exchange, step, i, claim->offset, claim->pitch);
	if (!base)
		return false;
	step->row_places[i] = (struct row_place){base, (int64_t)claim->pitch};
	return true;
}

static bool locate(
	struct shunt_exchange *exchange, struct step *step, int32_t i)
{
	int32_t rank = step->view->members[i];
	struct y_claim claim;
	char name[48];

	if (locate_noted(exchange, step, i, &claim))
		return true;
	step_fail(step, SHUNT_PEER_FAULT, rank,
		"step %llu: y_offset %llu with y_pitch %llu of %s leads "
		"outside of its segment",
		(unsigned long long)step->epoch,
		(unsigned long long)claim.offset,
		(unsigned long long)claim.pitch,
		group_rank_text(exchange->group, rank, name));
	step_end_failed(exchange, step);
	return false;
}

bool reach_locate(struct shunt_exchange *exchange, struct step *step,
	int32_t first, int32_t by)
{
	for (int32_t i = first; i < step->view->num_members; i += by)
		if (!locate(exchange, step, i))
			return false;
	return true;
}

/* The rows of member i, of the own EP group, are in its `travel`. */
static void locate_travel(
	struct shunt_exchange *exchange, struct step *step, int32_t i)
{
	int32_t rank = step->view->members[i];

	if (exchange_is_far(exchange, rank)) {
		step->row_places[i] = place_of_far(exchange, step, i);
		return;
	}
	step->row_places[i] = (struct row_place){
		exchange_array(exchange, rank,
			exchange->layouts[rank].travel_off, step),
		exchange_shape(exchange)->travel_bytes,
	};
}

bool reach_locate_rows(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;

	for (int32_t i = 0; i < view->num_members; i++) {
		if (rows_travel(exchange, view, i))
			locate_travel(exchange, step, i);
		else if (!locate(exchange, step, i))
			return false;
	}
	return true;
}

void reach_locate_travel(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;
	int32_t first = exchange->tp_rank * view->num_ranks;

	for (int32_t i = first; i < first + view->num_ranks; i++)
		locate_travel(exchange, step, i);
}

void reach_locate_fed(struct shunt_exchange *exchange, struct step *step)
{
	if (exchange_shape(exchange)->travel_bytes > 0) {
		reach_locate_travel(exchange, step);
		return;
	}
	for (int32_t i = 0; i < step->view->num_members; i++)
		locate_results(exchange, step, i);
}

bool reach_locate_announced(
	struct shunt_exchange *exchange, struct step *step, int32_t i)
{
	int32_t rank = step->view->members[i];
	struct y_claim claim;

	if (step_signal_code(exchange, step, rank) != SIGNAL_OK ||
		exchange_note(exchange, rank, step)->table != step->view->table)
		return false;
	return exchange_shape(exchange)->travel_bytes > 0 ||
	       locate_noted(exchange, step, i, &claim);
}

bool reach_recheck(struct shunt_exchange *exchange, struct step *step,
	int32_t first, int32_t by)
{
	const struct view *view = step->view;
	char name[48];

	for (int32_t i = first; i < view->num_members; i += by) {
		int32_t rank = view->members[i];
		struct step_head *note = exchange_note(exchange, rank, step);

		if (order_recheck(&note->withdrawn) != step->epoch)
			continue;
		if (!loss_explains(exchange, step, rank))
			step_fail(step, SHUNT_PEER_REFUSED, rank,
				"%s gave step %llu up while its rows were read",
				group_rank_text(exchange->group, rank, name),
				(unsigned long long)step->epoch);
		step_end_failed(exchange, step);
		return false;
	}
	return true;
}
