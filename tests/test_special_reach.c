/*
 * Rows that are read where the experts left them: memory of shunt_alloc(),
 * until all have read; notes of ranks that lie; and what is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "exchange/step.h"
#include "support/round.h"

#define ROW_BYTES (ROUND_HIDDEN * sizeof(float))

/* Begins a step whose rows are in registered memory, spaced by `stride`. The
 * window's own place for them is spoilt. */
static float *begin_registered(struct seat *seat,
	struct shunt_exchange *exchange, struct round *round, int64_t stride)
{
	float *y = shunt_alloc(
		seat->world, ROUND_ROWS * (size_t)stride * sizeof(float));

	SEAT_CHECK(seat, y, "%s", shunt_error_message());
	round_begin(seat, exchange, round);
	for (int64_t i = 0; i < ROUND_ROWS; i++)
		memcpy(y + i * stride,
			(float *)round->dispatched.expert_rows +
				i * ROUND_HIDDEN,
			ROW_BYTES);
	memset(round->dispatched.expert_rows, 0xff, ROUND_ROWS * ROW_BYTES);
	round->args.y = y;
	round->args.y_stride = stride;
	return y;
}

static void combine_registered(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	struct round round;
	float *y = begin_registered(seat, exchange, &round, ROUND_HIDDEN + 5);
	const uint8_t *window = round.dispatched.expert_rows;

	SEAT_OK(seat, shunt_combine(round.handle, &round.args));
	round_check(seat, &round);
	for (size_t i = 0; i < ROUND_ROWS * ROW_BYTES; i++)
		SEAT_CHECK(seat, window[i] == 0xff, "y was copied");
	shunt_free(seat->world, y);
	round_good(seat, exchange);
	shunt_exchange_destroy(exchange);
}

static void registered_rows_are_not_copied(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, combine_registered, NULL);
}

/* Rank 1 has rows of its own ready, but does not yet read. */
static void read_late(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	struct round round;
	float *y = NULL;

	if (seat->rank == 0)
		y = begin_registered(seat, exchange, &round, ROUND_HIDDEN);
	else
		round_begin(seat, exchange, &round);
	SEAT_OK(seat, shunt_combine_start(round.handle, &round.args));
	if (seat->rank == 0)
		SEAT_STATUS(seat, SHUNT_TIMEOUT,
			shunt_combine_finish(round.handle, 50000000));
	seat_barrier(seat);
	SEAT_OK(seat, shunt_combine_finish(round.handle, 0));
	if (y)
		memset(y, 0xff, ROUND_ROWS * ROW_BYTES);
	shunt_free(seat->world, y);
	round_check(seat, &round);
	round_good(seat, exchange);
	shunt_exchange_destroy(exchange);
}

static void a_combine_ends_when_its_registered_rows_were_read(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, read_late, NULL);
}

static void give_up_reading(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	struct round round;
	float *y = begin_registered(seat, exchange, &round, ROUND_HIDDEN);

	SEAT_OK(seat, shunt_combine_start(round.handle, &round.args));
	if (seat->rank == 1) {
		/* From here on y is the caller's again. */
		shunt_handle_destroy(round.handle);
		memset(y, 0xff, ROUND_ROWS * ROW_BYTES);
		shunt_free(seat->world, y);
		seat_barrier(seat);
	} else {
		seat_barrier(seat);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_combine_finish(round.handle, 0));
		seat_error_ranks(seat, 1 << 1);
		shunt_free(seat->world, y);
	}
	round_good(seat, exchange);
	shunt_exchange_destroy(exchange);
}

static void rows_of_who_gives_up_are_refused_not_used(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, give_up_reading, NULL);
}

/* Ranks end two steps in opposite orders. */
static void cross_over(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	struct round rounds[2];
	float *y[2];

	for (int repeat = 0; repeat < 20; repeat++) {
		for (int i = 0; i < 2; i++) {
			y[i] = begin_registered(
				seat, exchange, &rounds[i], ROUND_HIDDEN);
			SEAT_OK(seat, shunt_combine_start(rounds[i].handle,
					      &rounds[i].args));
		}
		for (int i = 0; i < 2; i++) {
			int which = seat->rank ? i : 1 - i;

			SEAT_OK(seat,
				shunt_combine_finish(rounds[which].handle, 0));
			round_check(seat, &rounds[which]);
			memset(y[which], 0xff, ROUND_ROWS * ROW_BYTES);
		}
		shunt_free(seat->world, y[0]);
		shunt_free(seat->world, y[1]);
	}
	shunt_exchange_destroy(exchange);
}

static void steps_may_end_in_any_order(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, cross_over, NULL);
}

/* ---- notes that lie ----------------------------------------------------- */

struct lie {
	uint64_t y_offset, y_pitch;
};

static const struct lie lies[] = {
	{UINT64_MAX, 64},
	{UINT64_MAX - 63, 64},
	{64, UINT64_MAX},
	{64, (uint64_t)1 << 63},
	{64, UINT64_C(0x3333333333333340)}, /* five of it wrap */
	{(uint64_t)1 << 62, 64},
};

static void tell_a_lie(struct seat *seat)
{
	const struct lie *lie = seat->context;
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	struct round round;
	struct step_head *note;

	round_begin(seat, exchange, &round);
	if (seat->rank == 1) {
		SEAT_OK(seat, shunt_combine_start(round.handle, &round.args));
		note = exchange_note(exchange, 1, &exchange->steps[1]);
		SEAT_CHECK(seat, note->epoch == round.handle.epoch,
			"this is no note");
		note->y_offset = lie->y_offset;
		note->y_pitch = lie->y_pitch;
	}
	seat_barrier(seat);
	if (seat->rank == 0) {
		SEAT_STATUS(seat, SHUNT_PEER_FAULT,
			shunt_combine(round.handle, &round.args));
		seat_error_ranks(seat, 1 << 1);
		seat_message_has(seat, "leads outside of its segment");
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_FAULT,
			shunt_combine_finish(round.handle, 0));
	}
	round_good(seat, exchange);
	shunt_exchange_destroy(exchange);
}

static void a_note_that_leads_nowhere_is_a_peer_fault(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		ranks_run_both(ROUND_RANKS, tell_a_lie, &lies[i]);
}

/* ---- what is counted ----------------------------------------------------- */

static void count(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PACKED);
	struct shunt_stats stats = SHUNT_STATS_INIT;
	int64_t nan_elements = -1, inf_elements = -1;
	int64_t performance[ROUND_RANKS] = {1000, 2000};
	struct round round;
	float *rows;

	round_begin(seat, exchange, &round);
	rows = round.dispatched.expert_rows;
	rows[0] = NAN;
	rows[ROUND_HIDDEN] = INFINITY;
	rows[ROUND_HIDDEN + 1] = -INFINITY;
	round.args.nan_elements = &nan_elements;
	round.args.inf_elements = &inf_elements;
	round.args.performance_info = performance;
	SEAT_OK(seat, shunt_combine(round.handle, &round.args));
	SEAT_CHECK(seat, nan_elements == 1 && inf_elements == 2,
		"counted %d NaN and %d Inf", (int)nan_elements,
		(int)inf_elements);
	SEAT_CHECK(seat, performance[0] >= 1000 && performance[1] >= 2000,
		"performance_info does not add");
	SEAT_OK(seat, shunt_stats_get(exchange, &stats));
	SEAT_CHECK(
		seat, stats.combines == 1, "%d combines", (int)stats.combines);
	SEAT_CHECK(seat,
		stats.combine_nan_elements == 1 &&
			stats.combine_inf_elements == 2,
		"statistics count otherwise");
	SEAT_CHECK(seat, stats.combine_bytes > 0 && stats.failed_steps == 0,
		"%d bytes, %d failed", (int)stats.combine_bytes,
		(int)stats.failed_steps);
	shunt_exchange_destroy(exchange);
}

static void what_quantization_meets_is_counted(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, count, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registered_rows_are_not_copied),
		cmocka_unit_test(
			a_combine_ends_when_its_registered_rows_were_read),
		cmocka_unit_test(rows_of_who_gives_up_are_refused_not_used),
		cmocka_unit_test(steps_may_end_in_any_order),
		cmocka_unit_test(a_note_that_leads_nowhere_is_a_peer_fault),
		cmocka_unit_test(what_quantization_meets_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
