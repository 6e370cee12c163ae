/*
 * Combine: the public calls, and the states of a step from the experts' rows
 * to the caller's tokens.
 *
 *	feeding   rows come expert by expert; a done word tells of each expert
 *	ROWS      over several hosts: others can take rows
 *	RESULTS   all rows can be read; with TP: summed over the TP group, and
 *	TRAVEL    the sums can be read
 *	SUMS      with sums by host: own ones are sent as there is room, and those of
 *	          other hosts have come
 *	          tokens are summed
 *	READ      if this rank's y is read where it is: all have done so
 *
 * args.c checks, rows.c takes rows in, home.c sends them to other hosts, reach.c
 * finds those of others, tokens.c and terms.c sum them, early.c some of them before
 * RESULTS of all, host_sums.c what is summed by host.
 */
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "combine/args.h"
#include "combine/early.h"
#include "combine/home.h"
#include "combine/host_sums.h"
#include "combine/reach.h"
#include "combine/rows.h"
#include "combine/tokens.h"
#include "exchange/span.h"
#include "exchange/step.h"

/* ---- states ----------------------------------------------------------- */

static bool has_tp(const struct shunt_exchange *exchange)
{
	return exchange_shape(exchange)->tp_size > 1;
}

/* Waits for all who read this rank's y, also for those who gave up; and for the
 * acknowledgements of other hosts: a device that has none may read y once more,
 * which the caller may free. */
static void advance_read(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;

	for (; step->cursor < view->num_members; step->cursor++)
		if (!step_has_signal(
			    exchange, step, view->members[step->cursor]))
			return;
	step->flushes =
		exchange_shape(exchange)->hosts && !span_is_flushed(exchange);
	if (step->flushes)
		return;
	step->advance = NULL;
	step->state = STEP_COMBINED;
}

static void sum_tokens(struct shunt_exchange *exchange, struct step *step)
{
	int64_t from = clock_now();

	tokens_sum(exchange, step);
	exchange->work_ns += clock_now() - from;
}

/* All rows can be read where step->row_places says; `recheck`: some lie in a
 * caller's memory. */
static void sum_up(
	struct shunt_exchange *exchange, struct step *step, bool recheck)
{
	if (step->early.is_on)
		early_finish(exchange, step);
	else
		sum_tokens(exchange, step);
	if (recheck && !reach_recheck(exchange, step, 0, 1))
		return;
	world_beat(exchange->world, BEAT_COMBINE_DONE, step->epoch);
	if (step->y_is_announced)
		step_await(step, PHASE_READ, advance_read);
	else
		step->state = STEP_COMBINED;
}

/* The same, and tells those whose y was read in place. With TP that is over
 * before. */
static void sum_up_and_tell(struct shunt_exchange *exchange, struct step *step)
{
	bool in_place = step->any_announced && !has_tp(exchange);

	sum_up(exchange, step, in_place);
	if (step->failure.status == SHUNT_OK && in_place)
		step_signal(exchange, step, PHASE_READ, SIGNAL_OK);
}

/* Waits for the sums that other hosts have made. */
static void advance_sums(struct shunt_exchange *exchange, struct step *step)
{
	if (step_collect(exchange, step, exchange_note))
		sum_up_and_tell(exchange, step);
}

/* Sends the sums that this rank makes; waits for room. */
static void advance_own_sums(struct shunt_exchange *exchange, struct step *step)
{
	step->flushes = !host_sums_send(exchange, step);
	if (step->flushes)
		return;
	if (step->any_announced && !has_tp(exchange) &&
		!reach_recheck(exchange, step, 0, 1))
		return;
	step_signal(exchange, step, PHASE_SUMS, SIGNAL_OK);
	step_await(step, PHASE_SUMS, advance_sums);
	advance_sums(exchange, step);
}

/* All rows of this host can be read, and those of others that come one by one. */
static void rows_are_here(struct shunt_exchange *exchange, struct step *step)
{
	if (!exchange_shape(exchange)->sums_by_host) {
		sum_up_and_tell(exchange, step);
		return;
	}
	step_await(step, PHASE_SUMS, advance_own_sums);
	advance_own_sums(exchange, step);
}

/* With TP: waits for the sums of the own EP group. */
static void advance_travel(struct shunt_exchange *exchange, struct step *step)
{
	if (!step_collect(exchange, step, exchange_note))
		return;
	reach_locate_travel(exchange, step);
	rows_are_here(exchange, step);
}

/* This rank's rows go to other hosts one by one; with sums by host those of shared
 * experts do. */
static bool rows_go_home(
	const struct shunt_exchange *exchange, const struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);

	return shape->hosts &&
	       (!shape->sums_by_host ||
		       step->view->rank < step->view->num_shared_ranks);
}

/* With TP: own rows of the own EP group, summed over the TP group. */
static bool reduce(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;
	int64_t from = clock_now();

	if (!reach_locate(exchange, step, view->rank, view->num_ranks))
		return false;
	rows_reduce(exchange, step);
	exchange->work_ns += clock_now() - from;
	if (step->any_announced &&
		!reach_recheck(exchange, step, view->rank, view->num_ranks))
		return false;
	return !rows_go_home(exchange, step) || home_send_rows(exchange, step);
}

/* Waits for the results of every rank. */
static void advance_results(struct shunt_exchange *exchange, struct step *step)
{
	if (!step_collect(exchange, step, exchange_note) ||
		!reach_agree(exchange, step, &step->any_announced))
		return;
	if (!has_tp(exchange)) {
		if (reach_locate_rows(exchange, step))
			rows_are_here(exchange, step);
		return;
	}
	if (!reduce(exchange, step))
		return;
	step_signal(exchange, step, PHASE_TRAVEL, SIGNAL_OK);
	step_await(step, PHASE_TRAVEL, advance_travel);
	if (step->any_announced)
		step_signal(exchange, step, PHASE_READ, SIGNAL_OK);
}

/* The same, of a combine that is fed: what it waits for comes bit by bit. */
static void advance_fed(struct shunt_exchange *exchange, struct step *step)
{
	early_look(exchange, step);
	advance_results(exchange, step);
}

static int64_t num_local(const struct step *step)
{
	return placement_num_local(&step->view->placement, step->view->rank);
}

/* Experts that were fed before other hosts could take their rows. */
static bool send_unsent(struct shunt_exchange *exchange, struct step *step)
{
	bool sound = true;

	for (int64_t l = 0; sound && l < num_local(step); l++)
		if (step->fed[l] == FED_NOT_SENT)
			sound = home_send_expert(exchange, step, l);
	return sound;
}

/* Sends what ranks of other hosts need of this one's. False if the step has
 * failed. */
static bool send_home(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);

	if (shape->sums_by_host)
		host_sums_tell(exchange, step);
	if (has_tp(exchange))
		home_send_results(exchange, step);
	else if (rows_go_home(exchange, step))
		return step->combine.feed ? send_unsent(exchange, step)
					  : home_send_rows(exchange, step);
	return true;
}

static void announce_results(struct shunt_exchange *exchange, struct step *step)
{
	step->awaited = PHASE_RESULTS;
	if (exchange_shape(exchange)->hosts && !send_home(exchange, step))
		return;
	step_signal(exchange, step, PHASE_RESULTS, SIGNAL_OK);
	step_await(step, PHASE_RESULTS,
		step->early.is_on ? advance_fed : advance_results);
}

/* Waits until other hosts can take rows. */
static void advance_home(struct shunt_exchange *exchange, struct step *step)
{
	if (step_far_have_fetched(exchange, step))
		announce_results(exchange, step);
}

/* All rows of this rank are taken in. */
static void announce(struct shunt_exchange *exchange, struct step *step)
{
	const struct shape *shape = exchange_shape(exchange);

	step->state = STEP_COMBINING;
	if (!shape->tp_spans &&
		(!rows_go_home(exchange, step) || has_tp(exchange))) {
		announce_results(exchange, step);
		return;
	}
	step_await(step, PHASE_ROWS, advance_home);
	advance_home(exchange, step);
}

/* ---- feeding ------------------------------------------------------------ */

static void begin_feed(struct shunt_exchange *exchange, struct step *step)
{
	int64_t experts = num_local(step);

	step->unfed = 0;
	for (int64_t l = 0; l < experts; l++) {
		step->fed[l] = FED_NOT;
		step->unfed += step->route->expert_rows[l] > 0;
	}
	early_begin(exchange, step);
	step->state = STEP_FEEDING;
	/* What it owes, should it fail meanwhile. */
	step->awaited = PHASE_RESULTS;
	if (step->unfed == 0)
		announce(exchange, step);
	else if (step->early.is_on)
		step_await(step, PHASE_RESULTS, early_look);
}

/* Tells of the rows of an expert. Its ranks hear of the last one by RESULTS. */
static void tell_fed(
	struct shunt_exchange *exchange, struct step *step, int64_t local)
{
	if (--step->unfed == 0)
		announce(exchange, step);
	else if (step->early.is_on && step->fed[local] != FED_NOT_SENT)
		step_signal_done(exchange, step, local);
	if (step->early.is_on && step->advance)
		step->advance(exchange, step);
}

static enum shunt_status check_feed(const struct shunt_exchange *exchange,
	const struct step *step, int64_t local, int64_t y_stride)
{
	if (!step_is_combining(step) || !step->combine.feed)
		return error_set(SHUNT_STATE,
			"step %llu has no combine that was started with feed "
			"(rank %d)",
			(unsigned long long)step->epoch, exchange->rank);
	if (local < 0 || local >= num_local(step))
		return error_set(SHUNT_INVALID,
			"local_expert is %lld, must be 0 .. %lld (rank %d)",
			(long long)local, (long long)num_local(step) - 1,
			exchange->rank);
	if (step->fed[local])
		return error_set(SHUNT_STATE,
			"local expert %lld was fed before in step %llu (rank "
			"%d)",
			(long long)local, (unsigned long long)step->epoch,
			exchange->rank);
	return combine_args_check_stride(exchange, "y_stride", y_stride);
}

/* Sends the rows of a fed expert to other hosts, or leaves them for the last one.
 * False if the step has failed. */
static bool send_fed(
	struct shunt_exchange *exchange, struct step *step, int64_t local)
{
	if (!rows_go_home(exchange, step) || has_tp(exchange))
		return true;
	if (step_far_have_fetched(exchange, step))
		return home_send_expert(exchange, step, local);
	step->fed[local] = FED_NOT_SENT;
	return true;
}

static enum shunt_status feed(struct shunt_exchange *exchange,
	struct step *step, int64_t local, const void *y, int64_t y_stride)
{
	int64_t stride = y_stride ? y_stride : exchange_shape(exchange)->hidden;
	enum shunt_status status = check_feed(exchange, step, local, y_stride);

	if (status != SHUNT_OK)
		return status;
	step->fed[local] = FED;
	if (step->state != STEP_FEEDING || step->route->expert_rows[local] == 0)
		return SHUNT_OK;
	rows_feed(exchange, step, local, y,
		dtype_row_bytes(
			exchange->accepted.config.expert_dtype, stride));
	if (!send_fed(exchange, step, local))
		return SHUNT_OK; /* its finish tells */
	tell_fed(exchange, step, local);
	return SHUNT_OK;
}

/* ---- start and finish --------------------------------------------------- */

static enum shunt_status check_state(
	const struct shunt_exchange *exchange, const struct step *step)
{
	if (step->state == STEP_DISPATCHED)
		return SHUNT_OK;
	return error_set(SHUNT_STATE,
		step_is_combining(step)
			? "the combine of step %llu has begun: a handle is "
			  "combined once (rank %d)"
			: "the dispatch of step %llu is not finished: finish "
			  "it before combine (rank %d)",
		(unsigned long long)step->epoch, exchange->rank);
}

static enum shunt_status start(struct shunt_exchange *exchange,
	struct step *step, const struct shunt_combine_args *args, bool whole)
{
	enum shunt_status status = check_state(exchange, step);

	if (status != SHUNT_OK)
		return status;
	status = combine_args_read(exchange, step, args, whole);
	if (status != SHUNT_OK)
		return step_refuse(exchange, step, PHASE_RESULTS, status);
	world_beat(exchange->world, BEAT_COMBINE_START, step->epoch);
	rows_begin(exchange, step);
	if (step->combine.feed) {
		begin_feed(exchange, step);
		return SHUNT_OK;
	}
	rows_take(exchange, step);
	announce(exchange, step);
	return SHUNT_OK;
}

/* The combine has ended well. */
static void tell(struct shunt_exchange *exchange, const struct step *step)
{
	const struct shunt_combine_args *args = &step->combine;
	struct shunt_stats *stats = &exchange->counters.now;
	int64_t nan_elements = (int64_t)step->combine_tally.nan_elements;
	int64_t inf_elements = (int64_t)step->combine_tally.inf_elements;

	if (args->nan_elements)
		*args->nan_elements = nan_elements;
	if (args->inf_elements)
		*args->inf_elements = inf_elements;
	stats->combines++;
	stats->combine_nan_elements += nan_elements;
	stats->combine_inf_elements += inf_elements;
}

static enum shunt_status finish(
	struct shunt_exchange *exchange, struct step *step, int64_t deadline_ns)
{
	enum shunt_status status =
		step_wait(exchange, step, "the experts' rows in combine",
			deadline_ns ? deadline_ns : step->combine.deadline_ns,
			step->combine.performance_info,
			&exchange->counters.now.combine_wait_ns);

	if (status != SHUNT_OK)
		return status;
	tell(exchange, step);
	step_end(step);
	return SHUNT_OK;
}

static enum shunt_status check_finish(const struct shunt_exchange *exchange,
	const struct step *step, int64_t deadline_ns)
{
	if (deadline_ns < 0)
		return exchange_refuse(
			exchange, "deadline_ns", deadline_ns, "0 or more");
	if (!step_is_combining(step))
		return error_set(SHUNT_STATE,
			"the combine of step %llu was not started (rank %d)",
			(unsigned long long)step->epoch, exchange->rank);
	if (step->state == STEP_FEEDING)
		return error_set(SHUNT_STATE,
			"the rows of %lld experts are still to be fed in step "
			"%llu (rank %d)",
			(long long)step->unfed, (unsigned long long)step->epoch,
			exchange->rank);
	return SHUNT_OK;
}

/* ---- public ----------------------------------------------------------- */

enum shunt_status shunt_combine_start(
	struct shunt_handle handle, const struct shunt_combine_args *args)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status;

	status = exchange_enter_handle(handle, &exchange, &step);
	if (status != SHUNT_OK)
		return status;
	status = start(exchange, step, args, false);
	exchange_leave(exchange);
	return status;
}

enum shunt_status shunt_combine_feed(struct shunt_handle handle,
	int64_t local_expert, const void *y, int64_t y_stride)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status;

	status = exchange_enter_handle(handle, &exchange, &step);
	if (status != SHUNT_OK)
		return status;
	status = feed(exchange, step, local_expert, y, y_stride);
	exchange_leave(exchange);
	return status;
}

enum shunt_status shunt_combine_finish(
	struct shunt_handle handle, int64_t deadline_ns)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status;

	status = exchange_enter_handle(handle, &exchange, &step);
	if (status != SHUNT_OK)
		return status;
	status = check_finish(exchange, step, deadline_ns);
	if (status == SHUNT_OK)
		status = finish(exchange, step, deadline_ns);
	exchange_leave(exchange);
	return status;
}

enum shunt_status shunt_combine(
	struct shunt_handle handle, const struct shunt_combine_args *args)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status;

	status = exchange_enter_handle(handle, &exchange, &step);
	if (status != SHUNT_OK)
		return status;
	status = start(exchange, step, args, true);
	if (status == SHUNT_OK)
		status = finish(exchange, step, 0);
	exchange_leave(exchange);
	return status;
}
