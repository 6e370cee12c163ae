/* Who is there and who holds what. */
#include <stdio.h>
#include <stdlib.h>

#include "shape.h"

/* ---- memory ----------------------------------------------------------- */

static bool take_memory(struct shape *shape, bool elastic)
{
	size_t ranks = (size_t)shape->num_ranks;
	size_t experts = (size_t)shape->num_experts;
	int64_t *longs = calloc(3 * ranks + 1 + experts, sizeof(*longs));
	int32_t *ints = calloc(experts + 4 + 4 * ranks, sizeof(*ints));

	shape->first_local = longs;
	shape->expert_rank = ints;
	if (!longs || !ints)
		return false;
	shape->range_first = longs + ranks + 1;
	shape->range_count = shape->range_first + ranks;
	shape->locals = shape->range_count + ranks;
	shape->old_of_new = ints + experts;
	shape->new_of_old = shape->old_of_new + ranks;
	if (elastic)
		shape->table = shape->new_of_old + ranks;
	return true;
}

void shape_fini(struct shape *shape)
{
	free(shape->first_local);
	free(shape->expert_rank);
	*shape = (struct shape){0};
}

/* ---- placement -------------------------------------------------------- */

/* Ranges in order of the ranks, or from the last to the first. */
static void place_ranges(struct shape *shape, bool backward)
{
	int32_t ranks = shape->num_ranks - shape->num_shared_ranks;
	int64_t next = 0;

	for (int32_t i = 0; i < ranks; i++) {
		int64_t count = shape->num_experts / ranks +
				(i < shape->num_experts % ranks);
		int32_t rank = backward ? shape->num_ranks - 1 - i
					: shape->num_shared_ranks + i;

		shape->range_first[rank] = next;
		shape->range_count[rank] = count;
		for (; count > 0; count--)
			shape->expert_rank[next++] = rank;
	}
}

static void deal_out(struct shape *shape)
{
	int32_t ranks = shape->num_ranks - shape->num_shared_ranks;

	for (int64_t e = 0; e < shape->num_experts; e++)
		shape->expert_rank[e] =
			shape->num_shared_ranks + (int32_t)(e % ranks);
}

static void list_locals(struct shape *shape)
{
	int64_t next = 0;

	for (int32_t rank = 0; rank < shape->num_ranks; rank++) {
		shape->first_local[rank] = next;
		for (int64_t e = 0; e < shape->num_experts; e++)
			if (shape->expert_rank[e] == rank)
				shape->locals[next++] = e;
	}
	shape->first_local[shape->num_ranks] = next;
}

int64_t shape_num_local(const struct shape *shape, int32_t rank)
{
	if (rank < shape->num_shared_ranks)
		return 1;
	return shape->first_local[rank + 1] - shape->first_local[rank];
}

int64_t shape_local(const struct shape *shape, int32_t rank, int64_t local)
{
	if (rank < shape->num_shared_ranks)
		return shape->num_experts +
		       rank / (shape->num_shared_ranks / shape->num_shared);
	return shape->locals[shape->first_local[rank] + local];
}

/* ---- who is left ------------------------------------------------------ */

static void number_ranks(struct shape *shape, const struct options *options)
{
	int32_t next = 0;

	for (int32_t rank = 0; rank < shape->num_ranks; rank++) {
		shape->new_of_old[rank] = -1;
		if (options->left_out[rank])
			continue;
		shape->new_of_old[rank] = next;
		shape->old_of_new[next++] = rank;
		shape->left_shared_ranks += rank < shape->num_shared_ranks;
		if (rank >= shape->num_shared_ranks)
			shape->left_experts += shape_num_local(shape, rank);
	}
	shape->left_ranks = next;
}

static void write_table(struct shape *shape)
{
	int32_t *table = shape->table;
	int32_t ranks = shape->num_ranks;

	table[0] = 1;
	table[1] = shape->left_ranks;
	table[2] = shape->left_shared_ranks;
	table[3] = (int32_t)shape->left_experts;
	for (int32_t i = 0; i < ranks; i++) {
		table[4 + i] = shape->new_of_old[i];
		table[4 + ranks + i] =
			i < shape->left_ranks ? shape->old_of_new[i] : -1;
	}
}

/* What the load takes for granted; the library has more to say. */
static bool table_fits(const struct shape *shape, char error[ROUTING_ERROR])
{
	int32_t moe = shape->num_ranks - shape->num_shared_ranks;

	if (shape->num_experts % moe) {
		snprintf(error, ROUTING_ERROR,
			"--elastic: needs --experts (%lld) that %d ranks can "
			"share evenly",
			(long long)shape->num_experts, moe);
		return false;
	}
	if (shape->num_shared == 0 ||
		(shape->left_shared_ranks > 0 &&
			shape->left_shared_ranks % shape->num_shared == 0))
		return true;
	snprintf(error, ROUTING_ERROR,
		"--elastic: must leave as many ranks of each of the %lld "
		"shared experts",
		(long long)shape->num_shared);
	return false;
}

int64_t shape_new_local(const struct shape *shape, int32_t rank, int64_t local)
{
	int64_t expert = shape_local(shape, rank, local);
	int64_t gone = shape->num_experts - shape->left_experts;
	int32_t new_rank = shape->new_of_old[rank];

	if (!shape->table)
		return expert;
	if (rank < shape->num_shared_ranks)
		return expert - gone;
	return (new_rank - shape->left_shared_ranks) *
		       shape_num_local(shape, rank) +
	       local;
}

int32_t shape_replica(const struct shape *shape, int64_t j, int32_t rank)
{
	int32_t replicas =
		shape->left_shared_ranks / (int32_t)shape->num_shared;

	return shape->old_of_new[(int32_t)j * replicas +
				 shape->new_of_old[rank] % replicas];
}

/* ---- the whole -------------------------------------------------------- */

static void set_sizes(struct shape *shape, const struct options *options)
{
	*shape = (struct shape){
		.num_members = (int32_t)options->num_ranks,
		.num_tp = (int32_t)options->num_tp,
		.num_ranks = (int32_t)options_group_size(options),
		.num_shared_ranks = (int32_t)options->num_shared_ranks,
		.num_experts = options->num_experts,
		.num_special = options->num_zero + options->num_copy +
			       options->num_constant,
	};
	if (shape->num_shared_ranks > 0)
		shape->num_shared = options->num_shared;
}

bool shape_init(struct shape *shape, const struct options *options,
	char error[ROUTING_ERROR])
{
	set_sizes(shape, options);
	if (!take_memory(shape, options->elastic_text != NULL)) {
		snprintf(error, ROUTING_ERROR, "out of memory");
		return false;
	}
	if (options->placement == OPTIONS_PLACEMENT_MAP)
		deal_out(shape);
	else
		place_ranges(
			shape, options->placement == OPTIONS_PLACEMENT_RANGES);
	list_locals(shape);
	number_ranks(shape, options);
	if (!shape->table)
		return true;
	write_table(shape);
	return table_fits(shape, error);
}
