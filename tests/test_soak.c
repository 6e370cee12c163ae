/*
 * Ten thousand steps of one exchange, tokens, routing, masks and weights
 * changing at each, two in flight now and then, each compared with the
 * reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "support/stand.h"

#define RANKS 4
#define STEPS 10000

static void step_two_at_once(struct stand *stand)
{
	struct trial *steps[2];
	struct trial_rule rule;

	for (int i = 0; i < 2; i++) {
		rule = stand_draw(stand);
		steps[i] = stand_prepare_rule(stand, &rule);
		SEAT_OK(stand->seat,
			shunt_dispatch_start(stand->exchange, &steps[i]->args,
				&steps[i]->handle));
	}
	for (int i = 0; i < 2; i++) {
		SEAT_OK(stand->seat, shunt_dispatch_finish(steps[i]->handle, 0,
					     &steps[i]->out));
		trial_check_dispatch(stand->seat, steps[i]);
		trial_make_rows(stand->seat, steps[i]);
		SEAT_OK(stand->seat, shunt_combine_start(steps[i]->handle,
					     &steps[i]->combine));
	}
	for (int i = 1; i >= 0; i--) {
		SEAT_OK(stand->seat, shunt_combine_finish(steps[i]->handle, 0));
		trial_check_combine(stand->seat, steps[i]);
		stand_drop(steps[i]);
	}
}

static void soak(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(8, 48, 4, 10);
	struct stand stand;
	struct trial_rule rule;

	config.quant = SHUNT_QUANT_INT8;
	config.expert_dtype = SHUNT_DTYPE_F16;
	stand_init(&stand, seat, &config);
	while (stand.next_step < STEPS) {
		seat_mark(seat, (int32_t)stand.next_step);
		if (stand.next_step % 7 == 0) {
			step_two_at_once(&stand);
			continue;
		}
		rule = stand_draw(&stand);
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void run_soak(enum ranks_launch launch)
{
	struct ranks_plan plan = {
		.launch = launch,
		.num_ranks = RANKS,
		.seconds = 900,
	};

	ranks_run(&plan, soak);
}

static void ten_thousand_steps_of_threads_equal_the_reference(void **state)
{
	(void)state;
	run_soak(RANKS_THREADS);
}

static void ten_thousand_steps_of_processes_equal_the_reference(void **state)
{
	(void)state;
	run_soak(RANKS_PROCESSES);
}

static void ten_thousand_steps_of_both_at_once_equal_the_reference(void **state)
{
	(void)state;
	run_soak(RANKS_MIXED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			ten_thousand_steps_of_threads_equal_the_reference),
		cmocka_unit_test(
			ten_thousand_steps_of_processes_equal_the_reference),
		cmocka_unit_test(
			ten_thousand_steps_of_both_at_once_equal_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
