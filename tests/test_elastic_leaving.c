/*
 * A rank that ends its steps, well or not, and leaves by plan, over several hosts: a
 * table leaves it out, and its links stay.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/elastic.h"
#include "support/fake_verbs.h"
#include "support/meet.h"
#include "support/ways.h"

#define RANKS ELASTIC_RANKS

/* How the last rank ends its last step; the others hear of it. */
enum ending {
	END_WELL,
	END_BY_REFUSAL,
	END_BY_MISMATCH, /* on all */
	END_BEHIND_DISPATCH,
	NUM_ENDINGS
};

static void end_last_step(struct stand *stand, enum ending ending)
{
	struct seat *seat = stand->seat;
	struct trial_rule rule = stand_rule(stand);
	struct trial *step;

	rule.tokens = TRIAL_TOKENS_FULL;
	rule.refusers = ending == END_BY_REFUSAL ? 1 << 3 : 0;
	step = stand_prepare_rule(stand, &rule);
	if (ending == END_BY_MISMATCH && seat->rank == 1)
		step->args.weights = NULL;
	SEAT_STATUS(seat,
		ending == END_BY_MISMATCH ? SHUNT_MISMATCH : step->due,
		shunt_dispatch(stand->exchange, &step->args, &step->out,
			&step->handle));
	if (ending == END_WELL) {
		trial_check_dispatch(seat, step);
		trial_make_rows(seat, step);
		stand_combine(stand, step);
	} else if (ending == END_BEHIND_DISPATCH && seat->rank == 3) {
		shunt_handle_destroy(step->handle);
	} else if (ending == END_BEHIND_DISPATCH) {
		trial_make_rows(seat, step);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_combine(step->handle, &step->combine));
	}
	stand_drop(step);
}

/* A step that all had begun before the last one was left out. */
static void combine_behind_the_table(struct stand *stand)
{
	struct trial *before = elastic_prepare(stand, RANKS), *step = NULL;

	stand_dispatch(stand, before);
	if (stand->seat->rank < 3) {
		step = elastic_prepare(stand, 3);
		stand_dispatch(stand, step);
	}
	stand_combine(stand, before);
	stand_drop(before);
	if (step) {
		stand_combine(stand, step);
		stand_drop(step);
	}
}

static void leave_by_plan(struct seat *seat)
{
	struct shunt_exchange_config config;
	struct stand stand, another;

	for (int ending = 0; ending < NUM_ENDINGS; ending++) {
		config = elastic_trial_config(seat, 1 + ending % 2);
		stand_init(&stand, seat, &config);
		elastic_run(&stand, RANKS, 2);
		end_last_step(&stand, (enum ending)ending);
		/* Nobody writes over what it still reads. */
		seat_barrier(seat);
		if (config.depth > 1)
			combine_behind_the_table(&stand);
		seat_barrier(seat);
		if (seat->rank < 3)
			elastic_run(&stand, 3, 2 * config.depth);
		seat_barrier(seat);
		SEAT_CHECK(seat, shunt_world_lost(seat->world, NULL) == 0,
			"ending %d: a rank is lost", ending);
		/* All can still do without a table what the world is for. */
		stand_init(&another, seat, &config);
		elastic_run(&another, RANKS, 2);
		stand_fini(&another);
		stand_fini(&stand);
	}
}

static void a_rank_that_has_ended_its_steps_keeps_its_links(void **state)
{
	(void)state;
	ways_run("0011 0101 0122 0001", leave_by_plan, NULL);
}

/* How long the last word of a rank was under way, while others left it out. */
static _Atomic int64_t late_ns;

/* A step that all give up behind its dispatch; what the last rank, alone on its host,
 * has to say of that stays on its way until the others have begun without it. */
static void leave_unheard(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_trial_config(seat, 1);
	struct stand stand;
	struct trial *step;
	int64_t began;

	stand_init(&stand, seat, &config);
	elastic_run(&stand, RANKS, 2);
	step = elastic_prepare(&stand, RANKS);
	stand_dispatch(&stand, step);
	seat_barrier(seat);
	if (seat->rank == 3)
		fake_verbs_mute(1, 0, true);
	seat_barrier(seat);
	shunt_handle_destroy(step->handle);
	stand_drop(step);
	began = clock_now();
	seat_barrier(seat);
	if (seat->rank == 3) {
		meet_sleep(100000000);
		fake_verbs_mute(1, 0, false);
		atomic_store(&late_ns, clock_now() - began);
	} else {
		elastic_run(&stand, 3, 2);
	}
	seat_barrier(seat);
	SEAT_CHECK(seat,
		shunt_world_lost(seat->world, NULL) == 0 ||
			atomic_load(&late_ns) > 300000000,
		"a rank is lost");
	seat_barrier(seat); /* who leaves its world is lost, too */
	stand_fini(&stand);
}

static void word_of_the_end_may_come_late(void **state)
{
	static const int32_t hosts[RANKS] = {0, 0, 0, 1};
	struct way way = {.algorithm = SHUNT_ALGORITHM_FULLMESH};
	struct ranks_plan plan = {
		.launch = RANKS_THREADS,
		.num_ranks = RANKS,
		.hosts = hosts,
		.wire = RANKS_IWARP, /* tries for as long as it takes */
		.context = &way,
	};

	(void)state;
	if (getenv("SHUNT_TEST_RDMA") != NULL)
		skip();
	/* Where others load the machine it may have come too late. */
	for (int i = 0; i < 20; i++) {
		ranks_run(&plan, leave_unheard);
		if (atomic_load(&late_ns) < 300000000)
			return;
	}
	skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_rank_that_has_ended_its_steps_keeps_its_links),
		cmocka_unit_test(word_of_the_end_may_come_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
