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

static uint64_t word_of(int32_t lost, bool breaks)
{
	return 2 * ((uint64_t)lost + 1) + breaks;
}

void loss_tell(struct shunt_exchange *exchange, int32_t lost, bool breaks)
{
	uint64_t word = word_of(lost, breaks);
	uint64_t add = word - exchange->told_loss;

	if (add == 0)
		return;
	exchange->told_loss = word;
	for (int32_t r = 0; r < exchange_shape(exchange)->num_members; r++)
		peer_signal(exchange->group->peers[r],
			exchange->window_off[r] +
				line_off(exchange, r, exchange->rank),
			add);
}

static bool is_dead(const struct shunt_exchange *exchange, int32_t rank)
{
	struct peer *peer = exchange->group->peers[rank];

	return peer->ops->state(peer) == PEER_DEAD;
}

void loss_tell_dead(struct shunt_exchange *exchange, const struct view *view)
{
	if (exchange->broken)
		return; /* it has told */
	for (int32_t i = 0; i < view->num_members; i++)
		if (is_dead(exchange, view->members[i])) {
			loss_tell(exchange, view->members[i], false);
			return;
		}
}

static uint64_t word_heard(const struct shunt_exchange *exchange, int32_t rank)
{
	const struct line *line = exchange_own(
		exchange, line_off(exchange, exchange->rank, rank));

	return order_acquire(&line->value);
}

bool loss_breaks(const struct shunt_exchange *exchange, int32_t rank)
{
	return word_heard(exchange, rank) & 1;
}

/* The member of the step that member `rank` says it has lost; -1: it says nothing,
 * or nothing that matters here: a table leaves out whom it is known to have lost. */
static int32_t heard(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	uint64_t number = word_heard(exchange, rank) / 2;
	int32_t lost;

	if (number == 0 ||
		number > (uint64_t)exchange_shape(exchange)->num_members)
		return -1;
	lost = (int32_t)number - 1;
	return lost != exchange->rank && view_has(step->view, lost) ? lost : -1;
}

bool loss_explains(
	struct shunt_exchange *exchange, struct step *step, int32_t rank)
{
	int32_t lost = heard(exchange, step, rank);
	char name[48], teller[48];

	if (lost < 0)
		return false;
	step_fail(step, SHUNT_PEER_LOST, lost,
		"rank %d, step %llu: %s is lost to %s, which goes no further",
		exchange->rank, (unsigned long long)step->epoch,
		group_rank_text(exchange->group, lost, name),
		group_rank_text(exchange->group, rank, teller));
	loss_tell(exchange, lost, false);
	return true;
}

void loss_name(struct shunt_exchange *exchange, const struct step *step)
{
	int32_t *ranks = exchange->lost_ranks; /* room; it is filled later */
	size_t num = shunt_error_ranks(ranks, (size_t)exchange->group->size);
	char name[48], teller[48];
	int32_t told = -1;

	for (size_t i = 0; i < num; i++) {
		int32_t lost = is_dead(exchange, ranks[i])
				       ? -1
				       : heard(exchange, step, ranks[i]);

		if (lost < 0)
			continue;
		told = lost;
		group_rank_text(exchange->group, ranks[i], teller);
		ranks[i] = lost;
	}
	if (told < 0)
		return;
	error_set(SHUNT_PEER_LOST,
		"rank %d, step %llu: %s is lost to %s, which goes no further",
		exchange->rank, (unsigned long long)step->epoch,
		group_rank_text(exchange->group, told, name), teller);
	for (size_t i = 0; i < num; i++)
		error_add_rank(ranks[i]);
}
