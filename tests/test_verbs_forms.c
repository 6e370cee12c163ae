/* Transport "verbs" over every form that a device may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/child.h"
#include "support/far_rig.h"

#define NUM_RANKS 3
#define ROUNDS    40

/* In an area: a counter per sender, then places of its bytes. */
#define COUNTER_OF(sender) ((uint64_t)(sender)*128)
#define SMALL_OF(sender)   (4096 + (uint64_t)(sender)*4096)
#define LARGE_OF(sender)   (65536 + (uint64_t)(sender)*524288)
#define SOURCE             (UINT64_C(2) << 20)
#define LARGE_BYTES        300007

/* One form: how all devices are, and what ranks ask for. */
struct form {
	const char *name;
	struct fake_device_config device;
	enum fake_policy policy;
	int devices_each; /* 0: one */
	int32_t lanes;
	int32_t queue_depth;
};

static const struct form forms[] = {
	{.name = "RoCE"},
	{.name = "InfiniBand", .device = {.infiniband = true}},
	{.name = "iWARP", .device = {.iwarp = true, .max_inline = 64}},
	{.name = "iWARP, nothing inline",
		.device = {.iwarp = true, .max_inline = -1}},
	{.name = "relaxed", .device = {.relaxed = true}},
	{.name = "relaxed, lanes", .device = {.relaxed = true}, .lanes = 3},
	{.name = "nothing inline", .device = {.max_inline = -1}},
	{.name = "depth 4",
		.device = {.max_queue = 4, .max_sge = 1},
		.policy = FAKE_AT_POLL},
	{.name = "depth 4, lanes, nothing inline",
		.device = {.max_queue = 4, .max_inline = -1, .relaxed = true},
		.lanes = 4},
	{.name = "at post", .policy = FAKE_AT_POST},
	{.name = "at post, depth 4, lanes",
		.policy = FAKE_AT_POST,
		.lanes = 3,
		.queue_depth = 4},
	{.name = "at poll, lanes", .policy = FAKE_AT_POLL, .lanes = 2},
	{.name = "few completions", .device = {.max_cqe = 64}, .lanes = 2},
	{.name = "iWARP, relaxed, lanes, depth 5",
		.device = {.iwarp = true, .relaxed = true},
		.lanes = 2,
		.queue_depth = 5},
};

static void configure(
	const struct form *form, struct fake_config *config, uint64_t seed)
{
	static const char *const names[] = {"fake0", "fake1", "fake2"};
	static const char *const addresses[] = {
		"10.1.0.1", "10.1.0.2", "fd00::3"};

	*config = (struct fake_config){.policy = form->policy, .seed = seed};
	for (int d = 0; d < NUM_RANKS; d++) {
		config->devices[d] = form->device;
		config->devices[d].name = names[d];
		config->devices[d].address = addresses[d];
		config->devices[d].host = d;
	}
	config->num_devices = NUM_RANKS;
}

static void rig_of(struct rig *rig, const struct form *form, uint64_t seed)
{
	struct fake_config config;

	configure(form, &config, seed);
	/* IPv4 and IPv6 do not reach each other. */
	config.devices[2].address = "10.1.0.3";
	fake_verbs_start(&config);
	rig_init(rig, &config, NUM_RANKS);
	for (int r = 0; r < NUM_RANKS; r++) {
		rig->configs[r].fallback_address = config.devices[r].address;
		rig->configs[r].lanes = form->lanes;
		rig->configs[r].queue_depth = form->queue_depth;
	}
}

/* ---- all to all --------------------------------------------------------- */

static uint8_t value_of(int sender, int round, uint64_t at)
{
	return (uint8_t)(sender * 101 + round * 7 + (int)(at / 1000));
}

/* Small bytes from anywhere, large ones from the segment, and one addition
 * that covers both. */
static int send_round(struct rig_rank *rank, int32_t to, int round)
{
	uint8_t small[200];

	for (int b = 0; b < 200; b++)
		small[b] = value_of(rank->rank, round, (uint64_t)b);
	CHILD_CHECK(rig_put(rank, to, LARGE_OF(rank->rank), rank->area + SOURCE,
			    LARGE_BYTES, PUT_NO_COUNTER, 0) == SHUNT_OK);
	CHILD_CHECK(rig_put(rank, to, SMALL_OF(rank->rank) + 3, small, 200,
			    COUNTER_OF(rank->rank), 1) == SHUNT_OK);
	return 0;
}

static int check_round(struct rig_rank *rank, int32_t from, int round)
{
	const uint8_t *large = rank->area + LARGE_OF(from);
	const uint8_t *small = rank->area + SMALL_OF(from) + 3;

	CHILD_CHECK(rig_await(
		rank, from, COUNTER_OF(from), 2 * (uint64_t)round - 1));
	for (uint64_t b = 0; b < LARGE_BYTES; b++)
		CHILD_CHECK(large[b] == value_of(from, round, b));
	for (uint64_t b = 0; b < 200; b++)
		CHILD_CHECK(small[b] == value_of(from, round, b));
	return 0;
}

static int exchange_round(struct rig_rank *rank, int round)
{
	int line = 0;

	for (uint64_t b = 0; b < LARGE_BYTES; b++)
		rank->area[SOURCE + b] = value_of(rank->rank, round, b);
	for (int r = 0; r < NUM_RANKS && line == 0; r++)
		if (r != rank->rank)
			line = send_round(rank, r, round);
	for (int r = 0; r < NUM_RANKS && line == 0; r++)
		if (r != rank->rank)
			line = check_round(rank, r, round);
	if (line)
		return line;
	/* Pure signals: the bytes have been read. */
	for (int r = 0; r < NUM_RANKS; r++)
		if (r != rank->rank)
			CHILD_CHECK(
				rig_put(rank, r, 0, NULL, 0,
					COUNTER_OF(rank->rank), 1) == SHUNT_OK);
	for (int r = 0; r < NUM_RANKS; r++)
		if (r != rank->rank)
			CHILD_CHECK(rig_await(
				rank, r, COUNTER_OF(r), 2 * (uint64_t)round));
	CHILD_CHECK(rig_await_quiet(rank));
	return 0;
}

static int exchange(struct rig_rank *rank)
{
	int line = 0;

	for (int round = 1; round <= ROUNDS && line == 0; round++)
		line = exchange_round(rank, round);
	return line;
}

static void tell(const struct rig *rig)
{
	for (int r = 0; r < rig->num_ranks; r++)
		if (rig->ranks[r].line)
			print_message("rank %d: line %d: %s\n", r,
				rig->ranks[r].line, rig->ranks[r].message);
}

static void who_sees_the_count_sees_all_bytes(void **state)
{
	const struct form *form = *state;
	struct rig rig;

	rig_of(&rig, form, 42);
	if (!rig_open(&rig) || !rig_run(&rig, exchange)) {
		tell(&rig);
		fail_msg("%s", form->name);
	}
	assert_true(rig_close(&rig));
	assert_int_equal(fake_verbs_not_ready(), 0);
	assert_int_equal(rig_hangs(), 0);
	assert_int_equal(fake_verbs_finish(), 0);
}

int main(void)
{
	enum { NUM = sizeof(forms) / sizeof(*forms) };
	struct CMUnitTest tests[NUM];

	for (int f = 0; f < NUM; f++)
		tests[f] = (struct CMUnitTest){
			.name = forms[f].name,
			.test_func = who_sees_the_count_sees_all_bytes,
			.initial_state = (void *)&forms[f],
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
