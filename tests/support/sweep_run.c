/* Running a case of the sweep: its exchange, and its steps in all the ways
 * that they may overlap. */
#include "support/sweep.h"

#include <stdlib.h>

/* A group of steps in flight at once on this rank. */
struct group {
	struct seat *seat;
	const struct sweep_case *sweep;
	struct shunt_exchange *exchange;
	int64_t number, count;
	struct trial steps[SWEEP_MAX_DEPTH];
};

/* ---- one step's parts ------------------------------------------------- */

/* What a dispatch must answer: the refusing rank knows why, others who. */
static enum shunt_status due(const struct trial *step)
{
	if (step->refusers == 0)
		return SHUNT_OK;
	if (step->refusers >> step->rank & 1)
		return SHUNT_INVALID;
	return SHUNT_PEER_REFUSED;
}

/* Some or all of the refusing ranks must be named. */
static void check_refusal(struct seat *seat, const struct trial *step)
{
	int32_t ranks[64];
	size_t count = shunt_error_ranks(ranks, 64);

	if (due(step) != SHUNT_PEER_REFUSED)
		return;
	SEAT_CHECK(
		seat, count > 0, "nobody is named: %s", shunt_error_message());
	for (size_t i = 0; i < count; i++)
		SEAT_CHECK(seat, step->refusers >> ranks[i] & 1,
			"rank %d is named and did not refuse", ranks[i]);
}

static void dispatch(struct group *group, struct trial *step)
{
	SEAT_STATUS(group->seat, due(step),
		shunt_dispatch(group->exchange, &step->args, &step->out,
			&step->handle));
	check_refusal(group->seat, step);
}

/* Whether refusals show at start or at finish is the library's choice, but a
 * rank's own bad arguments show at once. */
static bool dispatch_start(struct group *group, struct trial *step)
{
	enum shunt_status status = shunt_dispatch_start(
		group->exchange, &step->args, &step->handle);

	if (status == SHUNT_OK && due(step) != SHUNT_INVALID)
		return true;
	SEAT_STATUS(group->seat, due(step), status);
	check_refusal(group->seat, step);
	return false;
}

static void dispatch_finish(struct group *group, struct trial *step)
{
	SEAT_STATUS(group->seat, due(step),
		shunt_dispatch_finish(step->handle, 0, &step->out));
	check_refusal(group->seat, step);
}

static void check_and_make_rows(struct group *group, struct trial *step)
{
	if (step->refusers != 0)
		return;
	trial_check_dispatch(group->seat, step);
	trial_make_rows(group->seat, step);
}

static void combine(struct group *group, struct trial *step)
{
	if (step->refusers != 0)
		return;
	SEAT_OK(group->seat, shunt_combine(step->handle, &step->combine));
	trial_check_combine(group->seat, step);
}

static void combine_start(struct group *group, struct trial *step)
{
	if (step->refusers != 0)
		return;
	SEAT_OK(group->seat, shunt_combine_start(step->handle, &step->combine));
	trial_spoil_rows(step);
}

static void combine_finish(struct group *group, struct trial *step)
{
	if (step->refusers != 0)
		return;
	SEAT_OK(group->seat, shunt_combine_finish(step->handle, 0));
	trial_check_combine(group->seat, step);
}

/* ---- the flows -------------------------------------------------------- */

static void run_whole(struct group *group)
{
	for (int64_t i = 0; i < group->count; i++) {
		dispatch(group, &group->steps[i]);
		check_and_make_rows(group, &group->steps[i]);
		combine(group, &group->steps[i]);
	}
}

static void run_split(struct group *group)
{
	for (int64_t i = 0; i < group->count; i++) {
		if (dispatch_start(group, &group->steps[i]))
			dispatch_finish(group, &group->steps[i]);
		check_and_make_rows(group, &group->steps[i]);
		combine_start(group, &group->steps[i]);
		combine_finish(group, &group->steps[i]);
	}
}

static void run_batch(struct group *group)
{
	int64_t order[3][SWEEP_MAX_DEPTH], i;
	bool started[SWEEP_MAX_DEPTH];

	for (i = 0; i < 3; i++)
		sweep_order(group->sweep, group->seat->rank,
			group->number * 3 + i, group->count, order[i]);
	for (i = 0; i < group->count; i++)
		started[i] = dispatch_start(group, &group->steps[i]);
	for (i = 0; i < group->count; i++)
		if (started[order[0][i]])
			dispatch_finish(group, &group->steps[order[0][i]]);
	for (i = 0; i < group->count; i++) {
		check_and_make_rows(group, &group->steps[order[1][i]]);
		combine_start(group, &group->steps[order[1][i]]);
	}
	for (i = 0; i < group->count; i++)
		combine_finish(group, &group->steps[order[2][i]]);
}

static void run_reversed(struct group *group)
{
	for (int64_t i = 0; i < group->count; i++)
		dispatch(group, &group->steps[i]);
	for (int64_t i = 0; i < group->count; i++)
		check_and_make_rows(group, &group->steps[i]);
	for (int64_t i = group->count - 1; i >= 0; i--)
		combine(group, &group->steps[i]);
}

static void run_pipeline(struct group *group)
{
	bool started = dispatch_start(group, &group->steps[0]), next;

	for (int64_t i = 0; i < group->count; i++) {
		if (started)
			dispatch_finish(group, &group->steps[i]);
		next = i + 1 < group->count &&
		       dispatch_start(group, &group->steps[i + 1]);
		check_and_make_rows(group, &group->steps[i]);
		combine_start(group, &group->steps[i]);
		combine_finish(group, &group->steps[i]);
		started = next;
	}
}

static void run_abandon(struct group *group)
{
	for (int64_t i = 0; i < group->count; i++) {
		dispatch(group, &group->steps[i]);
		if (group->steps[i].refusers == 0)
			trial_check_dispatch(group->seat, &group->steps[i]);
		shunt_handle_destroy(group->steps[i].handle);
	}
}

static void run_group(struct group *group)
{
	static void (*const flows[])(struct group *) = {
		[SWEEP_WHOLE] = run_whole,
		[SWEEP_SPLIT] = run_split,
		[SWEEP_BATCH] = run_batch,
		[SWEEP_REVERSED] = run_reversed,
		[SWEEP_PIPELINE] = run_pipeline,
		[SWEEP_ABANDON] = run_abandon,
	};
	struct trial_rule rule;

	for (int64_t i = 0; i < group->count; i++) {
		rule = sweep_rule(
			group->sweep, group->number * SWEEP_MAX_DEPTH + i);
		trial_create(group->seat, &group->steps[i], &rule);
	}
	flows[sweep_flow(group->sweep, group->number)](group);
	for (int64_t i = 0; i < group->count; i++)
		trial_destroy(&group->steps[i]);
}

void sweep_run(struct seat *seat, const struct sweep_case *sweep)
{
	struct group *group = malloc(sizeof(*group));

	SEAT_CHECK(seat, group != NULL, "no memory");
	*group = (struct group){.seat = seat, .sweep = sweep};
	SEAT_OK(seat, shunt_exchange_create(seat->world, NULL, &sweep->config,
			      &group->exchange));
	group->count = sweep_depth(sweep);
	for (; group->number < sweep->num_groups; group->number++)
		run_group(group);
	shunt_exchange_destroy(group->exchange);
	free(group);
}
