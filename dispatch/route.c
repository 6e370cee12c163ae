/* From expert ids to rows; see route.h. */
#include "dispatch/route.h"

#include <string.h>

#include "base/error.h"
#include "exchange/step.h"

/* ---- own choices ------------------------------------------------------ */

static int64_t id_at(const struct shunt_dispatch_args *args, int64_t i)
{
	if (args->ids_type == SHUNT_INDEX_I32)
		return ((const int32_t *)args->expert_ids)[i];
	return ((const int64_t *)args->expert_ids)[i];
}

static bool is_masked(
	const struct shunt_dispatch_args *args, int64_t token, int64_t choice)
{
	switch (args->mask) {
	case SHUNT_MASK_TOKENS:
		return !args->active_mask[token];
	case SHUNT_MASK_CHOICES:
		return !args->active_mask[choice];
	case SHUNT_MASK_NONE:
		break;
	}
	return false;
}

static enum shunt_status refuse_id(const struct shunt_exchange *exchange,
	int64_t token, int64_t k, int64_t id)
{
	return error_set(SHUNT_INVALID,
		"expert_ids[%lld, %lld] is %lld, must be -1 .. %lld (rank %d)",
		(long long)token, (long long)k, (long long)id,
		(long long)exchange_shape(exchange)->num_experts - 1,
		exchange->rank);
}

static enum shunt_status refuse_twice(const struct shunt_exchange *exchange,
	int64_t token, int64_t k, int64_t id)
{
	return error_set(SHUNT_INVALID,
		"expert_ids[%lld, %lld] is %lld again, but distinct_experts "
		"promises distinct ids within a token (rank %d)",
		(long long)token, (long long)k, (long long)id, exchange->rank);
}

/* Where choice (token, k) goes: an expert, or -1 for nowhere. */
static enum shunt_status route_choice(struct shunt_exchange *exchange,
	struct step *step, int64_t token, int64_t k, int32_t *expert)
{
	const struct shape *shape = exchange_shape(exchange);
	int64_t choice = token * shape->topk + k;
	uint32_t *stamp = exchange->scratch.stamp;
	int64_t id;

	*expert = -1;
	if (is_masked(&step->dispatch, token, choice))
		return SHUNT_OK;
	id = id_at(&step->dispatch, choice);
	if (id < -1 || id >= shape->num_experts) {
		if (exchange->accepted.config.bad_id == SHUNT_BAD_ID_REFUSE)
			return refuse_id(exchange, token, k, id);
		step->dropped++;
		return SHUNT_OK;
	}
	if (id == -1)
		return SHUNT_OK;
	if (shape->distinct) {
		if (stamp[id] == (uint32_t)token + 1)
			return refuse_twice(exchange, token, k, id);
		stamp[id] = (uint32_t)token + 1;
	}
	*expert = (int32_t)id;
	return SHUNT_OK;
}

enum shunt_status route_count(
	struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);
	uint32_t *counts = exchange_counts(exchange, exchange->rank, step);
	size_t bytes = (size_t)shape->num_experts * sizeof(*counts);
	int32_t *expert = step->expert;
	enum shunt_status status;

	memset(counts, 0, bytes);
	if (shape->distinct)
		memset(exchange->scratch.stamp, 0, bytes);
	for (int64_t t = 0; t < step->dispatch.num_tokens; t++)
		for (int64_t k = 0; k < shape->topk; k++, expert++) {
			status = route_choice(exchange, step, t, k, expert);
			if (status != SHUNT_OK)
				return status;
			if (*expert >= 0)
				counts[*expert]++;
		}
	return SHUNT_OK;
}

/* ---- everybody's counts ----------------------------------------------- */

void route_begin(struct shunt_exchange *exchange, struct step *step)
{
	size_t bytes = (size_t)exchange_shape(exchange)->num_experts *
		       sizeof(uint32_t);

	memset(step->next_row, 0, bytes);
	memset(step->total, 0, bytes);
}

static bool counts_are_sound(const struct shape *shape,
	const struct step_head *head, uint64_t epoch, const uint32_t *counts)
{
	int64_t num_tokens = head->num_tokens;
	int64_t per_expert = num_tokens * (shape->distinct ? 1 : shape->topk);
	int64_t sum = 0;

	if (head->epoch != epoch || num_tokens < 0 ||
		num_tokens > shape->max_tokens)
		return false;
	for (int64_t e = 0; e < shape->num_experts; e++) {
		if (counts[e] > per_expert)
			return false;
		sum += counts[e];
	}
	return sum <= num_tokens * shape->topk;
}

/* Adds one rank's counts; those of lower ranks come before the own rows. */
static void add_counts(struct shunt_exchange *exchange, struct step *step,
	int32_t source, const uint32_t *counts)
{
	int64_t num_experts = exchange_shape(exchange)->num_experts;

	for (int64_t e = 0; e < num_experts; e++)
		step->total[e] += counts[e];
	if (source < exchange->rank)
		for (int64_t e = 0; e < num_experts; e++)
			step->next_row[e] += counts[e];
}

/* Notes what `source` sends to this rank's experts. */
static void note_blocks(struct shunt_exchange *exchange, struct step *step,
	int32_t source, const uint32_t *counts)
{
	const struct placement *placement = &exchange->accepted.placement;
	const int32_t *mine =
		placement->order + placement->first[exchange->rank];
	int64_t num_local = placement_num_local(placement, exchange->rank);
	int32_t num_ranks = placement->num_ranks;

	for (int64_t l = 0; l < num_local; l++)
		step->recv_counts[l * num_ranks + source] =
			(int32_t)counts[mine[l]];
}

void route_absorb(
	struct shunt_exchange *exchange, struct step *step, int32_t source)
{
	const struct shape *shape = exchange_shape(exchange);
	struct step_head *shared = exchange_head(exchange, source, step);
	struct step_head head = {
		.epoch = shared->epoch,
		.num_tokens = shared->num_tokens,
		.has_weights = shared->has_weights,
	};
	uint32_t *counts = exchange->scratch.counts;
	char name[48];

	memcpy(counts, exchange_counts(exchange, source, step),
		(size_t)shape->num_experts * sizeof(*counts));
	if (!counts_are_sound(shape, &head, step->epoch, counts)) {
		step_fail(step, SHUNT_PEER_FAULT, source,
			"%s sent counts out of range in step %llu: %lld tokens "
			"(must be 0 .. %lld), or more choices than they have",
			group_rank_text(exchange->group, source, name),
			(unsigned long long)step->epoch,
			(long long)head.num_tokens,
			(long long)shape->max_tokens);
		return;
	}
	step->weights_seen |=
		head.has_weights & (WEIGHTS_GIVEN | WEIGHTS_ABSENT);
	add_counts(exchange, step, source, counts);
	note_blocks(exchange, step, source, counts);
}

/* ---- offsets ---------------------------------------------------------- */

/* Places the rows of the experts of `rank`; false if they are too many. */
static bool place_rank(
	struct shunt_exchange *exchange, struct step *step, int32_t rank)
{
	const struct placement *placement = &exchange->accepted.placement;
	int64_t given = exchange->layouts[rank].recv_rows;
	int64_t rows = 0;
	char name[48];

	for (int64_t i = placement->first[rank]; i < placement->first[rank + 1];
		i++) {
		int32_t expert = placement->order[i];

		step->next_row[expert] += (uint32_t)rows;
		rows += step->total[expert];
	}
	if (rows <= given)
		return true;
	step_fail(step, SHUNT_CAPACITY, rank,
		"%s would receive %lld rows in step %llu, and max_recv_rows "
		"gives it %lld",
		group_rank_text(exchange->group, rank, name), (long long)rows,
		(unsigned long long)step->epoch, (long long)given);
	return false;
}

/* Makes counts of blocks into running totals, as ep_recv_counts has them. */
static void total_blocks(struct shunt_exchange *exchange, struct step *step)
{
	const struct layout *layout = &exchange->layouts[exchange->rank];
	int32_t num_ranks = exchange_shape(exchange)->num_ranks;
	int32_t *counts = step->recv_counts;
	int32_t total = 0;

	for (int64_t l = 0; l < layout->num_local; l++) {
		int32_t before = total;

		for (int32_t r = 0; r < num_ranks; r++, counts++) {
			total += *counts;
			*counts = total;
		}
		step->token_nums[l] = step->dispatch.prefix_token_nums
					      ? total
					      : total - before;
	}
	step->num_rows = total;
}

bool route_place(struct shunt_exchange *exchange, struct step *step)
{
	for (int32_t r = 0; r < exchange_shape(exchange)->num_ranks; r++)
		if (!place_rank(exchange, step, r))
			return false;
	total_blocks(exchange, step);
	return true;
}
