/*
 * Statistics: exact numbers of steps made by hand, as a struct and as text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/metrics.h"
#include "support/plain.h"

/* Experts 0 and 1 on rank 0, 2 and 3 on rank 1; int8 rows of four bytes with
 * an f32 scale, experts' rows of 16 bytes. Id 9 is dropped. */
#define RANKS 2

static const int32_t ids[RANKS][6] = {{0, 1, 0, 2, 9, -1}, {2, 0, 0, 0}};
static const int64_t tokens[RANKS] = {3, 2};

static struct shunt_exchange_config small_config(void)
{
	struct shunt_exchange_config config = plain_config(3, 2, 4);

	config.quant = SHUNT_QUANT_INT8;
	config.bad_id = SHUNT_BAD_ID_DROP;
	return config;
}

/* Experts' rows of ones. */
static void combine(struct plain *plain)
{
	float *y = plain->out.expert_rows;

	for (int64_t i = 0; i < plain->out.extent_rows * PLAIN_HIDDEN; i++)
		y[i] = 1.0f;
	plain->combine.y = y;
	SEAT_OK(plain->seat, shunt_combine(plain->handle, &plain->combine));
}

/* Token 0 of rank 0 has a NaN, token 1 two Inf; token 2 has one and goes
 * nowhere. */
static void spoil_x(struct plain *plain)
{
	if (plain->seat->rank != 0)
		return;
	plain->x[1] = NAN;
	plain->x[PLAIN_HIDDEN] = INFINITY;
	plain->x[PLAIN_HIDDEN + 3] = -INFINITY;
	plain->x[2 * PLAIN_HIDDEN] = NAN;
}

static void pass(struct plain *plain)
{
	plain_bring(plain, tokens[plain->seat->rank], ids[plain->seat->rank]);
	plain_dispatch(plain);
	combine(plain);
}

static struct shunt_stats stats_of(struct plain *plain)
{
	struct shunt_stats stats = SHUNT_STATS_INIT;

	SEAT_OK(plain->seat, shunt_stats_get(plain->exchange, &stats));
	return stats;
}

/* ---- counters --------------------------------------------------------- */

#define EXPECT(seat, stats, field, value)                               \
	SEAT_CHECK(seat, (stats)->field == (value),                     \
		#field " is %" PRId64 ", not %" PRId64, (stats)->field, \
		(int64_t)(value))

/* What `steps` steps of pass() are. */
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
	static const int64_t received[RANKS][2] = {{5, 1}, {2, 0}};
	struct shunt_stats stats = SHUNT_STATS_INIT;
	int64_t rows[3] = {-7, -7, -7};

	stats.expert_rows = rows;
	stats.expert_capacity = 3;
	SEAT_OK(plain->seat, shunt_stats_get(plain->exchange, &stats));
	for (int l = 0; l < 2; l++)
		SEAT_CHECK(plain->seat,
			rows[l] == steps * received[plain->seat->rank][l],
			"expert %d has %d rows", l, (int)rows[l]);
	SEAT_CHECK(plain->seat, rows[2] == -7, "more than L were written");
	SEAT_CHECK(plain->seat,
		stats.expert_rows == rows && stats.expert_capacity == 3,
		"what the caller gave has changed");
}

static void count_steps(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_stats stats;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	spoil_x(&plain);
	for (int i = 0; i <= 5; i++) {
		seat_label(seat, "after %d steps: ", i);
		stats = stats_of(&plain);
		expect_steps(seat, &stats, i);
		expect_expert_rows(&plain, i);
		if (i < 5)
			pass(&plain);
	}
	plain_fini(&plain);
}

static void counters_of_a_step_are_exact(void **state)
{
	(void)state;
	ranks_run_both(RANKS, count_steps, NULL);
}

/* A refused step counts on all ranks, and nothing else of it does. */
static void count_failures(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_stats stats;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, seat->rank == 1 ? -1 : 3, ids[0]);
	SEAT_STATUS(seat, seat->rank == 1 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
		plain_try(&plain));
	stats = stats_of(&plain);
	EXPECT(seat, &stats, failed_steps, 1);
	EXPECT(seat, &stats, dispatches, 0);
	EXPECT(seat, &stats, tokens, 0);
	EXPECT(seat, &stats, sent_rows, 0);
	EXPECT(seat, &stats, dispatch_bytes, 0);
	/* One that fails in combine has dispatched well. */
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
	plain_dispatch(&plain);
	plain.combine.y = plain.out.expert_rows;
	if (seat->rank == 1)
		plain.combine.out = NULL;
	SEAT_STATUS(seat,
		seat->rank == 1 ? SHUNT_NULL_ARGUMENT : SHUNT_PEER_REFUSED,
		shunt_combine(plain.handle, &plain.combine));
	stats = stats_of(&plain);
	EXPECT(seat, &stats, failed_steps, 2);
	EXPECT(seat, &stats, dispatches, 1);
	EXPECT(seat, &stats, combines, 0);
	EXPECT(seat, &stats, combine_bytes, 0);
	plain_fini(&plain);
}

static void failed_steps_count_on_all_ranks(void **state)
{
	(void)state;
	ranks_run_both(RANKS, count_failures, NULL);
}

/* A timeout is no failure, and a dispatch that is finished again no other. */
static void finish_again(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_stats stats;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
	if (seat->rank == 0) {
		plain.args.deadline_ns = 1000000;
		SEAT_STATUS(seat, SHUNT_TIMEOUT, plain_try(&plain));
		stats = stats_of(&plain);
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
	combine(&plain);
	stats = stats_of(&plain);
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
	ranks_run_both(RANKS, finish_again, NULL);
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
	stats = stats_of(&plain);
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
	ranks_run_both(RANKS, count_in_combine, NULL);
}

static void wait_for_the_late(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_stats before, after;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	pass(&plain);
	before = stats_of(&plain);
	seat_barrier(seat);
	if (seat->rank == 1)
		usleep(60000);
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
	plain_dispatch(&plain);
	seat_barrier(seat);
	if (seat->rank == 0)
		usleep(60000);
	combine(&plain);
	after = stats_of(&plain);
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
	ranks_run_both(RANKS, wait_for_the_late, NULL);
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
	struct shunt_exchange_config config = small_config();
	struct shunt_stats stats;
	struct plain plain;
	int64_t moments[4];

	moments[0] = now_ns();
	plain_init(&plain, seat, NULL, &config);
	moments[1] = now_ns();
	spoil_x(&plain);
	pass(&plain);
	stats = stats_of(&plain);
	SEAT_CHECK(seat,
		stats.since_ns >= moments[0] && stats.since_ns <= moments[1],
		"since %" PRId64 ", not from creation", stats.since_ns);
	moments[2] = now_ns();
	SEAT_OK(seat, shunt_stats_reset(plain.exchange));
	moments[3] = now_ns();
	stats = stats_of(&plain);
	SEAT_CHECK(seat,
		stats.since_ns >= moments[2] && stats.since_ns <= moments[3],
		"since %" PRId64 ", not from the reset", stats.since_ns);
	expect_steps(seat, &stats, 0);
	EXPECT(seat, &stats, dispatch_wait_ns, 0);
	EXPECT(seat, &stats, combine_wait_ns, 0);
	expect_expert_rows(&plain, 0);
	for (int i = 0; i < 3; i++)
		pass(&plain);
	stats = stats_of(&plain);
	expect_steps(seat, &stats, 3);
	expect_expert_rows(&plain, 3);
	plain_fini(&plain);
}

static void reset_begins_a_new_count_at_a_new_moment(void **state)
{
	(void)state;
	ranks_run_both(RANKS, begin_anew, NULL);
}

/* ---- as text ---------------------------------------------------------- */

static void metric_is(struct seat *seat, const struct metrics *metrics,
	const char *name, const char *expert, int64_t value)
{
	const char *got = metrics_value(seat, metrics, name, expert);

	SEAT_CHECK(seat, strtoll(got, NULL, 10) == value && !strchr(got, '.'),
		"%s is %s, not %" PRId64, name, got, value);
}

static void seconds_are(struct seat *seat, const struct metrics *metrics,
	const char *name, int64_t ns)
{
	char expected[32];
	const char *got = metrics_value(seat, metrics, name, "");

	snprintf(expected, sizeof(expected), "%" PRId64 ".%09" PRId64,
		ns / 1000000000, ns % 1000000000);
	SEAT_CHECK(seat, strcmp(got, expected) == 0, "%s is %s, not %s", name,
		got, expected);
}

static void expect_metrics(struct seat *seat, const struct metrics *metrics,
	const struct shunt_stats *stats)
{
	const struct {
		const char *name;
		int64_t value;
	} counters[] = {
		{"dispatches", stats->dispatches},
		{"combines", stats->combines},
		{"failed_steps", stats->failed_steps},
		{"tokens", stats->tokens},
		{"sent_rows", stats->sent_rows},
		{"received_rows", stats->received_rows},
		{"dropped_choices", stats->dropped_choices},
		{"dispatch_nan_elements", stats->dispatch_nan_elements},
		{"dispatch_inf_elements", stats->dispatch_inf_elements},
		{"combine_nan_elements", stats->combine_nan_elements},
		{"combine_inf_elements", stats->combine_inf_elements},
		{"dispatch_bytes", stats->dispatch_bytes},
		{"combine_bytes", stats->combine_bytes},
		{"dispatch_wire_bytes", stats->dispatch_wire_bytes},
		{"dispatch_wire_requests", stats->dispatch_wire_requests},
		{"combine_wire_bytes", stats->combine_wire_bytes},
		{"combine_wire_requests", stats->combine_wire_requests},
		{"ideal_wire_bytes", stats->ideal_wire_bytes},
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
		metric_is(
			seat, metrics, counters[i].name, "", counters[i].value);
	seconds_are(seat, metrics, "dispatch_wait_seconds",
		stats->dispatch_wait_ns);
	seconds_are(
		seat, metrics, "combine_wait_seconds", stats->combine_wait_ns);
	SEAT_CHECK(
		seat, metrics->count == 20 + 2, "%d samples", metrics->count);
}

static void text_of(struct plain *plain, char *text, size_t size)
{
	size_t needed = 0;

	SEAT_OK(plain->seat,
		shunt_stats_text(plain->exchange, text, size, &needed));
	SEAT_CHECK(plain->seat, needed < size && strlen(text) == needed,
		"needed is %zu, written %zu", needed, strlen(text));
}

/* Text counts from creation, whatever was reset. */
static void tell(struct seat *seat)
{
	static const char *const experts[RANKS][2] = {{"0", "1"}, {"2", "3"}};
	static const int64_t rows[RANKS][2] = {{5, 1}, {2, 0}};
	struct shunt_exchange_config config = small_config();
	struct shunt_stats stats;
	struct metrics metrics;
	struct plain plain;
	char text[8192], rank[16];

	plain_init(&plain, seat, NULL, &config);
	spoil_x(&plain);
	for (int steps = 0; steps < 4; steps++) {
		seat_label(seat, "after %d steps: ", steps);
		stats = stats_of(&plain);
		if (steps == 3)
			SEAT_OK(seat, shunt_stats_reset(plain.exchange));
		text_of(&plain, text, sizeof(text));
		metrics_parse(seat, text, &metrics);
		expect_metrics(seat, &metrics, &stats);
		for (int l = 0; l < 2; l++)
			metric_is(seat, &metrics, "expert_rows",
				experts[seat->rank][l],
				steps * rows[seat->rank][l]);
		snprintf(rank, sizeof(rank), "%d", seat->rank);
		for (int i = 0; i < metrics.count; i++)
			SEAT_CHECK(seat,
				strcmp(metrics.samples[i].rank, rank) == 0,
				"%s of rank %s", metrics.samples[i].name,
				metrics.samples[i].rank);
		pass(&plain);
	}
	plain_fini(&plain);
}

static void text_is_prometheus_and_equals_the_struct_since_creation(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, tell, NULL);
}

static void tell_of_shared(struct seat *seat)
{
	struct shunt_exchange_config config = plain_config(1, 1, 1);
	struct metrics metrics;
	struct plain plain;
	char text[8192];

	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 1, (const int32_t[]){0});
	plain_pass(&plain);
	text_of(&plain, text, sizeof(text));
	metrics_parse(seat, text, &metrics);
	metric_is(seat, &metrics, "expert_rows",
		seat->rank == 0 ? "shared" : "0", 2);
	plain_fini(&plain);
}

static void text_calls_a_shared_expert_shared(void **state)
{
	(void)state;
	ranks_run_both(RANKS, tell_of_shared, NULL);
}

static void tell_in_little_room(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	char whole[8192], text[8192];
	struct plain plain;
	size_t needed = 0, all;

	plain_init(&plain, seat, NULL, &config);
	text_of(&plain, whole, sizeof(whole));
	all = strlen(whole);
	SEAT_OK(seat, shunt_stats_text(plain.exchange, NULL, 0, &needed));
	SEAT_CHECK(seat, needed == all, "%zu of %zu bytes", needed, all);
	for (size_t size = 0; size <= all + 2; size++) {
		needed = 0;
		memset(text, '#', sizeof(text));
		SEAT_OK(seat,
			shunt_stats_text(plain.exchange, text, size, &needed));
		SEAT_CHECK(
			seat, needed == all, "%zu of %zu bytes", needed, all);
		SEAT_CHECK(seat, text[size] == '#', "byte %zu written", size);
		if (size == 0)
			continue;
		SEAT_CHECK(seat,
			strlen(text) == (size <= all ? size - 1 : all) &&
				memcmp(text, whole, strlen(text)) == 0,
			"wrong text in %zu bytes", size);
	}
	plain_fini(&plain);
}

static void text_is_cut_where_the_room_ends_and_counted_whole(void **state)
{
	(void)state;
	ranks_run_both(1, tell_in_little_room, NULL);
}

/* ---- what is refused -------------------------------------------------- */

static void ask_wrongly(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_stats stats = SHUNT_STATS_INIT;
	struct plain plain;
	int64_t rows[2] = {-7, -7};
	size_t needed;
	char text[8];

	plain_init(&plain, seat, NULL, &config);
	pass(&plain);
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
	ranks_run_both(RANKS, ask_wrongly, NULL);
}

static void ask_after_a_loss(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_stats stats;
	struct metrics metrics;
	struct plain plain;
	char text[8192];

	plain_init(&plain, seat, NULL, &config);
	pass(&plain);
	seat_barrier(seat);
	if (seat->rank == 1)
		kill(getpid(), SIGKILL);
	plain_bring(&plain, tokens[0], ids[0]);
	SEAT_STATUS(seat, SHUNT_PEER_LOST, plain_try(&plain));
	stats = stats_of(&plain);
	EXPECT(seat, &stats, dispatches, 1);
	EXPECT(seat, &stats, combines, 1);
	EXPECT(seat, &stats, failed_steps, 1);
	text_of(&plain, text, sizeof(text));
	metrics_parse(seat, text, &metrics);
	SEAT_OK(seat, shunt_stats_reset(plain.exchange));
	plain_fini(&plain);
}

static void an_exchange_that_has_lost_a_rank_still_tells(void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = RANKS,
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
			text_is_prometheus_and_equals_the_struct_since_creation),
		cmocka_unit_test(text_calls_a_shared_expert_shared),
		cmocka_unit_test(
			text_is_cut_where_the_room_ends_and_counted_whole),
		cmocka_unit_test(
			too_little_room_for_experts_and_null_are_answered),
		cmocka_unit_test(an_exchange_that_has_lost_a_rank_still_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
