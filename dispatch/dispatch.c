/*
 * Dispatch: the public calls, and the states of a step from its start until
 * all rows are here. route.c counts, heads.c compares, place.c makes rows of counts,
 * send.c writes them or fetch.c fetches them, cross.c sends them to other hosts,
 * receive.c describes what came.
 */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "dispatch/args.h"
#include "dispatch/cross.h"
#include "dispatch/fetch.h"
#include "dispatch/heads.h"
#include "dispatch/place.h"
#include "dispatch/receive.h"
#include "dispatch/revoke.h"
#include "dispatch/route.h"
#include "dispatch/send.h"
#include "exchange/absent.h"
#include "exchange/step.h"

/* ---- states ----------------------------------------------------------- */

/* STEP_RECEIVING: waits for the rows of every rank. */
static void advance_rows(struct shunt_exchange *exchange, struct step *step)
{
	if (!step_collect(exchange, step, exchange_head))
		return;
	step->state = STEP_DISPATCHED;
	world_beat(exchange->world, BEAT_DISPATCH_DONE, step->epoch);
}

/* All have announced the step: can it be? */
static bool step_can_be(struct shunt_exchange *exchange, struct step *step)
{
	if (step->failure.status != SHUNT_OK ||
		!heads_given_agree(exchange, step))
		return false;
	step->has_x_scales = step->given_seen & GIVEN_X_SCALES;
	if (args_are_cached(&step->dispatch)) {
		step->route->is_placed = true;
		return true;
	}
	step->route->has_weights = step->given_seen & GIVEN_WEIGHTS;
	return place_rows(exchange, step);
}

/* The step cannot be; all have announced it. */
static void end_without_rows(struct shunt_exchange *exchange, struct step *step)
{
	step_signal_landed(exchange, step, SIGNAL_OK);
	step_signal(exchange, step, PHASE_ROWS, SIGNAL_GIVEN_UP);
	step_end_failed(exchange, step);
}

/* The same, but the others may have all their rows, and go on. */
static void end_alone(struct shunt_exchange *exchange, struct step *step)
{
	step_signal(exchange, step, PHASE_RESULTS, SIGNAL_GIVEN_UP);
	end_without_rows(exchange, step);
}

/* All rows are offered: this rank takes its own, and waits for nobody. */
static void end_with_fetch(struct shunt_exchange *exchange, struct step *step)
{
	if (!fetch_rows(exchange, step)) {
		end_alone(exchange, step);
		return;
	}
	step_signal(exchange, step, PHASE_ROWS, SIGNAL_OK);
	receive_padding(exchange, step);
	step->advance = NULL;
	step->state = STEP_DISPATCHED;
	world_beat(exchange->world, BEAT_DISPATCH_DONE, step->epoch);
}

/* Still STEP_COUNTING: waits for ranks that a table has left out while they were
 * writing to the slot, then writes the rows. */
static void advance_writers(struct shunt_exchange *exchange, struct step *step)
{
	if (revoke_is_pending(exchange, step))
		return;
	if (!revoke_begin_writing(exchange, step)) {
		end_without_rows(exchange, step);
		return;
	}
	world_beat(exchange->world, BEAT_DISPATCH_WRITE, step->epoch);
	if (step->is_fetched) {
		end_with_fetch(exchange, step);
		return;
	}
	send_rows(exchange, step);
	revoke_end_writing(exchange, step);
	step->state = STEP_RECEIVING;
	step_signal(exchange, step, PHASE_ROWS, SIGNAL_OK);
	receive_padding(exchange, step);
	step_await(step, PHASE_ROWS, advance_rows);
}

/* Still STEP_COUNTING, rows by host: waits for what the others of this host have
 * taken in for it. */
static void advance_landed(struct shunt_exchange *exchange, struct step *step)
{
	if (step_collect(exchange, step, exchange_head))
		end_with_fetch(exchange, step);
	else if (step->state == STEP_FAILED)
		end_alone(exchange, step);
}

/* Still STEP_COUNTING, over several hosts: waits until nothing that ranks write who
 * are left out can come any more, then takes in. The shares of other hosts came before
 * their counts, here or to another rank of this host. Nobody writes to another's rows,
 * but experts' rows of this step will be written where those of an earlier one could
 * still come. */
static void advance_absent(struct shunt_exchange *exchange, struct step *step)
{
	if (!absent_are_out(exchange, step))
		return;
	world_beat(exchange->world, BEAT_DISPATCH_WRITE, step->epoch);
	if (!exchange_shape(exchange)->rows_by_host) {
		end_with_fetch(exchange, step);
		return;
	}
	step_signal_landed(exchange, step, SIGNAL_OK);
	step_await(step, PHASE_LANDED, advance_landed);
	advance_landed(exchange, step);
}

/* Who waits for a rank that the others' table has left out waits in vain: with
 * elastic, the first head with another table ends the step. Its slot drains
 * later. */
static void look_for_other_tables(
	struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;

	if (!exchange_shape(exchange)->elastic)
		return;
	for (int32_t i = step->cursor + 1; i < view->num_members; i++) {
		int32_t member = view->members[i];
		struct step_head head;

		if (!step_has_signal(exchange, step, member) ||
			step_signal_code(exchange, step, member) != SIGNAL_OK)
			continue;
		head.table = exchange_head(exchange, member, step)->table;
		head.cached = step->dispatch.cached.epoch;
		if (head.table != view->table &&
			step->failure.status == SHUNT_OK)
			heads_agree(exchange, step, member, &head);
	}
	if (step->failure.status == SHUNT_MISMATCH)
		step_end_early(step);
}

/* STEP_COUNTING: takes in the counts of every rank, then writes the rows. A
 * step that cannot be ends here, but no sooner than all have announced it:
 * until then others may still read this rank's last ROWS line. */
static void advance_counts(struct shunt_exchange *exchange, struct step *step)
{
	const struct view *view = step->view;

	for (; step->cursor < view->num_members; step->cursor++) {
		if (!step_has_signal(
			    exchange, step, view->members[step->cursor])) {
			look_for_other_tables(exchange, step);
			return;
		}
		heads_take(exchange, step, step->cursor);
	}
	if (!step_can_be(exchange, step)) {
		end_without_rows(exchange, step);
		return;
	}
	revoke_left_out(exchange, step->route);
	if (exchange_shape(exchange)->hosts) {
		step->advance = advance_absent;
		advance_absent(exchange, step);
		return;
	}
	step->advance = advance_writers;
	advance_writers(exchange, step);
}

/* Keeps the weights, since the caller's may be gone at combine. */
static void keep_weights(struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_dispatch_args *args = &step->dispatch;
	int64_t choices = args->num_tokens * exchange_shape(exchange)->topk;

	if (args->weights && choices > 0)
		memcpy(step->route->weights, args->weights,
			(size_t)choices * sizeof(float));
}

/* Announces this rank's counts. */
static void announce(struct shunt_exchange *exchange, struct step *step)
{
	struct step_head *head = exchange_head(exchange, exchange->rank, step);
	const struct shunt_dispatch_args *args = &step->dispatch;

	head->epoch = step->epoch;
	head->table = step->view->table;
	head->cached = args->cached.epoch;
	head->num_tokens = args->num_tokens;
	step->is_offered = fetch_is_possible(exchange, step);
	step->is_fetched = step->is_offered;
	if (step->is_offered)
		fetch_offer(exchange, step);
	if (exchange_shape(exchange)->hosts)
		cross_send(exchange, step);
	head->given = heads_given(args, step->is_offered);
	head->reason[0] = '\0';
	step->given_seen = 0;
	step->state = STEP_COUNTING;
	if (!args_are_cached(args))
		route_clear(exchange, step->route);
	absent_note(exchange, step);
	step_signal(exchange, step, PHASE_COUNTS, SIGNAL_OK);
	step_await(step, PHASE_COUNTS, advance_counts);
}

/* ---- public ----------------------------------------------------------- */

/* The time that the call may take; the exchange's if its own makes no sense,
 * since then the step is refused. */
static int64_t span_of(const struct shunt_exchange *exchange,
	enum shunt_status read, const struct shunt_dispatch_args *args)
{
	if (read == SHUNT_OK && args->deadline_ns > 0)
		return args->deadline_ns;
	return exchange->accepted.config.deadline_ns;
}

/* An error that was found before its step began, for later. */
struct early_error {
	enum shunt_status status;
	char message[STEP_REASON_BYTES];
};

static void keep_error(struct early_error *error, enum shunt_status status)
{
	if (error->status != SHUNT_OK || status == SHUNT_OK)
		return;
	error->status = status;
	snprintf(error->message, sizeof(error->message), "%s",
		shunt_error_message());
}

/* The step's own part, its slot claimed: everything that can be refused. */
static enum shunt_status prepare(struct shunt_exchange *exchange,
	struct step *step, const struct early_error *early)
{
	enum shunt_status status = SHUNT_OK;

	if (early->status != SHUNT_OK)
		return error_set(early->status, "%s", early->message);
	if (!args_are_cached(&step->dispatch))
		status = route_count(exchange, step);
	if (status == SHUNT_OK)
		keep_weights(exchange, step);
	return status;
}

/* `early`: what is wrong before the arguments are looked at, or nothing. */
static enum shunt_status start(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *given, struct early_error *early,
	struct step **out)
{
	struct shunt_dispatch_args args = {0};
	const struct view *view = exchange_present(exchange);
	struct route *route = NULL;
	struct step *step;
	enum shunt_status status;

	status = step_check_free(exchange);
	if (status != SHUNT_OK)
		return status;
	if (early->status == SHUNT_OK)
		keep_error(early, config_read(&args, sizeof(args), given,
					  "shunt_dispatch_args"));
	if (early->status == SHUNT_OK) {
		keep_error(early, args_check(exchange, &args));
		/* Also of wrong arguments the table counts: whom it leaves out
		 * is not to be waited for. */
		keep_error(early, route_begin(exchange, &args, &route, &view));
	}
	status = step_claim(
		exchange, view, span_of(exchange, early->status, &args), &step);
	if (status != SHUNT_OK)
		return status;
	world_beat(exchange->world, BEAT_DISPATCH_START, step->epoch);
	step->route = route;
	step->dispatch = args;
	step->dispatch.deadline_ns = span_of(exchange, early->status, &args);
	status = prepare(exchange, step, early);
	if (status != SHUNT_OK)
		return step_refuse(exchange, step, PHASE_COUNTS, status);
	announce(exchange, step);
	*out = step;
	return SHUNT_OK;
}

static void count_received(struct shunt_exchange *exchange, struct step *step)
{
	struct counters *counters = &exchange->counters;
	const struct route *route = step->route;

	if (step->is_counted)
		return;
	step->is_counted = true;
	counters->now.dispatches++;
	counters->now.tokens += route->num_tokens;
	counters->now.received_rows += route->num_rows;
	counters->now.dropped_choices += step->dropped;
	counters->now.dispatch_nan_elements +=
		(int64_t)step->tally.nan_elements;
	counters->now.dispatch_inf_elements +=
		(int64_t)step->tally.inf_elements;
	for (int64_t l = 0; l < exchange->layouts[exchange->rank].num_local;
		l++)
		counters->expert_rows[l] += route->expert_rows[l];
}

static enum shunt_status finish(struct shunt_exchange *exchange,
	struct step *step, int64_t deadline_ns, struct shunt_dispatch_out *out)
{
	enum shunt_status status =
		step_wait(exchange, step, "the rows of dispatch",
			deadline_ns ? deadline_ns : step->dispatch.deadline_ns,
			step->dispatch.performance_info,
			&exchange->counters.now.dispatch_wait_ns);

	if (status != SHUNT_OK)
		return status;
	/* Asked for once more, it waits for nothing. */
	step->dispatch.performance_info = NULL;
	count_received(exchange, step);
	receive_fill(exchange, step, out);
	return SHUNT_OK;
}

static enum shunt_status check_out(const struct shunt_dispatch_out *out)
{
	struct shunt_dispatch_out known;

	return config_read(&known, sizeof(known), out, "shunt_dispatch_out");
}

enum shunt_status shunt_dispatch_start(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct shunt_handle *handle)
{
	struct early_error early = {0};
	struct step *step;
	enum shunt_status status;

	status = exchange_enter(exchange);
	if (status != SHUNT_OK)
		return status;
	if (!handle)
		keep_error(&early,
			error_set(SHUNT_NULL_ARGUMENT,
				"handle is NULL (rank %d)", exchange->rank));
	status = start(exchange, args, &early, &step);
	if (status == SHUNT_OK)
		*handle = (struct shunt_handle){exchange->id, step->epoch};
	else if (status == SHUNT_TIMEOUT && handle)
		*handle = (struct shunt_handle){0, 0};
	exchange_leave(exchange);
	return status;
}

enum shunt_status shunt_dispatch_finish(struct shunt_handle handle,
	int64_t deadline_ns, struct shunt_dispatch_out *out)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status;

	status = check_out(out);
	if (status != SHUNT_OK)
		return status;
	status = exchange_enter_handle(handle, &exchange, &step);
	if (status != SHUNT_OK)
		return status;
	if (deadline_ns < 0)
		status = exchange_refuse(
			exchange, "deadline_ns", deadline_ns, "0 or more");
	else if (step_is_combining(step))
		status = error_set(SHUNT_STATE,
			"the dispatch of step %llu is finished: its combine "
			"has begun (rank %d)",
			(unsigned long long)step->epoch, exchange->rank);
	else
		status = finish(exchange, step, deadline_ns, out);
	exchange_leave(exchange);
	return status;
}

enum shunt_status shunt_dispatch(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct shunt_dispatch_out *out,
	struct shunt_handle *handle)
{
	struct early_error early = {0};
	struct step *step;
	enum shunt_status status;

	status = exchange_enter(exchange);
	if (status != SHUNT_OK)
		return status;
	keep_error(&early, check_out(out));
	if (!handle)
		keep_error(&early,
			error_set(SHUNT_NULL_ARGUMENT,
				"handle is NULL (rank %d)", exchange->rank));
	status = start(exchange, args, &early, &step);
	if (status == SHUNT_TIMEOUT && handle)
		*handle = (struct shunt_handle){0, 0};
	if (status != SHUNT_OK)
		goto leave;
	status = finish(exchange, step, 0, out);
	if (status == SHUNT_OK || status == SHUNT_TIMEOUT)
		*handle = (struct shunt_handle){exchange->id, step->epoch};
leave:
	exchange_leave(exchange);
	return status;
}
