/*
 * Statistics as text: it is Prometheus, says what the struct says, and is cut
 * where the room ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/counted.h"
#include "support/metrics.h"

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

/* Text counts from creation, whatever was reset. */
static void tell(struct seat *seat)
{
	static const char *const experts[COUNTED_RANKS][2] = {
		{"0", "1"}, {"2", "3"}};
	struct shunt_exchange_config config = counted_config();
	struct shunt_stats stats;
	struct metrics metrics;
	struct plain plain;
	char text[8192], rank[16];

	plain_init(&plain, seat, NULL, &config);
	counted_spoil_x(&plain);
	for (int steps = 0; steps < 4; steps++) {
		seat_label(seat, "after %d steps: ", steps);
		stats = counted_stats(&plain);
		if (steps == 3)
			SEAT_OK(seat, shunt_stats_reset(plain.exchange));
		counted_text(&plain, text, sizeof(text));
		metrics_parse(seat, text, &metrics);
		expect_metrics(seat, &metrics, &stats);
		for (int l = 0; l < 2; l++)
			metric_is(seat, &metrics, "expert_rows",
				experts[seat->rank][l],
				steps * counted_rows[seat->rank][l]);
		snprintf(rank, sizeof(rank), "%d", seat->rank);
		for (int i = 0; i < metrics.count; i++)
			SEAT_CHECK(seat,
				strcmp(metrics.samples[i].rank, rank) == 0,
				"%s of rank %s", metrics.samples[i].name,
				metrics.samples[i].rank);
		counted_pass(&plain);
	}
	plain_fini(&plain);
}

static void text_is_prometheus_and_equals_the_struct_since_creation(
	void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, tell, NULL);
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
	counted_text(&plain, text, sizeof(text));
	metrics_parse(seat, text, &metrics);
	metric_is(seat, &metrics, "expert_rows",
		seat->rank == 0 ? "shared" : "0", 2);
	plain_fini(&plain);
}

static void text_calls_a_shared_expert_shared(void **state)
{
	(void)state;
	ranks_run_both(COUNTED_RANKS, tell_of_shared, NULL);
}

static void tell_in_little_room(struct seat *seat)
{
	struct shunt_exchange_config config = counted_config();
	char whole[8192], text[8192];
	struct plain plain;
	size_t needed = 0, all;

	plain_init(&plain, seat, NULL, &config);
	counted_text(&plain, whole, sizeof(whole));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			text_is_prometheus_and_equals_the_struct_since_creation),
		cmocka_unit_test(text_calls_a_shared_expert_shared),
		cmocka_unit_test(
			text_is_cut_where_the_room_ends_and_counted_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
