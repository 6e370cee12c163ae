/*
 * Steps over a wire on which nothing is acknowledged for a time, or over a slow one:
 * calls that only begin something return, waits end at their deadlines, and behind it
 * all is well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "support/fake_verbs.h"
#include "support/hosts.h"
#include "support/pair.h"
#include "support/stand.h"
#include "transport/far.h"
#include "world/world.h"

#define RANKS    4
#define SHORT_NS 20000000
#define LONG_NS  INT64_C(60000000000)
#define PACE_NS  50000 /* for a request; a step has hundreds */

/* A rank on each of two hosts of the simulator. */
static void run_pair(ranks_function function)
{
	static const int32_t hosts[PAIR_RANKS] = {0, 1};
	struct ranks_plan plan = {
		.launch = RANKS_THREADS,
		.num_ranks = PAIR_RANKS,
		.hosts = hosts,
	};

	if (getenv("SHUNT_TEST_RDMA") != NULL)
		skip();
	ranks_run(&plan, function);
}

static void await_quiet(struct seat *seat)
{
	int64_t deadline = clock_deadline(INT64_C(60000000000));

	while (!far_is_quiet(seat->world->far)) {
		SEAT_CHECK(seat, clock_now() < deadline, "no quiet");
		far_progress(seat->world->far);
	}
}

/* No put is known to have gone, so that the next step may not write where their
 * sources lie. */
static void stay_unflushed(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
	plain_pass(&plain);
	seat_barrier(seat);
	await_quiet(seat);
	seat_barrier(seat);
	if (seat->rank == 0)
		fake_verbs_hold(true);
	seat_barrier(seat);
	plain_pass(&plain);
	plain.args.deadline_ns = 50000000;
	SEAT_STATUS(seat, SHUNT_TIMEOUT, plain_try(&plain));
	seat_message_has(seat, "what earlier steps have sent: 1 rank: rank");
	seat_error_ranks(seat, 1 << (1 - seat->rank));
	seat_barrier(seat);
	if (seat->rank == 0)
		fake_verbs_hold(false);
	plain.args.deadline_ns = 0;
	plain_pass(&plain);
	plain_fini(&plain);
}

static void who_has_not_taken_what_was_sent_is_named(void **state)
{
	(void)state;
	run_pair(stay_unflushed);
}

/* ---- calls that begin something ---------------------------------------- */

/* With sums by host each rank sends more of them than it has places for; none is so
 * small that a put copies it. */
static void begin_steps(struct stand *stand, struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(300, 160, 4, 8);

	config.algorithm = *(const enum shunt_algorithm *)seat->context;
	stand_init(stand, seat, &config);
}

static struct trial_rule full_rule(struct stand *stand)
{
	struct trial_rule rule = stand_rule(stand);

	rule.tokens = TRIAL_TOKENS_FULL;
	rule.may_feed = true;
	return rule;
}

/* On all ranks together, when nothing is on its way. */
static void hold(struct seat *seat)
{
	await_quiet(seat);
	seat_barrier(seat);
	if (seat->rank == 0)
		fake_verbs_hold(true);
	seat_barrier(seat);
}

/* When all ranks have come here: no call has waited for the wire. */
static void release(struct seat *seat)
{
	seat_barrier(seat);
	if (seat->rank == 0)
		fake_verbs_hold(false);
	seat_barrier(seat);
}

static void dispatch_meanwhile(struct stand *stand, struct trial *step)
{
	struct seat *seat = stand->seat;

	hold(seat);
	SEAT_OK(seat, shunt_dispatch_start(
			      stand->exchange, &step->args, &step->handle));
	SEAT_STATUS(seat, SHUNT_TIMEOUT,
		shunt_dispatch_finish(step->handle, SHORT_NS, &step->out));
	SEAT_OK(seat, shunt_exchange_progress(stand->exchange, NULL));
	release(seat);
	SEAT_OK(seat, shunt_dispatch_finish(step->handle, LONG_NS, &step->out));
	trial_check_dispatch(seat, step);
	trial_make_rows(seat, step);
}

static void combine_meanwhile(struct stand *stand, struct trial *step)
{
	struct seat *seat = stand->seat;

	hold(seat);
	SEAT_OK(seat, shunt_combine_start(step->handle, &step->combine));
	trial_feed(seat, step);
	SEAT_STATUS(seat, SHUNT_TIMEOUT,
		shunt_combine_finish(step->handle, SHORT_NS));
	SEAT_OK(seat, shunt_exchange_progress(stand->exchange, NULL));
	release(seat);
	SEAT_OK(seat, shunt_combine_finish(step->handle, LONG_NS));
	trial_check_combine(seat, step);
}

/* Two steps without acknowledgements. */
static void go_on_meanwhile(struct seat *seat)
{
	struct trial_rule rule;
	struct trial *step;
	struct stand stand;

	begin_steps(&stand, seat);
	for (int i = 0; i < 2; i++) {
		rule = full_rule(&stand);
		step = stand_prepare_rule(&stand, &rule);
		dispatch_meanwhile(&stand, step);
		combine_meanwhile(&stand, step);
		stand_drop(step);
	}
	stand_fini(&stand);
}

static void run_narrow(ranks_function function)
{
	static const int32_t hosts[][RANKS] = {{0, 0, 1, 1}, {0, 0, 0, 1}};
	static const enum shunt_algorithm algorithms[] = {
		SHUNT_ALGORITHM_FULLMESH, SHUNT_ALGORITHM_HIERARCHY};

	if (getenv("SHUNT_TEST_RDMA") != NULL)
		skip();
	for (int i = 0; i < 4; i++) {
		struct ranks_plan plan = {
			.launch = RANKS_THREADS,
			.num_ranks = RANKS,
			.context = &algorithms[i % 2],
			.hosts = hosts[i / 2],
			.wire = RANKS_NARROW,
		};

		ranks_run(&plan, function);
	}
}

static void who_only_begins_does_not_wait_for_the_wire(void **state)
{
	(void)state;
	run_narrow(go_on_meanwhile);
}

/* ---- slow ------------------------------------------------------------------ */

/* Many times: each time that the wire has taken a little. */
static void finish_in_bits(struct seat *seat, struct trial *step)
{
	enum shunt_status status = SHUNT_TIMEOUT;
	int64_t deadline = clock_deadline(LONG_NS);

	while (status == SHUNT_TIMEOUT) {
		SEAT_CHECK(seat, clock_now() < deadline, "no end");
		status = shunt_combine_finish(step->handle, 1000000);
	}
	SEAT_STATUS(seat, SHUNT_OK, status);
	trial_check_combine(seat, step);
}

/* Two steps at a time. */
static void go_slowly(struct seat *seat)
{
	struct trial *steps[2];
	struct trial_rule rule;
	struct stand stand;

	begin_steps(&stand, seat);
	hold(seat);
	if (seat->rank == 0)
		fake_verbs_pace(PACE_NS);
	release(seat);
	for (int i = 0; i < 2; i++) {
		rule = full_rule(&stand);
		steps[i] = stand_prepare_rule(&stand, &rule);
		stand_dispatch(&stand, steps[i]);
	}
	for (int i = 0; i < 2; i++) {
		SEAT_OK(seat, shunt_combine_start(
				      steps[i]->handle, &steps[i]->combine));
		trial_feed(seat, steps[i]);
	}
	for (int i = 0; i < 2; i++)
		finish_in_bits(seat, steps[i]);
	seat_barrier(seat);
	if (seat->rank == 0)
		fake_verbs_pace(0);
	for (int i = 0; i < 2; i++)
		stand_drop(steps[i]);
	stand_fini(&stand);
}

static void what_a_slow_wire_takes_bit_by_bit_is_whole(void **state)
{
	(void)state;
	run_narrow(go_slowly);
}

/* ---- refused meanwhile ------------------------------------------------------ */

/* Rank 1 refuses the step while rows of rank 0 go from where its caller has them:
 * they are the caller's again when they have gone, and not before. */
static void be_refused(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	float *y = shunt_alloc(seat->world, 4096);
	struct plain plain;

	SEAT_CHECK(seat, y, "%s", shunt_error_message());
	pair_dispatch(&plain, seat, &config);
	memset(y, 0, 4096);
	plain.combine.y = y;
	plain.combine.out = plain.sums;
	hold(seat);
	if (seat->rank == 1) {
		plain.combine.out = NULL;
		SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
			shunt_combine(plain.handle, &plain.combine));
		seat_mark(seat, 1);
	} else {
		SEAT_OK(seat,
			shunt_combine_start(plain.handle, &plain.combine));
		seat_await(seat, 1, 1);
		for (int i = 0; i < 10; i++)
			SEAT_STATUS(seat, SHUNT_TIMEOUT,
				shunt_combine_finish(plain.handle, SHORT_NS));
	}
	release(seat);
	if (seat->rank == 0)
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_combine_finish(plain.handle, LONG_NS));
	shunt_free(seat->world, y);
	plain_pass(&plain);
	plain_fini(&plain);
}

static void who_is_refused_waits_for_its_rows_no_longer_than_it_may(
	void **state)
{
	(void)state;
	run_pair(be_refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_not_taken_what_was_sent_is_named),
		cmocka_unit_test(who_only_begins_does_not_wait_for_the_wire),
		cmocka_unit_test(what_a_slow_wire_takes_bit_by_bit_is_whole),
		cmocka_unit_test(
			who_is_refused_waits_for_its_rows_no_longer_than_it_may),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
