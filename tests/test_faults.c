/*
 * Ranks that die, stop, leave or exit in mid-run. Survivors are told who, soon,
 * and end in good order; the harness checks that nothing is left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/scale.h"
#include "support/stand.h"

#define RANKS       4
#define MILLISECOND INT64_C(1000000)
#define MOST_NS     INT64_C(5000000000)

/* Where the victim ends. */
enum moment {
	BEFORE_CREATION,
	BEFORE_DISPATCH,
	AFTER_DISPATCH_START,
	AFTER_DISPATCH,
	AFTER_COMBINE_START,
	AT_ANY_TIME,
	NUM_MOMENTS
};

struct fault {
	enum moment moment;
	uint64_t victims; /* bit r: rank r ends */
	int64_t delay_ns; /* AT_ANY_TIME: how long from the start of steps */
	bool by_exit;     /* by _exit(0) and not SIGKILL */
};

/* Shared by the ranks: when the victim ended, how long survivors took. */
struct times {
	_Atomic int64_t ended_at;
	_Atomic int64_t took[RANKS];
};

static bool is_victim(const struct seat *seat)
{
	const struct fault *fault = seat->context;

	return fault->victims >> seat->rank & 1;
}

static void end_now(struct seat *seat)
{
	const struct fault *fault = seat->context;
	struct times *times = seat->shared;

	atomic_store(&times->ended_at, clock_now());
	if (fault->by_exit)
		_exit(0);
	kill(getpid(), SIGKILL);
	pause();
}

/* Ends this process if it is a victim and its moment has come. */
static void end_here(struct seat *seat, enum moment moment)
{
	const struct fault *fault = seat->context;

	if (is_victim(seat) && fault->moment == moment)
		end_now(seat);
}

/* Has the kernel end this process at some point of its steps. */
static void end_later(struct seat *seat)
{
	const struct fault *fault = seat->context;
	struct times *times = seat->shared;
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGKILL,
	};
	struct itimerspec span = {.it_value = {.tv_nsec = fault->delay_ns}};
	timer_t timer;

	if (!is_victim(seat) || fault->moment != AT_ANY_TIME)
		return;
	atomic_store(&times->ended_at, clock_now() + fault->delay_ns);
	SEAT_CHECK(seat,
		timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
			timer_settime(timer, 0, &span, NULL) == 0,
		"timer");
}

/* A step in parts, up to the first thing that is not OK. */
static enum shunt_status try_step(struct stand *stand, struct trial *step)
{
	struct seat *seat = stand->seat;
	enum shunt_status status;

	end_here(seat, BEFORE_DISPATCH);
	status = shunt_dispatch_start(
		stand->exchange, &step->args, &step->handle);
	if (status != SHUNT_OK)
		return status;
	end_here(seat, AFTER_DISPATCH_START);
	status = shunt_dispatch_finish(step->handle, 0, &step->out);
	if (status != SHUNT_OK)
		return status;
	trial_check_dispatch(seat, step);
	trial_make_rows(seat, step);
	end_here(seat, AFTER_DISPATCH);
	status = shunt_combine_start(step->handle, &step->combine);
	if (status != SHUNT_OK)
		return status;
	end_here(seat, AFTER_COMBINE_START);
	status = shunt_combine_finish(step->handle, 0);
	if (status == SHUNT_OK)
		trial_check_combine(seat, step);
	return status;
}

/* Victims end in their fifth step, or when the timer says. */
static enum shunt_status step_until_it_ends(struct stand *stand)
{
	const struct fault *fault = stand->seat->context;
	enum shunt_status status = SHUNT_OK;
	struct trial_rule rule;
	struct trial *step;

	for (int i = 0; status == SHUNT_OK; i++) {
		if (i < 5 && fault->moment != AT_ANY_TIME) {
			stand_step(stand);
			continue;
		}
		rule = stand_rule(stand);
		rule.tokens = TRIAL_TOKENS_FULL;
		step = stand_prepare_rule(stand, &rule);
		status = try_step(stand, step);
		stand_drop(step);
	}
	/* Another victim may have been quicker. */
	if (is_victim(stand->seat))
		end_now(stand->seat);
	return status;
}

static void check_loss(struct seat *seat, enum shunt_status status)
{
	const struct fault *fault = seat->context;
	struct times *times = seat->shared;
	int64_t took = clock_now() - atomic_load(&times->ended_at);
	uint8_t lost[RANKS];
	int32_t num_lost = 0;

	SEAT_STATUS(seat, SHUNT_PEER_LOST, status);
	/* Several victims may be noticed one after the other. */
	if ((fault->victims & (fault->victims - 1)) == 0)
		seat_error_ranks(seat, fault->victims);
	atomic_store(&times->took[seat->rank], took);
	SEAT_CHECK(seat, took < MOST_NS, "took %lld ns", (long long)took);
	seat_barrier(seat);
	for (int32_t r = 0; r < RANKS; r++)
		num_lost += fault->victims >> r & 1;
	SEAT_CHECK(seat, shunt_world_lost(seat->world, lost) == num_lost,
		"%d lost", shunt_world_lost(seat->world, NULL));
	for (int32_t r = 0; r < RANKS; r++)
		SEAT_CHECK(seat, lost[r] == (fault->victims >> r & 1),
			"lost[%d] is %d", r, lost[r]);
}

static void survive(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(32, 256, 4, 16);
	const struct fault *fault = seat->context;
	struct shunt_exchange *exchange;
	struct stand stand;

	end_here(seat, BEFORE_CREATION);
	if (fault->moment == BEFORE_CREATION) {
		check_loss(seat, shunt_exchange_create(seat->world, NULL,
					 &config, &exchange));
		seat_barrier(seat);
		return;
	}
	stand_init(&stand, seat, &config);
	end_later(seat);
	check_loss(seat, step_until_it_ends(&stand));
	seat_barrier(seat);
	stand_fini(&stand);
}

static int64_t run_fault(const struct fault *fault)
{
	struct times times;
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = RANKS,
		.context = fault,
		.shared_bytes = sizeof(times),
		.shared_copy = &times,
		.may_die = fault->victims,
	};
	int64_t worst = 0;

	ranks_run(&plan, survive);
	for (int32_t r = 0; r < RANKS; r++)
		if (!(fault->victims >> r & 1) && times.took[r] > worst)
			worst = times.took[r];
	return worst;
}

static void killed_rank_is_named_to_all_survivors_at_every_moment(void **state)
{
	static const char *const names[] = {"before creation",
		"before dispatch", "after dispatch start", "after dispatch",
		"after combine start"};
	struct fault fault = {0};

	(void)state;
	for (int moment = 0; moment < AT_ANY_TIME; moment++)
		for (int rank = 0; rank < RANKS; rank += 3) {
			fault.moment = (enum moment)moment;
			fault.victims = UINT64_C(1) << rank;
			print_message("rank %d killed %s: noticed by all in "
				      "%.3f ms\n",
				rank, names[moment],
				(double)run_fault(&fault) * 1e-6);
		}
}

static void a_rank_killed_at_any_time_is_named_to_all_survivors(void **state)
{
	struct fault fault = {.moment = AT_ANY_TIME};
	int64_t took, worst = 0;
	int tries = scale_of(40);

	(void)state;
	for (int i = 0; i < tries; i++) {
		fault.victims = UINT64_C(1) << i % RANKS;
		fault.delay_ns = 5 * MILLISECOND + i * 137 * 1000;
		took = run_fault(&fault);
		worst = took > worst ? took : worst;
	}
	print_message("killed at %d moments: noticed by all in at most "
		      "%.3f ms\n",
		tries, (double)worst * 1e-6);
}

static void several_killed_ranks_are_found_lost(void **state)
{
	static const uint64_t victims[] = {0x6, 0x9, 0xe, 0x7};
	struct fault fault = {0};

	(void)state;
	for (size_t i = 0; i < 4; i++)
		for (int m = BEFORE_DISPATCH; m <= AFTER_COMBINE_START; m++) {
			fault.moment = (enum moment)m;
			fault.victims = victims[i];
			run_fault(&fault);
		}
}

static void a_rank_that_exits_without_destroy_is_lost(void **state)
{
	struct fault fault = {.victims = 1 << 2, .by_exit = true};

	(void)state;
	for (int m = BEFORE_DISPATCH; m <= AFTER_COMBINE_START; m++) {
		fault.moment = (enum moment)m;
		run_fault(&fault);
	}
}

/* ---- stopped ---------------------------------------------------------- */

static void wait_for_stopped(struct stand *stand, struct trial *step)
{
	struct seat *seat = stand->seat;

	step->args.deadline_ns = 100 * MILLISECOND;
	SEAT_STATUS(seat, SHUNT_TIMEOUT,
		shunt_dispatch(stand->exchange, &step->args, &step->out,
			&step->handle));
	while (!seat_only_late(seat, 1 << 3))
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_dispatch_finish(
				step->handle, 100 * MILLISECOND, &step->out));
	SEAT_CHECK(seat, shunt_world_lost(seat->world, NULL) == 0,
		"slow is not dead");
	seat_mark(seat, 1);
	if (seat->rank == 0) {
		seat_await(seat, 1, 1);
		seat_await(seat, 2, 1);
		seat_signal(seat, 3, SIGCONT);
	}
	SEAT_OK(seat,
		shunt_dispatch_finish(step->handle, SHUNT_FOREVER, &step->out));
	trial_check_dispatch(seat, step);
	trial_make_rows(seat, step);
}

static void stop_and_go_on(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(32, 256, 4, 16);
	struct stand stand;
	struct trial *step;

	stand_init(&stand, seat, &config);
	stand_step(&stand);
	step = stand_prepare(&stand);
	if (seat->rank == 3) {
		kill(getpid(), SIGSTOP);
		stand_dispatch(&stand, step);
	} else {
		wait_for_stopped(&stand, step);
	}
	stand_combine(&stand, step);
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void a_stopped_rank_is_a_timeout_that_names_it_and_going_on_works(
	void **state)
{
	(void)state;
	ranks_run_simple(RANKS_PROCESSES, RANKS, stop_and_go_on, NULL);
}

/* ---- leaving ---------------------------------------------------------- */

/* Rank 1 destroys everything after three steps; the others step on. */
static void leave_early(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(32, 256, 4, 16);
	enum shunt_status status;
	struct stand stand;
	struct trial *step;

	seat->world = seat_join(seat);
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 3; i++)
		stand_step(&stand);
	if (seat->rank != 1) {
		step = stand_prepare(&stand);
		status = shunt_dispatch(
			stand.exchange, &step->args, &step->out, &step->handle);
		SEAT_CHECK(seat,
			status == SHUNT_PEER_LOST ||
				status == SHUNT_PEER_REFUSED,
			"%s: %s", shunt_status_name(status),
			shunt_error_message());
		seat_error_ranks(seat, 1 << 1);
		seat_await(seat, 1, 1);
		SEAT_STATUS(seat, SHUNT_PEER_LOST,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		seat_error_ranks(seat, 1 << 1);
		stand_drop(step);
		seat_mark(seat, 2);
		for (int32_t r = 0; r < seat->num_ranks; r++)
			if (r != 1)
				seat_await(seat, r, 2);
	}
	stand_fini(&stand);
	shunt_world_destroy(seat->world);
	seat_mark(seat, 3);
}

static void a_rank_that_leaves_in_mid_run_is_named_to_the_others(void **state)
{
	struct ranks_plan plan = {.num_ranks = RANKS, .no_world = true};

	(void)state;
	plan.launch = RANKS_PROCESSES;
	ranks_run(&plan, leave_early);
	plan.launch = RANKS_THREADS;
	ranks_run(&plan, leave_early);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			killed_rank_is_named_to_all_survivors_at_every_moment),
		cmocka_unit_test(
			a_rank_killed_at_any_time_is_named_to_all_survivors),
		cmocka_unit_test(several_killed_ranks_are_found_lost),
		cmocka_unit_test(a_rank_that_exits_without_destroy_is_lost),
		cmocka_unit_test(
			a_stopped_rank_is_a_timeout_that_names_it_and_going_on_works),
		cmocka_unit_test(
			a_rank_that_leaves_in_mid_run_is_named_to_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
