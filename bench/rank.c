/*
 * The life of a rank of `shunt bench`: joins the world, makes an exchange,
 * and runs steps. The timed steps come in rounds; in each, real steps are
 * followed by steps of each copy loop of the floor, so that all of them see
 * the same moods of the machine. The first step of such a block is not timed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "check.h"
#include "command.h"

/* Steps of each copy loop before anything is timed. */
#define FLOOR_WARMUP 2

struct rank {
	struct bench *bench;
	int32_t rank;
	struct bench_rank *page;
	struct shunt_world *world;
	struct shunt_exchange *exchange;
	struct load_target *targets; /* (step of the ring, T * K) */
	const uint8_t **rows;        /* scratch of the floor */
	uint8_t *out;                /* (T, H), of combine */
	struct check check;
	int64_t real_step, floor_step;
};

/* ---- failing ---------------------------------------------------------- */

/* Leaves the message, and lets the other ranks know. Returns false. */
static bool fail(struct rank *self, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool fail(struct rank *self, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(self->page->message, sizeof(self->page->message), format,
		arguments);
	va_end(arguments);
	atomic_store(&self->page->failure,
		atomic_fetch_add(self->bench->num_failures, 1) + 1);
	barrier_break(self->bench->barrier);
	return false;
}

static bool fail_call(
	struct rank *self, const char *call, enum shunt_status status)
{
	return fail(self, "%s: %s: %s", call, shunt_status_name(status),
		shunt_error_message());
}

/* ---- preparing -------------------------------------------------------- */

static bool join(struct rank *self)
{
	struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;
	enum shunt_status status;

	config.rendezvous = self->bench->meeting;
	config.rank = self->rank;
	config.num_ranks = (int32_t)self->bench->options.num_ranks;
	config.key = self->bench->rendezvous.key;
	config.job = "shunt bench";
	status = shunt_world_create(&config, &self->world);
	if (status)
		return fail_call(self, "shunt_world_create", status);
	status = shunt_exchange_create(
		self->world, NULL, &self->bench->config, &self->exchange);
	if (status)
		return fail_call(self, "shunt_exchange_create", status);
	return true;
}

static bool prepare_memory(struct rank *self)
{
	const struct bench *bench = self->bench;
	size_t num_choices = (size_t)bench->load.num_choices;
	size_t out_bytes = (size_t)bench->options.num_tokens *
			   (size_t)bench->floor.expert_bytes;

	self->targets =
		calloc(LOAD_STEPS * num_choices + 1, sizeof(self->targets[0]));
	self->rows = calloc((size_t)bench->options.topk, sizeof(self->rows[0]));
	self->out = aligned_alloc(64, (out_bytes / 64 + 1) * 64);
	if (!self->targets || !self->rows || !self->out)
		return fail(self, "out of memory");
	memset(self->out, 0, out_bytes);
	for (int64_t step = 0; step < LOAD_STEPS; step++)
		if (!load_place(&bench->load, &bench->options.routing, step,
			    self->rank,
			    self->targets + step * bench->load.num_choices))
			return fail(self, "out of memory");
	return true;
}

static bool prepare(struct rank *self)
{
	struct bench *bench = self->bench;

	if (bench->pinned)
		machine_pin(self->rank);
	load_fill_x(&bench->load, &bench->options, self->rank);
	if (!prepare_memory(self) || !barrier_wait(bench->barrier) ||
		!join(self))
		return false;
	if (bench->options.check &&
		!check_init(&self->check, &bench->load, &bench->config,
			&bench->expert, self->rank))
		return fail(self, "out of memory for the reference");
	return barrier_wait(bench->barrier);
}

static void clear_up(struct rank *self)
{
	check_fini(&self->check);
	shunt_exchange_destroy(self->exchange);
	shunt_world_destroy(self->world);
	free(self->targets);
	free(self->rows);
	free(self->out);
}

/* ---- real steps ------------------------------------------------------- */

/* Where to put a time: nowhere if iteration is -1. */
static void note_time(const struct rank *self, int series,
	enum bench_phase phase, int64_t iteration, int64_t started_ns)
{
	int64_t elapsed = barrier_now() - started_ns;

	if (iteration >= 0)
		*bench_time(self->bench, series, phase, iteration, self->rank) =
			elapsed;
}

static void apply_experts(
	const struct rank *self, const struct shunt_dispatch_out *out)
{
	struct bench *bench = self->bench;
	int64_t first =
		routing_first_expert(&bench->options.routing, self->rank);
	int64_t end =
		routing_first_expert(&bench->options.routing, self->rank + 1);
	const uint8_t *sent = out->expand_x;
	uint8_t *made = out->expert_rows;

	for (int64_t e = first; e < end; e++)
		for (int64_t i = 0; i < out->expert_token_nums[e - first];
			i++) {
			expert_row(&bench->expert, e, sent, 1, made);
			sent += bench->floor.sent_bytes;
			made += bench->floor.expert_bytes;
		}
}

static bool dispatch(struct rank *self, int64_t step, int64_t iteration,
	struct shunt_dispatch_out *out, struct shunt_handle *handle)
{
	const struct load *load = &self->bench->load;
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	char why[CHECK_TEXT];
	enum shunt_status status;
	int64_t started;

	args.x = load_x(load, step, self->rank);
	args.num_tokens = load->num_tokens;
	args.expert_ids = load_ids(load, step, self->rank);
	args.ids_type = SHUNT_INDEX_I64;
	args.weights = load_weights(load, step, self->rank);
	args.smooth_scales = load->smooth;
	args.active_mask = load_mask(load, step, self->rank);
	if (args.active_mask)
		args.mask = SHUNT_MASK_TOKENS;
	if (!barrier_start(self->bench->barrier, &started))
		return false;
	status = shunt_dispatch(self->exchange, &args, out, handle);
	note_time(self, BENCH_REAL, BENCH_DISPATCH, iteration, started);
	if (status)
		return fail_call(self, "shunt_dispatch", status);
	if (self->bench->options.check &&
		!check_dispatch(&self->check, step, out, why))
		return fail(self, "dispatch of step %lld is wrong: %s",
			(long long)step, why);
	return true;
}

static bool combine(struct rank *self, int64_t step, int64_t iteration,
	const struct shunt_dispatch_out *sent, struct shunt_handle handle)
{
	struct shunt_combine_args args = SHUNT_COMBINE_ARGS_INIT;
	char why[CHECK_TEXT];
	enum shunt_status status;
	int64_t started;

	args.y = sent->expert_rows;
	args.out = self->out;
	if (!barrier_start(self->bench->barrier, &started))
		return false;
	status = shunt_combine(handle, &args);
	note_time(self, BENCH_REAL, BENCH_COMBINE, iteration, started);
	if (status)
		return fail_call(self, "shunt_combine", status);
	if (self->bench->options.check &&
		!check_combine(&self->check, step, self->out, why))
		return fail(self, "combine of step %lld is wrong: %s",
			(long long)step, why);
	return true;
}

static bool step_real(struct rank *self, int64_t iteration)
{
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_handle handle;
	int64_t step = self->real_step++;

	if (!dispatch(self, step, iteration, &out, &handle))
		return false;
	apply_experts(self, &out);
	if (!combine(self, step, iteration, &out, handle))
		return false;
	atomic_fetch_add(&self->page->num_steps, 1);
	return true;
}

/* ---- floor steps ------------------------------------------------------ */

/* What the experts read and write, without a meaning. */
static void disturb_experts(const struct rank *self, int64_t step)
{
	struct bench *bench = self->bench;
	const struct floor *floor = &bench->floor;
	const uint8_t *sent = floor_sent(floor, step, self->rank);
	uint8_t *made = floor_experts(floor, step, self->rank);
	int64_t num_rows = load_num_rows(
		&bench->load, &bench->options.routing, step, self->rank);

	for (int64_t i = 0; i < num_rows; i++)
		expert_row(&bench->expert, 0, sent + i * floor->sent_bytes, 1,
			made + i * floor->expert_bytes);
}

static bool step_floor(struct rank *self, int variant, int64_t iteration)
{
	struct bench *bench = self->bench;
	const struct floor *floor = &bench->floor;
	int64_t step = self->floor_step++;
	const struct load_target *targets =
		self->targets + step % LOAD_STEPS * bench->load.num_choices;
	int series = BENCH_FLOOR(variant);
	int64_t started;

	if (!barrier_start(bench->barrier, &started))
		return false;
	floor_dispatch(floor, variant, step, self->rank, targets);
	note_time(self, series, BENCH_DISPATCH, iteration, started);
	/* A dispatch returns when all rows are there; so does this. */
	if (!barrier_wait(bench->barrier))
		return false;
	if (bench->options.check)
		check_disturb_dispatch(&self->check, step,
			floor_sent(floor, step, self->rank));
	disturb_experts(self, step);
	if (!barrier_start(bench->barrier, &started))
		return false;
	floor_combine(floor, variant, step, targets, self->rows, self->out);
	note_time(self, series, BENCH_COMBINE, iteration, started);
	if (bench->options.check)
		check_disturb_combine(&self->check, step, self->out);
	atomic_fetch_add(&self->page->num_steps, 1);
	return true;
}

/* ---- the order of steps ----------------------------------------------- */

/* An untimed step and then those of iterations first .. end - 1; `series` is
 * BENCH_REAL or a loop of the floor. */
static bool run_block(struct rank *self, int series, int64_t first, int64_t end)
{
	for (int64_t i = first - 1; i < end; i++) {
		int64_t iteration = i < first ? -1 : i;
		bool done = series == BENCH_REAL
				    ? step_real(self, iteration)
				    : step_floor(self, series - BENCH_FLOOR(0),
					      iteration);

		if (!done)
			return false;
	}
	return true;
}

static bool warm_up(struct rank *self)
{
	for (int64_t i = 0; i < self->bench->options.num_warmup; i++)
		if (!step_real(self, -1))
			return false;
	for (int v = 0; v < self->bench->floor.num_copies; v++)
		for (int i = 0; i < FLOOR_WARMUP; i++)
			if (!step_floor(self, v, -1))
				return false;
	return true;
}

static bool run_rounds(struct rank *self)
{
	int64_t iterations = self->bench->options.num_iterations;
	int64_t rounds = self->bench->num_rounds;
	int num_series = BENCH_FLOOR(self->bench->floor.num_copies);

	for (int64_t round = 0; round < rounds; round++)
		for (int series = 0; series < num_series; series++)
			if (!run_block(self, series,
				    round * iterations / rounds,
				    (round + 1) * iterations / rounds))
				return false;
	return true;
}

int64_t rank_num_steps(const struct bench *bench)
{
	int64_t num_copies = bench->floor.num_copies;

	return bench->options.num_warmup + num_copies * FLOOR_WARMUP +
	       (1 + num_copies) *
		       (bench->num_rounds + bench->options.num_iterations);
}

int rank_main(void *context, int32_t rank)
{
	struct bench *bench = context;
	struct rank self = {
		.bench = bench,
		.rank = rank,
		.page = &bench->ranks[rank],
	};
	/* The last barrier: nobody leaves while others still need it. */
	bool done = prepare(&self) && warm_up(&self) && run_rounds(&self) &&
		    barrier_wait(bench->barrier);

	self.page->digest = self.check.digest;
	clear_up(&self);
	return done ? COMMAND_OK : COMMAND_FAILED;
}
