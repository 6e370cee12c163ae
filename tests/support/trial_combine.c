/* The combine of a step: its arguments, what must come out, the experts' rows,
 * and the checks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reference/check.h"
#include "reference/convert.h"
#include "support/trial_inputs.h"

/* Places in step->got and step->wanted. */
enum { OUT, NORM_OUT, RSTD, NUM_OUTPUTS };

static int64_t num_tokens(const struct trial *step)
{
	return step->inputs[step->member].num_tokens;
}

static enum shunt_dtype out_dtype_of(const struct trial *step)
{
	return step->rule.out_dtype == SHUNT_DTYPE_NONE
		       ? step->job.config.expert_dtype
		       : step->rule.out_dtype;
}

/* A shape with a stride and a place that are drawn. */
static struct trial_rows_shape shape_of(const struct trial *step,
	enum trial_purpose purpose, enum shunt_dtype dtype, int64_t num_rows)
{
	int64_t element = (int64_t)convert_bytes(dtype);
	int64_t number =
		trial_draw(&step->rule, step->member, purpose, 0, 1 << 20);
	struct trial_rows_shape shape = {
		.dtype = dtype,
		.hidden = step->job.config.hidden,
		.num_rows = num_rows,
	};

	if (step->rule.plain)
		return shape;
	if (number % 7 < 6)
		shape.stride = shape.hidden + number % 7;
	shape.shift = number / 7 % (64 / element) * element;
	return shape;
}

/* ---- inputs ----------------------------------------------------------- */

/* Rows of a kind that the rule's style has. */
static void make_input(struct seat *seat, struct trial *step,
	const struct trial_rows_shape *shape, enum trial_purpose purpose,
	int32_t member, struct trial_rows *rows)
{
	struct input_key key = trial_key(&step->rule, member, purpose);

	SEAT_CHECK(seat, trial_rows_init(rows, shape), "no memory");
	for (int64_t i = 0; i < shape->num_rows; i++)
		input_x_row(&key, step->rule.style, shape->dtype, shape->hidden,
			i, trial_rows_at(rows, i));
}

static void make_token_rows(struct seat *seat, struct trial *step,
	enum trial_purpose purpose, enum shunt_dtype dtype,
	struct trial_rows *rows)
{
	struct trial_rows_shape shape =
		shape_of(step, purpose, dtype, num_tokens(step));

	make_input(seat, step, &shape, purpose, step->member, rows);
}

/* The constant experts' vectors are dense. */
static void make_constants(struct seat *seat, struct trial *step)
{
	struct trial_rows *const rows[3] = {
		&step->alpha1, &step->alpha2, &step->v};
	struct trial_rows_shape shape = {
		.dtype = step->job.config.expert_dtype,
		.hidden = step->job.config.hidden,
		.num_rows = step->job.config.num_constant_experts,
	};

	if (shape.num_rows == 0)
		return;
	for (int i = 0; i < 3; i++)
		make_input(seat, step, &shape, TRIAL_CONSTANTS,
			step->member + 1000 * i, rows[i]);
	step->combine.constant_alpha1 = trial_rows_first(&step->alpha1);
	step->combine.constant_alpha2 = trial_rows_first(&step->alpha2);
	step->combine.constant_v = trial_rows_first(&step->v);
}

static void make_gamma(struct seat *seat, struct trial *step)
{
	bool f32 = step->rule.gamma_f32;
	struct trial_rows_shape shape = {
		.dtype = f32 ? SHUNT_DTYPE_F32 : out_dtype_of(step),
		.hidden = step->job.config.hidden,
		.num_rows = 1,
	};

	if (!step->rule.gamma)
		return;
	make_input(seat, step, &shape, TRIAL_NORM_OUT, 0, &step->gamma);
	step->combine.gamma = trial_rows_first(&step->gamma);
	step->combine.gamma_dtype = f32 ? SHUNT_DTYPE_F32 : SHUNT_DTYPE_NONE;
	step->combine.norm_eps = 1e-5f;
}

static void make_inputs(struct seat *seat, struct trial *step)
{
	const struct shunt_exchange_config *config = &step->job.config;
	struct shunt_combine_args *args = &step->combine;

	if (config->num_copy_experts + config->num_constant_experts > 0) {
		make_token_rows(seat, step, TRIAL_ORI_X, config->expert_dtype,
			&step->ori_x);
		args->ori_x = trial_rows_first(&step->ori_x);
		args->ori_x_stride = step->ori_x.stride;
	}
	make_constants(seat, step);
	if (step->rule.shared_x) {
		make_token_rows(seat, step, TRIAL_SHARED_X,
			config->expert_dtype, &step->shared_x);
		args->shared_expert_x = trial_rows_first(&step->shared_x);
		args->shared_expert_x_stride = step->shared_x.stride;
	}
	if (step->rule.residual) {
		make_token_rows(seat, step, TRIAL_RESIDUAL, out_dtype_of(step),
			&step->residual);
		args->residual = trial_rows_first(&step->residual);
		args->residual_stride = step->residual.stride;
	}
	make_gamma(seat, step);
}

/* Other weights than at dispatch, NaN where they must not be read. */
static void make_late_weights(struct seat *seat, struct trial *step)
{
	int64_t count = num_tokens(step) * step->job.config.topk;
	struct input_key key =
		trial_key(&step->rule, step->member, TRIAL_LATE_WEIGHTS);

	if (!step->rule.weights_at_combine)
		return;
	step->weights_at_combine = malloc((size_t)(count + 1) * sizeof(float));
	SEAT_CHECK(seat, step->weights_at_combine != NULL, "no memory");
	trial_weights(&step->rule, &key, &step->inputs[step->member],
		step->weights_at_combine);
	step->combine.weights = step->weights_at_combine;
}

/* ---- outputs ---------------------------------------------------------- */

static void *make_output(struct seat *seat, struct trial *step, int which,
	const struct trial_rows_shape *shape)
{
	SEAT_CHECK(seat,
		trial_rows_init(&step->got[which], shape) &&
			trial_rows_init(&step->wanted[which], shape),
		"no memory");
	return trial_rows_first(&step->got[which]);
}

static void make_outputs(struct seat *seat, struct trial *step)
{
	struct trial_rows_shape shape =
		shape_of(step, TRIAL_OUT, out_dtype_of(step), num_tokens(step));

	step->combine.out = make_output(seat, step, OUT, &shape);
	step->combine.out_stride = shape.stride;
	if (!step->rule.gamma)
		return;
	shape = shape_of(
		step, TRIAL_NORM_OUT, out_dtype_of(step), num_tokens(step));
	step->combine.norm_out = make_output(seat, step, NORM_OUT, &shape);
	step->combine.norm_out_stride = shape.stride;
	if (trial_draw(&step->rule, step->member, TRIAL_RSTD, 0, 3) == 0)
		return;
	shape = (struct trial_rows_shape){
		.dtype = SHUNT_DTYPE_F32,
		.hidden = 1,
		.num_rows = num_tokens(step),
	};
	step->combine.rstd = make_output(seat, step, RSTD, &shape);
}

static int64_t dense(const struct trial *step, int64_t stride)
{
	return stride == 0 ? step->job.config.hidden : stride;
}

/* Member m's weights in force; those that are drawn for combine are the caller's to
 * free. */
static const float *weights_of(
	struct seat *seat, const struct trial *step, int32_t m)
{
	const struct reference_input *input = &step->inputs[m];
	int64_t count = input->num_tokens * step->job.config.topk;
	struct input_key key = trial_key(&step->rule, m, TRIAL_LATE_WEIGHTS);
	float *weights;

	if (!step->rule.weights_at_combine)
		return input->weights;
	weights = malloc((size_t)(count + 1) * sizeof(*weights));
	SEAT_CHECK(seat, weights != NULL, "no memory");
	trial_weights(&step->rule, &key, input, weights);
	return weights;
}

static void expect_counts(struct seat *seat, struct trial *step)
{
	int32_t members = step->job.num_ranks * step->job.num_tp;
	const float **weights = calloc((size_t)members, sizeof(*weights));

	SEAT_CHECK(seat, weights != NULL, "no memory");
	for (int32_t m = 0; m < members; m++)
		weights[m] = weights_of(seat, step, m);
	SEAT_CHECK(seat,
		reference_combine_counts(&step->job, step->place, weights,
			input_expert_row, &step->job, &step->wanted_counts[0],
			&step->wanted_counts[1]),
		"no memory");
	for (int32_t m = 0; step->rule.weights_at_combine && m < members; m++)
		free((void *)(uintptr_t)weights[m]);
	free(weights);
}

/* What combine should give, guard bytes around it included. */
static void expect(struct seat *seat, struct trial *step)
{
	const struct shunt_combine_args *args = &step->combine;
	struct reference_combine combine = {
		.weights = args->weights != NULL
				   ? args->weights
				   : step->inputs[step->member].weights,
		.expert = input_expert_row,
		.context = &step->job,
		.out_dtype = out_dtype_of(step),
		.out = trial_rows_first(&step->wanted[OUT]),
		.out_stride = dense(step, args->out_stride),
		.ori_x = args->ori_x,
		.ori_x_stride = dense(step, args->ori_x_stride),
		.alpha1 = args->constant_alpha1,
		.alpha2 = args->constant_alpha2,
		.v = args->constant_v,
		.shared_x = args->shared_expert_x,
		.shared_x_stride = dense(step, args->shared_expert_x_stride),
		.residual = args->residual,
		.residual_stride = dense(step, args->residual_stride),
		.gamma = args->gamma,
		.gamma_dtype = args->gamma_dtype == SHUNT_DTYPE_NONE
				       ? out_dtype_of(step)
				       : args->gamma_dtype,
		.norm_eps = args->norm_eps,
		.norm_out = trial_rows_first(&step->wanted[NORM_OUT]),
		.norm_out_stride = dense(step, args->norm_out_stride),
		.rstd = trial_rows_first(&step->wanted[RSTD]),
	};

	SEAT_CHECK(seat, reference_combine(&step->job, step->place, &combine),
		"no memory");
	if (step->job.config.combine_quant != SHUNT_COMBINE_QUANT_NONE)
		expect_counts(seat, step);
}

void trial_fill_combine(struct seat *seat, struct trial *step)
{
	step->combine = (struct shunt_combine_args)SHUNT_COMBINE_ARGS_INIT;
	step->combine.out_dtype = step->rule.out_dtype;
	step->combine.elastic_info = step->rule.table;
	step->combine.performance_info = step->performance;
	if (step->job.config.combine_quant != SHUNT_COMBINE_QUANT_NONE) {
		step->combine.nan_elements = &step->got_counts[0];
		step->combine.inf_elements = &step->got_counts[1];
	}
	make_late_weights(seat, step);
	make_inputs(seat, step);
	make_outputs(seat, step);
	if (step->due == SHUNT_OK)
		expect(seat, step);
}

void trial_fini_combine(struct trial *step)
{
	for (int i = 0; i < NUM_OUTPUTS; i++) {
		trial_rows_fini(&step->got[i]);
		trial_rows_fini(&step->wanted[i]);
	}
	trial_rows_fini(&step->ori_x);
	trial_rows_fini(&step->shared_x);
	trial_rows_fini(&step->residual);
	trial_rows_fini(&step->gamma);
	trial_rows_fini(&step->alpha1);
	trial_rows_fini(&step->alpha2);
	trial_rows_fini(&step->v);
	trial_rows_fini(&step->y);
	shunt_free(step->world, step->registered);
	free(step->weights_at_combine);
	free(step->y_pointers);
}

/* ---- the experts' rows ------------------------------------------------ */

static void write_row(struct trial *step, int64_t n, void *y)
{
	const struct reference_received *rows = &step->expected;
	int64_t scales = rows->num_scales * rows->scale_bytes;
	struct reference_made made = {
		.expert = rows->experts[n],
		.tp = step->place.tp,
		.q = rows->expand_x + n * rows->row_bytes,
		.scales = rows->scales + n * scales,
		.row_scale = rows->row_scales[n],
	};

	input_expert_row(&step->job, &made, y);
}

/* All rows, the one of row n at first + n * pitch. */
static void write_rows(struct trial *step, uint8_t *first, int64_t pitch)
{
	for (int64_t n = 0; n < step->expected.extent_rows; n++)
		if (step->expected.kind[n] == REFERENCE_REAL)
			write_row(step, n, first + n * pitch);
}

static int64_t y_bytes(const struct trial *step)
{
	return step->job.config.hidden *
	       (int64_t)convert_bytes(step->job.config.expert_dtype);
}

static void make_block(struct seat *seat, struct trial *step)
{
	struct trial_rows_shape shape = shape_of(step, TRIAL_Y,
		step->job.config.expert_dtype, step->expected.extent_rows);

	SEAT_CHECK(seat, trial_rows_init(&step->y, &shape), "no memory");
	write_rows(step, trial_rows_first(&step->y), step->y.pitch);
	step->combine.y_stride = step->y.stride;
}

static void make_registered(struct seat *seat, struct trial *step)
{
	int64_t bytes = (step->expected.extent_rows + 1) * y_bytes(step);

	step->registered = shunt_alloc(seat->world, (size_t)bytes);
	SEAT_CHECK(seat, step->registered != NULL, "shunt_alloc: %s",
		shunt_error_message());
	write_rows(step, step->registered, y_bytes(step));
	step->combine.y = step->registered;
}

/* Pointers to rows in reverse; padding is not read, whatever it is. */
static void make_pointers(struct seat *seat, struct trial *step)
{
	int64_t rows = step->expected.extent_rows;

	step->y_pointers = calloc((size_t)rows + 1, sizeof(void *));
	SEAT_CHECK(seat, step->y_pointers != NULL, "no memory");
	make_block(seat, step);
	for (int64_t n = 0; n < rows; n++) {
		step->y_pointers[n] = trial_rows_at(&step->y, rows - 1 - n);
		if (step->expected.kind[n] == REFERENCE_REAL)
			write_row(
				step, n, trial_rows_at(&step->y, rows - 1 - n));
	}
	step->combine.y_stride = 0;
	step->combine.y_rows = step->y_pointers;
}

void trial_make_rows(struct seat *seat, struct trial *step)
{
	int64_t last = step->rule.may_feed ? TRIAL_BY_FEED : TRIAL_IN_POINTERS;

	if (!step->rule.plain)
		step->y_place = (enum trial_place)trial_draw(
			&step->rule, step->member, TRIAL_Y_PLACE, 0, last);
	switch (step->y_place) {
	case TRIAL_IN_OWN_BLOCK:
		make_block(seat, step);
		step->combine.y = trial_rows_first(&step->y);
		return;
	case TRIAL_IN_REGISTERED:
		make_registered(seat, step);
		return;
	case TRIAL_IN_POINTERS:
		make_pointers(seat, step);
		return;
	case TRIAL_BY_FEED:
		make_block(seat, step);
		step->combine.y_stride = 0;
		step->combine.feed = true;
		return;
	default:
		write_rows(step, step->out.expert_rows, y_bytes(step));
		step->combine.y = step->out.expert_rows;
	}
}

void trial_spoil_rows(struct trial *step)
{
	if (step->y_place == TRIAL_IN_OWN_BLOCK ||
		step->y_place == TRIAL_IN_POINTERS)
		trial_rows_spoil(&step->y);
}

/* ---- feeding ---------------------------------------------------------- */

static void feed(struct seat *seat, struct trial *step, int64_t local)
{
	int64_t first = step->expected.first_row[local];
	int64_t end = first + step->expected.token_nums[local];
	int64_t pitch = y_bytes(step);
	bool in_place = trial_draw(&step->rule, step->member + (int32_t)local,
		TRIAL_FED_IN_PLACE, 0, 1);

	if (first == end && in_place)
		return;
	for (int64_t n = first; in_place && n < end; n++)
		memcpy((uint8_t *)step->out.expert_rows + n * pitch,
			trial_rows_at(&step->y, n), (size_t)pitch);
	SEAT_OK(seat, shunt_combine_feed(step->handle, local,
			      in_place ? NULL : trial_rows_at(&step->y, first),
			      in_place ? 0 : step->y.stride));
	for (int64_t n = first; n < end; n++)
		memset(trial_rows_at(&step->y, n), 0xee, (size_t)pitch);
}

void trial_feed(struct seat *seat, struct trial *step)
{
	int64_t experts = step->expected.num_experts, begin;

	if (!step->combine.feed || experts == 0)
		return;
	/* All, going round or back from anywhere. */
	begin = trial_draw(&step->rule, step->member, TRIAL_FEED_ORDER, 0,
		2 * experts - 1);
	for (int64_t i = 0; i < experts; i++)
		feed(seat, step,
			begin < experts
				? (begin + i) % experts
				: (2 * experts - 1 - i + begin) % experts);
}

/* ---- checks ----------------------------------------------------------- */

void trial_check_combine(struct seat *seat, struct trial *step)
{
	static const char *const names[NUM_OUTPUTS] = {"the block around out",
		"the block around norm_out", "the block around rstd"};
	char why[CHECK_TEXT] = "";
	bool good = true;

	for (int i = 0; good && i < NUM_OUTPUTS; i++)
		good = check_bytes(names[i], step->wanted[i].block,
			step->got[i].block, step->wanted[i].bytes,
			step->wanted[i].pitch + (step->wanted[i].pitch == 0),
			why);
	good = good &&
	       check_number("nan_elements of combine", step->wanted_counts[0],
		       step->got_counts[0], why) &&
	       check_number("inf_elements of combine", step->wanted_counts[1],
		       step->got_counts[1], why);
	SEAT_CHECK(seat, good, "combine of step %" PRId64 ": %s",
		step->rule.step, why);
}
