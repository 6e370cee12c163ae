/*
 * shunt_exchange_progress(): what is in flight goes on without anybody waiting,
 * and what goes wrong is told where it belongs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "support/hosts.h"
#include "support/pair.h"
#include "transport/verbs_service.h"
#include "world/world.h"

#define MOST_NS INT64_C(20000000000)

/* Moves on until so many steps still wait. */
static void poll_until(struct plain *plain, int32_t waiting)
{
	int64_t deadline = clock_now() + MOST_NS;
	int32_t num = -1;

	while (num != waiting) {
		SEAT_CHECK(plain->seat, clock_now() < deadline,
			"%d steps still wait, not %d", num, waiting);
		SEAT_OK(plain->seat,
			shunt_exchange_progress(plain->exchange, &num));
		sched_yield();
	}
}

static void start(struct plain *plain)
{
	int32_t rank = plain->seat->rank;

	plain_bring(plain, pair_tokens[rank], pair_ids[rank]);
	SEAT_OK(plain->seat, shunt_dispatch_start(plain->exchange, &plain->args,
				     &plain->handle));
}

static void init(struct plain *plain, struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);

	plain_init(plain, seat, NULL, &config);
}

/* ---- steps that end ----------------------------------------------------- */

/* Two steps at once, polled; their finishes have nothing to wait for. */
static void poll_steps(struct seat *seat)
{
	struct plain plain[2];

	init(&plain[0], seat);
	plain[1] = plain[0];
	for (int i = 0; i < 2; i++)
		start(&plain[i]);
	poll_until(&plain[0], 0);
	/* Nobody is in a call that would drive these steps. */
	seat_barrier(seat);
	for (int i = 0; i < 2; i++) {
		SEAT_OK(seat, shunt_dispatch_finish(
				      plain[i].handle, 1, &plain[i].out));
		plain_make_rows(&plain[i], pair_factors[seat->rank]);
		plain[i].combine.y = plain[i].out.expert_rows;
		plain[i].combine.out = plain[i].sums;
		SEAT_OK(seat, shunt_combine_start(
				      plain[i].handle, &plain[i].combine));
	}
	poll_until(&plain[0], 0);
	for (int i = 0; i < 2; i++) {
		SEAT_OK(seat, shunt_combine_finish(plain[i].handle, 1));
		plain_expect_sums(&plain[i], pair_sums[seat->rank]);
	}
	plain_fini(&plain[0]);
}

static void steps_in_flight_end_by_progress_alone(void **state)
{
	(void)state;
	for (int l = 0; l < RANKS_NUM_LAUNCHES; l++)
		ranks_run_simple(
			(enum ranks_launch)l, PAIR_RANKS, poll_steps, NULL);
}

/* What other hosts send is taken in by the polls themselves: the far side's own
 * thread, which looks now and then, is stopped. */
static void poll_steps_without_help(struct seat *seat)
{
	service_stop(seat->world->far);
	poll_steps(seat);
}

static void steps_over_hosts_end_by_progress_alone(void **state)
{
	static const int32_t hosts[PAIR_RANKS] = {0, 1};
	struct ranks_plan plan = {
		.launch = RANKS_THREADS,
		.num_ranks = PAIR_RANKS,
		.hosts = hosts,
	};

	(void)state;
	if (!hosts_can(plan.launch, 2))
		skip();
	ranks_run(&plan, poll_steps_without_help);
}

/* A combine whose experts are not all fed waits for nobody else. */
static void poll_while_feeding(struct seat *seat)
{
	struct plain plain;

	init(&plain, seat);
	poll_until(&plain, 0);
	start(&plain);
	poll_until(&plain, 0);
	seat_barrier(seat);
	SEAT_OK(seat, shunt_dispatch_finish(plain.handle, 1, &plain.out));
	plain_make_rows(&plain, pair_factors[seat->rank]);
	plain.combine.feed = true;
	SEAT_OK(seat, shunt_combine_start(plain.handle, &plain.combine));
	poll_until(&plain, 0);
	seat_barrier(seat);
	if (seat->rank == 0) {
		for (int64_t l = 0; l < 2; l++)
			SEAT_OK(seat,
				shunt_combine_feed(plain.handle, l, NULL, 0));
		poll_until(&plain, 1);
		seat_barrier(seat);
	} else {
		seat_barrier(seat);
		SEAT_OK(seat, shunt_combine_feed(plain.handle, 0, NULL, 0));
	}
	poll_until(&plain, 0);
	SEAT_OK(seat, shunt_combine_finish(plain.handle, 1));
	plain_expect_sums(&plain, pair_sums[seat->rank]);
	plain_fini(&plain);
}

static void a_combine_that_is_being_fed_waits_for_nobody(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, poll_while_feeding, NULL);
}

/* ---- steps that fail ---------------------------------------------------- */

static void poll_refused(struct seat *seat)
{
	static const int32_t no_such_expert[2] = {99, 0};
	struct plain plain;

	init(&plain, seat);
	if (seat->rank == 0) {
		start(&plain);
		poll_until(&plain, 0);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_dispatch_finish(plain.handle, 0, &plain.out));
	} else {
		plain_bring(&plain, 1, no_such_expert);
		SEAT_STATUS(seat, SHUNT_INVALID,
			shunt_dispatch_start(
				plain.exchange, &plain.args, &plain.handle));
	}
	/* The refused step drains without anybody waiting, either. */
	start(&plain);
	poll_until(&plain, 0);
	SEAT_OK(seat, shunt_dispatch_finish(plain.handle, 0, &plain.out));
	plain_fini(&plain);
}

static void a_failed_step_is_told_by_its_own_finish(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, poll_refused, NULL);
}

static void poll_for_the_dead(struct seat *seat)
{
	int64_t deadline = clock_now() + MOST_NS;
	enum shunt_status status = SHUNT_OK;
	struct plain plain;

	init(&plain, seat);
	seat_barrier(seat);
	if (seat->rank == 1)
		raise(SIGKILL);
	start(&plain);
	while (status == SHUNT_OK && clock_now() < deadline)
		status = shunt_exchange_progress(plain.exchange, NULL);
	SEAT_STATUS(seat, SHUNT_PEER_LOST, status);
	seat_error_ranks(seat, 1 << 1);
	SEAT_STATUS(seat, SHUNT_PEER_LOST,
		shunt_dispatch_finish(plain.handle, 0, &plain.out));
	SEAT_STATUS(seat, SHUNT_PEER_LOST,
		shunt_exchange_progress(plain.exchange, NULL));
	plain_fini(&plain);
}

static void a_death_is_told_by_progress(void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = PAIR_RANKS,
		.may_die = 1 << 1,
	};

	(void)state;
	ranks_run(&plan, poll_for_the_dead);
}

static void no_exchange_is_a_null_argument(void **state)
{
	(void)state;
	assert_int_equal(
		shunt_exchange_progress(NULL, NULL), SHUNT_NULL_ARGUMENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_in_flight_end_by_progress_alone),
		cmocka_unit_test(steps_over_hosts_end_by_progress_alone),
		cmocka_unit_test(a_combine_that_is_being_fed_waits_for_nobody),
		cmocka_unit_test(a_failed_step_is_told_by_its_own_finish),
		cmocka_unit_test(a_death_is_told_by_progress),
		cmocka_unit_test(no_exchange_is_a_null_argument),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
