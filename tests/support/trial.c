/* One step of an exchange: this rank's arguments, and the checks. */
#include "support/trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/check.h"
#include "reference/convert.h"
#include "support/trial_inputs.h"

#define GUARD_BYTES 64
#define GUARD       0xa5
#define SPOILT      0xee

static uint8_t *block_of(struct seat *seat, int64_t bytes)
{
	uint8_t *block = malloc((size_t)bytes);

	SEAT_CHECK(seat, block != NULL, "no memory for %" PRId64 " B", bytes);
	memset(block, GUARD, (size_t)bytes);
	return block;
}

/* A stride: H, or a little more, 0 standing for H. */
static int64_t stride_of(const struct trial *step, enum trial_purpose purpose)
{
	int64_t hidden = step->job.hidden, extra;

	if (step->rule.plain)
		return 0;
	extra = trial_draw(&step->rule, step->rank, purpose, -1, 5);
	return extra < 0 ? 0 : hidden + extra;
}

static int64_t shift_of(
	const struct trial *step, enum trial_purpose purpose, size_t unit)
{
	int64_t units = trial_draw(&step->rule, step->rank, purpose, 0,
		(int64_t)(GUARD_BYTES / unit) - 1);

	return step->rule.plain ? 0 : units * (int64_t)unit;
}

static int64_t dense(int64_t stride, int64_t hidden)
{
	return stride == 0 ? hidden : stride;
}

/* ---- the arguments of dispatch ---------------------------------------- */

/* The rows of x with a stride, from any address. */
static void lay_x(struct seat *seat, struct trial *step)
{
	const struct reference_input *own = &step->inputs[step->rank];
	int64_t element = (int64_t)convert_bytes(step->job.dtype);
	int64_t row = step->job.hidden * element;
	int64_t shift = shift_of(step, TRIAL_SHIFT_X, 1), pitch;

	step->args.x_stride = stride_of(step, TRIAL_STRIDE_X);
	pitch = dense(step->args.x_stride, step->job.hidden) * element;
	step->x_bytes = shift + own->num_tokens * pitch;
	step->x_block = block_of(seat, step->x_bytes + 1);
	for (int64_t t = 0; t < own->num_tokens; t++)
		memcpy(step->x_block + shift + t * pitch,
			(const uint8_t *)own->x + t * row, (size_t)row);
	step->args.x = step->x_block + shift;
}

static void lay_ids(struct seat *seat, struct trial *step)
{
	const struct reference_input *own = &step->inputs[step->rank];
	bool wide = trial_has_wide_ids(&step->rule, step->rank);
	int64_t element = wide ? 8 : 4;
	int64_t count = own->num_tokens * step->job.topk;
	int64_t shift = shift_of(step, TRIAL_SHIFT_IDS, (size_t)element);
	uint8_t *to;
	int32_t narrow;

	step->ids_bytes = shift + count * element;
	step->ids_block = block_of(seat, step->ids_bytes + 1);
	to = step->ids_block + shift;
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

/* With T = 0 all pointers may be NULL: half of the time they are. */
static void drop_pointers(struct trial *step)
{
	if (step->args.num_tokens != 0 ||
		trial_draw(&step->rule, step->rank, TRIAL_GARBAGE, 0, 1))
		return;
	step->args.x = NULL;
	step->args.expert_ids = NULL;
	if (step->args.mask != SHUNT_MASK_NONE)
		step->args.active_mask = NULL;
	step->combine.out = NULL;
}

static void fill_dispatch(struct seat *seat, struct trial *step)
{
	const struct reference_input *own = &step->inputs[step->rank];

	step->args = (struct shunt_dispatch_args)SHUNT_DISPATCH_ARGS_INIT;
	step->out = (struct shunt_dispatch_out)SHUNT_DISPATCH_OUT_INIT;
	lay_x(seat, step);
	lay_ids(seat, step);
	step->args.num_tokens = own->num_tokens;
	step->args.mask = own->mask;
	step->args.active_mask = own->active_mask;
	step->args.weights = own->weights;
	step->args.smooth_scales = own->smooth;
	step->args.prefix_token_nums =
		trial_draw(&step->rule, step->rank, TRIAL_PREFIX, 0, 1);
}

/* ---- the arguments of combine ----------------------------------------- */

static enum shunt_dtype out_dtype_of(const struct trial *step)
{
	return step->rule.out_dtype == SHUNT_DTYPE_NONE ? step->job.expert_dtype
							: step->rule.out_dtype;
}

static const float *weights_in_force(const struct trial *step)
{
	return step->weights_at_combine != NULL
		       ? step->weights_at_combine
		       : step->inputs[step->rank].weights;
}

/* What combine should give, guard bytes around it included. */
static void expect_combine(struct seat *seat, struct trial *step, int64_t shift)
{
	struct input_expert expert = {
		.hidden = step->job.hidden,
		.row_dtype = step->job.quant == SHUNT_QUANT_INT8
				     ? SHUNT_DTYPE_I8
				     : step->job.dtype,
		.expert_dtype = step->job.expert_dtype,
	};

	SEAT_CHECK(seat,
		reference_combine(&step->job, step->rank,
			weights_in_force(step), input_expert_row, &expert,
			out_dtype_of(step),
			dense(step->combine.out_stride, step->job.hidden),
			step->expected_block + shift),
		"no memory");
}

/* Other weights than at dispatch, NaN where they must not be read. */
static void make_late_weights(struct seat *seat, struct trial *step)
{
	const struct reference_input *own = &step->inputs[step->rank];
	int64_t count = own->num_tokens * step->job.topk;
	struct input_key key = {~step->rule.seed, step->rule.step, step->rank};

	if (!step->rule.weights_at_combine)
		return;
	step->weights_at_combine = (float *)(void *)block_of(
		seat, (count + 1) * (int64_t)sizeof(float));
	input_weights(&key, step->rule.style, count, step->weights_at_combine);
	step->combine.weights = step->weights_at_combine;
}

static void fill_combine(struct seat *seat, struct trial *step)
{
	int64_t element = (int64_t)convert_bytes(out_dtype_of(step));
	int64_t tokens = step->inputs[step->rank].num_tokens;
	int64_t shift =
		GUARD_BYTES + shift_of(step, TRIAL_SHIFT_OUT, (size_t)element);

	step->combine = (struct shunt_combine_args)SHUNT_COMBINE_ARGS_INIT;
	step->combine.out_dtype = step->rule.out_dtype;
	step->combine.out_stride = stride_of(step, TRIAL_STRIDE_OUT);
	make_late_weights(seat, step);
	step->out_bytes =
		shift + GUARD_BYTES +
		tokens * element *
			dense(step->combine.out_stride, step->job.hidden);
	step->out_block = block_of(seat, step->out_bytes);
	step->expected_block = block_of(seat, step->out_bytes);
	step->combine.out = step->out_block + shift;
	if (step->refusers == 0)
		expect_combine(seat, step, shift);
}

/* ---- the step --------------------------------------------------------- */

static void make_inputs(struct seat *seat, struct trial *step)
{
	bool refuses;

	step->inputs =
		calloc((size_t)step->rule.num_ranks, sizeof(*step->inputs));
	SEAT_CHECK(seat, step->inputs != NULL, "no memory");
	for (int32_t r = 0; r < step->rule.num_ranks; r++) {
		SEAT_CHECK(seat,
			trial_inputs_init(
				&step->rule, r, &step->inputs[r], &refuses),
			"no memory");
		if (refuses)
			step->refusers |= UINT64_C(1) << r;
	}
}

void trial_create(
	struct seat *seat, struct trial *step, const struct trial_rule *rule)
{
	const struct shunt_exchange_config *config = rule->config;

	*step = (struct trial){.rule = *rule, .rank = seat->rank};
	make_inputs(seat, step);
	step->job = (struct reference_job){
		.num_ranks = rule->num_ranks,
		.hidden = config->hidden,
		.topk = config->topk,
		.num_experts = config->num_experts,
		.dtype = config->dtype,
		.expert_dtype = config->expert_dtype,
		.quant = config->quant,
		.expert_rank = rule->expert_rank,
		.inputs = step->inputs,
	};
	fill_dispatch(seat, step);
	fill_combine(seat, step);
	drop_pointers(step);
	SEAT_CHECK(seat,
		reference_received_init(&step->expected, &step->job, step->rank,
			reference_num_rows(&step->job, step->rank)),
		"no memory");
	reference_receive(&step->job, step->rank, &step->expected);
	reference_send(&step->job, step->rank, &step->expected_sent);
}

void trial_destroy(struct trial *step)
{
	reference_received_fini(&step->expected);
	for (int32_t r = 0; r < step->rule.num_ranks; r++)
		trial_inputs_fini(&step->inputs[r]);
	free(step->inputs);
	free(step->weights_at_combine);
	free(step->x_block);
	free(step->ids_block);
	free(step->y_block);
	free(step->out_block);
	free(step->expected_block);
}

static void spoil_floats(const float *floats, int64_t count)
{
	float *writable = (float *)(uintptr_t)floats;

	if (floats != NULL)
		memset(writable, SPOILT, (size_t)count * sizeof(*writable));
}

/* After the dispatch nothing of its inputs may be read again, and the
 * weights were kept. Those the reference needs have been used. */
static void spoil_inputs(struct trial *step)
{
	const struct reference_input *own = &step->inputs[step->rank];
	int64_t choices = own->num_tokens * step->job.topk;

	memset(step->x_block, SPOILT, (size_t)step->x_bytes);
	memset(step->ids_block, SPOILT, (size_t)step->ids_bytes);
	spoil_floats(own->weights, choices);
	spoil_floats(own->smooth, step->job.num_experts * step->job.hidden);
	if (own->mask == SHUNT_MASK_TOKENS)
		choices = own->num_tokens;
	if (own->mask != SHUNT_MASK_NONE)
		memset((uint8_t *)(uintptr_t)own->active_mask, SPOILT,
			(size_t)choices);
}

void trial_check_dispatch(struct seat *seat, struct trial *step)
{
	char why[CHECK_TEXT] = "";

	SEAT_CHECK(seat,
		check_received(&step->expected, &step->out, step->job.num_ranks,
			step->rule.weights_at_dispatch,
			step->args.prefix_token_nums,
			step->job.quant == SHUNT_QUANT_INT8, why),
		"dispatch of step %" PRId64 ": %s", step->rule.step, why);
	SEAT_CHECK(seat, check_sent(&step->expected_sent, &step->out, why),
		"dispatch of step %" PRId64 ": %s", step->rule.step, why);
	spoil_inputs(step);
}

/* Rows in a block of the test's own, with a stride, not aligned well. */
static uint8_t *own_rows(struct seat *seat, struct trial *step)
{
	int64_t element = (int64_t)convert_bytes(step->job.expert_dtype);
	int64_t shift = shift_of(step, TRIAL_SHIFT_Y, (size_t)element);

	step->combine.y_stride = stride_of(step, TRIAL_STRIDE_Y);
	step->y_bytes =
		shift + step->out.num_rows * element *
				dense(step->combine.y_stride, step->job.hidden);
	step->y_block = block_of(seat, step->y_bytes + 1);
	return step->y_block + shift;
}

void trial_make_rows(struct seat *seat, struct trial *step)
{
	int64_t element = (int64_t)convert_bytes(step->job.expert_dtype);
	bool own = trial_draw(&step->rule, step->rank, TRIAL_OWN_Y, 0, 2) == 0;
	uint8_t *rows = own ? own_rows(seat, step) : step->out.expert_rows;
	int64_t pitch =
		element * dense(step->combine.y_stride, step->job.hidden);
	const float *scales = step->out.dynamic_scales;
	struct input_expert expert = {
		.hidden = step->job.hidden,
		.row_dtype = scales ? SHUNT_DTYPE_I8 : step->job.dtype,
		.expert_dtype = step->job.expert_dtype,
	};

	for (int64_t n = 0; n < step->out.num_rows; n++)
		input_expert_row(&expert, step->expected.experts[n],
			(uint8_t *)step->out.expand_x +
				n * step->expected.row_bytes,
			scales ? scales[n] : 1, rows + n * pitch);
	step->combine.y = rows;
}

void trial_spoil_rows(struct trial *step)
{
	if (step->y_block != NULL)
		memset(step->y_block, SPOILT, (size_t)step->y_bytes);
}

void trial_check_combine(struct seat *seat, struct trial *step)
{
	int64_t stride = dense(step->combine.out_stride, step->job.hidden);
	int64_t row = stride * (int64_t)convert_bytes(out_dtype_of(step));
	char why[CHECK_TEXT] = "";

	SEAT_CHECK(seat,
		check_bytes("the block around out", step->expected_block,
			step->out_block, step->out_bytes, row, why),
		"combine of step %" PRId64 ": %s", step->rule.step, why);
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
