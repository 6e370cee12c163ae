/* Running a case of the sweep: its exchange, and its steps in all the ways
 * that they may overlap. */
#include "support/sweep.h"

#include <stdio.h>
#include <stdlib.h>

/* A step that is over, for those that repeat its routing. */
struct past {
	struct trial_rule rule;
	struct shunt_handle handle;
	bool refused;
};

/* A case on this rank, and its group of steps in flight at once. */
struct group {
	struct seat *seat;
	const struct sweep_case *sweep;
	struct shunt_group *ep, *tp;
	struct shunt_exchange *exchange;
	bool adds_partial_sums;
	int64_t number, count;
	struct trial steps[SWEEP_MAX_DEPTH];
	struct past past[SWEEP_MAX_STEPS];
};

/* ---- one step's parts ------------------------------------------------- */

/* Some or all of the refusing ranks must be named. */
static void check_refusal(struct seat *seat, const struct trial *step)
{
	int32_t ranks[64];
	size_t count = shunt_error_ranks(ranks, 64);

	/* With TP the group is all EP groups together. */
	if (step->due != SHUNT_PEER_REFUSED || step->job.num_tp > 1)
		return;
	SEAT_CHECK(
		seat, count > 0, "nobody is named: %s", shunt_error_message());
	for (size_t i = 0; i < count; i++)
		SEAT_CHECK(seat, step->refusers >> ranks[i] & 1,
			"rank %d is named and did not refuse", ranks[i]);
}

static void dispatch(struct group *group, struct trial *step)
{
	SEAT_STATUS(group->seat, step->due,
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

	if (status == SHUNT_OK && step->due != SHUNT_INVALID)
		return true;
	SEAT_STATUS(group->seat, step->due, status);
	check_refusal(group->seat, step);
	return false;
}

/* Now and then, since it must not matter; `when` tells calls apart. */
static void progress(
	struct group *group, const struct trial *step, int64_t when)
{
	int64_t index = (step->rule.step * 64 + group->seat->rank) * 4 + when;
	int64_t count = sweep_draw(group->sweep, DRAW_PROGRESS, index, 0, 2);

	for (int64_t i = 0; i < count; i++)
		SEAT_OK(group->seat,
			shunt_exchange_progress(group->exchange, NULL));
}

static void dispatch_finish(struct group *group, struct trial *step)
{
	progress(group, step, 0);
	SEAT_STATUS(group->seat, step->due,
		shunt_dispatch_finish(step->handle, 0, &step->out));
	check_refusal(group->seat, step);
}

static void check_and_make_rows(struct group *group, struct trial *step)
{
	if (step->due != SHUNT_OK)
		return;
	trial_check_dispatch(group->seat, step);
	trial_make_rows(group->seat, step);
}

static void combine(struct group *group, struct trial *step)
{
	if (step->due != SHUNT_OK)
		return;
	SEAT_OK(group->seat, shunt_combine(step->handle, &step->combine));
	trial_check_combine(group->seat, step);
}

static void combine_start(struct group *group, struct trial *step)
{
	if (step->due != SHUNT_OK)
		return;
	SEAT_OK(group->seat, shunt_combine_start(step->handle, &step->combine));
	trial_spoil_rows(step);
	progress(group, step, 1);
	trial_feed(group->seat, step);
}

static void combine_finish(struct group *group, struct trial *step)
{
	if (step->due != SHUNT_OK)
		return;
	progress(group, step, 2);
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
		if (group->steps[i].due == SHUNT_OK)
			trial_check_dispatch(group->seat, &group->steps[i]);
		shunt_handle_destroy(group->steps[i].handle);
	}
}

static void make_step(struct group *group, int64_t i)
{
	int64_t step = group->number * group->count + i, back;
	struct trial_rule rule = sweep_rule(group->sweep, step);
	struct past *earlier = NULL;

	rule.adds_partial_sums = group->adds_partial_sums;
	back = sweep_cached_from(group->sweep, step);
	if (back > 0)
		earlier = &group->past[step - back];
	/* A routing is of its table's ranks. */
	if (earlier != NULL &&
		(earlier->refused || earlier->rule.table != rule.table))
		earlier = NULL;
	if (earlier != NULL)
		sweep_repeat(&rule, &earlier->rule);
	trial_create(group->seat, &group->steps[i], &rule);
	if (earlier != NULL)
		group->steps[i].args.cached = earlier->handle;
}

static void drop_step(struct group *group, int64_t i)
{
	struct trial *step = &group->steps[i];

	group->past[group->number * group->count + i] = (struct past){
		.rule = step->rule,
		.handle = step->handle,
		.refused = step->due != SHUNT_OK,
	};
	trial_destroy(step);
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

	for (int64_t i = 0; i < group->count; i++)
		make_step(group, i);
	flows[sweep_flow(group->sweep, group->number)](group);
	for (int64_t i = 0; i < group->count; i++)
		drop_step(group, i);
}

/* ---- the exchange ----------------------------------------------------- */

/* The group of members first, first + step, ...; its order is theirs. */
static struct shunt_group *make_group(struct group *group, const char *kind,
	int32_t first, int32_t step, int32_t count)
{
	const struct sweep_case *sweep = group->sweep;
	int32_t ranks[SWEEP_MAX_SEATS];
	struct shunt_group *made;
	char name[64];

	for (int32_t rank = 0; rank < sweep->num_seats; rank++)
		for (int32_t i = 0; i < count; i++)
			if (sweep->members[rank] == first + i * step)
				ranks[i] = rank;
	snprintf(name, sizeof(name), "%s %d", kind, (int)sweep->number);
	SEAT_OK(group->seat, shunt_group_create(group->seat->world, ranks,
				     count, name, 0, &made));
	return made;
}

static void make_groups(struct group *group)
{
	const struct sweep_case *sweep = group->sweep;
	int32_t ranks = sweep->num_ranks;
	int32_t member = sweep->members[group->seat->rank];

	if (sweep->num_tp == 1 && !sweep->shuffled)
		return;
	group->ep = make_group(group, "EP", member / ranks * ranks, 1, ranks);
	if (sweep->num_tp > 1)
		group->tp = make_group(
			group, "TP", member % ranks, ranks, sweep->num_tp);
}

/* The library's worst case is the specification's. */
static void check_sizes(struct group *group)
{
	const struct sweep_case *sweep = group->sweep;
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;
	struct shunt_exchange_config config = sweep->config;
	int32_t member = sweep->members[group->seat->rank];
	struct reference_place place = {0, member % sweep->num_ranks};
	struct reference_job job = {
		.config = sweep->config,
		.num_ranks = sweep->num_ranks,
		.num_tp = sweep->num_tp,
		.expert_rank = sweep->expert_rank,
	};

	config.tp_group = group->tp;
	SEAT_OK(group->seat, shunt_exchange_query(&config, place.rank,
				     sweep->num_ranks, &sizes));
	SEAT_CHECK(group->seat,
		sizes.worst_rows == reference_capacity(&job, place) &&
			sizes.recv_rows == reference_room(&job, place),
		"worst_rows is %lld, must be %lld; recv_rows %lld",
		(long long)sizes.worst_rows,
		(long long)reference_capacity(&job, place),
		(long long)sizes.recv_rows);
}

/* A rank that the group's table leaves out has nothing more to do. */
static bool is_left_out(const struct group *group)
{
	const int32_t *table = sweep_table(group->sweep, group->number);

	return table != NULL &&
	       table[4 + group->sweep->members[group->seat->rank]] < 0;
}

static void make_exchange(struct group *group)
{
	struct shunt_exchange_config config = group->sweep->config;
	struct shunt_exchange_info info = SHUNT_EXCHANGE_INFO_INIT;
	struct seat *seat = group->seat;

	config.tp_group = group->tp;
	SEAT_OK(seat, shunt_exchange_create(seat->world, group->ep, &config,
			      &group->exchange));
	SEAT_OK(seat, shunt_exchange_info_get(group->exchange, &info));
	sweep_check_info(seat, group->sweep, &info);
	group->adds_partial_sums = info.adds_partial_sums;
	check_sizes(group);
}

static void run_steps(struct group *group)
{
	group->count = sweep_depth(group->sweep);
	for (; group->number < group->sweep->num_groups; group->number++) {
		/* Nobody is left out while it is still in a step. */
		if (group->sweep->num_tables > 0)
			seat_barrier(group->seat);
		if (!is_left_out(group))
			run_group(group);
	}
}

void sweep_run(struct seat *seat, const struct sweep_case *sweep)
{
	struct group *group = calloc(1, sizeof(*group));

	SEAT_CHECK(seat, group != NULL, "no memory");
	group->seat = seat;
	group->sweep = sweep;
	make_groups(group);
	make_exchange(group);
	run_steps(group);
	shunt_exchange_destroy(group->exchange);
	shunt_group_destroy(group->tp);
	shunt_group_destroy(group->ep);
	free(group);
}
