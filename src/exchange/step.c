/* Waits and refusals of a step, its life; see step.h. */
#include "exchange/step.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/order.h"
#include "exchange/drive.h"
#include "exchange/lines.h"
#include "exchange/span.h"
#include "exchange/timing.h"

/* ---- waits ------------------------------------------------------------ */

void step_await(struct step *step, enum phase phase,
	void (*advance)(struct shunt_exchange *, struct step *))
{
	step->awaited = phase;
	step->flushes = false;
	step->cursor = 0;
	step->advance = advance;
}

static void step_end_or_drain(
	struct shunt_exchange *exchange, struct step *step);

/* Takes what the step failed with; it is over. */
static enum shunt_status take_failure(
	struct shunt_exchange *exchange, struct step *step)
{
	enum shunt_status status = step->failure.status;

	error_set(status, "%s", step->failure.message);
	if (step->failure.rank >= 0)
		error_add_rank(step->failure.rank);
	exchange->counters.now.failed_steps++;
	if (status == SHUNT_PEER_LOST)
		drive_break_down(exchange);
	else
		step_end_or_drain(exchange, step);
	return status;
}

enum shunt_status step_wait(struct shunt_exchange *exchange, struct step *step,
	const char *what, int64_t span_ns, int64_t *performance_info,
	int64_t *waited_ns)
{
	int64_t work_ns = exchange->work_ns;
	int64_t from = clock_now();
	enum shunt_status status;

	if (performance_info)
		timing_begin(exchange, step, 0);
	status = drive_wait(exchange, step, what, span_ns, performance_info);
	if (performance_info)
		timing_end(exchange, step, performance_info);
	*waited_ns += clock_now() - from - (exchange->work_ns - work_ns);
	if (status == SHUNT_PEER_LOST)
		exchange->counters.now.failed_steps++;
	if (status == SHUNT_OK && step->state == STEP_FAILED)
		status = take_failure(exchange, step);
	return status;
}

/* ---- the life of a step ----------------------------------------------- */

/* True once all ranks of the view have signalled. */
static bool all_have_signalled(
	const struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;

	while (step->cursor < view->num_members &&
		step_has_signal(exchange, step, view->members[step->cursor]))
		step->cursor++;
	return step->cursor >= view->num_members;
}

/* Waits only; nothing to do when all have signalled. */
static void advance_drain(struct shunt_exchange *exchange, struct step *step)
{
	if (all_have_signalled(exchange, step))
		step->advance = NULL;
}

/* Says that a phase is not to come, unless it has come. */
static void give_up_phase(struct shunt_exchange *exchange, struct step *step,
	enum phase phase, enum signal_code code)
{
	if (line_epoch(step->sent[phase]) != step->epoch)
		step_signal(exchange, step, phase, code);
}

/* STEP_DRAINING: the others may still read this rank's lines of the slot's
 * step before, until they have announced this one. */
static void advance_refusal(struct shunt_exchange *exchange, struct step *step)
{
	advance_drain(exchange, step);
	if (step->advance)
		return;
	give_up_phase(exchange, step, PHASE_ROWS, step->refusal);
	if (step->refusal == SIGNAL_GIVEN_UP)
		step_signal(exchange, step, PHASE_RESULTS, SIGNAL_GIVEN_UP);
	step_end(step);
}

/* If all have announced it they are told at once: this rank may make no other
 * call for long. Those of this host who wait for what has landed here are told in
 * any case: all were through with the line's last step when this one began. So are
 * those of other hosts who wait for this rank to fetch: there ROWS says no more than
 * that it will not read any more. */
static void drain(struct shunt_exchange *exchange, struct step *step,
	enum signal_code refusal)
{
	step_signal_landed(exchange, step, refusal);
	if (exchange_shape(exchange)->hosts)
		give_up_phase(exchange, step, PHASE_ROWS, refusal);
	step->refusal = refusal;
	step->state = STEP_DRAINING;
	step_await(step, PHASE_COUNTS, advance_refusal);
	advance_refusal(exchange, step);
}

/* Waits until all ranks are through with the slot's last step: they are when
 * they have ended its dispatch, because they have copied its counts, and fetched
 * what was offered, before. Costs a look, except after a refused step, and after
 * a fetched one that was not combined. */
static enum shunt_status drain_slot(
	struct shunt_exchange *exchange, struct step *step, int64_t span_ns)
{
	const char *what = "the end of the slot's last step";
	enum shunt_status status = SHUNT_OK;

	if (step->state == STEP_DRAINING)
		status = drive_wait(exchange, step, what, span_ns, false);
	if (status != SHUNT_OK)
		return status;
	step_await(step, PHASE_ROWS, advance_drain);
	status = drive_wait(exchange, step, what, span_ns, false);
	if (status == SHUNT_OK && exchange_shape(exchange)->hosts) {
		span_await_flush(step);
		status = drive_wait(exchange, step,
			"what earlier steps have sent", span_ns, false);
	}
	step->advance = NULL;
	return status;
}

/* Ranks that a table leaves out are not waited for any more: they may never
 * have heard of the steps whose end is waited for. */
static void narrow_drains(
	struct shunt_exchange *exchange, const struct view *view)
{
	for (int32_t i = 0; i < exchange_shape(exchange)->depth; i++) {
		struct step *step = &exchange->steps[i];

		if (!step_is_over(step))
			continue;
		step->view = view;
		step->cursor = 0;
	}
}

enum shunt_status step_check_free(struct shunt_exchange *exchange)
{
	uint64_t epoch = exchange->epoch + 1;
	int32_t depth = exchange_shape(exchange)->depth;
	struct step *step = &exchange->steps[epoch % (uint64_t)depth];

	if (step_is_over(step))
		return SHUNT_OK;
	return error_set(SHUNT_STATE,
		"step %llu cannot begin before step %llu is over: at most "
		"depth = %d steps are in flight (rank %d)",
		(unsigned long long)epoch, (unsigned long long)step->epoch,
		depth, exchange->rank);
}

enum shunt_status step_claim(struct shunt_exchange *exchange,
	const struct view *view, int64_t span_ns, struct step **out)
{
	uint64_t epoch = exchange->epoch + 1;
	int32_t depth = exchange_shape(exchange)->depth;
	struct step *step = &exchange->steps[epoch % (uint64_t)depth];
	enum shunt_status status;

	narrow_drains(exchange, view);
	status = drain_slot(exchange, step, span_ns);
	if (status != SHUNT_OK)
		return status;
	exchange->epoch = epoch;
	step->epoch = epoch;
	step->route = NULL;
	step->failure.status = SHUNT_OK;
	step->tally = (struct quant_tally){0};
	step->combine_tally = (struct quant_tally){0};
	step->dropped = 0;
	step->y_is_announced = false;
	step->is_counted = false;
	step->early.is_on = false;
	step->drains = false;
	*out = step;
	return SHUNT_OK;
}

void step_end_early(struct step *step)
{
	step->state = STEP_FAILED;
	step->drains = true;
	step->advance = NULL;
}

static void step_end_or_drain(
	struct shunt_exchange *exchange, struct step *step)
{
	if (step->drains)
		drain(exchange, step, SIGNAL_GIVEN_UP);
	else
		step_end(step);
}

void step_end(struct step *step)
{
	step->state = STEP_FREE;
	step->advance = NULL;
}

enum shunt_status step_refuse(struct shunt_exchange *exchange,
	struct step *step, enum phase phase, enum shunt_status status)
{
	struct step_head *head =
		phase == PHASE_COUNTS
			? exchange_head(exchange, exchange->rank, step)
			: exchange_note(exchange, exchange->rank, step);

	head->epoch = step->epoch;
	snprintf(head->reason, sizeof(head->reason), "%s",
		shunt_error_message());
	step_signal(exchange, step, phase, SIGNAL_REFUSED);
	if (phase == PHASE_COUNTS)
		drain(exchange, step, SIGNAL_REFUSED);
	else
		step_end(step);
	exchange->counters.now.failed_steps++;
	return status;
}

/* True once the caller may change y, as far as other hosts are concerned: their
 * members have all of it, and of the note, or they are lost. */
static bool y_has_gone(
	const struct shunt_exchange *exchange, const struct step *step)
{
	return !step->y_is_announced || !exchange_shape(exchange)->hosts ||
	       span_is_flushed(exchange);
}

/* A combine that goes no further: nobody shall wait for what it owes. y is the
 * caller's again. Whoever reads it in place looks for the mark when it has read:
 * without the mark, all was as announced. */
static void release_readers(struct shunt_exchange *exchange, struct step *step)
{
	struct step_head *note = exchange_note(exchange, exchange->rank, step);

	if (step->y_is_announced)
		order_withdraw(&note->withdrawn, step->epoch);
	give_up_phase(exchange, step, PHASE_RESULTS, SIGNAL_GIVEN_UP);
	if (exchange_shape(exchange)->tp_size > 1)
		give_up_phase(exchange, step, PHASE_TRAVEL, SIGNAL_GIVEN_UP);
	if (exchange_shape(exchange)->sums_by_host)
		give_up_phase(exchange, step, PHASE_SUMS, SIGNAL_GIVEN_UP);
	give_up_phase(exchange, step, PHASE_READ, SIGNAL_GIVEN_UP);
}

/* Waits until y may be changed; its finish tells of the failure then. */
static void advance_failed(struct shunt_exchange *exchange, struct step *step)
{
	step->flushes = !y_has_gone(exchange, step);
	if (step->flushes)
		return;
	release_readers(exchange, step);
	step->state = STEP_FAILED;
	step->advance = NULL;
}

void step_end_failed(struct shunt_exchange *exchange, struct step *step)
{
	if (step->awaited >= PHASE_RESULTS) {
		step->state = STEP_COMBINING;
		step->advance = advance_failed;
		advance_failed(exchange, step);
		return;
	}
	step->state = STEP_FAILED;
	step->advance = NULL;
}

void step_give_up(struct shunt_exchange *exchange, struct step *step)
{
	if (step_is_over(step))
		return;
	if (step->state == STEP_COUNTING) {
		drain(exchange, step, SIGNAL_GIVEN_UP);
		return;
	}
	if (step->state == STEP_RECEIVING || step->state == STEP_DISPATCHED ||
		step->state == STEP_FEEDING)
		step_signal(exchange, step, PHASE_RESULTS, SIGNAL_GIVEN_UP);
	if (step->state == STEP_COMBINING) {
		if (!y_has_gone(exchange, step))
			span_flush(exchange);
		release_readers(exchange, step);
	}
	step_end_or_drain(exchange, step);
}

bool step_collect(struct shunt_exchange *exchange, struct step *step,
	struct step_head *(*head_of)(const struct shunt_exchange *exchange,
		int32_t rank, const struct step *step))
{
	const struct view *view = step->view;

	for (; step->cursor < view->num_members; step->cursor++) {
		int32_t rank = view->members[step->cursor];

		if (!step_has_signal(exchange, step, rank))
			return false;
		if (!step_expects(exchange, step, rank) ||
			step_signal_code(exchange, step, rank) == SIGNAL_OK)
			continue;
		step_fail_refused(
			exchange, step, rank, head_of(exchange, rank, step));
		step_end_failed(exchange, step);
		return false;
	}
	step->advance = NULL;
	return true;
}
