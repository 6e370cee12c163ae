/*
 * Tables that leave out a rank of another host, which may be in the middle of a step
 * that the others have given up: nothing that it writes when it goes on reaches what
 * they hold by then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "exchange/step.h"
#include "support/elastic.h"
#include "support/ways.h"

#define RANKS  ELASTIC_RANKS
#define HOSTS  "0011 0101 0122 0112 0001"
#define POISON 0xa5
#define SOON   INT64_C(50000000)

/* Where ranks stop for a while. */
enum stop {
	STOP_BEFORE_DISPATCH,
	STOP_TOO_LONG, /* the same, but they dispatch before the table is given */
	STOP_BEFORE_COMBINE,
	STOP_IN_COMBINE /* rows have gone, but no sums of their hosts */
};

/* How far all are. */
enum mark { STOPPED = 1, GIVEN_UP, DISPATCHED, POISONED, GONE_ON };

/* Ranks from `gone` on leave by plan, before ranks from `first` on stop. */
struct story {
	enum stop stop;
	int32_t first, gone, depth;
};

static const struct story *story_of(const struct seat *seat)
{
	return way_of(seat)->context;
}

static bool is_elsewhere(const struct seat *seat, int32_t rank)
{
	return seat->host != seat->hosts[rank];
}

/* Ranks below `end` on a host. */
static int32_t count_on_host(const struct seat *seat, int32_t host, int32_t end)
{
	int32_t count = 0;

	for (int32_t r = 0; r < end; r++)
		count += seat->hosts[r] == host;
	return count;
}

/* In the step that is given up, the rank adds up what goes to this one. */
static bool adds_up(const struct seat *seat, int32_t rank)
{
	int32_t host = seat->hosts[rank];
	int32_t own = count_on_host(seat, seat->host, seat->rank);
	int32_t size = count_on_host(seat, host, story_of(seat)->gone);

	return way_of(seat)->algorithm == SHUNT_ALGORITHM_HIERARCHY &&
	       is_elsewhere(seat, rank) && size > 0 &&
	       own % size == count_on_host(seat, host, rank);
}

/* The host of a rank that stops has nobody else who would tell it that the step is
 * given up. */
static bool late_dispatch_is_good(const struct seat *seat, int32_t rank)
{
	return way_of(seat)->algorithm == SHUNT_ALGORITHM_FULLMESH ||
	       count_on_host(seat, seat->hosts[rank], story_of(seat)->gone) ==
		       1;
}

/* Those who are left at the end. */
static void await_left(struct seat *seat, enum mark mark)
{
	for (int32_t r = 0; r < story_of(seat)->first; r++)
		seat_await(seat, r, (int32_t)mark);
}

static void await_stopped(struct seat *seat, enum mark mark)
{
	for (int32_t r = story_of(seat)->first; r < story_of(seat)->gone; r++)
		seat_await(seat, r, (int32_t)mark);
}

/* All who are left have come here. */
static void meet(struct seat *seat, enum mark mark)
{
	seat_mark(seat, (int32_t)mark);
	await_left(seat, mark);
}

/* ---- ranks that stop -------------------------------------------------- */

/* Until all that this rank has put has gone, and has had time to arrive. */
static void let_arrive(struct seat *seat)
{
	while (!far_is_quiet(seat->world->far))
		far_progress(seat->world->far);
	usleep(20000);
}

static bool is_clean(enum shunt_status status)
{
	return status == SHUNT_PEER_LOST || status == SHUNT_PEER_REFUSED ||
	       status == SHUNT_MISMATCH;
}

/* A step that ends: the others may have nothing against it so far. */
static enum shunt_status go_on(struct stand *stand, struct trial *step)
{
	enum shunt_status status = shunt_dispatch(
		stand->exchange, &step->args, &step->out, &step->handle);

	if (status != SHUNT_OK)
		return status;
	trial_make_rows(stand->seat, step);
	return shunt_combine(step->handle, &step->combine);
}

/* The combine is begun when the others can take rows, so that all of them go. */
static void begin_combine(struct stand *stand, struct trial *step)
{
	struct shunt_exchange *exchange = stand->exchange;
	const struct step *inner =
		&exchange->steps[step->handle.epoch %
				 (uint64_t)exchange_shape(exchange)->depth];

	while (!step_far_have_fetched(exchange, inner))
		far_progress(stand->seat->world->far);
	SEAT_OK(stand->seat, shunt_combine_start(step->handle, &step->combine));
	let_arrive(stand->seat);
}

/* The others have given the step up, but on another host it cannot know. */
static void dispatch_late(struct stand *stand, struct trial *step)
{
	struct seat *seat = stand->seat;
	bool good = late_dispatch_is_good(seat, seat->rank);

	await_left(seat, GIVEN_UP);
	SEAT_STATUS(seat, good ? SHUNT_OK : SHUNT_PEER_REFUSED,
		shunt_dispatch(stand->exchange, &step->args, &step->out,
			&step->handle));
	if (good)
		trial_make_rows(seat, step);
	let_arrive(seat);
	seat_mark(seat, GIVEN_UP);
}

static void be_absent(struct stand *stand)
{
	struct seat *seat = stand->seat;
	enum stop stop = story_of(seat)->stop;
	int32_t end = story_of(seat)->gone;
	struct trial *step = elastic_prepare(stand, end), *next;
	enum shunt_status status;

	if (stop >= STOP_BEFORE_COMBINE)
		stand_dispatch(stand, step);
	if (stop == STOP_IN_COMBINE)
		begin_combine(stand, step);
	seat_mark(seat, STOPPED);
	if (stop == STOP_TOO_LONG)
		dispatch_late(stand, step);
	await_left(seat, POISONED);
	if (stop == STOP_BEFORE_DISPATCH)
		status = go_on(stand, step);
	else if (stop == STOP_IN_COMBINE)
		status = shunt_combine_finish(step->handle, 0);
	else if (stop == STOP_TOO_LONG &&
		 !late_dispatch_is_good(seat, seat->rank))
		status = SHUNT_OK;
	else
		status = shunt_combine(step->handle, &step->combine);
	SEAT_CHECK(seat, status == SHUNT_OK || is_clean(status), "%s: %s",
		shunt_status_name(status), shunt_error_message());
	let_arrive(seat);
	seat_mark(seat, GONE_ON);
	next = elastic_prepare(stand, end);
	status = go_on(stand, next);
	SEAT_CHECK(seat, is_clean(status), "%s: %s", shunt_status_name(status),
		shunt_error_message());
	stand_drop(next);
	stand_drop(step);
}

/* ---- those who are left ------------------------------------------------------------ */

/* What the step must come to without those who stop in it. */
static enum shunt_status due_in_combine(const struct seat *seat)
{
	bool all_is_there = story_of(seat)->stop == STOP_IN_COMBINE;

	for (int32_t r = story_of(seat)->first; r < story_of(seat)->gone; r++)
		all_is_there = all_is_there && !adds_up(seat, r);
	return all_is_there ? SHUNT_OK : SHUNT_TIMEOUT;
}

/* The step in which they stop. */
static void give_up(struct stand *stand)
{
	struct seat *seat = stand->seat;
	struct trial *step = elastic_prepare(stand, story_of(seat)->gone);

	if (story_of(seat)->stop < STOP_BEFORE_COMBINE) {
		step->args.deadline_ns = SOON;
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_dispatch(stand->exchange, &step->args, &step->out,
				&step->handle));
	} else {
		stand_dispatch(stand, step);
		await_stopped(seat, STOPPED);
		if (due_in_combine(seat) == SHUNT_TIMEOUT)
			step->combine.deadline_ns = SOON;
		SEAT_STATUS(seat, due_in_combine(seat),
			shunt_combine(step->handle, &step->combine));
	}
	/* Nobody hears of it in the middle of that. */
	meet(seat, STOPPED);
	shunt_handle_destroy(step->handle);
	meet(seat, GIVEN_UP);
	if (story_of(seat)->stop == STOP_TOO_LONG)
		await_stopped(seat, GIVEN_UP);
	stand_drop(step);
}

/* The rank has told this one that it has ended the step. */
static bool has_ended(const struct seat *seat, int32_t rank)
{
	switch (story_of(seat)->stop) {
	case STOP_TOO_LONG:
		return !late_dispatch_is_good(seat, rank);
	case STOP_IN_COMBINE:
		return !adds_up(seat, rank);
	default:
		return false;
	}
}

static void check_lost(struct seat *seat)
{
	uint8_t lost[RANKS];

	shunt_world_lost(seat->world, lost);
	for (int32_t r = 0; r < RANKS; r++) {
		bool due = r >= story_of(seat)->first &&
			   r < story_of(seat)->gone && is_elsewhere(seat, r) &&
			   !has_ended(seat, r);

		SEAT_CHECK(seat, lost[r] == due, "rank %d: lost is %d", r,
			lost[r]);
	}
}

/* Steps of those who are left, until one is in the slot of the one given up: while
 * it holds nothing but this pattern the others go on. */
static void meet_again(struct stand *stand)
{
	struct seat *seat = stand->seat;
	struct shunt_exchange *exchange = stand->exchange;
	const struct shape *shape = exchange_shape(exchange);
	size_t bytes = (size_t)(shape->max_tokens * shape->num_sends *
				shape->back_bytes);
	struct trial *step;
	uint8_t *back;

	elastic_run(stand, story_of(seat)->first, story_of(seat)->depth - 1);
	step = elastic_prepare(stand, story_of(seat)->first);
	stand_dispatch(stand, step);
	check_lost(seat);
	back = exchange_array(exchange, seat->rank,
		exchange_layout(exchange)->back_off,
		&exchange->steps[step->handle.epoch % (uint64_t)shape->depth]);
	meet(seat, DISPATCHED);
	memset(back, POISON, bytes);
	seat_mark(seat, POISONED);
	await_stopped(seat, GONE_ON);
	far_progress(seat->world->far);
	for (size_t i = 0; i < bytes; i++)
		SEAT_CHECK(seat, back[i] == POISON,
			"byte %zu of %zu was written to", i, bytes);
	meet(seat, GONE_ON);
	stand_combine(stand, step);
	stand_drop(step);
}

static void label_story(struct seat *seat)
{
	const struct story *story = story_of(seat);

	seat_label(seat,
		"hosts %s, algorithm %d, wire %d, stop %d, ranks %d .. %d, "
		"depth %d: ",
		way_of(seat)->hosts, way_of(seat)->algorithm,
		way_of(seat)->wire, story->stop, story->first, story->gone,
		story->depth);
}

static void tell_story(struct seat *seat)
{
	const struct story *story = story_of(seat);
	struct shunt_exchange_config config =
		elastic_trial_config(seat, story->depth);
	struct stand stand;

	label_story(seat);
	stand_init(&stand, seat, &config);
	elastic_run(&stand, RANKS, 3);
	seat_barrier(seat);
	if (seat->rank < story->gone && story->gone < RANKS)
		elastic_run(&stand, story->gone, 2);
	if (seat->rank < story->first) {
		give_up(&stand);
		meet_again(&stand);
	} else if (seat->rank < story->gone) {
		be_absent(&stand);
	}
	seat_barrier(seat);
	if (seat->rank < story->first)
		elastic_run(&stand, story->first, 2 * config.depth);
	stand_fini(&stand);
}

/* The last rank stops. */
static void run_stop(enum stop stop)
{
	ways_run(HOSTS, tell_story, &(struct story){stop, 3, 4, 1});
	ways_run("0011 0112", tell_story, &(struct story){stop, 3, 4, 2});
}

static void a_rank_that_combines_after_it_was_left_out_writes_into_no_step(
	void **state)
{
	(void)state;
	run_stop(STOP_BEFORE_COMBINE);
}

static void a_rank_that_dispatches_too_late_writes_into_no_step(void **state)
{
	(void)state;
	run_stop(STOP_BEFORE_DISPATCH);
	run_stop(STOP_TOO_LONG);
}

static void only_who_awaits_sums_of_a_left_out_rank_ends_its_link(void **state)
{
	(void)state;
	run_stop(STOP_IN_COMBINE);
}

static void several_that_stop_and_are_left_out_write_into_no_step(void **state)
{
	(void)state;
	ways_run("0011 0101 0122", tell_story,
		&(struct story){STOP_BEFORE_COMBINE, 2, 4, 1});
	ways_run("0101 0122", tell_story,
		&(struct story){STOP_IN_COMBINE, 2, 4, 2});
}

static void one_that_stops_in_a_step_of_an_earlier_table_writes_into_no_step(
	void **state)
{
	(void)state;
	ways_run("0011 0101 0122", tell_story,
		&(struct story){STOP_BEFORE_COMBINE, 2, 3, 1});
	ways_run("0011 0112", tell_story,
		&(struct story){STOP_IN_COMBINE, 2, 3, 2});
	ways_run("0101", tell_story, &(struct story){STOP_TOO_LONG, 1, 3, 1});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_rank_that_combines_after_it_was_left_out_writes_into_no_step),
		cmocka_unit_test(
			a_rank_that_dispatches_too_late_writes_into_no_step),
		cmocka_unit_test(
			only_who_awaits_sums_of_a_left_out_rank_ends_its_link),
		cmocka_unit_test(
			several_that_stop_and_are_left_out_write_into_no_step),
		cmocka_unit_test(
			one_that_stops_in_a_step_of_an_earlier_table_writes_into_no_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
