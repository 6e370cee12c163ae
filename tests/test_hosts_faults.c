/*
 * Steps that do not end well, with ranks on several hosts: who hears of a
 * refusal, a mismatch, a step given up, a rank that is late, leaves or dies
 * with its host; and that what may go on does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/fake_verbs.h"
#include "support/stand.h"
#include "support/ways.h"
#include "world/world.h"

#define RANKS 4
#define HOSTS "0011 0101 0001"
#define ALL   ((UINT64_C(1) << RANKS) - 1)

static struct shunt_exchange_config faults_config(const struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(8, 128, 4, 8);

	config.algorithm = way_of(seat)->algorithm;
	return config;
}

/* Ends the rank unless the error names ranks, and none outside of `allowed`. */
static void expect_some_of(struct seat *seat, uint64_t allowed)
{
	int32_t ranks[RANKS];
	size_t count = shunt_error_ranks(ranks, RANKS);

	SEAT_CHECK(seat, count >= 1 && count <= RANKS, "%zu ranks named: %s",
		count, shunt_error_message());
	for (size_t i = 0; i < count; i++)
		SEAT_CHECK(seat, allowed >> ranks[i] & 1,
			"rank %d is named: %s", ranks[i],
			shunt_error_message());
}

/* ---- refusals --------------------------------------------------------- */

static void refuse_in_turn(struct seat *seat)
{
	static const uint64_t refusers[] = {1, 8, 5, 6, 15};
	struct shunt_exchange_config config = faults_config(seat);
	struct trial_rule rule;
	struct trial *step;
	struct stand stand;

	stand_init(&stand, seat, &config);
	for (size_t i = 0; i < sizeof(refusers) / sizeof(refusers[0]); i++) {
		rule = stand_rule(&stand);
		rule.tokens = TRIAL_TOKENS_FULL;
		rule.refusers = refusers[i];
		step = stand_prepare_rule(&stand, &rule);
		SEAT_CHECK(seat, step->refusers == refusers[i], "refusers");
		SEAT_STATUS(seat, step->due,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		if (step->due == SHUNT_PEER_REFUSED)
			expect_some_of(seat, refusers[i]);
		stand_drop(step);
		stand_step(&stand);
	}
	stand_fini(&stand);
}

static void a_refusal_reaches_all_hosts_and_the_next_step_works(void **state)
{
	(void)state;
	ways_run(HOSTS, refuse_in_turn, NULL);
}

static void ask_for_too_much(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	struct trial_rule rule;
	struct trial *step;
	struct stand stand;

	/* All tokens of four ranks go to one rank first. */
	config.max_recv_rows = 3 * config.max_tokens;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 6; i++) {
		rule = stand_rule(&stand);
		rule.routing = INPUT_HOT;
		rule.tokens = i % 2 ? TRIAL_TOKENS_NONE : TRIAL_TOKENS_FULL;
		step = stand_prepare_rule(&stand, &rule);
		SEAT_CHECK(seat, (step->due == SHUNT_CAPACITY) == (i % 2 == 0),
			"the step fits, or not");
		SEAT_STATUS(seat, step->due,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		if (step->due == SHUNT_OK) {
			trial_check_dispatch(seat, step);
			trial_make_rows(seat, step);
			stand_combine(&stand, step);
		}
		stand_drop(step);
	}
	stand_fini(&stand);
}

static void rows_without_room_on_one_host_are_told_to_all(void **state)
{
	(void)state;
	ways_run(HOSTS, ask_for_too_much, NULL);
}

/* ---- mismatches ------------------------------------------------------- */

static void expect_mismatch(struct seat *seat,
	const struct shunt_exchange_config *config, const char *field)
{
	struct shunt_exchange *exchange;

	SEAT_STATUS(seat, SHUNT_MISMATCH,
		shunt_exchange_create(seat->world, NULL, config, &exchange));
	seat_message_has(seat, field);
}

static void disagree(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	struct stand stand;

	config.hidden += seat->rank == 3;
	expect_mismatch(seat, &config, "hidden");
	config = faults_config(seat);
	config.exact_sums = seat->rank == 0;
	expect_mismatch(seat, &config, "exact_sums");
	config = faults_config(seat);
	if (seat->rank == 2)
		config.algorithm = SHUNT_ALGORITHM_AUTO;
	expect_mismatch(seat, &config, "algorithm");
	config = faults_config(seat);
	stand_init(&stand, seat, &config);
	stand_step(&stand);
	stand_fini(&stand);
}

static void configs_that_differ_between_hosts_are_a_mismatch_on_all(
	void **state)
{
	(void)state;
	ways_run(HOSTS, disagree, NULL);
}

/* ---- given up --------------------------------------------------------- */

/* Each rank in turn ends a step behind the dispatch. */
static void give_up_in_turn(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	struct trial *step;
	struct stand stand;

	stand_init(&stand, seat, &config);
	for (int32_t r = 0; r < RANKS; r++) {
		step = stand_prepare(&stand);
		stand_dispatch(&stand, step);
		if (seat->rank == r) {
			shunt_handle_destroy(step->handle);
		} else {
			SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
				shunt_combine(step->handle, &step->combine));
			expect_some_of(
				seat, ALL & ~(UINT64_C(1) << seat->rank));
		}
		stand_drop(step);
		stand_step(&stand);
	}
	stand_fini(&stand);
}

static void a_step_given_up_on_one_host_is_refused_on_all(void **state)
{
	(void)state;
	ways_run(HOSTS, give_up_in_turn, NULL);
}

/* Rank 3 destroys its exchange while the others wait for its dispatch. */
static void destroy_early(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	enum shunt_status status;
	struct trial *step;
	struct stand stand;

	stand_init(&stand, seat, &config);
	stand_step(&stand);
	if (seat->rank == 3) {
		stand_fini(&stand);
		return;
	}
	step = stand_prepare(&stand);
	status = shunt_dispatch(
		stand.exchange, &step->args, &step->out, &step->handle);
	/* Whoever is the first to see it ends its exchange, too. */
	SEAT_STATUS(seat, SHUNT_PEER_LOST, status);
	expect_some_of(seat, 1 << 3);
	stand_drop(step);
	stand_fini(&stand);
}

static void an_exchange_destroyed_on_one_host_is_noticed_on_all(void **state)
{
	(void)state;
	ways_run(HOSTS, destroy_early, NULL);
}

/* ---- late ------------------------------------------------------------- */

/* Rank 3 comes only when all others have had a timeout. */
static void come_late(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	struct trial *step;
	struct stand stand;

	stand_init(&stand, seat, &config);
	stand_step(&stand);
	step = stand_prepare(&stand);
	if (seat->rank == 3) {
		for (int32_t r = 0; r < 3; r++)
			seat_await(seat, r, 1);
		stand_dispatch(&stand, step);
	} else {
		step->args.deadline_ns = 50000000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		while (!seat_only_late(seat, 1 << 3))
			SEAT_STATUS(seat, SHUNT_TIMEOUT,
				shunt_dispatch_finish(
					step->handle, 50000000, &step->out));
		seat_mark(seat, 1);
		SEAT_OK(seat, shunt_dispatch_finish(step->handle,
				      INT64_C(60000000000), &step->out));
		trial_check_dispatch(seat, step);
		trial_make_rows(seat, step);
	}
	stand_combine(&stand, step);
	stand_drop(step);
	stand_fini(&stand);
}

static void a_late_rank_of_another_host_is_named_and_can_still_come(
	void **state)
{
	(void)state;
	ways_run(HOSTS, come_late, NULL);
}

/* A rank is late, and the others have given the step up. */
static void come_too_late(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	enum shunt_status status;
	struct trial *step;
	struct stand stand;

	stand_init(&stand, seat, &config);
	stand_step(&stand);
	step = stand_prepare(&stand);
	if (seat->rank == 3) {
		for (int32_t r = 0; r < 3; r++)
			seat_await(seat, r, 2);
		status = shunt_dispatch(
			stand.exchange, &step->args, &step->out, &step->handle);
		if (status == SHUNT_OK) {
			trial_make_rows(seat, step);
			status = shunt_combine(step->handle, &step->combine);
		}
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED, status);
	} else {
		step->args.deadline_ns = 50000000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		seat_mark(seat, 1);
		for (int32_t r = 0; r < 3; r++)
			seat_await(seat, r, 1);
		shunt_handle_destroy(step->handle);
		seat_mark(seat, 2);
	}
	stand_drop(step);
	for (int32_t i = 0; i < 6; i++)
		stand_step(&stand);
	stand_fini(&stand);
}

static void a_rank_that_comes_when_all_have_given_up_is_refused_and_all_go_on(
	void **state)
{
	(void)state;
	ways_run("0011 0101 0001", come_too_late, NULL);
}

/* ---- gone ------------------------------------------------------------- */

static void leave(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	struct trial *step;
	struct stand stand;

	stand_init(&stand, seat, &config);
	stand_step(&stand);
	seat_barrier(seat);
	if (seat->rank == 1) {
		stand_fini(&stand);
		return;
	}
	step = stand_prepare(&stand);
	SEAT_STATUS(seat, SHUNT_PEER_LOST,
		shunt_dispatch(stand.exchange, &step->args, &step->out,
			&step->handle));
	expect_some_of(seat, 1 << 1);
	stand_drop(step);
	stand_fini(&stand);
}

static void a_rank_that_leaves_its_world_is_lost_to_all_hosts(void **state)
{
	(void)state;
	ways_run("0011 0101 0100", leave, NULL);
}

/* Ranks of another host than the seat's. */
static uint64_t ranks_elsewhere(const struct seat *seat)
{
	uint64_t mask = 0;

	for (int32_t r = 0; r < RANKS; r++)
		if (seat->hosts[r] != seat->host)
			mask |= UINT64_C(1) << r;
	return mask;
}

/* Host 1 dies; its ranks, which do not know that they are dead, find all
 * others gone. Steps go on until one fails; no step succeeds for ever. */
static void die_with_the_host(struct seat *seat)
{
	struct shunt_exchange_config config = faults_config(seat);
	enum shunt_status status = SHUNT_OK;
	struct trial *step;
	struct stand stand;
	uint8_t lost[RANKS];

	config.deadline_ns = INT64_C(60000000000);
	stand_init(&stand, seat, &config);
	stand_step(&stand);
	seat_barrier(seat);
	if (seat->rank == 0)
		fake_verbs_kill_host(1);
	while (status == SHUNT_OK) {
		step = stand_prepare(&stand);
		status = shunt_dispatch(
			stand.exchange, &step->args, &step->out, &step->handle);
		if (status == SHUNT_OK) {
			trial_make_rows(seat, step);
			status = shunt_combine(step->handle, &step->combine);
		}
		stand_drop(step);
	}
	/* Also where a rank of this host was quicker, and broke down. */
	SEAT_STATUS(seat, SHUNT_PEER_LOST, status);
	expect_some_of(seat, ranks_elsewhere(seat));
	do
		usleep(1000);
	while (shunt_world_lost(seat->world, lost) == 0 ||
		lost[seat->host == 0 ? RANKS - 1 : 0] == 0);
	for (int32_t r = 0; r < RANKS; r++)
		SEAT_CHECK(seat, !lost[r] || (ranks_elsewhere(seat) >> r & 1),
			"rank %d of this host is lost", r);
	seat_barrier(seat);
	stand_fini(&stand);
}

static void a_dead_host_is_lost_to_the_others_with_its_ranks(void **state)
{
	(void)state;
	if (getenv("SHUNT_TEST_RDMA") != NULL)
		skip();
	ways_run("0011 0101 0001", die_with_the_host, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_refusal_reaches_all_hosts_and_the_next_step_works),
		cmocka_unit_test(rows_without_room_on_one_host_are_told_to_all),
		cmocka_unit_test(
			configs_that_differ_between_hosts_are_a_mismatch_on_all),
		cmocka_unit_test(a_step_given_up_on_one_host_is_refused_on_all),
		cmocka_unit_test(
			an_exchange_destroyed_on_one_host_is_noticed_on_all),
		cmocka_unit_test(
			a_late_rank_of_another_host_is_named_and_can_still_come),
		cmocka_unit_test(
			a_rank_that_comes_when_all_have_given_up_is_refused_and_all_go_on),
		cmocka_unit_test(
			a_rank_that_leaves_its_world_is_lost_to_all_hosts),
		cmocka_unit_test(
			a_dead_host_is_lost_to_the_others_with_its_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
