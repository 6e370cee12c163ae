/* What moves where in a step. */
#include <stdlib.h>

#include "plan.h"

/* ---- a receiver's rows ------------------------------------------------ */

static int64_t aligned(const struct plan *plan, int64_t rows)
{
	return (rows + plan->alignment - 1) / plan->alignment * plan->alignment;
}

/* The EP group whose rows come as number i. */
static int32_t group_at(const struct plan *plan, int32_t own, int32_t i)
{
	if (!plan->own_first)
		return i;
	if (i == 0)
		return own;
	return i <= own ? i - 1 : i;
}

/* Rows of member `source` for the expert that the load calls `expert` on
 * `rank`; both ranks are original. */
static int64_t block_rows(const struct plan *plan, int64_t step, int32_t source,
	int64_t expert, int32_t rank)
{
	const struct shape *shape = plan->load->shape;
	const int32_t *counts = load_at(plan->load, LOAD_COUNTS, step, source);
	int64_t shared = expert - shape->left_experts;

	if (shared >= 0 &&
		shape_replica(shape, shared, shape_rank(shape, source)) != rank)
		return 0;
	return counts[expert];
}

struct walk {
	const struct plan *plan;
	int64_t step;
	int32_t member; /* who receives */
	int64_t num_rows, extent, most_expert_rows;
	int32_t source;            /* -1, or whose first rows are wanted: */
	struct plan_target *first; /* (E' + s) */
};

static void walk_expert(struct walk *walk, int64_t expert)
{
	const struct plan *plan = walk->plan;
	const struct shape *shape = plan->load->shape;
	int32_t tp = shape_tp(shape, walk->member);
	int32_t rank = shape_rank(shape, walk->member);
	int64_t begin = walk->extent, row = begin;

	for (int32_t i = 0; i < shape->num_tp; i++)
		for (int32_t r = 0; r < shape->left_ranks; r++) {
			int32_t source = shape_member(shape,
				group_at(plan, tp, i), shape->old_of_new[r]);
			int64_t rows = block_rows(
				plan, walk->step, source, expert, rank);

			if (source == walk->source && rows > 0)
				walk->first[expert] = (struct plan_target){
					walk->member, (int32_t)row};
			row += rows;
		}
	walk->num_rows += row - begin;
	walk->extent = begin + aligned(plan, row - begin);
	if (row - begin > walk->most_expert_rows)
		walk->most_expert_rows = row - begin;
}

static void walk_member(struct walk *walk)
{
	const struct shape *shape = walk->plan->load->shape;
	int32_t rank = shape_rank(shape, walk->member);

	if (shape->new_of_old[rank] < 0)
		return;
	for (int64_t l = 0; l < shape_num_local(shape, rank); l++)
		walk_expert(walk, shape_new_local(shape, rank, l));
}

static struct walk walk_of(
	const struct plan *plan, int64_t step, int32_t member)
{
	struct walk walk = {
		.plan = plan,
		.step = step,
		.member = member,
		.source = -1,
	};

	walk_member(&walk);
	return walk;
}

int64_t plan_num_rows(const struct plan *plan, int64_t step, int32_t member)
{
	return walk_of(plan, step, member).num_rows;
}

int64_t plan_extent(const struct plan *plan, int64_t step, int32_t member)
{
	return walk_of(plan, step, member).extent;
}

int64_t plan_zero_rows(const struct plan *plan, int64_t step, int32_t member)
{
	struct walk walk = walk_of(plan, step, member);
	int32_t rank = shape_rank(plan->load->shape, member);

	if (plan->load->shape->new_of_old[rank] < 0)
		return 0;
	return (plan->capacity ? plan->capacity[rank] : walk.extent) -
	       walk.num_rows;
}

void plan_measure(struct plan *plan)
{
	for (int64_t step = 0; step < LOAD_STEPS; step++)
		for (int32_t m = 0; m < plan->load->shape->num_members; m++) {
			struct walk walk = walk_of(plan, step, m);

			if (walk.extent > plan->most_rows)
				plan->most_rows = walk.extent;
			if (walk.most_expert_rows > plan->most_expert_rows)
				plan->most_expert_rows = walk.most_expert_rows;
		}
}

/* ---- a sender's targets ----------------------------------------------- */

int64_t plan_num_targets(const struct plan *plan)
{
	return (plan->load->topk + plan->load->shape->num_shared) *
	       plan->load->shape->num_tp;
}

int64_t plan_kept_rows(const struct plan *plan)
{
	return plan->varies ? plan->load->topk + plan->load->shape->num_shared
			    : 1;
}

/* next[(tp, expert)] = the row of the member's first choice of an expert. */
static void find_first(const struct plan *plan, int64_t step, int32_t member,
	struct plan_target *next)
{
	const struct shape *shape = plan->load->shape;
	int64_t width = shape->left_experts + shape->num_shared;

	for (int32_t to = 0; to < shape->num_members; to++) {
		struct walk walk = {
			.plan = plan,
			.step = step,
			.member = to,
			.source = member,
			.first = next + shape_tp(shape, to) * width,
		};

		walk_member(&walk);
	}
}

/* The expert of place k of a token, K + j for shared expert j; or -1. */
static int64_t expert_at(const struct plan *plan, int64_t step, int32_t member,
	int64_t t, int64_t k)
{
	const struct load *load = plan->load;

	if (k < load->topk)
		return load_expert(load, step, member, t * load->topk + k);
	if (!load_is_active(load, step, member, t))
		return -1;
	return load->shape->left_experts + k - load->topk;
}

bool plan_targets(const struct plan *plan, int64_t step, int32_t member,
	struct plan_target *targets)
{
	const struct load *load = plan->load;
	const struct shape *shape = load->shape;
	int64_t width = shape->left_experts + shape->num_shared;
	int64_t places = load->topk + shape->num_shared;
	struct plan_target *next =
		calloc((size_t)(width * shape->num_tp) + 1, sizeof(next[0]));
	bool left_out = shape_new_rank(shape, member) < 0;

	if (!next)
		return false;
	find_first(plan, step, member, next);
	for (int64_t i = 0; i < load->num_tokens * places; i++) {
		int64_t expert =
			expert_at(plan, step, member, i / places, i % places);

		for (int32_t tp = 0; tp < shape->num_tp; tp++, targets++) {
			*targets = (struct plan_target){-1, 0};
			if (expert < 0 || left_out)
				continue;
			*targets = next[tp * width + expert];
			next[tp * width + expert].row++;
		}
	}
	free(next);
	return true;
}

/* ---- bytes ------------------------------------------------------------ */

bool plan_reads_ori_x(
	const struct plan *plan, int64_t step, int32_t member, int64_t t)
{
	const struct load *load = plan->load;
	int64_t end = load->shape->left_experts + load->shape->num_special;

	for (int64_t k = 0; k < load->topk; k++) {
		int64_t id =
			load_choice(load, step, member, t * load->topk + k);

		if (id >= load->first_copy && id < end)
			return true;
	}
	return false;
}

/* What a member's tokens ask for. */
struct wishes {
	int64_t rows;   /* of experts, for one EP group */
	int64_t tokens; /* that go anywhere */
	int64_t active, ori_x;
};

static struct wishes wishes_of(
	const struct plan *plan, int64_t step, int32_t member)
{
	const struct load *load = plan->load;
	int64_t places = load->topk + load->shape->num_shared;
	struct wishes wishes = {0};

	for (int64_t t = 0; t < load->num_tokens; t++) {
		int64_t rows = 0;

		for (int64_t k = 0; k < places; k++)
			rows += expert_at(plan, step, member, t, k) >= 0;
		wishes.rows += rows;
		wishes.tokens += rows > 0;
		wishes.active += load_is_active(load, step, member, t);
		wishes.ori_x += plan_reads_ori_x(plan, step, member, t);
	}
	return wishes;
}

int64_t plan_dispatch_bytes(
	const struct plan *plan, int64_t step, int32_t member)
{
	const struct load *load = plan->load;
	struct wishes wishes = wishes_of(plan, step, member);
	int64_t rows = wishes.rows * load->shape->num_tp, copies = rows;
	int64_t zeros = plan_zero_rows(plan, step, member);

	if (shape_new_rank(load->shape, member) < 0)
		return 0;
	if (plan->indexed)
		copies = plan->varies ? wishes.rows : wishes.tokens;
	return wishes.tokens * (load->x_row_bytes + load->x_scale_bytes) +
	       copies * plan->row_bytes + rows * plan->scale_bytes +
	       zeros * ((plan->indexed ? 0 : plan->row_bytes) +
			       plan->scale_bytes);
}

int64_t plan_combine_bytes(
	const struct plan *plan, int64_t step, int32_t member)
{
	const struct load *load = plan->load;
	struct wishes wishes = wishes_of(plan, step, member);
	int64_t rows = wishes.rows * (plan->one_home ? 1 : load->shape->num_tp);
	int64_t out = 1 + plan->residual + plan->norm;
	int64_t given = wishes.ori_x;

	if (shape_new_rank(load->shape, member) < 0)
		return 0;
	if (load_at(load, LOAD_SHARED_X, step, member))
		given += wishes.active;
	return rows * plan->home_bytes + given * load->expert_bytes +
	       load->num_tokens * out * load->out_bytes;
}
