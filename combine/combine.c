/*
 * Combine: the public calls, and the states of a step from the experts' rows
 * to the caller's tokens. The rows are read in place, in the windows of the
 * ranks that computed them; sum.h is the arithmetic.
 */
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/dtype.h"
#include "base/fpenv.h"
#include "combine/sum.h"
#include "exchange/step.h"

/* ---- arguments -------------------------------------------------------- */

static bool stride_is_legal(const struct shape *shape, int64_t stride)
{
	return stride == 0 || (stride >= shape->hidden && stride <= MAX_STRIDE);
}

static enum shunt_status check_args(const struct shunt_exchange *exchange,
	const struct step *step, const struct shunt_combine_args *args)
{
	const struct shape *shape = exchange_shape(exchange);

	if (!args->y && step->route->extent_rows > 0)
		return error_set(SHUNT_NULL_ARGUMENT,
			"y is NULL with %lld rows received (rank %d)",
			(long long)step->route->extent_rows, exchange->rank);
	if (!args->out && step->route->num_tokens > 0)
		return error_set(SHUNT_NULL_ARGUMENT,
			"out is NULL with num_tokens %lld (rank %d)",
			(long long)step->route->num_tokens, exchange->rank);
	if (!stride_is_legal(shape, args->y_stride))
		return exchange_refuse(exchange, "y_stride", args->y_stride,
			"0 or hidden .. 2^40");
	if (!stride_is_legal(shape, args->out_stride))
		return exchange_refuse(exchange, "out_stride", args->out_stride,
			"0 or hidden .. 2^40");
	if (args->out_dtype > SHUNT_DTYPE_BF16)
		return exchange_refuse(exchange, "out_dtype", args->out_dtype,
			"0, F32, F16 or BF16");
	if (args->deadline_ns < 0)
		return exchange_refuse(exchange, "deadline_ns",
			args->deadline_ns, "0 or more");
	return SHUNT_OK;
}

/* ---- states ----------------------------------------------------------- */

/* Collects the rows of a token's choices, and their weights. */
static int64_t gather_choices(const struct shunt_exchange *exchange,
	const struct step *step, const float *weights, int64_t token)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct scratch *scratch = &exchange->scratch;
	int64_t num_rows = 0;

	const struct route *route = step->route;

	for (int64_t k = 0; k < shape->num_sends; k++) {
		int64_t at = token * shape->num_sends + k;
		int32_t unit = route->unit[at];
		int32_t member;
		const uint8_t *rows;

		if (unit < 0)
			continue;
		member =
			route->view->members[exchange->tp_rank *
						     route->view->num_ranks +
					     route->view->placement.rank[unit]];
		rows = exchange_array(exchange, member,
			exchange->layouts[member].results_off, step);
		scratch->results[num_rows] =
			rows + route->row[at] * shape->result_bytes;
		if (weights)
			scratch->weights[num_rows] =
				k < shape->topk
					? weights[token * shape->topk + k]
					: 1.0f;
		num_rows++;
	}
	return num_rows;
}

/* The weights in force: combine's, else dispatch's, else none. */
static const float *weights_of(const struct step *step)
{
	if (step->combine.weights)
		return step->combine.weights;
	return step->route->has_weights ? step->route->weights : NULL;
}

static void sum_tokens(struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_combine_args *args = &step->combine;
	const struct shape *shape = exchange_shape(exchange);
	enum shunt_dtype dtype = exchange->accepted.config.expert_dtype;
	const struct sum_kernels *kernels = sum_kernels();
	const struct scratch *scratch = &exchange->scratch;
	const float *weights = weights_of(step);
	int64_t out_bytes =
		(args->out_stride ? args->out_stride : shape->hidden) *
		dtype_bits(args->out_dtype) / 8;
	uint8_t *out = args->out;
	struct fpenv caller = fpenv_enter();

	for (int64_t t = 0; t < step->route->num_tokens; t++)
		kernels->rows[dtype][args->out_dtype](out + t * out_bytes,
			scratch->results, weights ? scratch->weights : NULL,
			gather_choices(exchange, step, weights, t),
			shape->hidden);
	fpenv_leave(&caller);
}

/* STEP_COMBINING: waits for the results of every rank, then sums. */
static void advance_results(struct shunt_exchange *exchange, struct step *step)
{
	if (!step_collect(exchange, step, exchange_note))
		return;
	sum_tokens(exchange, step);
	step->state = STEP_COMBINED;
	world_beat(exchange->world, BEAT_COMBINE_DONE, step->epoch);
}

/* Puts the experts' rows into the window, unless they lie there already. */
static void place_results(struct shunt_exchange *exchange, struct step *step)
{
	const struct shunt_combine_args *args = &step->combine;
	const struct shape *shape = exchange_shape(exchange);
	uint8_t *results = exchange_array(exchange, exchange->rank,
		exchange->layouts[exchange->rank].results_off, step);
	int64_t y_bytes = (args->y_stride ? args->y_stride : shape->hidden) *
			  dtype_bits(exchange->accepted.config.expert_dtype) /
			  8;
	const uint8_t *y = args->y;

	if (y == results && y_bytes == shape->result_bytes)
		return;
	for (int64_t i = 0; i < step->route->extent_rows; i++)
		memmove(results + i * shape->result_bytes, y + i * y_bytes,
			(size_t)shape->result_bytes);
}

/* ---- public ----------------------------------------------------------- */

static enum shunt_status check_state(
	const struct shunt_exchange *exchange, const struct step *step)
{
	if (step->state == STEP_DISPATCHED)
		return SHUNT_OK;
	return error_set(SHUNT_STATE,
		step->state == STEP_COMBINING || step->state == STEP_COMBINED
			? "the combine of step %llu has begun: a handle is "
			  "combined once (rank %d)"
			: "the dispatch of step %llu is not finished: finish "
			  "it "
			  "before combine (rank %d)",
		(unsigned long long)step->epoch, exchange->rank);
}

static enum shunt_status start(struct shunt_exchange *exchange,
	struct step *step, const struct shunt_combine_args *args)
{
	struct shunt_combine_args *mine = &step->combine;
	enum shunt_status status = check_state(exchange, step);

	if (status != SHUNT_OK)
		return status;
	status = config_read(mine, sizeof(*mine), args, "shunt_combine_args");
	if (status == SHUNT_OK)
		status = check_args(exchange, step, mine);
	if (status != SHUNT_OK)
		return step_refuse(exchange, step, PHASE_RESULTS, status);
	if (mine->out_dtype == SHUNT_DTYPE_NONE)
		mine->out_dtype = exchange->accepted.config.expert_dtype;
	if (mine->deadline_ns == 0)
		mine->deadline_ns = exchange->accepted.config.deadline_ns;
	world_beat(exchange->world, BEAT_COMBINE_START, step->epoch);
	place_results(exchange, step);
	step->state = STEP_COMBINING;
	step_signal(exchange, step, PHASE_RESULTS, SIGNAL_OK);
	step_await(step, PHASE_RESULTS, advance_results);
	return SHUNT_OK;
}

static enum shunt_status finish(
	struct shunt_exchange *exchange, struct step *step, int64_t deadline_ns)
{
	enum shunt_status status =
		step_wait(exchange, step, "the experts' rows in combine",
			deadline_ns ? deadline_ns : step->combine.deadline_ns,
			step->combine.performance_info,
			&exchange->counters.now.combine_wait_ns);

	if (status == SHUNT_OK)
		step_end(step);
	return status;
}

enum shunt_status shunt_combine_start(
	struct shunt_handle handle, const struct shunt_combine_args *args)
{
	struct shunt_exchange *exchange;
	struct step *step;
	enum shunt_status status;

	status = exchange_enter_handle(handle, &exchange, &step);
	if (status != SHUNT_OK)
		return status;
	status = start(exchange, step, args);
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
	if (deadline_ns < 0)
		status = exchange_refuse(
			exchange, "deadline_ns", deadline_ns, "0 or more");
	else if (step->state == STEP_COMBINING ||
		 step->state == STEP_COMBINED ||
		 (step->state == STEP_FAILED && step->awaited == PHASE_RESULTS))
		status = finish(exchange, step, deadline_ns);
	else
		status = error_set(SHUNT_STATE,
			"the combine of step %llu was not started (rank %d)",
			(unsigned long long)step->epoch, exchange->rank);
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
	status = start(exchange, step, args);
	if (status == SHUNT_OK)
		status = finish(exchange, step, 0);
	exchange_leave(exchange);
	return status;
}
