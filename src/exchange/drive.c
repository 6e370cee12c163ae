/* Driving steps; see drive.h. */
#include "exchange/drive.h"

#include "base/clock.h"
#include "base/error.h"
#include "exchange/absent.h"
#include "exchange/loss.h"
#include "exchange/span.h"
#include "exchange/step.h"
#include "exchange/timing.h"
#include "world/wait.h"

struct step_waiter {
	struct waiter waiter;
	struct shunt_exchange *exchange;
	struct step *step;
	bool timed; /* for performance_info */
};

static void move_all(struct shunt_exchange *exchange)
{
	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++)
		if (exchange->steps[i].advance)
			exchange->steps[i].advance(
				exchange, &exchange->steps[i]);
}

static bool drive_ready(struct waiter *waiter)
{
	struct step_waiter *self = (struct step_waiter *)waiter;
	struct shunt_exchange *exchange = self->exchange;
	enum phase phase = self->step->awaited;
	int64_t work_ns = exchange->work_ns;

	if (self->timed)
		timing_look(exchange, self->step);
	move_all(exchange);
	work_ns = exchange->work_ns - work_ns;
	if (self->timed && self->step->awaited != phase)
		timing_begin(exchange, self->step, work_ns);
	else if (self->timed && work_ns > 0)
		timing_skip(self->step, work_ns);
	return !self->step->advance;
}

/* A rank that the step's table leaves out: it may be in the middle of writing, here
 * or, once all have announced the step, from another host. */
static bool awaits_left_out(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	if (!step->view->table || step->state != STEP_COUNTING)
		return false;
	if (!exchange_is_far(exchange, rank))
		return step_is_writing(exchange, step, rank);
	return step->awaited == PHASE_COUNTS &&
	       step->cursor == step->view->num_members &&
	       absent_can_write(exchange, step, rank);
}

static bool drive_awaits(struct waiter *waiter, int32_t rank)
{
	struct step_waiter *self = (struct step_waiter *)waiter;
	const struct view *view = self->step->view;

	if (self->step->flushes)
		return !span_is_flushed_to(self->exchange, rank);
	if (view_has(view, rank))
		return !step_has_signal(self->exchange, self->step, rank);
	return awaits_left_out(self->exchange, self->step, rank);
}

static bool drive_closed(struct waiter *waiter, int32_t rank)
{
	struct step_waiter *self = (struct step_waiter *)waiter;

	/* Puts arrive without anything from it. */
	return !self->step->flushes &&
	       (step_has_closed(self->exchange, rank) ||
		       loss_breaks(self->exchange, rank));
}

/* In a crowd nobody wakes up for each of them; they are seen later. */
static bool awaits_done_words(
	const struct shunt_exchange *exchange, const struct step *step)
{
	if (!step->early.is_on || wait_is_crowd(exchange->group))
		return false;
	for (int32_t i = 0; i < step->view->num_ranks; i++)
		if (step->early.num_awaited[i] > 0)
			return true;
	return false;
}

/* The line that this step is stuck at; any, if others are in flight, or if done
 * words move it along. */
static uint64_t drive_token(struct waiter *waiter)
{
	struct step_waiter *self = (struct step_waiter *)waiter;
	const struct shunt_exchange *exchange = self->exchange;
	const struct step *step = self->step;

	if (awaits_done_words(exchange, step))
		return DOORBELL_ANY;
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

void drive_break_down(struct shunt_exchange *exchange)
{
	exchange->broken = true;
	exchange->num_lost = shunt_error_ranks(
		exchange->lost_ranks, (size_t)exchange->group->size);
	if (exchange->num_lost > 0)
		loss_tell(exchange, exchange->lost_ranks[0], true);
	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++) {
		step_give_up(exchange, &exchange->steps[i]);
		step_end(&exchange->steps[i]);
	}
}

/* `what` is for messages. */
static struct step_waiter waiter_of(
	struct shunt_exchange *exchange, struct step *step, const char *what)
{
	return (struct step_waiter){
		.waiter = {.group = exchange->group,
			.what = what,
			.epoch = step->epoch,
			.ready = drive_ready,
			.awaits = drive_awaits,
			.closed = drive_closed,
			.token = drive_token},
		.exchange = exchange,
		.step = step,
	};
}

enum shunt_status drive_wait(struct shunt_exchange *exchange, struct step *step,
	const char *what, int64_t span_ns, bool timed)
{
	struct step_waiter self = waiter_of(exchange, step, what);
	enum shunt_status status;

	self.timed = timed;
	if (drive_ready(&self.waiter))
		return SHUNT_OK;
	status = wait_for(&self.waiter, clock_deadline(span_ns));
	if (status == SHUNT_PEER_LOST) {
		loss_name(exchange, step);
		drive_break_down(exchange);
	}
	return status;
}

/* ---- progress ----------------------------------------------------------- */

#define LOOK_NS 1000000 /* between looks for the dead */

/* True if the finish of the step would wait for other ranks now. */
static bool is_waiting(const struct step *step)
{
	return step->advance && !step_is_over(step) &&
	       step->state != STEP_FEEDING;
}

/* Is a rank gone that a step in flight waits for? */
static enum shunt_status look_for_the_dead(struct shunt_exchange *exchange)
{
	enum shunt_status status = SHUNT_OK;

	for (int32_t i = 0; i < exchange_shape(exchange)->depth && !status;
		i++) {
		struct step_waiter self = waiter_of(
			exchange, &exchange->steps[i], "a step in progress");

		if (is_waiting(&exchange->steps[i]))
			status = wait_look(&self.waiter);
		if (status != SHUNT_OK)
			loss_name(exchange, &exchange->steps[i]);
	}
	if (status != SHUNT_OK) {
		drive_break_down(exchange);
		exchange->counters.now.failed_steps++;
	}
	return status;
}

static enum shunt_status progress(
	struct shunt_exchange *exchange, int32_t *num_waiting)
{
	int64_t now = clock_now();
	enum shunt_status status = SHUNT_OK;

	move_all(exchange);
	if (now >= exchange->next_look) {
		exchange->next_look = now + LOOK_NS;
		status = look_for_the_dead(exchange);
	}
	if (!num_waiting)
		return status;
	*num_waiting = 0;
	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++)
		*num_waiting += is_waiting(&exchange->steps[i]);
	return status;
}

enum shunt_status shunt_exchange_progress(
	struct shunt_exchange *exchange, int32_t *num_waiting)
{
	enum shunt_status status;

	status = exchange_enter(exchange);
	if (status != SHUNT_OK)
		return status;
	status = progress(exchange, num_waiting);
	exchange_leave(exchange);
	return status;
}
