/* What steps tell each other; see step.h. */
#include "exchange/step.h"

#include "base/order.h"
#include "exchange/lines.h"
#include "exchange/span.h"

/* Some phases are between members of one host, or of different ones. */
static bool phase_is_between(
	const struct shunt_exchange *exchange, enum phase phase, int32_t rank)
{
	switch (phase) {
	case PHASE_LANDED:
		return !exchange_is_far(exchange, rank);
	case PHASE_SUMS:
		return exchange_is_far(exchange, rank);
	default:
		return true;
	}
}

/* Sums come from the one that adds up for its host. */
bool step_expects(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	if (!phase_is_between(exchange, step->awaited, rank))
		return false;
	if (step->awaited == PHASE_ROWS && step->state == STEP_COMBINING)
		return exchange_is_far(exchange, rank);
	return step->awaited != PHASE_SUMS ||
	       view_rail(step->view, exchange->rank,
		       exchange_shape(exchange)->hosts->host[rank]) == rank;
}

void step_signal(struct shunt_exchange *exchange, struct step *step,
	enum phase phase, enum signal_code code)
{
	const struct shape *shape = exchange_shape(exchange);
	uint64_t value = step->epoch << LINE_CODE_BITS | (uint64_t)code;
	uint64_t add = value - step->sent[phase];

	step->sent[phase] = value;
	for (int32_t i = 0; i < shape->num_members; i++) {
		/* Begin behind oneself, so that not all ranks write to rank 0
		 * at the same time. Ranks that a table has left out get it too:
		 * one that knows nothing of the table must learn of it. */
		int32_t rank = (exchange->rank + 1 + i) % shape->num_members;
		uint64_t line = exchange->window_off[rank] +
				layout_line(&exchange->layouts[rank], shape,
					phase, step->slot, exchange->rank);

		if (!phase_is_between(exchange, phase, rank))
			continue;
		if (exchange_is_far(exchange, rank))
			span_signal(exchange, step, rank, phase, line, add);
		else
			peer_signal(exchange->group->peers[rank], line, add);
	}
}

/* Of member `from`'s experts, in the window of `rank`. */
static uint64_t done_offset(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank, int32_t from, int64_t local)
{
	return layout_done(&exchange->layouts[rank], step->slot, from,
		exchange->whole.placement.first[from], local);
}

void step_signal_done(
	struct shunt_exchange *exchange, struct step *step, int64_t local)
{
	const struct view *view = step->view;
	int32_t num_members = exchange_shape(exchange)->num_members;
	const int32_t *rows = step->route->blocks + local * view->num_ranks;
	uint64_t *sent = step->sent_done + local * num_members;

	for (int32_t i = 0; i < view->num_ranks; i++) {
		int32_t to = (view->rank + 1 + i) % view->num_ranks;
		int32_t rank = view->members[to];

		if (rows[to] == 0)
			continue;
		peer_signal(exchange->group->peers[rank],
			exchange->window_off[rank] +
				done_offset(exchange, step, rank,
					exchange->rank, local),
			step->epoch - sent[rank]);
		sent[rank] = step->epoch;
	}
}

const _Atomic uint64_t *step_done_words(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	return (const _Atomic uint64_t *)(const void
			*)(exchange->windows[exchange->rank] +
			   done_offset(
				   exchange, step, exchange->rank, rank, 0));
}

static uint64_t line_value(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	return line_of(exchange, step, step->awaited, rank);
}

bool step_far_have_fetched(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct view *view = step->view;

	for (int32_t i = 0; i < view->num_members; i++) {
		int32_t rank = view->members[i];

		if (exchange_is_far(exchange, rank) &&
			line_epoch(line_of(exchange, step, PHASE_ROWS, rank)) <
				step->epoch)
			return false;
	}
	return true;
}

bool step_has_signal(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	return line_epoch(line_value(exchange, step, rank)) >= step->epoch ||
	       !step_expects(exchange, step, rank);
}

bool step_has_closed(const struct shunt_exchange *exchange, int32_t rank)
{
	const struct line *closed = (const struct line *)(void
			*)(exchange->windows[exchange->rank] +
			   exchange->layouts[exchange->rank].closed_off);

	return order_acquire(&closed[rank].value) != 0;
}

bool step_is_writing(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	struct peer *peer = exchange->group->peers[rank];
	const struct step_head *head = exchange_head(exchange, rank, step);

	return order_acquire(&head->writing) != 0 &&
	       !step_has_closed(exchange, rank) &&
	       peer->ops->state(peer) == PEER_ALIVE;
}

enum signal_code step_signal_code(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	uint64_t value = line_value(exchange, step, rank);

	/* Ahead of this step: only a rank that has given it up can be. */
	if (line_epoch(value) != step->epoch)
		return SIGNAL_GIVEN_UP;
	return line_code(value);
}

void step_signal_landed(struct shunt_exchange *exchange, struct step *step,
	enum signal_code code)
{
	if (exchange_shape(exchange)->rows_by_host &&
		line_epoch(step->sent[PHASE_LANDED]) != step->epoch)
		step_signal(exchange, step, PHASE_LANDED, code);
}
