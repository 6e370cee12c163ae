/* Drawing the cases of the sweep. */
#include "support/sweep.h"

#include <stdlib.h>

#include "reference/convert.h"

/* Elements of all windows of a case, about; keeps cases small. */
#define MOST_ELEMENTS (1 << 20)
#define MOST_SMOOTH   (1 << 16)

/* What a case draws; step draws add the step to the index. */
enum draw {
	DRAW_BIG = 5000,
	DRAW_HIDDEN,
	DRAW_TOPK,
	DRAW_EXPERTS,
	DRAW_TOKENS,
	DRAW_DTYPE,
	DRAW_EXPERT_DTYPE,
	DRAW_QUANT,
	DRAW_BAD_ID,
	DRAW_DISTINCT,
	DRAW_DEPTH,
	DRAW_PLACEMENT,
	DRAW_PLACE,
	DRAW_GROUPS,
	DRAW_FLOW,
	DRAW_ORDER,
	DRAW_WEIGHTS,
	DRAW_STYLE,
	DRAW_ROUTING,
	DRAW_STEP_TOKENS,
	DRAW_NONE,
	DRAW_SPOIL,
	DRAW_MASK,
	DRAW_SMOOTH,
	DRAW_OUT_DTYPE,
	DRAW_REFUSE,
	DRAW_REFUSERS
};

static int64_t draw(const struct sweep_case *sweep, enum draw what,
	int64_t index, int64_t low, int64_t high)
{
	struct input_key key = {sweep->seed, sweep->number, sweep->num_ranks};

	return input_range(&key, what, (uint64_t)index, low, high);
}

static bool chance(const struct sweep_case *sweep, enum draw what,
	int64_t index, int percent)
{
	return draw(sweep, what, index, 0, 99) < percent;
}

static int64_t choose(const struct sweep_case *sweep, enum draw what,
	const int64_t *list, size_t count)
{
	return list[draw(sweep, what, 0, 0, (int64_t)count - 1)];
}

#define CHOOSE(sweep, what, ...)                            \
	choose(sweep, what, (const int64_t[]){__VA_ARGS__}, \
		sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- the shape -------------------------------------------------------- */

static void draw_shape(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;
	int64_t ranks = sweep->num_ranks, row;
	bool big = chance(sweep, DRAW_BIG, 0, 4);

	config->hidden =
		big ? CHOOSE(sweep, DRAW_HIDDEN, 1536, 2880, 3584, 7168, 7169)
		    : CHOOSE(sweep, DRAW_HIDDEN, 1, 3, 31, 64, 127, 128, 129,
			      257, 512);
	config->topk = CHOOSE(
		sweep, DRAW_TOPK, 1, 2, 2, 3, 6, 8, 8, 10, 11, 16, 22, 32);
	config->num_experts = CHOOSE(sweep, DRAW_EXPERTS, 1, 2, 3, 7, 8, 16, 33,
		64, 257, ranks, ranks + 1, 2 * ranks - 1, 4 * ranks);
	if (chance(sweep, DRAW_BIG, 1, 3))
		config->num_experts = 4096;
	config->max_tokens =
		chance(sweep, DRAW_TOKENS, 1, 2)
			? 0
			: CHOOSE(sweep, DRAW_TOKENS, 1, 2, 5, 9, 17, 32);
	row = ranks * ranks * config->topk * config->hidden;
	while (config->max_tokens > 1 &&
		config->max_tokens * row > MOST_ELEMENTS)
		config->max_tokens /= 2;
}

static void draw_types(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;

	config->dtype = (enum shunt_dtype)draw(
		sweep, DRAW_DTYPE, 0, SHUNT_DTYPE_F32, SHUNT_DTYPE_BF16);
	config->expert_dtype = (enum shunt_dtype)draw(
		sweep, DRAW_EXPERT_DTYPE, 0, SHUNT_DTYPE_F32, SHUNT_DTYPE_BF16);
	if (chance(sweep, DRAW_QUANT, 0, 50))
		config->quant = SHUNT_QUANT_INT8;
	if (chance(sweep, DRAW_BAD_ID, 0, 50))
		config->bad_id = SHUNT_BAD_ID_DROP;
	config->distinct_experts = chance(sweep, DRAW_DISTINCT, 0, 30);
	config->depth = (int32_t)draw(sweep, DRAW_DEPTH, 0, 0, SWEEP_MAX_DEPTH);
	config->algorithm = chance(sweep, DRAW_DEPTH, 1, 50)
				    ? SHUNT_ALGORITHM_AUTO
				    : SHUNT_ALGORITHM_FULLMESH;
}

/* ---- the placement ---------------------------------------------------- */

/* Every expert anywhere. */
static bool draw_full_map(struct sweep_case *sweep)
{
	int64_t experts = sweep->config.num_experts;

	sweep->full_map = malloc((size_t)experts * sizeof(int32_t));
	if (sweep->full_map == NULL)
		return false;
	for (int64_t e = 0; e < experts; e++)
		sweep->full_map[e] = (int32_t)draw(
			sweep, DRAW_PLACE, e, 0, sweep->num_ranks - 1);
	sweep->config.expert_rank = sweep->full_map;
	return true;
}

/* Ranges of random lengths, handed to the ranks in a random order. */
static bool draw_ranges(struct sweep_case *sweep)
{
	int64_t ranks = sweep->num_ranks, left = sweep->config.num_experts;
	int64_t first = 0, count, order[RANKS_MAX];

	sweep->first_expert = calloc((size_t)ranks, sizeof(int64_t));
	sweep->expert_count = calloc((size_t)ranks, sizeof(int64_t));
	if (sweep->first_expert == NULL || sweep->expert_count == NULL)
		return false;
	sweep_order(sweep, 0, 99, ranks, order);
	for (int64_t i = 0; i < ranks; i++) {
		count = draw(sweep, DRAW_PLACE, i, 0, left);
		if (i == ranks - 1)
			count = left;
		sweep->first_expert[order[i]] = first;
		sweep->expert_count[order[i]] = count;
		first += count;
		left -= count;
	}
	sweep->config.first_expert = sweep->first_expert;
	sweep->config.expert_count = sweep->expert_count;
	return true;
}

static bool draw_placement(struct sweep_case *sweep)
{
	int64_t kind = draw(sweep, DRAW_PLACEMENT, 0, 0, 3);
	bool done = true;

	if (kind == 0)
		done = draw_full_map(sweep);
	if (kind == 1)
		done = draw_ranges(sweep);
	sweep->expert_rank =
		malloc((size_t)sweep->config.num_experts * sizeof(int32_t));
	if (!done || sweep->expert_rank == NULL)
		return false;
	reference_place(&sweep->config, sweep->num_ranks, sweep->expert_rank);
	return true;
}

bool sweep_case_init(struct sweep_case *sweep, uint64_t seed, int32_t num_ranks,
	int64_t number)
{
	*sweep = (struct sweep_case){
		.seed = seed,
		.num_ranks = num_ranks,
		.number = number,
		.config = SHUNT_EXCHANGE_CONFIG_INIT,
	};
	draw_shape(sweep);
	draw_types(sweep);
	sweep->num_groups = draw(sweep, DRAW_GROUPS, 0, 1, 3);
	return draw_placement(sweep);
}

void sweep_case_fini(struct sweep_case *sweep)
{
	free(sweep->expert_rank);
	free(sweep->first_expert);
	free(sweep->expert_count);
	free(sweep->full_map);
}

/* ---- steps ------------------------------------------------------------ */

int64_t sweep_depth(const struct sweep_case *sweep)
{
	return sweep->config.depth == 0 ? 2 : sweep->config.depth;
}

enum sweep_flow sweep_flow(const struct sweep_case *sweep, int64_t group)
{
	return (enum sweep_flow)draw(
		sweep, DRAW_FLOW, group, 0, SWEEP_NUM_FLOWS - 1);
}

void sweep_order(const struct sweep_case *sweep, int32_t rank, int64_t salt,
	int64_t count, int64_t *order)
{
	int64_t j, kept;

	for (int64_t i = 0; i < count; i++)
		order[i] = i;
	for (int64_t i = count - 1; i > 0; i--) {
		j = draw(sweep, DRAW_ORDER, (salt * 1024 + rank) * 1024 + i, 0,
			i);
		kept = order[i];
		order[i] = order[j];
		order[j] = kept;
	}
}

static void draw_routing(
	const struct sweep_case *sweep, int64_t step, struct trial_rule *rule)
{
	rule->tokens =
		chance(sweep, DRAW_STEP_TOKENS, step, 70)
			? TRIAL_TOKENS_RANDOM
			: (enum trial_tokens)draw(sweep, DRAW_STEP_TOKENS,
				  ~step, 0, TRIAL_TOKENS_NUM - 1);
	rule->style = (enum input_style)draw(
		sweep, DRAW_STYLE, step, 0, INPUT_NUM_STYLES - 1);
	rule->routing = chance(sweep, DRAW_ROUTING, step, 60)
				? INPUT_UNIFORM
				: (enum input_routing)draw(sweep, DRAW_ROUTING,
					  ~step, 0, INPUT_NUM_ROUTINGS - 1);
	if (chance(sweep, DRAW_NONE, step, 40))
		rule->percent_none = (int)draw(sweep, DRAW_NONE, ~step, 1, 100);
	if (sweep->config.bad_id == SHUNT_BAD_ID_DROP &&
		chance(sweep, DRAW_SPOIL, step, 50))
		rule->percent_bad = (int)draw(sweep, DRAW_SPOIL, ~step, 1, 60);
	rule->mask = (enum shunt_mask)draw(
		sweep, DRAW_MASK, step, 0, SHUNT_MASK_CHOICES);
	rule->percent_masked = (int)draw(sweep, DRAW_MASK, ~step, 0, 100);
}

struct trial_rule sweep_rule(const struct sweep_case *sweep, int64_t step)
{
	const struct shunt_exchange_config *config = &sweep->config;
	struct trial_rule rule = {
		.seed = sweep->seed ^ (uint64_t)sweep->number << 20,
		.step = step,
		.num_ranks = sweep->num_ranks,
		.config = config,
		.expert_rank = sweep->expert_rank,
	};

	draw_routing(sweep, step, &rule);
	rule.weights_at_dispatch = chance(sweep, DRAW_WEIGHTS, step, 60);
	rule.weights_at_combine = chance(sweep, DRAW_WEIGHTS, ~step, 30);
	rule.smooth = config->quant == SHUNT_QUANT_INT8 &&
		      config->num_experts * config->hidden <= MOST_SMOOTH &&
		      chance(sweep, DRAW_SMOOTH, step, 50);
	rule.out_dtype = (enum shunt_dtype)draw(sweep, DRAW_OUT_DTYPE, step,
		SHUNT_DTYPE_NONE, SHUNT_DTYPE_BF16);
	if (chance(sweep, DRAW_REFUSE, step, 10))
		rule.refusers = (uint64_t)draw(sweep, DRAW_REFUSERS, step, 1,
			(INT64_C(1) << sweep->num_ranks) - 1);
	return rule;
}
