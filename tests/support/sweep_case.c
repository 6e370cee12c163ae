/* Drawing the cases of the sweep: what an exchange is like. */
#include "support/sweep.h"

#include <stdlib.h>

/* Elements of all windows of a case, about; keeps cases small. */
#define MOST_ELEMENTS (1 << 20)

int64_t sweep_draw(const struct sweep_case *sweep, enum sweep_draw what,
	int64_t index, int64_t low, int64_t high)
{
	struct input_key key = {sweep->seed, sweep->number, sweep->num_seats};

	return input_range(&key, what, (uint64_t)index, low, high);
}

bool sweep_chance(const struct sweep_case *sweep, enum sweep_draw what,
	int64_t index, int percent)
{
	return sweep_draw(sweep, what, index, 0, 99) < percent;
}

static int64_t choose(const struct sweep_case *sweep, enum sweep_draw what,
	const int64_t *list, size_t count)
{
	return list[sweep_draw(sweep, what, 0, 0, (int64_t)count - 1)];
}

#define CHOOSE(sweep, what, ...)                            \
	choose(sweep, what, (const int64_t[]){__VA_ARGS__}, \
		sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- ranks ------------------------------------------------------------ */

static void draw_ranks(struct sweep_case *sweep)
{
	int32_t tp = (int32_t)sweep_draw(sweep, DRAW_TP, 1, 2, 3);
	int64_t order[SWEEP_MAX_SEATS];

	sweep->num_tp = 1;
	if (sweep->num_seats % tp == 0 && sweep_chance(sweep, DRAW_TP, 0, 40))
		sweep->num_tp = tp;
	sweep->num_ranks = sweep->num_seats / sweep->num_tp;
	sweep->shuffled = sweep_chance(sweep, DRAW_MEMBERS, 0, 15);
	sweep_order(sweep, 0, 98, sweep->num_seats, order);
	for (int32_t i = 0; i < sweep->num_seats; i++)
		sweep->members[i] = sweep->shuffled ? (int32_t)order[i] : i;
}

/* s and S; the MoE ranks come after. */
static void draw_shared(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;
	int32_t ranks = sweep->num_ranks, experts, replicas;

	config->num_shared_experts = sweep_draw(sweep, DRAW_SHARED, 4, 0, 1);
	if (ranks < 2 || !sweep_chance(sweep, DRAW_SHARED, 0, 35))
		return;
	experts = (int32_t)sweep_draw(
		sweep, DRAW_SHARED, 1, 1, ranks < 4 ? ranks - 1 : 3);
	replicas = (int32_t)sweep_draw(
		sweep, DRAW_SHARED, 2, 1, (ranks - 1) / experts);
	config->num_shared_experts = experts;
	config->num_shared_ranks = experts * replicas;
}

static void draw_special(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;

	if (!sweep_chance(sweep, DRAW_SPECIAL, 0, 40))
		return;
	config->num_zero_experts = sweep_draw(sweep, DRAW_SPECIAL, 1, 0, 2);
	config->num_copy_experts = sweep_draw(sweep, DRAW_SPECIAL, 2, 0, 2);
	config->num_constant_experts = sweep_draw(sweep, DRAW_SPECIAL, 3, 0, 2);
	if (config->num_zero_experts + config->num_copy_experts +
				config->num_constant_experts >
			0 &&
		sweep_chance(sweep, DRAW_SPECIAL, 4, 10))
		config->num_experts = 0;
}

/* ---- the shape -------------------------------------------------------- */

static void draw_shape(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;
	int64_t ranks = sweep->num_ranks, seats = sweep->num_seats, row;
	bool big = sweep_chance(sweep, DRAW_BIG, 0, 3);

	config->hidden =
		big ? CHOOSE(sweep, DRAW_HIDDEN, 1536, 2880, 3584, 7168, 7169)
		    : CHOOSE(sweep, DRAW_HIDDEN, 1, 3, 15, 16, 31, 33, 64, 65,
			      127, 128, 129, 257, 300);
	config->topk = CHOOSE(
		sweep, DRAW_TOPK, 1, 2, 2, 3, 4, 6, 8, 8, 10, 11, 16, 22);
	config->num_experts = CHOOSE(sweep, DRAW_EXPERTS, 1, 2, 3, 7, 8, 16, 33,
		64, ranks, ranks + 1, 2 * ranks - 1, 4 * ranks);
	if (sweep_chance(sweep, DRAW_BIG, 1, 2))
		config->num_experts = 1024;
	config->max_tokens =
		sweep_chance(sweep, DRAW_TOKENS, 1, 2)
			? 0
			: CHOOSE(sweep, DRAW_TOKENS, 1, 2, 3, 5, 9, 17);
	row = seats * seats * config->topk * config->hidden;
	while (config->max_tokens > 1 &&
		config->max_tokens * row > MOST_ELEMENTS)
		config->max_tokens /= 2;
}

/* PADDED, with room for all of a token's choices to be the same expert; in
 * some cases for less. */
static void draw_padded(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;
	int64_t rows = sweep->num_seats * config->max_tokens * config->topk;
	int64_t unit =
		config->expert_alignment > 1 ? config->expert_alignment : 1;

	if (config->num_experts * (rows + unit) >
		MOST_ELEMENTS / config->hidden)
		return;
	config->layout = SHUNT_LAYOUT_PADDED;
	if (sweep_chance(sweep, DRAW_CAPACITY, 0, 15))
		rows = sweep_draw(sweep, DRAW_CAPACITY, 1, 1, rows + 1);
	else if (config->distinct_experts || config->topk == 1)
		return;
	config->rows_per_expert = (rows + unit - 1) / unit * unit;
}

static void draw_layout(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;
	int64_t rows = sweep->num_seats * config->max_tokens * config->topk;

	config->zero_tail = sweep_chance(sweep, DRAW_TAIL, 0, 25);
	if (sweep_chance(sweep, DRAW_ALIGNMENT, 1, 40))
		config->expert_alignment =
			CHOOSE(sweep, DRAW_ALIGNMENT, 1, 2, 3, 8, 16);
	if (config->num_experts * config->expert_alignment >
		MOST_ELEMENTS / config->hidden)
		config->expert_alignment = 0;
	config->layout = (enum shunt_layout)CHOOSE(sweep, DRAW_LAYOUT,
		SHUNT_LAYOUT_COMPACT, SHUNT_LAYOUT_COMPACT,
		SHUNT_LAYOUT_INDEXED);
	if (sweep_chance(sweep, DRAW_LAYOUT, 1, 25))
		draw_padded(sweep);
	if (config->layout != SHUNT_LAYOUT_PADDED &&
		sweep_chance(sweep, DRAW_CAPACITY, 0, 15))
		config->max_recv_rows =
			sweep_draw(sweep, DRAW_CAPACITY, 1, 1, rows + 1);
}

/* ---- types ------------------------------------------------------------ */

/* Rows that come quantized, with or without scales of their own. */
static void draw_given(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;

	if (sweep_chance(sweep, DRAW_DTYPE, 1, 50))
		config->dtype = (enum shunt_dtype)sweep_draw(
			sweep, DRAW_DTYPE, 2, SHUNT_DTYPE_I8, SHUNT_DTYPE_E2M1);
	if (sweep_chance(sweep, DRAW_SCALES, 0, 40))
		return;
	config->x_scales_per_row = sweep_draw(sweep, DRAW_SCALES, 1, 1, 5);
	config->x_scale_dtype = (enum shunt_dtype)CHOOSE(sweep, DRAW_SCALES,
		SHUNT_DTYPE_F32, SHUNT_DTYPE_E8M0, SHUNT_DTYPE_E4M3FN);
}

static bool has_scales(const struct shunt_exchange_config *config)
{
	if (config->quant == SHUNT_QUANT_NONE)
		return config->x_scales_per_row > 0;
	return config->quant != SHUNT_QUANT_INT8_STATIC &&
	       config->quant != SHUNT_QUANT_E4M3FN_STATIC;
}

static void draw_types(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;

	config->dtype = (enum shunt_dtype)sweep_draw(
		sweep, DRAW_DTYPE, 0, SHUNT_DTYPE_F32, SHUNT_DTYPE_BF16);
	config->expert_dtype = (enum shunt_dtype)sweep_draw(
		sweep, DRAW_EXPERT_DTYPE, 0, SHUNT_DTYPE_F32, SHUNT_DTYPE_BF16);
	if (sweep_chance(sweep, DRAW_QUANT, 0, 75))
		config->quant = (enum shunt_quant)sweep_draw(sweep, DRAW_QUANT,
			1, SHUNT_QUANT_INT8, SHUNT_QUANT_NVFP4_E2M1);
	if (config->quant == SHUNT_QUANT_NONE)
		draw_given(sweep);
	if (config->quant >= SHUNT_QUANT_INT8_GROUP &&
		config->quant <= SHUNT_QUANT_E5M2_GROUP)
		config->scale_form = (enum shunt_scale_form)sweep_draw(sweep,
			DRAW_SCALES, 2, SHUNT_SCALE_F32, SHUNT_SCALE_E8M0);
	if (has_scales(config))
		config->column_major_scales =
			sweep_chance(sweep, DRAW_SCALES, 3, 40);
	if (sweep_chance(sweep, DRAW_COMBINE_QUANT, 0, 45))
		config->combine_quant = (enum shunt_combine_quant)sweep_draw(
			sweep, DRAW_COMBINE_QUANT, 1,
			SHUNT_COMBINE_QUANT_INT8_8, SHUNT_COMBINE_QUANT_MXFP8);
}

static void draw_habits(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;

	if (sweep_chance(sweep, DRAW_BAD_ID, 0, 50))
		config->bad_id = SHUNT_BAD_ID_DROP;
	config->distinct_experts = sweep_chance(sweep, DRAW_DISTINCT, 0, 30);
	config->depth =
		(int32_t)sweep_draw(sweep, DRAW_DEPTH, 0, 0, SWEEP_MAX_DEPTH);
	config->algorithm = (enum shunt_algorithm)CHOOSE(sweep, DRAW_HOSTS,
		SHUNT_ALGORITHM_AUTO, SHUNT_ALGORITHM_FULLMESH,
		SHUNT_ALGORITHM_HIERARCHY, SHUNT_ALGORITHM_HIERARCHY);
	config->exact_sums = sweep_chance(sweep, DRAW_HOSTS, 1, 30);
	config->f32_partial_sums =
		config->combine_quant == SHUNT_COMBINE_QUANT_NONE &&
		sweep_chance(sweep, DRAW_HOSTS, 2, 25);
	config->kept_routes = (int32_t)CHOOSE(sweep, DRAW_KEPT, 0, 1, 4, 16);
	config->fetch_tokens = CHOOSE(sweep, DRAW_FETCH, 0, -1, -1, 3);
	config->tp_rank_order =
		sweep->num_tp > 1 && sweep_chance(sweep, DRAW_TP, 2, 50);
}

/* ---- the placement ---------------------------------------------------- */

/* Every expert anywhere, but on shared ranks. */
static bool draw_full_map(struct sweep_case *sweep)
{
	int64_t experts = sweep->config.num_experts;

	sweep->full_map = malloc((size_t)experts * sizeof(int32_t) + 1);
	if (sweep->full_map == NULL)
		return false;
	for (int64_t e = 0; e < experts; e++)
		sweep->full_map[e] = (int32_t)sweep_draw(sweep, DRAW_PLACE, e,
			sweep->config.num_shared_ranks, sweep->num_ranks - 1);
	sweep->config.expert_rank = sweep->full_map;
	return true;
}

/* Ranges of random lengths, handed to the ranks in a random order. */
static bool draw_ranges(struct sweep_case *sweep)
{
	int64_t shared = sweep->config.num_shared_ranks;
	int64_t ranks = sweep->num_ranks - shared;
	int64_t left = sweep->config.num_experts;
	int64_t first = 0, count, order[SWEEP_MAX_SEATS];

	sweep->first_expert = calloc((size_t)sweep->num_ranks, sizeof(int64_t));
	sweep->expert_count = calloc((size_t)sweep->num_ranks, sizeof(int64_t));
	if (sweep->first_expert == NULL || sweep->expert_count == NULL)
		return false;
	sweep_order(sweep, 0, 99, ranks, order);
	for (int64_t i = 0; i < ranks; i++) {
		count = sweep_draw(sweep, DRAW_PLACE, i, 0, left);
		if (i == ranks - 1)
			count = left;
		sweep->first_expert[shared + order[i]] = first;
		sweep->expert_count[shared + order[i]] = count;
		first += count;
		left -= count;
	}
	sweep->config.first_expert = sweep->first_expert;
	sweep->config.expert_count = sweep->expert_count;
	return true;
}

static bool draw_placement(struct sweep_case *sweep)
{
	int64_t kind = sweep_draw(sweep, DRAW_PLACEMENT, 0, 0, 3);
	bool done = true;

	if (sweep->config.elastic || sweep->config.num_experts == 0)
		kind = 3;
	if (kind == 0)
		done = draw_full_map(sweep);
	if (kind == 1)
		done = draw_ranges(sweep);
	sweep->expert_rank =
		malloc((size_t)sweep->config.num_experts * sizeof(int32_t) + 1);
	if (!done || sweep->expert_rank == NULL)
		return false;
	reference_place_experts(
		&sweep->config, sweep->num_ranks, sweep->expert_rank);
	return true;
}

/* Elastic exchanges have evenly placed experts; the larger a group, the more
 * can be lost. */
static void draw_elastic(struct sweep_case *sweep)
{
	struct shunt_exchange_config *config = &sweep->config;
	int64_t moe = sweep->num_ranks - config->num_shared_ranks;

	if (sweep->num_tp > 1 || config->num_experts == 0 ||
		!sweep_chance(sweep, DRAW_ELASTIC, 0, 30))
		return;
	config->elastic = true;
	config->num_experts += (moe - config->num_experts % moe) % moe;
	sweep_draw_tables(sweep);
}

bool sweep_case_init(struct sweep_case *sweep, uint64_t seed, int32_t num_seats,
	const int32_t *hosts, int64_t number)
{
	*sweep = (struct sweep_case){
		.seed = seed,
		.num_seats = num_seats,
		.number = number,
		.config = SHUNT_EXCHANGE_CONFIG_INIT,
	};
	sweep->num_groups =
		sweep_draw(sweep, DRAW_GROUPS, 0, 1, SWEEP_MAX_GROUPS);
	draw_ranks(sweep);
	sweep_draw_hosts(sweep, hosts);
	draw_shape(sweep);
	draw_shared(sweep);
	draw_special(sweep);
	draw_types(sweep);
	draw_habits(sweep);
	draw_elastic(sweep);
	draw_layout(sweep);
	return draw_placement(sweep);
}

void sweep_case_fini(struct sweep_case *sweep)
{
	free(sweep->expert_rank);
	free(sweep->first_expert);
	free(sweep->expert_count);
	free(sweep->full_map);
}
