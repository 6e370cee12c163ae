/* Placement of experts; see placement.h. */
#include "exchange/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Experts in order, the first E mod W ranks holding one more. */
static void place_evenly(struct placement *placement)
{
	int64_t share = placement->num_experts / placement->num_ranks;
	int64_t more = placement->num_experts % placement->num_ranks;
	int64_t expert = 0;

	for (int32_t r = 0; r < placement->num_ranks; r++)
		for (int64_t i = 0; i < share + (r < more); i++)
			placement->rank[expert++] = r;
}

static enum shunt_status place_by_map(
	struct placement *placement, const int32_t *map, int32_t rank)
{
	for (int64_t e = 0; e < placement->num_experts; e++) {
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
static enum shunt_status place_range(struct placement *placement, int32_t owner,
	int64_t first, int64_t count, int32_t rank)
{
	int64_t num_experts = placement->num_experts;

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
	const int64_t *first, const int64_t *count, int32_t rank)
{
	enum shunt_status status = SHUNT_OK;

	for (int64_t e = 0; e < placement->num_experts; e++)
		placement->rank[e] = -1;
	for (int32_t r = 0; r < placement->num_ranks && !status; r++)
		status = place_range(placement, r, first[r], count[r], rank);
	if (status != SHUNT_OK)
		return status;
	for (int64_t e = 0; e < placement->num_experts; e++)
		if (placement->rank[e] < 0)
			return error_set(SHUNT_INVALID,
				"first_expert and expert_count leave out "
				"expert %lld of 0 .. %lld (rank %d)",
				(long long)e,
				(long long)placement->num_experts - 1, rank);
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
		return place_by_map(placement, config->expert_rank, rank);
	if (config->first_expert)
		return place_by_ranges(placement, config->first_expert,
			config->expert_count, rank);
	place_evenly(placement);
	return SHUNT_OK;
}

/* Sorts experts by rank, keeping ids ascending: a counting sort. */
static void build_order(struct placement *placement)
{
	int64_t *first = placement->first;

	for (int64_t e = 0; e < placement->num_experts; e++)
		first[placement->rank[e] + 1]++;
	for (int32_t r = 0; r < placement->num_ranks; r++)
		first[r + 1] += first[r];
	for (int64_t e = 0; e < placement->num_experts; e++)
		placement->order[first[placement->rank[e]]++] = (int32_t)e;
	for (int32_t r = placement->num_ranks; r > 0; r--)
		first[r] = first[r - 1];
	first[0] = 0;
}

enum shunt_status placement_init(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks)
{
	size_t num_experts = (size_t)config->num_experts;
	enum shunt_status status;

	*placement = (struct placement){
		.num_ranks = num_ranks,
		.num_experts = config->num_experts,
		.rank = calloc(num_experts, sizeof(int32_t)),
		.first = calloc((size_t)num_ranks + 1, sizeof(int64_t)),
		.order = calloc(num_experts, sizeof(int32_t)),
	};
	if (!placement->rank || !placement->first || !placement->order)
		status = error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory to place %lld experts", rank,
			(long long)config->num_experts);
	else
		status = place(placement, config, rank);
	if (status != SHUNT_OK) {
		placement_fini(placement);
		return status;
	}
	build_order(placement);
	return SHUNT_OK;
}

void placement_fini(struct placement *placement)
{
	free(placement->rank);
	free(placement->first);
	free(placement->order);
	*placement = (struct placement){0};
}
