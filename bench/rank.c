/*
 * The life of a rank of `shunt bench`: joins the world and runs steps. The timed steps come in rounds; in each, real steps are
 * followed by steps of each copy loop of the floor, so that all of them see
 * the same moods of the machine. The first steps of such a block are not timed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "command.h"
#include "overlap.h"
#include "rank.h"

/* Steps of each copy loop before anything is timed. */
#define FLOOR_WARMUP 2

/* ---- failing ---------------------------------------------------------- */

bool rank_fail(struct rank *self, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(self->page->message, sizeof(self->page->message), format,
		arguments);
	va_end(arguments);
	atomic_store(&self->page->failure,
		atomic_fetch_add(self->bench->num_failures, 1) + 1);
	barrier_break(self->bench->barrier);
	if (self->bench->options.joined)
		channel_fail(&self->bench->channel, self->page->message);
	return false;
}

bool rank_fail_call(
	struct rank *self, const char *call, enum shunt_status status)
{
	return rank_fail(self, "%s: %s: %s", call, shunt_status_name(status),
		shunt_error_message());
}

/* ---- preparing -------------------------------------------------------- */

/* A row of any kind, or T of out: cleared and touched. */
static uint8_t *take(int64_t count, int64_t bytes)
{
	size_t size = (size_t)(count * bytes / 64 + 1) * 64;
	uint8_t *memory = aligned_alloc(64, size);

	if (memory)
		memset(memory, 0, size);
	return memory;
}

static bool find_targets(struct rank *self)
{
	const struct plan *plan = &self->bench->plan;
	int64_t width = plan->load->num_tokens * plan_num_targets(plan);

	self->targets = calloc(
		LOAD_STEPS * (size_t)width + 1, sizeof(self->targets[0]));
	if (!self->targets)
		return false;
	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		if (!plan_targets(plan, step, self->member,
			    self->targets + step * width))
			return false;
		self->work.zero_rows[step] =
			plan_zero_rows(plan, step, self->member);
	}
	return true;
}

static bool prepare_memory(struct rank *self)
{
	const struct bench *bench = self->bench;
	const struct load *load = &bench->load;
	size_t terms = (size_t)floor_most_terms(&bench->floor);

	self->work.floor = &bench->floor;
	self->work.member = self->member;
	self->work.rows = calloc(terms, sizeof(self->work.rows[0]));
	self->work.scratch = take(1, floor_widest_row(&bench->floor));
	self->work.out = take(load->num_tokens, load->out_bytes);
	self->work.norm_out = take(load->num_tokens, load->out_bytes);
	self->rstd = calloc((size_t)load->num_tokens + 1, sizeof(float));
	self->waits = calloc((size_t)bench->shape.num_ranks, sizeof(int64_t));
	if (!self->work.rows || !self->work.scratch || !self->work.out ||
		!self->work.norm_out || !self->rstd || !self->waits ||
		!find_targets(self))
		return rank_fail(self, "out of memory");
	return true;
}

/* Which of this host's ranks this is. */
static int local_of(const struct rank *self)
{
	const struct options *options = &self->bench->options;

	return options->joined && options->job.local_rank >= 0
		       ? options->job.local_rank
		       : self->member;
}

/* The reference works on everybody's rows: where memory is this rank's alone,
 * it has to draw them itself. */
static void draw(struct rank *self)
{
	struct bench *bench = self->bench;
	bool all = bench->options.joined && bench->options.check;

	for (int32_t m = 0; m < bench->shape.num_members; m++)
		if (all || m == self->member)
			draw_rows(&bench->load, &bench->options, m);
}

static bool prepare(struct rank *self)
{
	struct bench *bench = self->bench;
	struct check_for what = {
		.load = &bench->load,
		.options = &bench->options,
		.config = &bench->config,
		.expert = &bench->expert,
		.member = self->member,
	};

	self->left_out = shape_new_rank(&bench->shape, self->member) < 0;
	if (bench->pinned)
		machine_pin(local_of(self));
	draw(self);
	if (!prepare_memory(self) || !barrier_wait(bench->barrier) ||
		!rank_join(self))
		return false;
	what.recv_rows = self->recv_rows;
	what.hosts = self->hosts;
	what.adds_partial_sums = self->page->travel.adds_partial_sums;
	if (bench->options.check && !check_init(&self->check, &what))
		return rank_fail(self, "out of memory for the reference");
	return barrier_wait(bench->barrier);
}

static void clear_up(struct rank *self)
{
	check_fini(&self->check);
	rank_leave(self);
	free(self->targets);
	free(self->work.rows);
	free(self->work.scratch);
	free(self->work.out);
	free(self->work.norm_out);
	free(self->rstd);
	free(self->waits);
	free(self->hosts);
}

void rank_note_time(const struct rank *self, int series, enum bench_phase phase,
	int64_t iteration, int64_t started_ns)
{
	int64_t elapsed = clock_ns() - started_ns;

	if (iteration >= 0)
		*bench_time(self->bench, series, phase, iteration,
			self->member) = elapsed;
}

/* ---- floor steps ------------------------------------------------------ */

/*
 * What the experts read and write, without a meaning, by their own loop: where
 * the lines of a row are afterwards depends on the stores that wrote it, and
 * combine's floor is to find them where combine does.
 */
static void disturb_experts(const struct rank *self, int64_t step)
{
	struct bench *bench = self->bench;
	const struct floor *floor = &bench->floor;
	const struct plan *plan = &bench->plan;
	const uint8_t *sent = floor_sent(floor, step, self->member);
	uint8_t *made = floor_experts(floor, step, self->member);
	int64_t num_rows = plan_num_rows(plan, step, self->member);

	for (int64_t i = 0; i < num_rows && floor->sent_rows > 0; i++) {
		const uint8_t *row =
			sent + i % floor->sent_rows * plan->row_bytes;

		if (plan->home_bytes == bench->load.expert_bytes) {
			expert_row(&bench->expert, 0, 0, row,
				made + i * plan->home_bytes);
			continue;
		}
		floor_touch(row, plan->row_bytes);
		memset(made + i * plan->home_bytes, (int)i,
			(size_t)plan->home_bytes);
	}
}

static bool step_floor(struct rank *self, int variant, int64_t iteration)
{
	struct bench *bench = self->bench;
	const struct floor *floor = &bench->floor;
	int64_t step = self->floor_step++;
	int64_t width = bench->load.num_tokens * plan_num_targets(&bench->plan);
	const struct plan_target *targets =
		self->targets + step % LOAD_STEPS * width;
	bool checked = bench->options.check && !self->left_out;
	int series = BENCH_FLOOR(variant);
	int64_t started;

	if (!barrier_start(bench->barrier, &started))
		return false;
	if (!self->left_out)
		floor_dispatch(&self->work, variant, step, targets);
	rank_note_time(self, series, BENCH_DISPATCH, iteration, started);
	/* A dispatch returns when all rows are there; so does this. */
	if (!barrier_wait(bench->barrier))
		return false;
	if (checked)
		check_disturb_dispatch(&self->check, step,
			floor_sent(floor, step, self->member),
			floor->sent_rows);
	disturb_experts(self, step);
	if (!barrier_start(bench->barrier, &started))
		return false;
	if (!self->left_out)
		floor_combine(&self->work, variant, step, targets);
	rank_note_time(self, series, BENCH_COMBINE, iteration, started);
	if (!barrier_wait(bench->barrier))
		return false;
	if (checked)
		check_disturb_combine(&self->check, step, self->work.out);
	atomic_fetch_add(&self->page->num_steps, 1);
	return true;
}

/* ---- the order of steps ----------------------------------------------- */

/* Untimed steps and then those of iterations first .. end - 1. */
static bool run_series(
	struct rank *self, int series, int64_t first, int64_t end)
{
	for (int64_t i = first - self->bench->block_warmup; i < end; i++) {
		int64_t iteration = i < first ? -1 : i;
		bool done = series == BENCH_REAL || series == BENCH_OVERLAP
				    ? rank_step(self, series, iteration)
				    : step_floor(self, series - BENCH_FLOOR(0),
					      iteration);

		if (!done)
			return false;
	}
	return true;
}

/* `series` is BENCH_REAL, which has its overlapped steps behind it, or a loop of
 * the floor. */
static bool run_block(struct rank *self, int series, int64_t first, int64_t end)
{
	if (!run_series(self, series, first, end))
		return false;
	return series != BENCH_REAL || !overlap_is_asked(self->bench) ||
	       run_series(self, BENCH_OVERLAP, first, end);
}

static bool warm_up(struct rank *self)
{
	for (int64_t i = 0; i < self->bench->options.num_warmup; i++)
		if (!rank_step(self, BENCH_REAL, -1))
			return false;
	for (int v = 0; v < self->bench->floor.num_copies; v++)
		for (int i = 0; i < FLOOR_WARMUP; i++)
			if (!step_floor(self, v, -1))
				return false;
	return true;
}

/* A share of the signals, while all others wait. */
static bool play_signals(struct rank *self, int64_t round)
{
	struct bench *bench = self->bench;
	int end = signal_end_of(self->member, bench->shape.num_members);

	/* These are signals by shared memory. */
	if (bench->options.num_hosts > 0)
		return true;
	return barrier_wait(bench->barrier) &&
	       (end < 0 || signal_play(bench->signal, end, round,
				   bench->num_rounds)) &&
	       barrier_wait(bench->barrier);
}

static bool run_rounds(struct rank *self)
{
	int64_t iterations = self->bench->options.num_iterations;
	int64_t rounds = self->bench->num_rounds;
	int num_series = BENCH_FLOOR(self->bench->floor.num_copies);

	for (int64_t round = 0; round < rounds; round++) {
		for (int series = 0; series < num_series; series++)
			if (!run_block(self, series,
				    round * iterations / rounds,
				    (round + 1) * iterations / rounds))
				return false;
		if (!play_signals(self, round))
			return false;
	}
	return true;
}

int64_t rank_num_steps(const struct bench *bench)
{
	int64_t num_copies = bench->floor.num_copies;

	return bench->options.num_warmup + num_copies * FLOOR_WARMUP +
	       (1 + num_copies + overlap_is_asked(bench)) *
		       (bench->num_rounds * bench->block_warmup +
			       bench->options.num_iterations);
}

int rank_main(void *context, int32_t member)
{
	struct bench *bench = context;
	struct rank self = {
		.bench = bench,
		.member = member,
		.page = &bench->ranks[member],
	};
	/* The last barrier: nobody leaves while others still need it. */
	bool done = prepare(&self) && warm_up(&self) && run_rounds(&self) &&
		    rank_take_stats(&self) && barrier_wait(bench->barrier);

	self.page->digest = self.check.digest;
	clear_up(&self);
	return done ? COMMAND_OK : COMMAND_FAILED;
}
