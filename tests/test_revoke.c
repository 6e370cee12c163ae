/*
 * Ranks that a table leaves out while they are writing, or are about to: their
 * part is played by hand, since it takes a rank that is stopped at the right
 * instruction.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/order.h"
#include "dispatch/revoke.h"
#include "support/plain.h"

#define RANKS 4

/* One expert on each rank; rank 1 is left out. */
static const int32_t without_1[] = {1, 3, 0, 3, 0, -1, 1, 2, 0, 2, 3, -1};

static void make_exchange(struct seat *seat, struct plain *plain)
{
	struct shunt_exchange_config config = plain_config(2, 1, RANKS);

	config.elastic = true;
	plain_init(plain, seat, NULL, &config);
}

/* The head of this rank's first step. */
static struct step_head *first_head(struct shunt_exchange *exchange)
{
	return exchange_head(exchange, exchange->rank,
		&exchange->steps[1 % exchange_shape(exchange)->depth]);
}

static void write_on(struct seat *seat)
{
	struct plain plain;

	make_exchange(seat, &plain);
	if (seat->rank == 1)
		order_publish(&first_head(plain.exchange)->writing, 1);
	seat_barrier(seat);
	if (seat->rank != 1) {
		plain_bring(&plain, 1, (const int32_t[]){2});
		plain.args.elastic_info = without_1;
		plain.args.deadline_ns = 100000000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT, plain_try(&plain));
		while (!seat_only_late(seat, 1 << 1))
			SEAT_STATUS(seat, SHUNT_TIMEOUT,
				shunt_dispatch_finish(
					plain.handle, 100000000, &plain.out));
	}
	seat_barrier(seat);
	if (seat->rank == 1)
		order_publish(&first_head(plain.exchange)->writing, 0);
	seat_barrier(seat);
	if (seat->rank != 1) {
		SEAT_OK(seat, shunt_dispatch_finish(
				      plain.handle, 20000000000, &plain.out));
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){3}));
		plain_expect_sums(&plain, (const float[]){3});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_left_out_rank_in_the_middle_of_writing_is_waited_for(void **state)
{
	(void)state;
	ranks_run_both(RANKS, write_on, NULL);
}

static void die_writing(struct seat *seat)
{
	struct plain plain;

	make_exchange(seat, &plain);
	if (seat->rank == 1) {
		order_publish(&first_head(plain.exchange)->writing, 1);
		plain_fini(&plain);
	}
	seat_barrier(seat);
	if (seat->rank == 1)
		return;
	plain_bring(&plain, 1, (const int32_t[]){2});
	plain.args.elastic_info = without_1;
	plain_dispatch(&plain);
	SEAT_OK(seat, plain_try_combine(&plain, (const float[]){3}));
	plain_expect_sums(&plain, (const float[]){3});
	plain_fini(&plain);
}

static void a_left_out_rank_that_is_gone_is_not_waited_for(void **state)
{
	(void)state;
	ranks_run_both(RANKS, die_writing, NULL);
}

static void come_late(struct seat *seat)
{
	struct plain plain;

	make_exchange(seat, &plain);
	if (seat->rank == 0)
		peer_signal(plain.exchange->group->peers[1],
			plain.exchange->window_off[1] +
				plain.exchange->layouts[1].revoked_off,
			1);
	seat_barrier(seat);
	plain_bring(&plain, 1, (const int32_t[]){2});
	SEAT_STATUS(seat, seat->rank == 1 ? SHUNT_MISMATCH : SHUNT_PEER_REFUSED,
		plain_try(&plain));
	seat_error_ranks(seat, seat->rank == 1 ? 1 : 1 << 1);
	if (seat->rank == 1)
		SEAT_CHECK(seat, first_head(plain.exchange)->writing == 0,
			"it still says that it writes");
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_rank_that_finds_itself_left_out_writes_nothing(void **state)
{
	(void)state;
	ranks_run_both(RANKS, come_late, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_left_out_rank_in_the_middle_of_writing_is_waited_for),
		cmocka_unit_test(
			a_left_out_rank_that_is_gone_is_not_waited_for),
		cmocka_unit_test(
			a_rank_that_finds_itself_left_out_writes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
