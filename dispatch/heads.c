/* What ranks announce with their counts; see heads.h. */
#include "dispatch/heads.h"

#include "dispatch/args.h"
#include "dispatch/route.h"
#include "dispatch/send.h"
#include "exchange/loss.h"
#include "exchange/step.h"

/* What comes from all ranks with tokens or from none. */
static bool given_agree(struct shunt_exchange *exchange, struct step *step,
	const char *what, uint32_t given, uint32_t absent, bool own)
{
	if ((step->given_seen & (given | absent)) != (given | absent))
		return true;
	step_fail(step, SHUNT_MISMATCH, -1,
		"%s are given on some ranks and not on others in step %llu "
		"(%s on rank %d); give them on all or on none",
		what, (unsigned long long)step->epoch,
		own ? "given" : "not given", exchange->rank);
	return false;
}

bool heads_given_agree(struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_dispatch_args *args = &step->dispatch;

	return given_agree(exchange, step, "weights", GIVEN_WEIGHTS,
		       GIVEN_NO_WEIGHTS, args->weights) &&
	       given_agree(exchange, step, "x_scales", GIVEN_X_SCALES,
		       GIVEN_NO_X_SCALES, args->x_scales);
}

bool heads_agree(struct shunt_exchange *exchange, struct step *step,
	int32_t member, const struct step_head *head)
{
	uint64_t table = step->view->table;
	uint64_t cached = step->dispatch.cached.epoch;
	char name[48];

	/* Every rank comes by here in every step: no text before it is due. */
	if (head->table == table && head->cached == cached)
		return true;
	group_rank_text(exchange->group, member, name);
	if (head->table != table)
		step_fail(step, SHUNT_MISMATCH, member,
			"elastic_info differs in step %llu between rank %d and "
			"%s; give all ranks the same table",
			(unsigned long long)step->epoch, exchange->rank, name);
	else
		step_fail(step, SHUNT_MISMATCH, member,
			"cached differs in step %llu: step %llu on rank %d; "
			"step %llu on %s (0: not cached)",
			(unsigned long long)step->epoch,
			(unsigned long long)cached, exchange->rank,
			(unsigned long long)head->cached, name);
	return false;
}

/* Of how many tokens this rank may look for places. False if that cannot be. */
static bool take_tokens(struct shunt_exchange *exchange, struct step *step,
	int32_t index, int64_t num_tokens)
{
	int32_t member = step->view->members[index];
	int64_t most = exchange_shape(exchange)->max_tokens;
	char name[48];

	if (member == exchange->rank)
		num_tokens = step->route->num_tokens;
	step->told_tokens[index] = num_tokens;
	if (num_tokens >= 0 && num_tokens <= most)
		return true;
	step_fail(step, SHUNT_PEER_FAULT, member,
		"%s announced %lld tokens in step %llu, must be 0 .. %lld",
		group_rank_text(exchange->group, member, name),
		(long long)num_tokens, (unsigned long long)step->epoch,
		(long long)most);
	return false;
}

/* The head is that of a later step: its rank has given this one up, and by a table
 * waits for this rank no more. */
static bool has_gone_on(const struct shunt_exchange *exchange,
	const struct step *step, uint64_t epoch)
{
	return exchange_shape(exchange)->elastic && epoch > step->epoch;
}

/* A good announcement of member `index` of the view. */
static void take_head(
	struct shunt_exchange *exchange, struct step *step, int32_t index)
{
	int32_t member = step->view->members[index];
	const struct step_head *shared = exchange_head(exchange, member, step);
	struct step_head head = {
		.epoch = shared->epoch,
		.table = shared->table,
		.cached = shared->cached,
		.num_tokens = shared->num_tokens,
		.given = shared->given,
	};
	char name[48];

	if (has_gone_on(exchange, step, head.epoch)) {
		if (loss_explains(exchange, step, member))
			return;
		step_fail(step, SHUNT_PEER_REFUSED, member,
			"%s has gone on to step %llu without the end of step "
			"%llu on rank %d",
			group_rank_text(exchange->group, member, name),
			(unsigned long long)head.epoch,
			(unsigned long long)step->epoch, exchange->rank);
		return;
	}
	if (head.epoch != step->epoch) {
		step_fail(step, SHUNT_PEER_FAULT, member,
			"%s announced step %llu with the head of step %llu",
			group_rank_text(exchange->group, member, name),
			(unsigned long long)step->epoch,
			(unsigned long long)head.epoch);
		return;
	}
	if (!heads_agree(exchange, step, member, &head))
		return;
	step->given_seen |= head.given & GIVEN_ALL;
	/* Kept, since the head may be of a later step by the time of use. */
	step->vary[index] = (head.given & ROWS_VARY) != 0 &&
			    shape_varies_by_expert(exchange_shape(exchange));
	if (member == exchange->rank)
		step->vary[index] = send_rows_vary(&step->dispatch);
	if (!take_tokens(exchange, step, index, head.num_tokens))
		return;
	if (!(head.given & ROWS_OFFERED))
		step->is_fetched = false;
	if (!args_are_cached(&step->dispatch))
		route_absorb(exchange, step, index, head.num_tokens,
			head.given & ROWS_OFFERED);
}

void heads_take(
	struct shunt_exchange *exchange, struct step *step, int32_t index)
{
	int32_t member = step->view->members[index];

	if (step->failure.status != SHUNT_OK)
		return;
	if (step_signal_code(exchange, step, member) == SIGNAL_OK)
		take_head(exchange, step, index);
	else
		step_fail_refused(exchange, step, member,
			exchange_head(exchange, member, step));
}

uint32_t heads_given(const struct shunt_dispatch_args *args, bool offers)
{
	uint32_t given = 0;

	if (args->weights)
		given |= GIVEN_WEIGHTS;
	else if (args->num_tokens > 0)
		given |= GIVEN_NO_WEIGHTS;
	if (args->x_scales)
		given |= GIVEN_X_SCALES;
	else if (args->num_tokens > 0)
		given |= GIVEN_NO_X_SCALES;
	if (send_rows_vary(args))
		given |= ROWS_VARY;
	if (offers)
		given |= ROWS_OFFERED;
	return given;
}
