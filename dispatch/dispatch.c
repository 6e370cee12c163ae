/*
 * Dispatch: the public calls, and the states of a step from its start until
 * all rows are here. route.c computes where rows go, send.c writes them.
 */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "dispatch/route.h"
#include "dispatch/send.h"
#include "exchange/step.h"

/* ---- arguments -------------------------------------------------------- */

static enum shunt_status refuse_null(
	const struct shunt_exchange *exchange, const char *name, int64_t tokens)
{
	return error_set(SHUNT_NULL_ARGUMENT,
		"%s is NULL with num_tokens %lld (rank %d)", name,
		(long long)tokens, exchange->rank);
}

static enum shunt_status check_pointers(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	if (args->num_tokens == 0)
		return SHUNT_OK;
	if (!args->x)
		return refuse_null(exchange, "x", args->num_tokens);
	if (!args->expert_ids)
		return refuse_null(exchange, "expert_ids", args->num_tokens);
	if (args->mask != SHUNT_MASK_NONE && !args->active_mask)
		return refuse_null(exchange, "active_mask", args->num_tokens);
	return SHUNT_OK;
}

static enum shunt_status check_smooth(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	if (!args->smooth_scales ||
		exchange->accepted.config.quant == SHUNT_QUANT_INT8)
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"smooth_scales is given with quant NONE; it goes with a "
		"dynamic quant (rank %d)",
		exchange->rank);
}

static enum shunt_status check_args(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	const struct shape *shape = exchange_shape(exchange);
	enum shunt_status status;

	if (args->num_tokens < 0 || args->num_tokens > shape->max_tokens)
		return error_set(SHUNT_INVALID,
			"num_tokens is %lld, must be 0 .. max_tokens = %lld "
			"(rank %d)",
			(long long)args->num_tokens,
			(long long)shape->max_tokens, exchange->rank);
	if (args->x_stride != 0 &&
		(args->x_stride < shape->hidden || args->x_stride > MAX_STRIDE))
		return exchange_refuse(exchange, "x_stride", args->x_stride,
			"0 or hidden .. 2^40");
	if (args->num_tokens > 0 && args->ids_type != SHUNT_INDEX_I32 &&
		args->ids_type != SHUNT_INDEX_I64)
		return exchange_refuse(
			exchange, "ids_type", args->ids_type, "I32 or I64");
	if (args->mask > SHUNT_MASK_CHOICES)
		return exchange_refuse(exchange, "mask", args->mask,
			"NONE, TOKENS or CHOICES");
	if (args->mask == SHUNT_MASK_NONE && args->active_mask)
		return error_set(SHUNT_INVALID,
			"active_mask is given, but mask is NONE (rank %d)",
			exchange->rank);
	if (args->deadline_ns < 0)
		return exchange_refuse(exchange, "deadline_ns",
			args->deadline_ns, "0 or more");
	status = check_pointers(exchange, args);
	return status ? status : check_smooth(exchange, args);
}

/* ---- states ----------------------------------------------------------- */

/* STEP_RECEIVING: waits for the rows of every rank. */
static void advance_rows(struct shunt_exchange *exchange, struct step *step)
{
	if (!step_collect(exchange, step, exchange_head))
		return;
	step->state = STEP_DISPATCHED;
	world_beat(exchange->world, BEAT_DISPATCH_DONE, step->epoch);
}

/* Weights come from all ranks with tokens or from none. */
static bool weights_agree(struct shunt_exchange *exchange, struct step *step)
{
	step->has_weights = step->weights_seen & WEIGHTS_GIVEN;
	if (step->weights_seen != (WEIGHTS_GIVEN | WEIGHTS_ABSENT))
		return true;
	step_fail(step, SHUNT_MISMATCH, -1,
		"weights are given on some ranks and not on others in step "
		"%llu (%s on rank %d); give them on all or on none",
		(unsigned long long)step->epoch,
		step->dispatch.weights ? "given" : "not given", exchange->rank);
	return false;
}

/* Takes in what `rank` announced. The lowest rank that refuses, or is at
 * fault, decides how the step fails, on all ranks alike. */
static void take_counts(
	struct shunt_exchange *exchange, struct step *step, int32_t rank)
{
	if (step->failure.status != SHUNT_OK)
		return;
	if (step_signal_code(exchange, step, rank) == SIGNAL_OK)
		route_absorb(exchange, step, rank);
	else
		step_fail_refused(exchange, step, rank,
			exchange_head(exchange, rank, step));
}

/* STEP_COUNTING: takes in the counts of every rank, then writes the rows. A
 * step that cannot be ends here, but no sooner than all have announced it:
 * until then others may still read this rank's last ROWS line. */
static void advance_counts(struct shunt_exchange *exchange, struct step *step)
{
	int32_t num_ranks = exchange_shape(exchange)->num_ranks;

	for (; step->cursor < num_ranks; step->cursor++) {
		if (!step_has_signal(exchange, step, step->cursor))
			return;
		take_counts(exchange, step, step->cursor);
	}
	if (step->failure.status != SHUNT_OK ||
		!weights_agree(exchange, step) ||
		!route_place(exchange, step)) {
		step_signal(exchange, step, PHASE_ROWS, SIGNAL_GIVEN_UP);
		step_end_failed(step);
		return;
	}
	world_beat(exchange->world, BEAT_DISPATCH_WRITE, step->epoch);
	send_rows(exchange, step);
	step->state = STEP_RECEIVING;
	step_signal(exchange, step, PHASE_ROWS, SIGNAL_OK);
	step_await(step, PHASE_ROWS, advance_rows);
}

/* Keeps the weights, since the caller's may be gone at combine. */
static void keep_weights(struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_dispatch_args *args = &step->dispatch;
	int64_t choices = args->num_tokens * exchange_shape(exchange)->topk;

	if (args->weights && choices > 0)
		memcpy(step->weights, args->weights,
			(size_t)choices * sizeof(float));
}

/* Announces this rank's counts. */
static void announce(struct shunt_exchange *exchange, struct step *step)
{
	struct step_head *head = exchange_head(exchange, exchange->rank, step);
	const struct shunt_dispatch_args *args = &step->dispatch;

	head->epoch = step->epoch;
	head->num_tokens = args->num_tokens;
	head->has_weights = args->weights      ? WEIGHTS_GIVEN
			    : args->num_tokens ? WEIGHTS_ABSENT
					       : 0;
	head->reason[0] = '\0';
	step->weights_seen = 0;
	step->state = STEP_COUNTING;
	route_begin(exchange, step);
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

static enum shunt_status start(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *given, struct step **out)
{
	char message[STEP_REASON_BYTES];
	struct shunt_dispatch_args args = {0};
	struct step *step;
	enum shunt_status status, claimed;

	status = config_read(&args, sizeof(args), given, "shunt_dispatch_args");
	snprintf(message, sizeof(message), "%s", shunt_error_message());
	claimed = step_claim(exchange, span_of(exchange, status, &args), &step);
	if (claimed != SHUNT_OK)
		return claimed;
	world_beat(exchange->world, BEAT_DISPATCH_START, step->epoch);
	if (status != SHUNT_OK)
		error_set(status, "%s", message);
	else
		status = check_args(exchange, &args);
	step->dispatch = args;
	if (status == SHUNT_OK)
		status = route_count(exchange, step);
	if (status != SHUNT_OK)
		return step_refuse(exchange, step, PHASE_COUNTS, status);
	step->dispatch.deadline_ns = span_of(exchange, SHUNT_OK, &args);
	keep_weights(exchange, step);
	announce(exchange, step);
	*out = step;
	return SHUNT_OK;
}

static void fill_out(struct shunt_exchange *exchange, struct step *step,
	struct shunt_dispatch_out *given)
{
	const struct layout *layout = &exchange->layouts[exchange->rank];
	int32_t me = exchange->rank;
	struct shunt_dispatch_out out = {
		.num_rows = step->num_rows,
		.expand_x =
			exchange_array(exchange, me, layout->rows_off, step),
		.expert_token_nums = step->token_nums,
		.ep_recv_counts = step->recv_counts,
		.source =
			exchange_array(exchange, me, layout->source_off, step),
		.expert_rows =
			exchange_array(exchange, me, layout->results_off, step),
		.dropped_choices = step->dropped,
		.nan_elements = (int64_t)step->tally.nan_elements,
		.inf_elements = (int64_t)step->tally.inf_elements,
	};

	if (exchange_shape(exchange)->has_scales)
		out.dynamic_scales =
			exchange_array(exchange, me, layout->scales_off, step);
	if (step->has_weights)
		out.expand_weights =
			exchange_array(exchange, me, layout->weights_off, step);
	config_write(given, &out, sizeof(out));
}

static enum shunt_status finish(struct shunt_exchange *exchange,
	struct step *step, int64_t deadline_ns, struct shunt_dispatch_out *out)
{
	enum shunt_status status =
		step_wait(exchange, step, "the rows of dispatch",
			deadline_ns ? deadline_ns : step->dispatch.deadline_ns);

	if (status == SHUNT_OK)
		fill_out(exchange, step, out);
	return status;
}

static enum shunt_status check_out(const struct shunt_dispatch_out *out)
{
	struct shunt_dispatch_out known;

	return config_read(&known, sizeof(known), out, "shunt_dispatch_out");
}

/* Refuses a step for what is wrong before the arguments are looked at, and
 * that the thread's error tells. */
static enum shunt_status refuse_step(
	struct shunt_exchange *exchange, enum shunt_status status)
{
	char message[STEP_REASON_BYTES];
	enum shunt_status claimed;
	struct step *step;

	snprintf(message, sizeof(message), "%s", shunt_error_message());
	claimed = step_claim(
		exchange, exchange->accepted.config.deadline_ns, &step);
	if (claimed != SHUNT_OK)
		return claimed;
	error_set(status, "%s", message);
	return step_refuse(exchange, step, PHASE_COUNTS, status);
}

enum shunt_status shunt_dispatch_start(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct shunt_handle *handle)
{
	struct step *step;
	enum shunt_status status;

	if (!exchange)
		return error_set(SHUNT_NULL_ARGUMENT, "exchange is NULL");
	status = exchange_enter(exchange);
	if (status != SHUNT_OK)
		return status;
	if (!handle)
		status = refuse_step(exchange,
			error_set(SHUNT_NULL_ARGUMENT,
				"handle is NULL (rank %d)", exchange->rank));
	else
		status = start(exchange, args, &step);
	if (status == SHUNT_OK)
		*handle = (struct shunt_handle){exchange->id, step->epoch};
	else if (status == SHUNT_TIMEOUT)
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
	else if (step->state == STEP_COMBINING ||
		 step->state == STEP_COMBINED ||
		 (step->state == STEP_FAILED && step->awaited == PHASE_RESULTS))
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
	struct step *step;
	enum shunt_status status;

	if (!exchange)
		return error_set(SHUNT_NULL_ARGUMENT, "exchange is NULL");
	status = exchange_enter(exchange);
	if (status != SHUNT_OK)
		return status;
	status = check_out(out);
	if (status == SHUNT_OK && !handle)
		status = error_set(SHUNT_NULL_ARGUMENT,
			"handle is NULL (rank %d)", exchange->rank);
	if (status != SHUNT_OK) {
		status = refuse_step(exchange, status);
		goto leave;
	}
	status = start(exchange, args, &step);
	if (status == SHUNT_TIMEOUT)
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
