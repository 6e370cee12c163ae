/* Driving steps; see drive.h. */
#include "exchange/drive.h"

#include "base/clock.h"
#include "base/error.h"
#include "exchange/step.h"
#include "exchange/timing.h"
#include "world/wait.h"

struct step_waiter {
	struct waiter waiter;
	struct shunt_exchange *exchange;
	struct step *step;
	bool timed; /* for performance_info */
};

static bool drive_ready(struct waiter *waiter)
{
	struct step_waiter *self = (struct step_waiter *)waiter;
	struct shunt_exchange *exchange = self->exchange;
	enum phase phase = self->step->awaited;
	int64_t work_ns = exchange->work_ns;

	if (self->timed)
		timing_look(exchange, self->step);
	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++)
		if (exchange->steps[i].advance)
			exchange->steps[i].advance(
				exchange, &exchange->steps[i]);
	if (self->timed && self->step->awaited != phase)
		timing_begin(exchange, self->step, exchange->work_ns - work_ns);
	return !self->step->advance;
}

static bool drive_awaits(struct waiter *waiter, int32_t rank)
{
	struct step_waiter *self = (struct step_waiter *)waiter;
	const struct view *view = self->step->view;

	for (int32_t i = 0; i < view->num_members; i++)
		if (view->members[i] == rank)
			return !step_has_signal(
				self->exchange, self->step, rank);
	/* A rank that is left out, in the middle of writing. */
	return view->table && self->step->state == STEP_COUNTING &&
	       step_is_writing(self->exchange, self->step, rank);
}

static bool drive_closed(struct waiter *waiter, int32_t rank)
{
	struct step_waiter *self = (struct step_waiter *)waiter;

	return step_has_closed(self->exchange, rank);
}

/* The line that this step is stuck at, or any, if others are in flight. */
static uint64_t drive_token(struct waiter *waiter)
{
	struct step_waiter *self = (struct step_waiter *)waiter;
	const struct shunt_exchange *exchange = self->exchange;
	const struct step *step = self->step;

	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++)
		if (exchange->steps[i].advance && &exchange->steps[i] != step)
			return DOORBELL_ANY;
	if (step->cursor == step->view->num_members)
		return DOORBELL_ANY;
	return exchange->window_off[exchange->rank] +
	       layout_line(&exchange->layouts[exchange->rank],
		       exchange_shape(exchange), step->awaited, step->slot,
		       step->view->members[step->cursor]);
}

/* A rank was lost: nothing goes on here. Those who wait for what this rank owes
 * to its steps are told; else they would wait to their deadlines. */
static void break_down(struct shunt_exchange *exchange)
{
	exchange->broken = true;
	exchange->num_lost = shunt_error_ranks(
		exchange->lost_ranks, (size_t)exchange->group->size);
	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++) {
		step_give_up(exchange, &exchange->steps[i]);
		step_end(&exchange->steps[i]);
	}
}

enum shunt_status drive_wait(struct shunt_exchange *exchange, struct step *step,
	const char *what, int64_t span_ns, bool timed)
{
	struct step_waiter self = {
		.waiter = {.group = exchange->group,
			.what = what,
			.epoch = step->epoch,
			.ready = drive_ready,
			.awaits = drive_awaits,
			.closed = drive_closed,
			.token = drive_token},
		.exchange = exchange,
		.step = step,
		.timed = timed,
	};
	enum shunt_status status;

	if (drive_ready(&self.waiter))
		return SHUNT_OK;
	status = wait_for(&self.waiter, clock_deadline(span_ns));
	if (status == SHUNT_PEER_LOST)
		break_down(exchange);
	return status;
}
