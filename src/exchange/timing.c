/* Waiting times by rank; see timing.h. */
#include "exchange/timing.h"

#include "base/clock.h"
#include "exchange/step.h"

/* Ends the waiting for EP rank `rank`. */
static void settle(struct step *step, int32_t rank, int64_t now)
{
	if (!step->awaited_since[rank])
		return;
	step->waited_ns[rank] += now - step->awaited_since[rank];
	step->awaited_since[rank] = 0;
}

void timing_begin(
	struct shunt_exchange *exchange, struct step *step, int64_t work_ns)
{
	int64_t now = clock_now();

	for (int32_t r = 0; r < step->view->num_ranks; r++) {
		int32_t rank = step->view->original[r];

		settle(step, rank, now - work_ns);
		/* PHASE_READ brings no data. */
		if (step->advance && step->awaited != PHASE_READ)
			step->awaited_since[rank] = now;
	}
	timing_look(exchange, step);
}

void timing_skip(struct step *step, int64_t work_ns)
{
	for (int32_t r = 0; r < step->view->num_ranks; r++) {
		int32_t rank = step->view->original[r];

		if (step->awaited_since[rank])
			step->awaited_since[rank] += work_ns;
	}
}

void timing_look(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;
	const int32_t *own =
		view->members + exchange->tp_rank * view->num_ranks;
	int64_t now = clock_now();

	for (int32_t r = 0; r < view->num_ranks; r++)
		if (step_has_signal(exchange, step, own[r]))
			settle(step, view->original[r], now);
}

void timing_end(struct shunt_exchange *exchange, struct step *step,
	int64_t *performance_info)
{
	int64_t now = clock_now();

	for (int32_t r = 0; r < exchange_shape(exchange)->num_ranks; r++) {
		settle(step, r, now);
		performance_info[r] += (step->waited_ns[r] + 500) / 1000;
		step->waited_ns[r] = 0;
	}
}
