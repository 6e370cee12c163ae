/* Placement of experts; see placement.h. */
#include "exchange/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Experts in order over the MoE ranks, the first of them holding one more. */
static void place_evenly(
	struct placement *placement, const struct shunt_exchange_config *config)
{
	int32_t ranks = placement->num_ranks - config->num_shared_ranks;
	int64_t share = config->num_experts / ranks;
	int64_t more = config->num_experts % ranks;
	int64_t expert = 0;

	for (int32_t r = 0; r < ranks; r++)
		for (int64_t i = 0; i < share + (r < more); i++)
			placement->rank[expert++] =
				config->num_shared_ranks + r;
}

static enum shunt_status place_by_map(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank)
{
	const int32_t *map = config->expert_rank;

	for (int64_t e = 0; e < config->num_experts; e++) {
		if (map[e] < 0 || map[e] >= placement->num_ranks)
			return error_set(SHUNT_INVALID,
				"expert_rank[%lld] is %d, must be 0 .. %d "
				"(rank %d)",
				(long long)e, map[e], placement->num_ranks - 1,
				rank);
		placement->rank[e] = map[e];
	}
	return SHUNT_OK;
}

/* One rank's range of experts, which nobody may have taken before. */
static enum shunt_status place_range(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t owner, int32_t rank)
{
	int64_t num_experts = config->num_experts;
	int64_t first = config->first_expert[owner];
	int64_t count = config->expert_count[owner];

	if (count < 0 || count > num_experts || first < 0 ||
		first > num_experts - count)
		return error_set(SHUNT_INVALID,
			"first_expert[%d] %lld with expert_count[%d] %lld "
			"leaves 0 .. %lld (rank %d)",
			owner, (long long)first, owner, (long long)count,
			(long long)num_experts - 1, rank);
	for (int64_t e = first; e < first + count; e++) {
		if (placement->rank[e] >= 0)
			return error_set(SHUNT_INVALID,
				"expert %lld is in the ranges of ranks %d and "
				"%d (rank %d)",
				(long long)e, placement->rank[e], owner, rank);
		placement->rank[e] = owner;
	}
	return SHUNT_OK;
}

static enum shunt_status place_by_ranges(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank)
{
	enum shunt_status status = SHUNT_OK;

	for (int64_t e = 0; e < config->num_experts; e++)
		placement->rank[e] = -1;
	for (int32_t r = 0; r < placement->num_ranks && !status; r++)
		status = place_range(placement, config, r, rank);
	if (status != SHUNT_OK)
		return status;
	for (int64_t e = 0; e < config->num_experts; e++)
		if (placement->rank[e] < 0)
			return error_set(SHUNT_INVALID,
				"first_expert and expert_count leave out "
				"expert %lld of 0 .. %lld (rank %d)",
				(long long)e,
				(long long)config->num_experts - 1, rank);
	return SHUNT_OK;
}

/* Shared ranks hold nothing but their shared expert. */
static enum shunt_status place_shared(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank)
{
	for (int64_t e = 0; e < config->num_experts; e++)
		if (placement->rank[e] < config->num_shared_ranks)
			return error_set(SHUNT_INVALID,
				"expert %lld is placed on rank %d, must be on "
				"%d .. %d: the ranks before hold shared "
				"experts (rank %d)",
				(long long)e, placement->rank[e],
				config->num_shared_ranks,
				placement->num_ranks - 1, rank);
	for (int32_t i = 0; i < config->num_shared_ranks; i++)
		placement->rank[config->num_experts + i] = i;
	return SHUNT_OK;
}

static enum shunt_status place(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank)
{
	if (config->expert_rank &&
		(config->first_expert || config->expert_count))
		return error_set(SHUNT_INVALID,
			"expert_rank is given together with first_expert or "
			"expert_count; one placement only (rank %d)",
			rank);
	if (!config->first_expert != !config->expert_count)
		return error_set(SHUNT_NULL_ARGUMENT,
			"%s is NULL; first_expert and expert_count go together "
			"(rank %d)",
			config->first_expert ? "expert_count" : "first_expert",
			rank);
	if (config->expert_rank)
		return place_by_map(placement, config, rank);
	if (config->first_expert)
		return place_by_ranges(placement, config, rank);
	place_evenly(placement, config);
	return SHUNT_OK;
}

/* Sorts units by rank, keeping numbers ascending: a counting sort. */
void placement_order(
	struct placement *placement, int32_t num_ranks, int64_t num_units)
{
	int64_t *first = placement->first;

	placement->num_ranks = num_ranks;
	placement->num_units = num_units;
	memset(first, 0, ((size_t)num_ranks + 1) * sizeof(*first));
	for (int64_t u = 0; u < num_units; u++)
		first[placement->rank[u] + 1]++;
	for (int32_t r = 0; r < num_ranks; r++)
		first[r + 1] += first[r];
	for (int64_t u = 0; u < num_units; u++)
		placement->order[first[placement->rank[u]]++] = (int32_t)u;
	for (int32_t r = num_ranks; r > 0; r--)
		first[r] = first[r - 1];
	first[0] = 0;
}

enum shunt_status placement_alloc(struct placement *placement,
	int32_t num_ranks, int64_t num_units, int32_t rank)
{
	size_t units = (size_t)num_units + 1; /* E may be 0 */

	*placement = (struct placement){
		.num_ranks = num_ranks,
		.num_units = num_units,
		.rank = calloc(units, sizeof(int32_t)),
		.first = calloc((size_t)num_ranks + 1, sizeof(int64_t)),
		.order = calloc(units, sizeof(int32_t)),
	};
	if (placement->rank && placement->first && placement->order)
		return SHUNT_OK;
	return error_set(SHUNT_NO_MEMORY,
		"rank %d: no memory to place %lld experts", rank,
		(long long)num_units);
}

uint64_t placement_bytes(int32_t num_ranks, int64_t num_units)
{
	return ((uint64_t)num_units + 1) * 2 * sizeof(int32_t) +
	       ((uint64_t)num_ranks + 1) * sizeof(int64_t);
}

void placement_copy(struct placement *to, const struct placement *from)
{
	size_t units = (size_t)from->num_units;

	to->num_ranks = from->num_ranks;
	to->num_units = from->num_units;
	memcpy(to->rank, from->rank, units * sizeof(*to->rank));
	memcpy(to->order, from->order, units * sizeof(*to->order));
	memcpy(to->first, from->first,
		((size_t)from->num_ranks + 1) * sizeof(*to->first));
}

enum shunt_status placement_init(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks)
{
	int64_t num_units = config->num_experts + config->num_shared_ranks;
	enum shunt_status status =
		placement_alloc(placement, num_ranks, num_units, rank);

	if (status == SHUNT_OK)
		status = place(placement, config, rank);
	if (status == SHUNT_OK)
		status = place_shared(placement, config, rank);
	if (status != SHUNT_OK) {
		placement_fini(placement);
		return status;
	}
	placement_order(placement, num_ranks, num_units);
	return SHUNT_OK;
}

void placement_fini(struct placement *placement)
{
	free(placement->rank);
	free(placement->first);
	free(placement->order);
	*placement = (struct placement){0};
}
