/* Drawing the steps of a case. */
#include "support/sweep.h"

#include <inttypes.h>
#include <stdio.h>

#define MOST_SMOOTH (1 << 16)

int64_t sweep_depth(const struct sweep_case *sweep)
{
	return sweep->config.depth == 0 ? 2 : sweep->config.depth;
}

enum sweep_flow sweep_flow(const struct sweep_case *sweep, int64_t group)
{
	return (enum sweep_flow)sweep_draw(
		sweep, DRAW_FLOW, group, 0, SWEEP_NUM_FLOWS - 1);
}

void sweep_order(const struct sweep_case *sweep, int32_t rank, int64_t salt,
	int64_t count, int64_t *order)
{
	int64_t j, kept;

	for (int64_t i = 0; i < count; i++)
		order[i] = i;
	for (int64_t i = count - 1; i > 0; i--) {
		j = sweep_draw(sweep, DRAW_ORDER,
			(salt * 1024 + rank) * 1024 + i, 0, i);
		kept = order[i];
		order[i] = order[j];
		order[j] = kept;
	}
}

static void draw_tokens(
	const struct sweep_case *sweep, int64_t step, struct trial_rule *rule)
{
	rule->tokens =
		sweep_chance(sweep, DRAW_STEP_TOKENS, step, 70)
			? TRIAL_TOKENS_RANDOM
			: (enum trial_tokens)sweep_draw(sweep, DRAW_STEP_TOKENS,
				  ~step, 0, TRIAL_TOKENS_NUM - 1);
	rule->style = (enum input_style)sweep_draw(
		sweep, DRAW_STYLE, step, 0, INPUT_NUM_STYLES - 1);
	rule->mask = (enum shunt_mask)sweep_draw(
		sweep, DRAW_MASK, step, 0, SHUNT_MASK_CHOICES);
	rule->percent_masked = (int)sweep_draw(sweep, DRAW_MASK, ~step, 0, 100);
}

static void draw_routing(
	const struct sweep_case *sweep, int64_t step, struct trial_rule *rule)
{
	if (rule->table == NULL && !sweep_chance(sweep, DRAW_ROUTING, step, 60))
		rule->routing = (enum input_routing)sweep_draw(
			sweep, DRAW_ROUTING, ~step, 0, INPUT_NUM_ROUTINGS - 1);
	if (sweep_chance(sweep, DRAW_NONE, step, 40))
		rule->percent_none =
			(int)sweep_draw(sweep, DRAW_NONE, ~step, 1, 100);
	if (sweep->config.bad_id == SHUNT_BAD_ID_DROP &&
		sweep_chance(sweep, DRAW_SPOIL, step, 50))
		rule->percent_bad =
			(int)sweep_draw(sweep, DRAW_SPOIL, ~step, 1, 60);
	/* Now and then nothing but special experts. */
	rule->percent_special =
		(int)sweep_draw(sweep, DRAW_SPECIAL, 10 + step, 0, 120);
}

static void draw_scales(
	const struct sweep_case *sweep, int64_t step, struct trial_rule *rule)
{
	const struct shunt_exchange_config *config = &sweep->config;
	bool small = (config->num_experts + 3) * config->hidden <= MOST_SMOOTH;
	bool takes = config->quant >= SHUNT_QUANT_INT8 &&
		     config->quant <= SHUNT_QUANT_E4M3FN_STATIC;

	rule->smooth =
		takes && small && sweep_chance(sweep, DRAW_SMOOTH, step, 40);
	rule->static_shape =
		(enum shunt_static_shape)sweep_draw(sweep, DRAW_STATIC, step, 0,
			small ? SHUNT_STATIC_EXPERTS : SHUNT_STATIC_HIDDEN);
}

/* What combine adds besides, and what it makes of it. */
static void draw_terms(
	const struct sweep_case *sweep, int64_t step, struct trial_rule *rule)
{
	int64_t bits = sweep_draw(sweep, DRAW_TERMS, step, 0, 255);

	rule->out_dtype = (enum shunt_dtype)sweep_draw(sweep, DRAW_OUT_DTYPE,
		step, SHUNT_DTYPE_NONE, SHUNT_DTYPE_BF16);
	rule->weights_at_combine = sweep_chance(sweep, DRAW_WEIGHTS, ~step, 30);
	rule->shared_x = (bits & 3) == 0;
	rule->residual = (bits >> 2 & 3) == 0;
	rule->gamma = (bits >> 4 & 3) == 0;
	rule->gamma_f32 = bits >> 6 & 1;
}

struct trial_rule sweep_rule(const struct sweep_case *sweep, int64_t step)
{
	int64_t group = step / sweep_depth(sweep);
	enum sweep_flow flow = sweep_flow(sweep, group);
	struct trial_rule rule = {
		.seed = sweep->seed ^ (uint64_t)sweep->number << 20,
		.step = step,
		.num_ranks = sweep->num_ranks,
		.num_tp = sweep->num_tp,
		.members = sweep->members,
		.config = &sweep->config,
		.expert_rank = sweep->expert_rank,
		.table = sweep_table(sweep, group),
		.hosts = sweep->hosts,
		.may_feed = flow == SWEEP_SPLIT || flow == SWEEP_BATCH ||
			    flow == SWEEP_PIPELINE,
	};

	draw_tokens(sweep, step, &rule);
	draw_routing(sweep, step, &rule);
	draw_scales(sweep, step, &rule);
	draw_terms(sweep, step, &rule);
	rule.weights_at_dispatch = sweep_chance(sweep, DRAW_WEIGHTS, step, 60);
	if (sweep_chance(sweep, DRAW_REFUSE, step, 8))
		rule.refusers = (uint64_t)sweep_draw(sweep, DRAW_REFUSERS, step,
			1, (INT64_C(1) << sweep->num_seats) - 1);
	return rule;
}

int64_t sweep_cached_from(const struct sweep_case *sweep, int64_t step)
{
	int64_t depth = sweep_depth(sweep), in_group = step % depth, most;

	most = sweep->config.kept_routes == 0 ? depth
					      : sweep->config.kept_routes;
	if (!sweep_chance(sweep, DRAW_CACHED, step, 30) || in_group + 1 > most)
		return 0;
	if (most > step)
		most = step;
	if (in_group + 1 > most)
		return 0;
	/* From a group before, so that it is over or at least dispatched. */
	return sweep_draw(sweep, DRAW_CACHED, ~step, in_group + 1, most);
}

void sweep_repeat(struct trial_rule *rule, const struct trial_rule *earlier)
{
	struct trial_rule own = *rule;

	*rule = *earlier;
	rule->cached = true;
	rule->routing_step =
		earlier->cached ? earlier->routing_step : earlier->step;
	rule->step = own.step;
	rule->refusers = 0;
	rule->smooth = own.smooth;
	rule->static_shape = own.static_shape;
	rule->out_dtype = own.out_dtype;
	rule->weights_at_combine = own.weights_at_combine;
	rule->shared_x = own.shared_x;
	rule->residual = own.residual;
	rule->gamma = own.gamma;
	rule->gamma_f32 = own.gamma_f32;
	rule->may_feed = own.may_feed;
}

/* ---- in words --------------------------------------------------------- */

static void print_config(const struct shunt_exchange_config *config)
{
	printf("T_max %" PRId64 " H %" PRId64 " K %" PRId64 " E %" PRId64
	       " shared %" PRId64 "/%d special %" PRId64 "+%" PRId64 "+%" PRId64
	       "\n",
		config->max_tokens, config->hidden, config->topk,
		config->num_experts, config->num_shared_experts,
		config->num_shared_ranks, config->num_zero_experts,
		config->num_copy_experts, config->num_constant_experts);
	printf("dtype %d expert %d quant %d form %d column %d x_scales %" PRId64
	       " of %d combine_quant %d\n",
		config->dtype, config->expert_dtype, config->quant,
		config->scale_form, config->column_major_scales,
		config->x_scales_per_row, config->x_scale_dtype,
		config->combine_quant);
	printf("layout %d M %" PRId64 " rows %" PRId64 " alignment %" PRId64
	       " tail %d distinct %d bad_id %d depth %d kept %d fetch %" PRId64
	       " elastic %d tp_rank_order %d\n",
		config->layout, config->rows_per_expert, config->max_recv_rows,
		config->expert_alignment, config->zero_tail,
		config->distinct_experts, config->bad_id, config->depth,
		config->kept_routes, config->fetch_tokens, config->elastic,
		config->tp_rank_order);
}

static void print_step(const struct sweep_case *sweep, int64_t step)
{
	struct trial_rule rule = sweep_rule(sweep, step);

	printf("step %" PRId64 " flow %d cached %" PRId64
	       " tokens %d style %d routing %d mask %d:%d%% none %d%% bad "
	       "%d%% special %d%% smooth %d static %d weights %d%d "
	       "refusers %" PRIx64 " out %d shared_x %d residual %d gamma %d\n",
		step, sweep_flow(sweep, step / sweep_depth(sweep)),
		sweep_cached_from(sweep, step), rule.tokens, rule.style,
		rule.routing, rule.mask, rule.percent_masked, rule.percent_none,
		rule.percent_bad, rule.percent_special, rule.smooth,
		rule.static_shape, rule.weights_at_dispatch,
		rule.weights_at_combine, rule.refusers, rule.out_dtype,
		rule.shared_x, rule.residual, rule.gamma);
}

static void print_table(const struct sweep_case *sweep, int64_t group)
{
	const int32_t *table = sweep_table(sweep, group);

	printf("group %" PRId64 ":", group);
	for (int32_t i = 0; table != NULL && i < 4 + sweep->num_ranks; i++)
		printf(" %d", table[i]);
	printf("\n");
}

static void print_hosts(const struct sweep_case *sweep)
{
	printf("algorithm %d exact_sums %d f32_partial_sums %d hosts",
		sweep->config.algorithm, sweep->config.exact_sums,
		sweep->config.f32_partial_sums);
	for (int32_t m = 0; m < sweep->num_seats; m++)
		printf(" %d", sweep->hosts[m]);
	printf("\n");
}

void sweep_print(const struct sweep_case *sweep)
{
	printf("W %d P %d shuffled %d placement %s\n", sweep->num_ranks,
		sweep->num_tp, sweep->shuffled,
		sweep->full_map       ? "map"
		: sweep->first_expert ? "ranges"
				      : "even");
	print_hosts(sweep);
	print_config(&sweep->config);
	for (int64_t group = 0; group < sweep->num_groups; group++) {
		print_table(sweep, group);
		for (int64_t i = 0; i < sweep_depth(sweep); i++)
			print_step(sweep, group * sweep_depth(sweep) + i);
	}
	fflush(stdout);
}
