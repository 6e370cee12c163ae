/* An accelerator that works meanwhile; see overlap.h. */
#include <sched.h>

#include "clock.h"
#include "overlap.h"

int64_t overlap_span(const struct bench *bench, enum bench_phase phase)
{
	const struct options *options = &bench->options;
	int64_t most = 0;

	if (options->expert_us == 0)
		return options->compute_us * 1000;
	for (int32_t r = 0; r < bench->shape.num_ranks; r++)
		if (shape_num_local(&bench->shape, r) > most)
			most = shape_num_local(&bench->shape, r);
	return phase == BENCH_COMBINE ? most * options->expert_us * 1000 : 0;
}

/* Lets data flow until the accelerator is ready. */
static enum shunt_status work_until(const struct rank *self, int64_t until)
{
	enum shunt_status status = SHUNT_OK;

	while (!status && clock_ns() < until) {
		status = shunt_exchange_progress(self->exchange, NULL);
		if (!self->bench->pinned)
			sched_yield();
	}
	return status;
}

int64_t overlap_open(
	const struct rank *self, enum bench_phase phase, int64_t opened_ns)
{
	int64_t span = overlap_span(self->bench, phase);

	if (self->series == BENCH_REAL && self->bench->options.expert_us > 0)
		while (clock_ns() < opened_ns + span)
			if (!self->bench->pinned)
				sched_yield();
	if (self->series == BENCH_OVERLAP || self->bench->options.expert_us > 0)
		return opened_ns + span;
	return opened_ns;
}

static int64_t opened_ns(const struct rank *self)
{
	return atomic_load(&self->bench->barrier->opened_ns);
}

enum shunt_status overlap_dispatch(struct rank *self,
	const struct shunt_dispatch_args *args, struct shunt_dispatch_out *out)
{
	int64_t until =
		opened_ns(self) + overlap_span(self->bench, BENCH_DISPATCH);
	enum shunt_status status =
		shunt_dispatch_start(self->exchange, args, &self->last);

	if (!status)
		status = work_until(self, until);
	return status ? status : shunt_dispatch_finish(self->last, 0, out);
}

/* The rows of each expert are fed when they are there: at once, if the
 * accelerator does something else. */
static enum shunt_status feed(
	const struct rank *self, const struct shunt_dispatch_out *sent)
{
	int64_t each = self->bench->options.expert_us * 1000;
	enum shunt_status status = SHUNT_OK;

	for (int64_t l = 0; !status && l < sent->num_local_experts; l++) {
		status = work_until(self, opened_ns(self) + (l + 1) * each);
		if (!status)
			status = rank_feed(self, sent, l);
	}
	return status;
}

enum shunt_status overlap_combine(const struct rank *self,
	const struct shunt_combine_args *given,
	const struct shunt_dispatch_out *sent)
{
	struct shunt_combine_args args = *given;
	int64_t until =
		opened_ns(self) + overlap_span(self->bench, BENCH_COMBINE);
	enum shunt_status status;

	if (self->bench->options.expert_us > 0) {
		args.feed = true;
		args.y = NULL;
	}
	status = shunt_combine_start(self->last, &args);
	if (!status && args.feed)
		status = feed(self, sent);
	if (!status)
		status = work_until(self, until);
	return status ? status : shunt_combine_finish(self->last, 0);
}
