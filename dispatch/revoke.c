/* Leaving ranks out; see revoke.h. */
#include "dispatch/revoke.h"

#include <string.h>

#include "base/order.h"
#include "exchange/step.h"

void revoke_left_out(struct shunt_exchange *exchange, const struct route *route)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct view *view = route->view;
	uint8_t *left_out = exchange->left_out;

	if (!view->table || view->table == exchange->present.table)
		return;
	/* 2: a candidate, neither left out before nor in the view. */
	for (int32_t r = 0; r < shape->num_ranks; r++)
		left_out[r] = left_out[r] ? 1 : 2;
	for (int32_t r = 0; r < view->num_ranks; r++)
		left_out[view->original[r]] = 0;
	for (int32_t r = 0; r < shape->num_ranks; r++) {
		if (left_out[r] != 2)
			continue;
		left_out[r] = 1;
		peer_signal(exchange->group->peers[r],
			exchange->window_off[r] +
				exchange->layouts[r].revoked_off +
				(uint64_t)exchange->rank * sizeof(struct line),
			1);
	}
	view_copy(&exchange->present, view);
}

bool revoke_is_pending(
	const struct shunt_exchange *exchange, const struct step *step)
{
	if (!step->view->table)
		return false;
	for (int32_t r = 0; r < exchange_shape(exchange)->num_ranks; r++)
		if (exchange->left_out[r] && step_is_writing(exchange, step, r))
			return true;
	return false;
}

/* A rank whose table has left this one out; -1: there is none. */
static int32_t find_revoker(const struct shunt_exchange *exchange)
{
	const struct line *revoked = (const struct line *)(void
			*)(exchange->windows[exchange->rank] +
			   exchange->layouts[exchange->rank].revoked_off);

	for (int32_t r = 0; r < exchange_shape(exchange)->num_members; r++)
		if (order_acquire(&revoked[r].value) != 0)
			return r;
	return -1;
}

bool revoke_begin_writing(struct shunt_exchange *exchange, struct step *step)
{
	struct step_head *head = exchange_head(exchange, exchange->rank, step);
	int32_t rank;
	char name[48];

	if (!exchange_shape(exchange)->elastic)
		return true;
	order_withdraw(&head->writing, step->epoch);
	rank = find_revoker(exchange);
	if (rank < 0)
		return true;
	revoke_end_writing(exchange, step);
	step_fail(step, SHUNT_MISMATCH, rank,
		"elastic_info of %s has left out this rank, %d, before step "
		"%llu had its rows",
		group_rank_text(exchange->group, rank, name), exchange->rank,
		(unsigned long long)step->epoch);
	return false;
}

void revoke_end_writing(struct shunt_exchange *exchange, struct step *step)
{
	struct step_head *head = exchange_head(exchange, exchange->rank, step);

	if (exchange_shape(exchange)->elastic)
		order_publish(&head->writing, 0);
}
