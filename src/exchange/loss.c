/* Word of losses; see loss.h. */
#include "exchange/loss.h"

#include "base/error.h"
#include "base/order.h"
#include "exchange/step.h"

static uint64_t line_off(
	const struct shunt_exchange *exchange, int32_t at, int32_t of)
{
	return exchange->layouts[at].lost_off +
	       (uint64_t)of * sizeof(struct line);
}

void loss_tell(struct shunt_exchange *exchange, int32_t lost)
{
	if (exchange->has_told_loss)
		return;
	exchange->has_told_loss = true;
	for (int32_t r = 0; r < exchange_shape(exchange)->num_members; r++)
		peer_signal(exchange->group->peers[r],
			exchange->window_off[r] +
				line_off(exchange, r, exchange->rank),
			(uint64_t)lost + 1);
}

/* A table leaves out whom it is known to have lost. */
static bool is_in_step(const struct shunt_exchange *exchange,
	const struct step *step, int32_t m)
{
	const struct view *view = step->view;

	if (m == exchange->rank)
		return false;
	for (int32_t i = 0; i < view->num_members; i++)
		if (view->members[i] == m)
			return true;
	return false;
}

int32_t loss_heard(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	const struct line *line = exchange_own(
		exchange, line_off(exchange, exchange->rank, rank));
	uint64_t said = order_acquire(&line->value);

	if (said == 0 || said > (uint64_t)exchange_shape(exchange)->num_members)
		return -1;
	return is_in_step(exchange, step, (int32_t)said - 1) ? (int32_t)said - 1
							     : -1;
}

bool loss_explains(
	struct shunt_exchange *exchange, struct step *step, int32_t rank)
{
	int32_t lost = loss_heard(exchange, step, rank);
	char name[48], teller[48];

	if (lost < 0)
		return false;
	step_fail(step, SHUNT_PEER_LOST, lost,
		"rank %d, step %llu: %s is lost to %s, which goes no further",
		exchange->rank, (unsigned long long)step->epoch,
		group_rank_text(exchange->group, lost, name),
		group_rank_text(exchange->group, rank, teller));
	loss_tell(exchange, lost);
	return true;
}

static bool is_dead(const struct shunt_exchange *exchange, int32_t rank)
{
	struct peer *peer = exchange->group->peers[rank];

	return peer->ops->state(peer) == PEER_DEAD;
}

void loss_name(struct shunt_exchange *exchange, const struct step *step)
{
	int32_t *ranks = exchange->lost_ranks;
	size_t num = shunt_error_ranks(ranks, (size_t)exchange->group->size);
	char name[48], teller[48];
	int32_t ended = -1;

	for (size_t i = 0; i < num; i++) {
		int32_t lost = is_dead(exchange, ranks[i])
				       ? -1
				       : loss_heard(exchange, step, ranks[i]);

		if (lost < 0)
			continue;
		ended = ranks[i];
		ranks[i] = lost;
	}
	if (ended < 0)
		return;
	error_set(SHUNT_PEER_LOST,
		"rank %d, step %llu: %s is lost to %s, which has ended its "
		"exchange",
		exchange->rank, (unsigned long long)step->epoch,
		group_rank_text(exchange->group,
			loss_heard(exchange, step, ended), name),
		group_rank_text(exchange->group, ended, teller));
	for (size_t i = 0; i < num; i++)
		error_add_rank(ranks[i]);
}
