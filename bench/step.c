/* The real steps of a rank: dispatch, experts, combine. */
#include "overlap.h"
#include "rank.h"

/* Adds what this call waits to the sums of timed steps, or to nobody's. */
static int64_t *waits_of(
	const struct rank *self, enum bench_phase phase, int64_t iteration)
{
	struct bench *bench = self->bench;

	if (!bench->options.performance_info)
		return NULL;
	return iteration < 0 || self->series != BENCH_REAL
		       ? self->waits
		       : bench_waits(bench, phase, self->member);
}

/*
 * Nobody goes on before all have ended a phase: with more ranks than cores, what
 * comes between the phases would take the core from ranks that are still timed.
 */
static bool end_phase(const struct rank *self, enum bench_phase phase,
	int64_t iteration, int64_t started_ns)
{
	if (!self->left_out)
		rank_note_time(
			self, self->series, phase, iteration, started_ns);
	return barrier_wait(self->bench->barrier);
}

/* ---- dispatch --------------------------------------------------------- */

/* What comes with the routing; a cached step repeats that of the last. */
static void give_routing(
	const struct rank *self, int64_t step, struct shunt_dispatch_args *args)
{
	const struct load *load = &self->bench->load;
	const struct options *options = &self->bench->options;
	bool narrow = options->ids == SHUNT_INDEX_I32;

	if (options->cached && step > 0) {
		args->cached = self->last;
		return;
	}
	args->expert_ids = load_at(
		load, narrow ? LOAD_IDS32 : LOAD_IDS, step, self->member);
	args->ids_type = (enum shunt_index)options->ids;
	args->mask = load->mask;
	args->active_mask = load_at(load, LOAD_MASK, step, self->member);
	if (options->weights == OPTIONS_WEIGHTS_DISPATCH)
		args->weights = load_at(load, LOAD_WEIGHTS, step, self->member);
}

static struct shunt_dispatch_args dispatch_args(
	const struct rank *self, int64_t step, int64_t iteration)
{
	const struct load *load = &self->bench->load;
	const struct options *options = &self->bench->options;
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;

	args.x = load_at(load, LOAD_X, step, self->member);
	args.num_tokens = load->num_tokens;
	args.x_stride = load->x_stride;
	args.x_scales = load_at(load, LOAD_X_SCALES, step, self->member);
	args.smooth_scales = load_table(load, LOAD_SMOOTH);
	args.static_scales = load_table(load, LOAD_STATIC);
	args.static_shape = (enum shunt_static_shape)options->static_shape;
	args.prefix_token_nums = options->prefix_nums;
	args.elastic_info = self->bench->shape.table;
	args.performance_info = waits_of(self, BENCH_DISPATCH, iteration);
	give_routing(self, step, &args);
	return args;
}

static enum shunt_status call_dispatch(struct rank *self,
	const struct shunt_dispatch_args *args, struct shunt_dispatch_out *out)
{
	enum shunt_status status;

	if (self->series == BENCH_OVERLAP)
		return overlap_dispatch(self, args, out);
	if (!self->bench->options.split)
		return shunt_dispatch(self->exchange, args, out, &self->last);
	status = shunt_dispatch_start(self->exchange, args, &self->last);
	if (status)
		return status;
	return shunt_dispatch_finish(self->last, 0, out);
}

static bool check_received_rows(
	struct rank *self, int64_t step, const struct shunt_dispatch_out *out)
{
	bool indexed = self->bench->plan.indexed;
	char why[CHECK_TEXT];

	if (!self->bench->options.check ||
		check_dispatch(&self->check, step, out,
			indexed ? self->rows : NULL, why))
		return true;
	return rank_fail(self, "dispatch of step %lld is wrong: %s",
		(long long)step, why);
}

static bool dispatch(struct rank *self, int64_t step, int64_t iteration,
	struct shunt_dispatch_out *out)
{
	struct shunt_dispatch_args args = dispatch_args(self, step, iteration);
	enum shunt_status status = SHUNT_OK;
	int64_t started;

	if (!barrier_start(self->bench->barrier, &started))
		return false;
	started = overlap_open(self, BENCH_DISPATCH, started);
	if (!self->left_out) {
		status = call_dispatch(self, &args, out);
		if (!status && self->bench->plan.indexed)
			status = shunt_dispatch_rows(self->last, self->rows);
	}
	if (status)
		return rank_fail_call(self, "shunt_dispatch", status);
	if (!end_phase(self, BENCH_DISPATCH, iteration, started))
		return false;
	return self->left_out || check_received_rows(self, step, out);
}

/* ---- experts ---------------------------------------------------------- */

/* The row that an expert writes for received row n. */
static uint8_t *row_made(const struct rank *self,
	const struct shunt_dispatch_out *out, int64_t n)
{
	int64_t bytes = self->bench->load.expert_bytes;

	switch (self->bench->options.y) {
	case OPTIONS_Y_WINDOW:
		return (uint8_t *)out->expert_rows + n * bytes;
	case OPTIONS_Y_ROWS: /* in no order that the library knows */
		return self->y + (self->recv_rows - 1 - n) * bytes;
	default:
		return self->y + n * bytes;
	}
}

static const uint8_t *row_received(const struct rank *self,
	const struct shunt_dispatch_out *out, int64_t n)
{
	if (self->bench->plan.indexed)
		return self->rows[n];
	return (const uint8_t *)out->expand_x + n * self->bench->plan.row_bytes;
}

static int64_t num_rows_of(const struct rank *self,
	const struct shunt_dispatch_out *out, int64_t local)
{
	const int64_t *nums = out->expert_token_nums;

	if (local == 0 || !self->bench->options.prefix_nums)
		return nums[local];
	return nums[local] - nums[local - 1];
}

static void apply_experts(
	struct rank *self, const struct shunt_dispatch_out *out)
{
	struct bench *bench = self->bench;
	int32_t rank = shape_rank(&bench->shape, self->member);
	int32_t tp = shape_tp(&bench->shape, self->member);

	for (int64_t l = 0; l < out->num_local_experts; l++) {
		int64_t expert = shape_local(&bench->shape, rank, l);
		int64_t first = out->expert_first_row[l];
		int64_t end = first + num_rows_of(self, out, l);

		for (int64_t n = first; n < end; n++)
			expert_row(&bench->expert, expert, tp,
				row_received(self, out, n),
				row_made(self, out, n));
	}
	if (bench->options.y == OPTIONS_Y_ROWS)
		for (int64_t n = 0; n < out->extent_rows; n++)
			self->y_rows[n] = row_made(self, out, n);
}

/* ---- combine ---------------------------------------------------------- */

/* What is added besides the experts' rows. */
static void give_terms(
	const struct rank *self, int64_t step, struct shunt_combine_args *args)
{
	const struct load *load = &self->bench->load;

	args->ori_x = load_at(load, LOAD_ORI_X, step, self->member);
	args->constant_alpha1 = load_table(load, LOAD_ALPHA1);
	args->constant_alpha2 = load_table(load, LOAD_ALPHA2);
	args->constant_v = load_table(load, LOAD_V);
	args->shared_expert_x =
		load_at(load, LOAD_SHARED_X, step, self->member);
	args->residual = load_at(load, LOAD_RESIDUAL, step, self->member);
	args->gamma = load_table(load, LOAD_GAMMA);
	if (!args->gamma)
		return;
	args->gamma_dtype = (enum shunt_dtype)self->bench->options.gamma;
	args->norm_eps = OPTIONS_NORM_EPS;
	args->norm_out = self->work.norm_out;
	args->rstd = self->rstd;
}

static void give_y(const struct rank *self,
	const struct shunt_dispatch_out *sent, struct shunt_combine_args *args)
{
	const struct options *options = &self->bench->options;

	args->feed = options->feed;
	if (options->feed)
		return;
	if (options->y == OPTIONS_Y_ROWS)
		args->y_rows = self->y_rows;
	else
		args->y = row_made(self, sent, 0);
}

static struct shunt_combine_args combine_args(const struct rank *self,
	int64_t step, int64_t iteration, const struct shunt_dispatch_out *sent)
{
	const struct options *options = &self->bench->options;
	struct shunt_combine_args args = SHUNT_COMBINE_ARGS_INIT;

	give_y(self, sent, &args);
	give_terms(self, step, &args);
	if (options->weights == OPTIONS_WEIGHTS_COMBINE)
		args.weights = load_at(
			&self->bench->load, LOAD_WEIGHTS, step, self->member);
	args.out = self->work.out;
	args.out_dtype = (enum shunt_dtype)options->out_dtype;
	args.elastic_info = self->bench->shape.table;
	args.performance_info = waits_of(self, BENCH_COMBINE, iteration);
	return args;
}

enum shunt_status rank_feed(const struct rank *self,
	const struct shunt_dispatch_out *sent, int64_t local)
{
	const void *y = NULL;

	if (self->bench->options.y != OPTIONS_Y_WINDOW)
		y = row_made(self, sent, sent->expert_first_row[local]);
	return shunt_combine_feed(self->last, local, y, 0);
}

static enum shunt_status feed(
	const struct rank *self, const struct shunt_dispatch_out *sent)
{
	enum shunt_status status = SHUNT_OK;

	for (int64_t l = 0; !status && l < sent->num_local_experts; l++)
		status = rank_feed(self, sent, l);
	return status;
}

static enum shunt_status call_combine(const struct rank *self,
	const struct shunt_combine_args *args,
	const struct shunt_dispatch_out *sent)
{
	enum shunt_status status;

	if (self->series == BENCH_OVERLAP)
		return overlap_combine(self, args, sent);
	if (!self->bench->options.split && !args->feed)
		return shunt_combine(self->last, args);
	status = shunt_combine_start(self->last, args);
	if (!status && args->feed)
		status = feed(self, sent);
	return status ? status : shunt_combine_finish(self->last, 0);
}

static bool check_result(struct rank *self, int64_t step, int64_t nan_elements,
	int64_t inf_elements)
{
	struct check_combined got = {
		.out = self->work.out,
		.norm_out = self->work.norm_out,
		.rstd = self->rstd,
		.nan_elements = nan_elements,
		.inf_elements = inf_elements,
	};
	char why[CHECK_TEXT];

	if (!self->bench->options.check ||
		check_combine(&self->check, step, &got, why))
		return true;
	return rank_fail(self, "combine of step %lld is wrong: %s",
		(long long)step, why);
}

static bool combine(struct rank *self, int64_t step, int64_t iteration,
	const struct shunt_dispatch_out *sent)
{
	struct shunt_combine_args args;
	int64_t nan_elements = 0, inf_elements = 0, started;
	enum shunt_status status = SHUNT_OK;

	if (!barrier_start(self->bench->barrier, &started))
		return false;
	started = overlap_open(self, BENCH_COMBINE, started);
	if (!self->left_out) {
		args = combine_args(self, step, iteration, sent);
		args.nan_elements = &nan_elements;
		args.inf_elements = &inf_elements;
		status = call_combine(self, &args, sent);
	}
	if (status)
		return rank_fail_call(self, "shunt_combine", status);
	if (!end_phase(self, BENCH_COMBINE, iteration, started))
		return false;
	return self->left_out ||
	       check_result(self, step, nan_elements, inf_elements);
}

bool rank_step(struct rank *self, int series, int64_t iteration)
{
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	int64_t step = self->real_step++;

	self->series = series;
	if (!dispatch(self, step, iteration, &out))
		return false;
	apply_experts(self, &out);
	if (!combine(self, step, iteration, &out))
		return false;
	atomic_fetch_add(&self->page->num_steps, 1);
	return true;
}
