/*
 * What a lost rank means for steps that the survivors have in flight among
 * themselves: nobody waits for one who has already broken down, and rows that
 * their owner takes back are not used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "exchange/exchange.h"
#include "support/plain.h"

#define RANKS  3
#define VICTIM 2

/* All experts' rows are in y; the first dispatch is over. */
static void begin(struct seat *seat, struct plain *plain, float *y)
{
	struct shunt_exchange_config config =
		plain_config(2, 1, seat->num_ranks);

	plain_init(plain, seat, NULL, &config);
	plain_bring(plain, 1,
		(const int32_t[]){(seat->rank + 1) % seat->num_ranks});
	plain_dispatch(plain);
	memcpy(y, plain->out.expand_x,
		(size_t)plain->out.num_rows * PLAIN_HIDDEN * sizeof(float));
	plain->combine.y = y;
	plain->combine.out = plain->sums;
}

/* The ranks share one int. */
static void run_with_victim(ranks_function function)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = RANKS,
		.may_die = 1 << VICTIM,
		.shared_bytes = sizeof(int),
	};

	ranks_run(&plan, function);
}

static void die(struct seat *seat, struct plain *plain)
{
	SEAT_OK(seat, shunt_combine_start(plain->handle, &plain->combine));
	seat_barrier(seat);
	raise(SIGKILL);
}

/* Rank 0 breaks down in a second step; rank 1 needs its part of the first. */
static void break_down(struct seat *seat)
{
	struct plain plain;
	float y[2 * RANKS * PLAIN_HIDDEN];

	begin(seat, &plain, y);
	if (seat->rank == VICTIM)
		die(seat, &plain);
	seat_barrier(seat);
	if (seat->rank == 0) {
		plain_bring(&plain, 0, NULL);
		SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
		seat_error_ranks(seat, 1 << VICTIM);
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_LOST,
			shunt_combine(plain.handle, &plain.combine));
		seat_error_ranks(seat, 1 << VICTIM);
	}
	plain_fini(&plain);
}

static void a_survivor_that_broke_down_is_not_waited_for(void **state)
{
	(void)state;
	run_with_victim(break_down);
}

/* Rank 0's y lies where others read it; its combine ends in a loss, and y is
 * its own again, before rank 1 has read. */
static void take_back(struct seat *seat)
{
	struct plain plain;
	size_t bytes = 2 * RANKS * PLAIN_HIDDEN * sizeof(float);
	float *y = shunt_alloc(seat->world, bytes);

	SEAT_CHECK(seat, y, "%s", shunt_error_message());
	begin(seat, &plain, y);
	if (seat->rank == VICTIM)
		die(seat, &plain);
	SEAT_OK(seat, shunt_combine_start(plain.handle, &plain.combine));
	seat_barrier(seat);
	if (seat->rank == 0) {
		SEAT_STATUS(seat, SHUNT_PEER_LOST,
			shunt_combine_finish(plain.handle, 0));
		memset(y, 0xff, bytes);
		shunt_free(seat->world, y);
		*(volatile int *)seat->shared = 1;
	} else {
		while (!*(volatile int *)seat->shared)
			;
		SEAT_STATUS(seat, SHUNT_PEER_LOST,
			shunt_combine_finish(plain.handle, 0));
		seat_error_ranks(seat, 1 << VICTIM);
		shunt_free(seat->world, y);
	}
	plain_fini(&plain);
}

static void rows_taken_back_after_a_loss_are_not_used(void **state)
{
	(void)state;
	run_with_victim(take_back);
}

/* Rank 0 has broken down in the first step, and ended its exchange; rank 1 waits for
 * both in a second one. */
static void end_first(struct seat *seat)
{
	struct plain plain;
	float y[2 * RANKS * PLAIN_HIDDEN];

	begin(seat, &plain, y);
	seat_barrier(seat);
	if (seat->rank == VICTIM)
		raise(SIGKILL);
	if (seat->rank == 0) {
		SEAT_STATUS(seat, SHUNT_PEER_LOST,
			shunt_combine(plain.handle, &plain.combine));
		plain_fini(&plain);
		*(volatile int *)seat->shared = 1;
		return;
	}
	while (!*(volatile int *)seat->shared)
		;
	plain_bring(&plain, 0, NULL);
	SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
	seat_error_ranks(seat, 1 << VICTIM);
	plain_fini(&plain);
}

static void who_has_only_ended_its_exchange_for_a_loss_is_not_named(
	void **state)
{
	(void)state;
	run_with_victim(end_first);
}

/* Two exchanges: rank 0 hears of the death in the one, and ends both. Rank 1 is in
 * the other, where rank 0 owes it a part of a step that the dead did its own of. */
static void end_both(struct seat *seat)
{
	struct shunt_exchange_config config = plain_config(2, 1, RANKS);
	struct plain first, second;
	float y[2 * RANKS * PLAIN_HIDDEN];

	plain_init(&first, seat, NULL, &config);
	begin(seat, &second, y);
	if (seat->rank == VICTIM)
		die(seat, &second);
	seat_barrier(seat);
	if (seat->rank == 0) {
		plain_bring(&first, 0, NULL);
		SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&first));
		seat_error_ranks(seat, 1 << VICTIM);
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_LOST,
			shunt_combine(second.handle, &second.combine));
		seat_error_ranks(seat, 1 << VICTIM);
	}
	plain_fini(&second);
	plain_fini(&first);
}

static void who_ends_all_exchanges_for_a_loss_says_so_in_all(void **state)
{
	(void)state;
	run_with_victim(end_both);
}

/* Rank 0 has broken down in the first step, and does nothing more; rank 1 waits for
 * it in the second one, which the dead had announced. */
static void wait_for_the_broken(struct seat *seat)
{
	struct plain plain;
	float y[2 * RANKS * PLAIN_HIDDEN];

	begin(seat, &plain, y);
	if (seat->rank == VICTIM) {
		plain_bring(&plain, 0, NULL);
		SEAT_OK(seat, shunt_dispatch_start(plain.exchange, &plain.args,
				      &plain.handle));
		seat_barrier(seat);
		raise(SIGKILL);
	}
	seat_barrier(seat);
	if (seat->rank == 0) {
		SEAT_STATUS(seat, SHUNT_PEER_LOST,
			shunt_combine(plain.handle, &plain.combine));
		*(volatile int *)seat->shared = 1;
		while (*(volatile int *)seat->shared == 1)
			;
	} else {
		while (!*(volatile int *)seat->shared)
			;
		plain_bring(&plain, 0, NULL);
		SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
		seat_error_ranks(seat, 1 << VICTIM);
		*(volatile int *)seat->shared = 2;
	}
	plain_fini(&plain);
}

static void who_has_broken_down_is_not_waited_for_in_any_step(void **state)
{
	(void)state;
	run_with_victim(wait_for_the_broken);
}

/* Rank 0 says that it has lost nobody that there is, or rank 1 itself, and gives
 * the step up. */
static void tell_nonsense(struct seat *seat)
{
	static const uint64_t words[] = {2 * (RANKS + 1), UINT64_MAX - 1, 4};
	struct plain plain;
	float y[2 * RANKS * PLAIN_HIDDEN];

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
		begin(seat, &plain, y);
		if (seat->rank == 0) {
			peer_signal(plain.exchange->group->peers[1],
				plain.exchange->window_off[1] +
					plain.exchange->layouts[1].lost_off,
				words[w]);
			shunt_handle_destroy(plain.handle);
		} else {
			SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
				shunt_combine(plain.handle, &plain.combine));
			seat_error_ranks(seat, 1);
		}
		seat_barrier(seat);
		plain_fini(&plain);
	}
}

static void nonsense_about_losses_is_not_believed(void **state)
{
	(void)state;
	ranks_run_both(2, tell_nonsense, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_survivor_that_broke_down_is_not_waited_for),
		cmocka_unit_test(rows_taken_back_after_a_loss_are_not_used),
		cmocka_unit_test(
			who_has_only_ended_its_exchange_for_a_loss_is_not_named),
		cmocka_unit_test(
			who_ends_all_exchanges_for_a_loss_says_so_in_all),
		cmocka_unit_test(
			who_has_broken_down_is_not_waited_for_in_any_step),
		cmocka_unit_test(nonsense_about_losses_is_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
