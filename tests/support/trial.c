/* One step of an exchange: this rank's arguments of dispatch, and the checks
 * of what it gives. */
#include "support/trial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reference/check.h"
#include "reference/convert.h"
#include "support/trial_inputs.h"

#define SPOILT 0xee

static const struct reference_input *own_input(const struct trial *step)
{
	return &step->inputs[step->member];
}

/* ---- the arguments of dispatch ---------------------------------------- */

/* The rows of x with a stride, from any address. */
static void lay_x(struct seat *seat, struct trial *step)
{
	const struct reference_input *own = own_input(step);
	enum shunt_dtype dtype = step->job.config.dtype;
	int64_t extra = trial_draw(&step->rule, step->member, TRIAL_X, -1, 5);
	struct trial_rows_shape shape = {
		.dtype = dtype,
		.hidden = step->job.config.hidden,
		.num_rows = own->num_tokens,
	};

	if (!step->rule.plain && extra >= 0)
		shape.stride = shape.hidden + extra;
	if (dtype == SHUNT_DTYPE_E2M1)
		shape.stride += shape.stride % 2;
	if (!step->rule.plain)
		shape.shift = extra * 11 % 64 + 11;
	SEAT_CHECK(seat, trial_rows_init(&step->x, &shape), "no memory");
	trial_rows_fill(&step->x, own->x);
	step->args.x = trial_rows_first(&step->x);
	step->args.x_stride = step->x.stride;
}

/* As one row of integers. */
static void lay_ids(struct seat *seat, struct trial *step)
{
	const struct reference_input *own = own_input(step);
	bool wide = trial_has_wide_ids(&step->rule, step->member);
	int64_t count = own->num_tokens * step->job.config.topk;
	int64_t shift = trial_draw(&step->rule, step->member, TRIAL_IDS, 0, 7);
	struct trial_rows_shape shape = {
		.dtype = SHUNT_DTYPE_I8,
		.hidden = count * (wide ? 8 : 4),
		.num_rows = 1,
		.shift = step->rule.plain ? 0 : 8 * shift,
	};
	int32_t narrow;
	uint8_t *to;

	SEAT_CHECK(seat, trial_rows_init(&step->ids, &shape), "no memory");
	to = trial_rows_first(&step->ids);
	for (int64_t i = 0; i < count; i++) {
		narrow = (int32_t)own->ids[i];
		if (wide)
			memcpy(to + 8 * i, &own->ids[i], 8);
		else
			memcpy(to + 4 * i, &narrow, 4);
	}
	step->args.expert_ids = to;
	step->args.ids_type = wide ? SHUNT_INDEX_I64 : SHUNT_INDEX_I32;
}

/* With T = 0 pointers may be NULL: half of the time they are. */
static void drop_pointers(struct trial *step)
{
	if (step->args.num_tokens != 0 ||
		trial_draw(&step->rule, step->member, TRIAL_GARBAGE, 0, 1))
		return;
	step->args.x = NULL;
	step->args.expert_ids = NULL;
	if (step->args.mask != SHUNT_MASK_NONE)
		step->args.active_mask = NULL;
	step->combine.out = NULL;
}

/* What a cached dispatch has from the earlier one. */
static void drop_routing(struct trial *step)
{
	step->args.expert_ids = NULL;
	step->args.ids_type = SHUNT_INDEX_NONE;
	step->args.mask = SHUNT_MASK_NONE;
	step->args.active_mask = NULL;
	step->args.weights = NULL;
}

static void fill_dispatch(struct seat *seat, struct trial *step)
{
	const struct reference_input *own = own_input(step);

	step->args = (struct shunt_dispatch_args)SHUNT_DISPATCH_ARGS_INIT;
	step->out = (struct shunt_dispatch_out)SHUNT_DISPATCH_OUT_INIT;
	lay_x(seat, step);
	lay_ids(seat, step);
	step->args.num_tokens = own->num_tokens;
	step->args.mask = own->mask;
	step->args.active_mask = own->active_mask;
	step->args.weights = own->weights;
	step->args.smooth_scales = own->smooth;
	step->args.x_scales = own->x_scales;
	step->args.static_scales = own->fixed;
	step->args.static_shape = own->fixed_shape;
	step->args.elastic_info = step->rule.table;
	step->args.performance_info = step->performance;
	step->args.prefix_token_nums =
		trial_draw(&step->rule, step->member, TRIAL_PREFIX, 0, 1);
	if (step->rule.cached)
		drop_routing(step);
}

/* ---- the step --------------------------------------------------------- */

static bool is_gone(const struct trial *step, int32_t member)
{
	return step->rule.table != NULL &&
	       step->rule.table[4 + member % step->rule.num_ranks] < 0;
}

static void make_inputs(struct seat *seat, struct trial *step)
{
	int32_t members = step->rule.num_ranks * step->job.num_tp;
	bool refuses;

	step->inputs = calloc((size_t)members, sizeof(*step->inputs));
	SEAT_CHECK(seat, step->inputs != NULL, "no memory");
	for (int32_t m = 0; m < members; m++) {
		if (is_gone(step, m))
			continue;
		SEAT_CHECK(seat,
			trial_inputs_init(
				&step->rule, m, &step->inputs[m], &refuses),
			"no memory");
		if (refuses)
			step->refusers |= UINT64_C(1) << m;
	}
	step->job.inputs = step->inputs;
}

static void make_performance(struct seat *seat, struct trial *step)
{
	if (step->rule.plain ||
		trial_draw(&step->rule, step->member, TRIAL_PERFORMANCE, 0, 1))
		return;
	step->performance = calloc(
		(size_t)step->rule.num_ranks, sizeof(*step->performance));
	SEAT_CHECK(seat, step->performance != NULL, "no memory");
	for (int32_t r = 0; r < step->rule.num_ranks; r++)
		step->performance[r] = 1000 * r;
}

/* What counts of waiting must be: a little more than they were. */
static void check_performance(struct seat *seat, struct trial *step)
{
	for (int32_t r = 0; step->performance && r < step->rule.num_ranks; r++)
		SEAT_CHECK(seat,
			step->performance[r] >= 1000 * r &&
				step->performance[r] < 600000000,
			"performance_info[%d] is %" PRId64, r,
			step->performance[r]);
}

static void expect_dispatch(struct seat *seat, struct trial *step)
{
	if (step->due != SHUNT_OK)
		return;
	SEAT_CHECK(seat,
		reference_receive(&step->job, step->place,
			reference_room(&step->job, step->place),
			&step->expected) &&
			reference_send(
				&step->job, step->place, &step->expected_sent),
		"no memory");
}

/* What the dispatch must answer: the refusing rank knows why, others who; and
 * rows that some rank has no room for are told to all. */
static void find_status(struct seat *seat, struct trial *step)
{
	struct reference_place place;
	bool fits;

	if (step->refusers != 0) {
		step->due = step->refusers >> step->member & 1
				    ? SHUNT_INVALID
				    : SHUNT_PEER_REFUSED;
		return;
	}
	if (step->job.config.max_recv_rows == 0 &&
		step->job.config.rows_per_expert == 0)
		return;
	for (int32_t m = 0; m < step->rule.num_ranks * step->job.num_tp; m++) {
		if (is_gone(step, m))
			continue;
		place.tp = m / step->rule.num_ranks;
		place.rank = m % step->rule.num_ranks;
		SEAT_CHECK(seat, reference_fits(&step->job, place, &fits),
			"no memory");
		if (!fits)
			step->due = SHUNT_CAPACITY;
	}
}

void trial_create(
	struct seat *seat, struct trial *step, const struct trial_rule *rule)
{
	int32_t member =
		rule->members == NULL ? seat->rank : rule->members[seat->rank];

	*step = (struct trial){
		.rule = *rule,
		.member = member,
		.place = {member / rule->num_ranks, member % rule->num_ranks},
		.world = seat->world,
		.job = {.config = *rule->config,
			.num_ranks = rule->num_ranks,
			.num_tp = rule->num_tp == 0 ? 1 : rule->num_tp,
			.expert_rank = rule->expert_rank,
			.table = rule->table,
			.hosts = rule->hosts,
			.adds_partial_sums = rule->adds_partial_sums},
	};
	make_inputs(seat, step);
	find_status(seat, step);
	make_performance(seat, step);
	fill_dispatch(seat, step);
	trial_fill_combine(seat, step);
	drop_pointers(step);
	expect_dispatch(seat, step);
	/* A cached dispatch has no ids to drop. */
	if (rule->cached)
		step->expected_sent.dropped_choices = 0;
}

void trial_destroy(struct trial *step)
{
	reference_received_fini(&step->expected);
	for (int32_t m = 0; m < step->rule.num_ranks * step->job.num_tp; m++)
		trial_inputs_fini(&step->inputs[m]);
	free(step->inputs);
	free(step->performance);
	trial_rows_fini(&step->x);
	trial_rows_fini(&step->ids);
	trial_fini_combine(step);
}

/* ---- checks ----------------------------------------------------------- */

static void spoil(const void *memory, int64_t bytes)
{
	if (memory != NULL)
		memset((void *)(uintptr_t)memory, SPOILT, (size_t)bytes);
}

static int64_t static_bytes(const struct trial *step)
{
	const struct shunt_exchange_config *config = &step->job.config;

	switch (own_input(step)->fixed_shape) {
	case SHUNT_STATIC_HIDDEN:
		return 4 * config->hidden;
	case SHUNT_STATIC_EXPERTS:
		return 4 * config->hidden * trial_scale_rows(config);
	default:
		return 4;
	}
}

/* After the dispatch nothing of its inputs may be read again, and the
 * weights were kept. Those the reference needs have been used. */
static void spoil_inputs(struct trial *step)
{
	const struct shunt_exchange_config *config = &step->job.config;
	const struct reference_input *own = own_input(step);
	int64_t tokens = own->num_tokens, choices = tokens * config->topk;

	trial_rows_spoil(&step->x);
	trial_rows_spoil(&step->ids);
	spoil(own->weights, 4 * choices);
	spoil(own->smooth, 4 * config->hidden * trial_scale_rows(config));
	spoil(own->fixed, static_bytes(step));
	spoil(own->x_scales,
		tokens * config->x_scales_per_row *
			(int64_t)convert_bytes(config->x_scale_dtype));
	spoil(own->active_mask,
		own->mask == SHUNT_MASK_CHOICES ? choices : tokens);
}

void trial_check_dispatch(struct seat *seat, struct trial *step)
{
	const void **rows;
	char why[CHECK_TEXT] = "";

	SEAT_CHECK(seat,
		check_number("extent_rows", step->expected.extent_rows,
			step->out.extent_rows, why),
		"dispatch of step %" PRId64 ": %s", step->rule.step, why);
	rows = trial_find_rows(seat, step);
	SEAT_CHECK(seat,
		check_received(&step->job, &step->expected, &step->out, rows,
			step->args.prefix_token_nums, why),
		"dispatch of step %" PRId64 ": %s", step->rule.step, why);
	free(rows);
	SEAT_CHECK(seat, check_sent(&step->expected_sent, &step->out, why),
		"dispatch of step %" PRId64 ": %s", step->rule.step, why);
	check_performance(seat, step);
	spoil_inputs(step);
}

void trial_run(struct seat *seat, struct shunt_exchange *exchange,
	const struct trial_rule *rule)
{
	struct trial *step = malloc(sizeof(*step));

	SEAT_CHECK(seat, step != NULL, "no memory");
	trial_create(seat, step, rule);
	SEAT_OK(seat, shunt_dispatch(exchange, &step->args, &step->out,
			      &step->handle));
	trial_check_dispatch(seat, step);
	trial_make_rows(seat, step);
	SEAT_OK(seat, shunt_combine(step->handle, &step->combine));
	trial_check_combine(seat, step);
	trial_destroy(step);
	free(step);
}

struct shunt_exchange_config trial_config(
	int64_t max_tokens, int64_t hidden, int64_t topk, int64_t num_experts)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = max_tokens;
	config.hidden = hidden;
	config.topk = topk;
	config.num_experts = num_experts;
	config.dtype = SHUNT_DTYPE_BF16;
	config.expert_dtype = SHUNT_DTYPE_BF16;
	return config;
}
