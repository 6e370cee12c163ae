/*
 * Statistics as a struct: exact numbers of steps made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "support/counted.h"
#include "support/metrics.h"

/* ---- counters --------------------------------------------------------- */

#define EXPECT(seat, stats, field, value)                               \
	SEAT_CHECK(seat, (stats)->field == (value),                     \
		#field " is %" PRId64 ", not %" PRId64, (stats)->field, \
		(int64_t)(value))

/* What `steps` steps of counted_pass() are. */
static void expect_steps(
	struct seat *seat, const struct shunt_stats *stats, int64_t steps)
{
	bool first = seat->rank == 0;

	EXPECT(seat, stats, dispatches, steps);
	EXPECT(seat, stats, combines, steps);
	EXPECT(seat, stats, failed_steps, 0);
	EXPECT(seat, stats, tokens, steps * (first ? 3 : 2));
	EXPECT(seat, stats, sent_rows, steps * 4);
	EXPECT(seat, stats, received_rows, steps * (first ? 6 : 2));
	EXPECT(seat, stats, dropped_choices, steps * (first ? 1 : 0));
	EXPECT(seat, stats, dispatch_nan_elements, steps * (first ? 1 : 0));
	EXPECT(seat, stats, dispatch_inf_elements, steps * (first ? 2 : 0));
	EXPECT(seat, stats, combine_nan_elements, 0);
	EXPECT(seat, stats, combine_inf_elements, 0);
	EXPECT(seat, stats, dispatch_bytes, steps * 4 * (4 + 4));
	EXPECT(seat, stats, combine_bytes, steps * 4 * 16);
	EXPECT(seat, stats, num_local_experts, 2);
}

static void expect_expert_rows(struct plain *plain, int64_t steps)
{
	struct shunt_stats stats = SHUNT_STATS_INIT;
	int64_t rows[3] = {-7, -7, -7};

	stats.expert_rows = rows;
	stats.expert_capacity = 3;
	SEAT_OK(plain->seat, shunt_stats_get(plain->exchange, &stats));
	for (int l = 0; l < 2; l++)
		SEAT_CHECK(plain->seat,
			rows[l] == steps * counted_rows[plain->seat->rank][l],
			"expert %d has %d rows", l, (int)rows[l]);
	SEAT_CHECK(plain->seat, rows[2] == -7, "more than L were written");
	SEAT_CHECK(plain->seat,
		stats.expert_rows == rows && stats.expert_capacity == 3,
		"what the caller gave has changed");
}

static void count_steps(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats stats;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	counted_spoil_x(&plain);
	for (int i = 0; i <= 5; i++) {
		seat_label(seat, "after %d steps: ", i);
		stats = counted_stats(&plain);
		expect_steps(seat, &stats, i);
		expect_expert_rows(&plain, i);
		if (i < 5)
			counted_pass(&plain);
	}
	plain_fini(&plain);
}

static void counters_of_a_step_are_exact(void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, count_steps, NULL);
}

/* A refused step counts on all ranks, and nothing else of it does. */
static void count_failures(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats stats;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, seat->rank == 1 ? -1 : 3, counted_ids[0]);
	SEAT_STATUS(seat, seat->rank == 1 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
		plain_try(&plain));
	stats = counted_stats(&plain);
	EXPECT(seat, &stats, failed_steps, 1);
	EXPECT(seat, &stats, dispatches, 0);
	EXPECT(seat, &stats, tokens, 0);
	EXPECT(seat, &stats, sent_rows, 0);
	EXPECT(seat, &stats, dispatch_bytes, 0);
	/* One that fails in combine has dispatched well. */
	counted_bring(&plain);
	plain_dispatch(&plain);
	plain.combine.y = plain.out.expert_rows;
	if (seat->rank == 1)
		plain.combine.out = NULL;
	SEAT_STATUS(seat,
		seat->rank == 1 ? SHUNT_NULL_ARGUMENT : SHUNT_PEER_REFUSED,
		shunt_combine(plain.handle, &plain.combine));
	stats = counted_stats(&plain);
	EXPECT(seat, &stats, failed_steps, 2);
	EXPECT(seat, &stats, dispatches, 1);
	EXPECT(seat, &stats, combines, 0);
	EXPECT(seat, &stats, combine_bytes, 0);
	plain_fini(&plain);
}

static void failed_steps_count_on_all_ranks(void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, count_failures, NULL);
}

/* A timeout is no failure, and a dispatch that is finished again no other. */
static void finish_again(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats stats;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	counted_bring(&plain);
	if (seat->rank == 0) {
		plain.args.deadline_ns = 1000000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT, plain_try(&plain));
		stats = counted_stats(&plain);
		EXPECT(seat, &stats, failed_steps, 0);
		EXPECT(seat, &stats, dispatches, 0);
		seat_mark(seat, 1);
		for (int i = 0; i < 2; i++)
			SEAT_OK(seat,
				shunt_dispatch_finish(plain.handle,
					INT64_C(10000000000), &plain.out));
	} else {
		seat_await(seat, 0, 1);
		plain_dispatch(&plain);
	}
	counted_combine(&plain);
	stats = counted_stats(&plain);
	EXPECT(seat, &stats, failed_steps, 0);
	EXPECT(seat, &stats, dispatches, 1);
	EXPECT(seat, &stats, combines, 1);
	expect_expert_rows(&plain, 1);
	plain_fini(&plain);
}

static void a_timeout_is_no_failure_and_finishing_again_counts_once(
	void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, finish_again, NULL);
}

/* NaN and Inf of rows that travel quantized; both ranks send two rows, and
 * nobody's dispatch has met any. */
static void count_in_combine(struct seat *seat)
{
	static const int32_t each[] = {0, 2};
	struct shunt_exchange_config config = plain_config(3, 2, 4);
	int64_t nan_elements = -7, inf_elements = -7;
	struct shunt_stats stats;
	struct plain plain;
	float *y;

	config.combine_quant = SHUNT_COMBINE_QUANT_INT8_128;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 1, each);
	plain_dispatch(&plain);
	SEAT_CHECK(seat, plain.out.num_rows == 2, "%d rows",
		(int)plain.out.num_rows);
	y = plain.out.expert_rows;
	for (int i = 0; i < 2 * PLAIN_HIDDEN; i++)
		y[i] = 1.0f;
	if (seat->rank == 1) {
		y[0] = NAN;
		y[3] = INFINITY;
		y[PLAIN_HIDDEN] = -INFINITY;
	}
	plain.combine.y = y;
	plain.combine.nan_elements = &nan_elements;
	plain.combine.inf_elements = &inf_elements;
	SEAT_OK(seat, shunt_combine(plain.handle, &plain.combine));
	stats = counted_stats(&plain);
	EXPECT(seat, &stats, combine_nan_elements, seat->rank == 1 ? 1 : 0);
	EXPECT(seat, &stats, combine_inf_elements, seat->rank == 1 ? 2 : 0);
	EXPECT(seat, &stats, dispatch_nan_elements, 0);
	EXPECT(seat, &stats, combine_nan_elements, nan_elements);
	EXPECT(seat, &stats, combine_inf_elements, inf_elements);
	plain_fini(&plain);
}

static void nan_and_inf_of_combine_count_where_the_expert_is(void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, count_in_combine, NULL);
}

static void wait_for_the_late(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats before, after;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	counted_pass(&plain);
	before = counted_stats(&plain);
	seat_barrier(seat);
	if (seat->rank == 1)
		usleep(60000);
	counted_bring(&plain);
	plain_dispatch(&plain);
	seat_barrier(seat);
	if (seat->rank == 0)
		usleep(60000);
	counted_combine(&plain);
	after = counted_stats(&plain);
	SEAT_CHECK(seat,
		seat->rank == 1 ||
			after.dispatch_wait_ns - before.dispatch_wait_ns >
				30000000,
		"waited %" PRId64 " ns in dispatch",
		after.dispatch_wait_ns - before.dispatch_wait_ns);
	SEAT_CHECK(seat,
		seat->rank == 0 ||
			after.combine_wait_ns - before.combine_wait_ns >
				30000000,
		"waited %" PRId64 " ns in combine",
		after.combine_wait_ns - before.combine_wait_ns);
	plain_fini(&plain);
}

static void waiting_for_a_late_rank_shows(void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, wait_for_the_late, NULL);
}

/* ---- reset ------------------------------------------------------------ */

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void begin_anew(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats stats;
	struct plain plain;
	int64_t moments[4];

	moments[0] = now_ns();
	plain_init(&plain, seat, NULL, &config);
	moments[1] = now_ns();
	counted_spoil_x(&plain);
	counted_pass(&plain);
	stats = counted_stats(&plain);
	SEAT_CHECK(seat,
		stats.since_ns >= moments[0] && stats.since_ns <= moments[1],
		"since %" PRId64 ", not from creation", stats.since_ns);
	moments[2] = now_ns();
	SEAT_OK(seat, shunt_stats_reset(plain.exchange));
	moments[3] = now_ns();
	stats = counted_stats(&plain);
	SEAT_CHECK(seat,
		stats.since_ns >= moments[2] && stats.since_ns <= moments[3],
		"since %" PRId64 ", not from the reset", stats.since_ns);
	expect_steps(seat, &stats, 0);
	EXPECT(seat, &stats, dispatch_wait_ns, 0);
	EXPECT(seat, &stats, combine_wait_ns, 0);
	expect_expert_rows(&plain, 0);
	for (int i = 0; i < 3; i++)
		counted_pass(&plain);
	stats = counted_stats(&plain);
	expect_steps(seat, &stats, 3);
	expect_expert_rows(&plain, 3);
	plain_fini(&plain);
}

static void reset_begins_a_new_count_at_a_new_moment(void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, begin_anew, NULL);
}

/* ---- what is refused -------------------------------------------------- */

static void ask_wrongly(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats stats = SHUNT_STATS_INIT;
	struct plain plain;
	int64_t rows[2] = {-7, -7};
	size_t needed;
	char text[8];

	plain_init(&plain, seat, NULL, &config);
	counted_pass(&plain);
	stats.expert_rows = rows;
	stats.expert_capacity = 1;
	SEAT_STATUS(
		seat, SHUNT_INVALID, shunt_stats_get(plain.exchange, &stats));
	seat_message_has(seat, "expert_capacity is 1");
	seat_message_has(seat, "2");
	SEAT_CHECK(seat, rows[0] == -7 && stats.dispatches == 0,
		"something was written");
	stats.expert_capacity = 2;
	SEAT_OK(seat, shunt_stats_get(plain.exchange, &stats));
	stats.struct_size = 3;
	SEAT_STATUS(
		seat, SHUNT_INVALID, shunt_stats_get(plain.exchange, &stats));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT, shunt_stats_get(NULL, &stats));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_stats_get(plain.exchange, NULL));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT, shunt_stats_reset(NULL));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_stats_text(NULL, text, 8, &needed));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_stats_text(plain.exchange, NULL, 8, &needed));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_stats_text(plain.exchange, text, 8, NULL));
	plain_fini(&plain);
}

static void too_little_room_for_experts_and_null_are_answered(void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, ask_wrongly, NULL);
}

static void ask_after_a_loss(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats stats;
	struct metrics metrics;
	struct plain plain;
	char text[8192];

	plain_init(&plain, seat, NULL, &config);
	counted_pass(&plain);
	seat_barrier(seat);
	if (seat->rank == 1)
		kill(getpid(), SIGKILL);
	counted_bring(&plain);
	SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
	stats = counted_stats(&plain);
	EXPECT(seat, &stats, dispatches, 1);
	EXPECT(seat, &stats, combines, 1);
	EXPECT(seat, &stats, failed_steps, 1);
	counted_text(&plain, text, sizeof(text));
	metrics_parse(seat, text, &metrics);
	SEAT_OK(seat, shunt_stats_reset(plain.exchange));
	plain_fini(&plain);
}

static void an_exchange_that_has_lost_a_rank_still_tells(void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = COUNTED_RANKS,
		.may_die = 1 << 1,
	};

	(void)state;
	ranks_run(&plan, ask_after_a_loss);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_of_a_step_are_exact),
		cmocka_unit_test(failed_steps_count_on_all_ranks),
		cmocka_unit_test(
			a_timeout_is_no_failure_and_finishing_again_counts_once),
		cmocka_unit_test(
			nan_and_inf_of_combine_count_where_the_expert_is),
		cmocka_unit_test(waiting_for_a_late_rank_shows),
		cmocka_unit_test(reset_begins_a_new_count_at_a_new_moment),
		cmocka_unit_test(
			too_little_room_for_experts_and_null_are_answered),
		cmocka_unit_test(an_exchange_that_has_lost_a_rank_still_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
