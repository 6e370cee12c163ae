/*
 * Handles, depth, order and deadlines: what is not allowed now is a STATE
 * error that names the rule, who does not come is a TIMEOUT that names the
 * rank, and waiting again works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "support/stand.h"

#define RANKS       3
#define MILLISECOND INT64_C(1000000)

static struct shunt_exchange_config small_config(void)
{
	return trial_config(8, 33, 3, 10);
}

/* ---- handles ---------------------------------------------------------- */

static void reuse_handles(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_handle nothing = {0}, forged;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct stand stand, other;
	struct trial *step;

	stand_init(&stand, seat, &config);
	stand_init(&other, seat, &config);
	step = stand_prepare(&stand);
	stand_dispatch(&stand, step);
	forged = step->handle;
	forged.epoch += 100;
	SEAT_STATUS(seat, SHUNT_STATE, shunt_combine(forged, &step->combine));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_combine(nothing, &step->combine));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_dispatch_finish(nothing, 0, &out));
	stand_combine(&stand, step);
	SEAT_STATUS(
		seat, SHUNT_STATE, shunt_combine(step->handle, &step->combine));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_combine_finish(step->handle, 0));
	shunt_handle_destroy(step->handle);
	shunt_handle_destroy(nothing);
	stand_step(&stand);
	stand_fini(&stand);
	SEAT_STATUS(
		seat, SHUNT_STATE, shunt_combine(step->handle, &step->combine));
	shunt_handle_destroy(step->handle);
	stand_drop(step);
	stand_step(&other);
	stand_fini(&other);
}

static void combine_twice_and_handles_of_nothing_or_the_dead_are_state_errors(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, reuse_handles, NULL);
}

/* The same epoch number lives in both exchanges; the handle tells. */
static void cross_handles(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand first, second;
	struct trial *one, *two;
	struct shunt_handle crossed;

	stand_init(&first, seat, &config);
	stand_init(&second, seat, &config);
	stand_step(&second);
	one = stand_prepare(&first);
	stand_dispatch(&first, one);
	two = stand_prepare(&second);
	stand_dispatch(&second, two);
	crossed =
		(struct shunt_handle){one->handle.exchange, two->handle.epoch};
	SEAT_STATUS(seat, SHUNT_STATE, shunt_combine(crossed, &one->combine));
	stand_combine(&second, two);
	stand_combine(&first, one);
	stand_drop(one);
	stand_drop(two);
	stand_fini(&first);
	stand_fini(&second);
}

static void a_handle_of_another_exchange_is_a_state_error(void **state)
{
	(void)state;
	ranks_run_both(RANKS, cross_handles, NULL);
}

static void combine_early(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;

	stand_init(&stand, seat, &config);
	step = stand_prepare(&stand);
	SEAT_OK(seat, shunt_dispatch_start(
			      stand.exchange, &step->args, &step->handle));
	SEAT_STATUS(
		seat, SHUNT_STATE, shunt_combine(step->handle, &step->combine));
	SEAT_OK(seat, shunt_dispatch_finish(step->handle, 0, &step->out));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_combine_finish(step->handle, 0));
	trial_check_dispatch(seat, step);
	trial_make_rows(seat, step);
	stand_combine(&stand, step);
	stand_drop(step);
	stand_fini(&stand);
}

static void combine_before_dispatch_has_finished_is_a_state_error(void **state)
{
	(void)state;
	ranks_run_both(RANKS, combine_early, NULL);
}

/* Rank 0 is refused, and then waits for the others to end that step: by the
 * deadline of its own call. */
static void be_late_behind_a_refusal(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_dispatch_args wrong = SHUNT_DISPATCH_ARGS_INIT;
	struct stand stand;
	struct trial *steps[2];

	config.depth = 1;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 2; i++)
		steps[i] = stand_prepare(&stand);
	wrong.num_tokens = -1;
	if (seat->rank == 0) {
		struct shunt_dispatch_args args = steps[1]->args;

		SEAT_STATUS(seat, SHUNT_INVALID,
			shunt_dispatch(stand.exchange, &wrong, &steps[0]->out,
				&steps[0]->handle));
		args.deadline_ns = 1000000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_dispatch(stand.exchange, &args, &steps[1]->out,
				&steps[1]->handle));
		SEAT_CHECK(seat, steps[1]->handle.exchange == 0,
			"a step that has not begun has a handle");
		seat_mark(seat, 1);
	} else {
		seat_await(seat, 0, 1);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_dispatch(stand.exchange, &steps[0]->args,
				&steps[0]->out, &steps[0]->handle));
	}
	stand_dispatch(&stand, steps[1]);
	stand_combine(&stand, steps[1]);
	for (int i = 0; i < 2; i++)
		stand_drop(steps[i]);
	stand_fini(&stand);
}

static void a_dispatch_behind_a_refused_step_has_its_own_deadline(void **state)
{
	(void)state;
	ranks_run_both(RANKS, be_late_behind_a_refusal, NULL);
}

static void come_late_to_a_group(struct seat *seat)
{
	const char *name = "late";
	struct shunt_group *group = NULL;
	enum shunt_status status;

	if (seat->rank == 0) {
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_group_create(
				seat->world, NULL, 0, name, 1000000, &group));
		seat_mark(seat, 1);
	} else if (seat->rank == seat->num_ranks - 1) {
		seat_await(seat, 0, 1);
	}
	do
		status = shunt_group_create(
			seat->world, NULL, 0, name, 0, &group);
	while (status == SHUNT_TIMEOUT);
	SEAT_OK(seat, status);
	SEAT_CHECK(seat, shunt_group_size(group) == seat->num_ranks,
		"a group of %d", shunt_group_size(group));
	shunt_group_destroy(group);
}

static void a_group_that_timed_out_is_completed_by_the_next_attempt(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, come_late_to_a_group, NULL);
}

/* ---- depth ------------------------------------------------------------ */

static void go_too_deep(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *steps[3];

	stand_init(&stand, seat, &config);
	for (int i = 0; i < 3; i++)
		steps[i] = stand_prepare(&stand);
	stand_dispatch(&stand, steps[0]);
	stand_dispatch(&stand, steps[1]);
	SEAT_STATUS(seat, SHUNT_STATE,
		shunt_dispatch(stand.exchange, &steps[2]->args, &steps[2]->out,
			&steps[2]->handle));
	seat_message_has(seat, "2");
	stand_combine(&stand, steps[1]);
	/* A step takes the place of the one `depth` before it. */
	SEAT_STATUS(seat, SHUNT_STATE,
		shunt_dispatch(stand.exchange, &steps[2]->args, &steps[2]->out,
			&steps[2]->handle));
	stand_combine(&stand, steps[0]);
	stand_dispatch(&stand, steps[2]);
	stand_combine(&stand, steps[2]);
	for (int i = 0; i < 3; i++)
		stand_drop(steps[i]);
	stand_fini(&stand);
}

static void
third_dispatch_over_the_depth_is_a_state_error_and_either_order_of_combines_works(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, go_too_deep, NULL);
}

static void go_deepest(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *steps[64];

	config.depth = 64;
	stand_init(&stand, seat, &config);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 64; i++) {
			steps[i] = stand_prepare(&stand);
			stand_dispatch(&stand, steps[i]);
		}
		for (int i = 0; i < 64; i++) {
			stand_combine(&stand, steps[63 - i]);
			stand_drop(steps[63 - i]);
		}
	}
	stand_fini(&stand);
}

static void sixty_four_steps_in_flight_work(void **state)
{
	(void)state;
	ranks_run_both(RANKS, go_deepest, NULL);
}

/* ---- two exchanges, two threads --------------------------------------- */

/* A second seat on the same rank, for the other thread. */
static void *work_on_a_stand(void *argument)
{
	struct stand *stand = argument;

	if (setjmp(stand->seat->escape) == 0)
		for (int i = 0; i < 100; i++)
			stand_step(stand);
	return NULL;
}

/* Odd ranks run their threads in the opposite order of creation. */
static void work_on_two(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct seat seats[2] = {*seat, *seat};
	struct stand stands[2];
	pthread_t threads[2];

	for (int i = 0; i < 2; i++) {
		stand_init(&stands[i], seat, &config);
		stands[i].seat = &seats[i];
	}
	for (int i = 0; i < 2; i++)
		SEAT_CHECK(seat,
			pthread_create(&threads[i], NULL, work_on_a_stand,
				&stands[(i + seat->rank) % 2]) == 0,
			"pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		stand_fini(&stands[i]);
}

static void two_exchanges_in_opposite_order_by_two_threads_do_not_deadlock(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, work_on_two, NULL);
}

/* ---- deadlines -------------------------------------------------------- */

static void come_late(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;
	enum shunt_status status;

	stand_init(&stand, seat, &config);
	step = stand_prepare(&stand);
	if (seat->rank == 2) {
		seat_await(seat, 0, 1);
		seat_await(seat, 1, 1);
		stand_dispatch(&stand, step);
		seat_await(seat, 0, 2);
		seat_await(seat, 1, 2);
		stand_combine(&stand, step);
	} else {
		step->args.deadline_ns = 50 * MILLISECOND;
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		while (!seat_only_late(seat, 1 << 2))
			SEAT_STATUS(seat, SHUNT_TIMEOUT,
				shunt_dispatch_finish(step->handle,
					50 * MILLISECOND, &step->out));
		seat_mark(seat, 1);
		SEAT_OK(seat, shunt_dispatch_finish(
				      step->handle, SHUNT_FOREVER, &step->out));
		trial_check_dispatch(seat, step);
		trial_make_rows(seat, step);
		step->combine.deadline_ns = 50 * MILLISECOND;
		status = shunt_combine(step->handle, &step->combine);
		/* Who needs no row of rank 2 is done already. */
		if (status != SHUNT_OK) {
			SEAT_STATUS(seat, SHUNT_TIMEOUT, status);
			(void)seat_only_late(seat, 1 << 2);
		}
		seat_mark(seat, 2);
		if (status != SHUNT_OK)
			SEAT_OK(seat, shunt_combine_finish(
					      step->handle, SHUNT_FOREVER));
		trial_check_combine(seat, step);
	}
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void a_late_rank_is_a_timeout_that_names_it_and_waiting_again_works(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, come_late, NULL);
}

/* Rank 1 gives up its step after a timeout; rank 0, who comes later, is told,
 * and both go on. Where rows are fetched, rank 1 has already offered them. */
static void give_up(struct seat *seat, bool fetches)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;

	config.fetch_tokens = fetches ? 0 : -1;
	stand_init(&stand, seat, &config);
	step = stand_prepare(&stand);
	if (seat->rank == 1) {
		step->args.deadline_ns = 20 * MILLISECOND;
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		shunt_handle_destroy(step->handle);
		seat_mark(seat, 1);
	} else {
		enum shunt_status status;

		seat_await(seat, 1, 1);
		status = shunt_dispatch(
			stand.exchange, &step->args, &step->out, &step->handle);
		if (fetches) {
			SEAT_OK(seat, status);
			trial_check_dispatch(seat, step);
			trial_make_rows(seat, step);
			status = shunt_combine(step->handle, &step->combine);
		}
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED, status);
		seat_error_ranks(seat, 1 << 1);
	}
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void give_up_offered_rows(struct seat *seat)
{
	give_up(seat, true);
}

static void give_up_before_rows(struct seat *seat)
{
	give_up(seat, false);
}

static void a_step_given_up_is_refused_elsewhere_and_the_next_step_works(
	void **state)
{
	(void)state;
	ranks_run_both(2, give_up_before_rows, NULL);
	ranks_run_both(2, give_up_offered_rows, NULL);
}

/* Rank 1 gives up a step that all have announced, and makes no other call until
 * rank 0 has been told. */
static void give_up_and_stay_away(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;

	stand_init(&stand, seat, &config);
	step = stand_prepare(&stand);
	SEAT_OK(seat, shunt_dispatch_start(
			      stand.exchange, &step->args, &step->handle));
	seat_barrier(seat);
	if (seat->rank == 1) {
		shunt_handle_destroy(step->handle);
		seat_await(seat, 0, 1);
	} else {
		SEAT_OK(seat,
			shunt_dispatch_finish(step->handle, 0, &step->out));
		trial_check_dispatch(seat, step);
		trial_make_rows(seat, step);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_combine(step->handle, &step->combine));
		seat_mark(seat, 1);
	}
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void who_gives_a_step_up_may_stay_away(void **state)
{
	(void)state;
	ranks_run_both(2, give_up_and_stay_away, NULL);
}

static void come_to_creation_late(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_exchange *exchange;

	/* Long enough for the others to come at the same time. */
	config.deadline_ns = 1000 * MILLISECOND;
	seat_barrier(seat);
	if (seat->rank != 2) {
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_exchange_create(
				seat->world, NULL, &config, &exchange));
		seat_error_ranks(seat, 1 << 2);
	}
	/* Rank 2 leaves last: a rank that has left is lost, not late. */
	seat_barrier(seat);
}

static void a_rank_that_does_not_come_to_creation_is_a_timeout_that_names_it(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, come_to_creation_late, NULL);
}

static void miss_one(struct seat *seat)
{
	struct shunt_world *world = NULL;

	if (seat->rank == 1)
		return;
	seat->config.deadline_ns = 300 * MILLISECOND;
	SEAT_STATUS(
		seat, SHUNT_TIMEOUT, shunt_world_create(&seat->config, &world));
	SEAT_CHECK(seat, world == NULL, "the world was written");
	/* Rank 0 knows who came. Others may only know that somebody did not. */
	if (seat->rank == 0) {
		seat_error_ranks(seat, 1 << 1);
		seat_message_has(seat, "1");
	}
}

static void a_rank_missing_at_start_is_a_timeout_that_names_it(void **state)
{
	struct ranks_plan plan = {.num_ranks = RANKS, .no_world = true};

	(void)state;
	plan.launch = RANKS_THREADS;
	ranks_run(&plan, miss_one);
	plan.launch = RANKS_PROCESSES;
	ranks_run(&plan, miss_one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			combine_twice_and_handles_of_nothing_or_the_dead_are_state_errors),
		cmocka_unit_test(a_handle_of_another_exchange_is_a_state_error),
		cmocka_unit_test(
			combine_before_dispatch_has_finished_is_a_state_error),
		cmocka_unit_test(
			third_dispatch_over_the_depth_is_a_state_error_and_either_order_of_combines_works),
		cmocka_unit_test(
			a_dispatch_behind_a_refused_step_has_its_own_deadline),
		cmocka_unit_test(
			a_group_that_timed_out_is_completed_by_the_next_attempt),
		cmocka_unit_test(sixty_four_steps_in_flight_work),
		cmocka_unit_test(
			two_exchanges_in_opposite_order_by_two_threads_do_not_deadlock),
		cmocka_unit_test(
			a_late_rank_is_a_timeout_that_names_it_and_waiting_again_works),
		cmocka_unit_test(
			a_step_given_up_is_refused_elsewhere_and_the_next_step_works),
		cmocka_unit_test(who_gives_a_step_up_may_stay_away),
		cmocka_unit_test(
			a_rank_that_does_not_come_to_creation_is_a_timeout_that_names_it),
		cmocka_unit_test(
			a_rank_missing_at_start_is_a_timeout_that_names_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
