/* Far sides and what devices, limits and options allow: what cannot be is
 * refused with the reason, what can be is kept to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "memory/segment.h"
#include "support/child.h"
#include "support/form_rig.h"

static struct rig rig;
static struct fake_config hosts;

/* Two hosts with a device each; tests change it before start(). */
static void usual(void)
{
	hosts = (struct fake_config){
		.devices =
			{
				{.name = "fake0", .address = "10.1.0.1"},
				{.name = "fake1",
					.host = 1,
					.address = "10.1.0.2"},
			},
		.num_devices = 2,
		.seed = 3,
	};
	rig_init(&rig, 2);
	for (int r = 0; r < 2; r++)
		rig.configs[r].fallback_address = hosts.devices[r].address;
}

static void expect_says(const struct rig_rank *rank, enum shunt_status status,
	const char *const words[4])
{
	if (rank->status != status)
		fail_msg("%s instead of %s: %s",
			shunt_status_name(rank->status),
			shunt_status_name(status), rank->message);
	for (int w = 0; w < 4 && words[w]; w++)
		if (!strstr(rank->message, words[w]))
			fail_msg("\"%s\" is not in \"%s\"", words[w],
				rank->message);
}

/* Rank 0 cannot open; the message has all words. */
static void expect_refused(enum shunt_status status, const char *const words[4])
{
	fake_verbs_start(&hosts);
	assert_false(rig_listen(&rig));
	expect_says(&rig.ranks[0], status, words);
	assert_null(rig.ranks[0].far);
	form_rig_close(&rig);
}

#define EXPECT_REFUSED(status, ...) \
	expect_refused(status, (const char *const[4]){__VA_ARGS__})

/* ---- options ------------------------------------------------------------ */

static void options_out_of_range_name_value_and_range(void **state)
{
	struct far_config *config = &rig.configs[0];

	(void)state;
	usual();
	config->port = 256;
	EXPECT_REFUSED(SHUNT_INVALID, "rank 0", "rdma_port", "256", "1 .. 255");
	usual();
	config->gid_index = -2;
	EXPECT_REFUSED(SHUNT_INVALID, "rank 0", "rdma_gid_index", "-2");
	usual();
	config->service_level = 16;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_service_level", "16", "0 .. 15");
	usual();
	config->traffic_class = 256;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_traffic_class", "256", "0 .. 255");
	usual();
	config->lanes = 17;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_lanes", "17", "1 .. 16");
	usual();
	config->ack_timeout = 32;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_ack_timeout", "32", "1 .. 31");
	usual();
	config->queue_depth = 3;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_queue_depth", "3", "4 .. ");
}

static void a_device_that_is_not_there_is_named(void **state)
{
	struct far_config *config = &rig.configs[0];

	(void)state;
	usual();
	config->device = "mlx5_7";
	EXPECT_REFUSED(SHUNT_INVALID, "rank 0", "mlx5_7", "fake0");
	usual();
	config->device = "fake0,fake0";
	EXPECT_REFUSED(SHUNT_INVALID, "fake0,fake0", "twice");
	usual();
	config->device = "fake0,,fake1";
	EXPECT_REFUSED(SHUNT_INVALID, "fake0,,fake1");
	usual();
	config->interface = "eth7";
	EXPECT_REFUSED(SHUNT_INVALID, "rank 0", "eth7");
	usual();
	config->address = "10.9.9.9";
	EXPECT_REFUSED(SHUNT_INVALID, "rank 0", "10.9.9.9");
	usual();
	config->address = "127.0.0.1";
	EXPECT_REFUSED(SHUNT_INVALID, "127.0.0.1");
	usual();
	config->address = "no address";
	EXPECT_REFUSED(SHUNT_INVALID, "no address");
	usual();
	config->port = 2;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_port=2", "another port");
	usual();
	config->gid_index = 0;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_gid_index=0", "GID");
}

/* Two options, each of which is something here, that are not the same thing. */
static void options_that_contradict_each_other_are_named(void **state)
{
	struct far_config *config = &rig.configs[0];

	(void)state;
	usual();
	hosts.devices[1].host = 0;
	config->interface = "fake0";
	config->address = "10.1.0.2";
	EXPECT_REFUSED(SHUNT_INVALID, "rank 0: rdma_address=10.1.0.2",
		"rdma_interface=fake0", "of fake1");
	usual();
	config->interface = "fake0";
	config->address = "10.9.9.9";
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_address=10.9.9.9",
		"rdma_interface=fake0", "no interface here");
	usual();
	config->interface = "eth7";
	config->address = "10.1.0.1";
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_address=10.1.0.1",
		"rdma_interface=eth7", "of fake0");
	usual();
	config->address = "10.1.0.1";
	config->gid_index = 0;
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_address=10.1.0.1",
		"rdma_gid_index=0", "is not that GID of fake0");
	usual();
	config->device = "fake1";
	config->interface = "fake0";
	EXPECT_REFUSED(SHUNT_INVALID, "rdma_device=fake1",
		"rdma_interface=fake0", "leads over fake0");
}

static void a_device_is_found_by_name_interface_address_and_gid(void **state)
{
	static const char *const addresses[] = {"10.1.0.1", "10.1.0.2"};
	static const char *const names[] = {"fake0", "fake1"};

	(void)state;
	for (int way = 0; way < 6; way++) {
		usual();
		for (int r = 0; r < 2; r++) {
			struct far_config *config = &rig.configs[r];

			if (way == 0)
				config->device = names[r];
			if (way == 1 || way == 5)
				config->interface = names[r];
			if (way == 2 || way == 5)
				config->address = addresses[r];
			if (way == 3)
				config->gid_index = 1;
			if (way == 4)
				config->port = 1;
			if (way != 4)
				config->fallback_address = NULL;
		}
		fake_verbs_start(&hosts);
		if (!rig_open(&rig))
			fail_msg("%d: %s", way, rig.ranks[0].message);
		form_rig_close(&rig);
	}
}

static void without_a_device_there_is_no_far_side_and_no_error(void **state)
{
	struct far_hello hello;
	struct segment *segment;
	struct far *far;

	(void)state;
	usual();
	hosts.num_devices = 0;
	fake_verbs_start(&hosts);
	assert_int_equal(
		segment_create(SEGMENT_PRIVATE, UINT64_C(1) << 30, &segment),
		SHUNT_OK);
	assert_int_equal(
		far_open(&rig.configs[0], segment, 0, &far, &hello), SHUNT_OK);
	assert_null(far);
	assert_non_null(strstr(far_absence(), "RDMA"));
	rig.configs[0].device = "fake0";
	assert_int_equal(far_open(&rig.configs[0], segment, 0, &far, &hello),
		SHUNT_INVALID);
	assert_null(far);
	segment_put(segment);
	assert_int_equal(fake_verbs_finish(), 0);
}

/* ---- limits ------------------------------------------------------------- */

static void a_port_that_is_down_is_told(void **state)
{
	(void)state;
	usual();
	hosts.devices[0].down = true;
	rig.configs[0].device = "fake0";
	EXPECT_REFUSED(SHUNT_UNSUPPORTED, "rank 0", "fake0", "port 1");
}

static void a_device_of_too_little_is_told(void **state)
{
	(void)state;
	usual();
	hosts.devices[0].max_queue = 3;
	rig.configs[0].device = "fake0";
	EXPECT_REFUSED(SHUNT_UNSUPPORTED, "rank 0", "fake0", "3", "4");
	usual();
	hosts.devices[0].max_mr_bytes = 4096;
	rig.configs[0].device = "fake0";
	EXPECT_REFUSED(SHUNT_UNSUPPORTED, "fake0", "max_mr_size", "4096");
	usual();
	hosts.devices[0].max_locked_bytes = 65536;
	EXPECT_REFUSED(SHUNT_NO_MEMORY, "rank 0", "registering", "4194304");
}

static void too_few_completions_are_told(void **state)
{
	(void)state;
	usual();
	hosts.devices[0].max_cqe = 7;
	rig.connect_ns = 300000000;
	fake_verbs_start(&hosts);
	assert_true(rig_listen(&rig));
	assert_false(rig_connect(&rig));
	expect_says(&rig.ranks[0], SHUNT_UNSUPPORTED,
		(const char *const[4]){"rank 0", "max_cqe", "7"});
	form_rig_close(&rig);
}

static void memory_beyond_the_limit_is_refused_and_the_rest_works(void **state)
{
	struct rig_rank *rank = &rig.ranks[0];
	uint64_t before, offset;

	(void)state;
	usual();
	hosts.devices[0].max_locked_bytes = UINT64_C(16) << 20;
	fake_verbs_start(&hosts);
	assert_true(rig_open(&rig));
	before = segment_used_bytes(rank->segment);
	assert_int_equal(segment_alloc(rank->segment, 32u << 20, 4096, &offset),
		SHUNT_NO_MEMORY);
	assert_non_null(strstr(shunt_error_message(), "33554432"));
	assert_int_equal(segment_used_bytes(rank->segment), before);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(
			segment_alloc(rank->segment, 1 << 20, 4096, &offset),
			SHUNT_OK);
		segment_free(rank->segment, offset, 1 << 20);
	}
	assert_int_equal(rig_put(rank, 1, 0, NULL, 0, 0, 1), SHUNT_OK);
	assert_true(rig_await(&rig.ranks[1], 0, 0, 1));
	form_rig_close(&rig);
}

/* ---- hellos ------------------------------------------------------------- */

/* A hello with one byte changed: refused, or nobody is found there. */
static void a_hello_that_is_not_sound_is_refused(void **state)
{
	(void)state;
	for (int byte = 0; byte < 3; byte++) {
		usual();
		rig.connect_ns = 200000000;
		fake_verbs_start(&hosts);
		assert_true(rig_listen(&rig));
		rig.ranks[1].hello.far.bytes[byte] = 0xfe;
		assert_false(rig_connect(&rig));
		expect_says(&rig.ranks[0], SHUNT_PEER_FAULT,
			(const char *const[4]){"rank 1"});
		assert_int_equal(rig.ranks[0].num_lost, 1);
		assert_int_equal(rig.ranks[0].lost[0], 1);
		form_rig_close(&rig);
	}
}

static void a_far_rank_without_a_device_is_named(void **state)
{
	(void)state;
	usual();
	rig.connect_ns = 200000000;
	fake_verbs_start(&hosts);
	assert_true(rig_listen(&rig));
	memset(&rig.ranks[1].hello.far, 0, sizeof(rig.ranks[1].hello.far));
	assert_false(rig_connect(&rig));
	expect_says(&rig.ranks[0], SHUNT_UNSUPPORTED,
		(const char *const[4]){"rank 1", "no RDMA device"});
	form_rig_close(&rig);
}

/* ---- lanes -------------------------------------------------------------- */

#define STRIPED_BYTES (UINT64_C(1) << 20)

/* Both put over all lanes that the pair has, more than a ring of records. */
static int put_striped(struct rig_rank *rank)
{
	int32_t other = 1 - rank->rank;

	for (uint64_t round = 1; round <= 40; round++) {
		uint8_t *source = rank->area + STRIPED_BYTES;
		uint8_t *target = rank->area + 2 * STRIPED_BYTES;

		memset(source, (int)round, STRIPED_BYTES);
		CHILD_CHECK(rig_put(rank, other, 2 * STRIPED_BYTES, source,
				    STRIPED_BYTES, 0, 1) == SHUNT_OK);
		CHILD_CHECK(rig_await(rank, other, 0, round));
		for (uint64_t b = 0; b < STRIPED_BYTES; b += 4096)
			CHILD_CHECK(target[b] == round);
		CHILD_CHECK(
			rig_put(rank, other, 0, NULL, 0, 128, 1) == SHUNT_OK);
		CHILD_CHECK(rig_await(rank, other, 128, round));
		CHILD_CHECK(rig_await_quiet(rank));
	}
	return 0;
}

/* Hosts need not have as many devices; the pair has what the greater asks. */
/* One behind the other, so that a sign of life comes from each few of them. */
static int put_large(struct rig_rank *rank)
{
	const uint64_t source = UINT64_C(2) << 20;
	const uint64_t bytes = source - 8192; /* more than one message */

	if (rank->rank != 0)
		return 0;
	for (int i = 0; i < 40; i++) {
		CHILD_CHECK(rig_put(rank, 1, 4096, rank->area + source, bytes,
				    PUT_NO_COUNTER, 0) == SHUNT_OK);
		CHILD_CHECK(rig_await_quiet(rank));
	}
	return 0;
}

static void addresses_of_two_families_are_refused_at_once(void **state)
{
	static const char *const words[][4] = {
		{"rank 1 is reached by RDMA at an IPv6 address",
			"rank 0 at an IPv4 one (fake0)", "one family"},
		{"rank 0 is reached by RDMA at an IPv4 address",
			"rank 1 at an IPv6 one (fake1)", "one family"},
	};

	(void)state;
	usual();
	hosts.devices[1].address = "fd00::2";
	rig.configs[1].fallback_address = "fd00::2";
	fake_verbs_start(&hosts);
	assert_false(rig_open(&rig));
	for (int r = 0; r < 2; r++) {
		expect_says(&rig.ranks[r], SHUNT_INVALID, words[r]);
		assert_int_equal(rig.ranks[r].num_lost, 1);
		assert_int_equal(rig.ranks[r].lost[0], 1 - r);
	}
	form_rig_close(&rig);
}

static void large_puts_by_iwarp_go_in_short_messages(void **state)
{
	int64_t before;

	(void)state;
	usual();
	hosts.devices[0].iwarp = hosts.devices[1].iwarp = true;
	fake_verbs_start(&hosts);
	assert_true(rig_open(&rig));
	before = fake_verbs_sent();
	assert_true(rig_run(&rig, put_large));
	assert_true(fake_verbs_sent() - before >= 80);
	form_rig_close(&rig);
}

static void ranks_of_different_lanes_reach_each_other(void **state)
{
	(void)state;
	for (int more = 0; more < 2; more++) {
		usual();
		rig.configs[more].lanes = 16;
		rig.configs[1 - more].lanes = 1;
		rig.configs[0].queue_depth = rig.configs[1].queue_depth = 32;
		fake_verbs_start(&hosts);
		if (!rig_open(&rig))
			fail_msg("%s; %s", rig.ranks[0].message,
				rig.ranks[1].message);
		if (!rig_run(&rig, put_striped))
			fail_msg("lines %d, %d", rig.ranks[0].line,
				rig.ranks[1].line);
		form_rig_close(&rig);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_out_of_range_name_value_and_range),
		cmocka_unit_test(a_device_that_is_not_there_is_named),
		cmocka_unit_test(options_that_contradict_each_other_are_named),
		cmocka_unit_test(
			a_device_is_found_by_name_interface_address_and_gid),
		cmocka_unit_test(
			without_a_device_there_is_no_far_side_and_no_error),
		cmocka_unit_test(a_port_that_is_down_is_told),
		cmocka_unit_test(a_device_of_too_little_is_told),
		cmocka_unit_test(too_few_completions_are_told),
		cmocka_unit_test(
			memory_beyond_the_limit_is_refused_and_the_rest_works),
		cmocka_unit_test(a_hello_that_is_not_sound_is_refused),
		cmocka_unit_test(a_far_rank_without_a_device_is_named),
		cmocka_unit_test(addresses_of_two_families_are_refused_at_once),
		cmocka_unit_test(large_puts_by_iwarp_go_in_short_messages),
		cmocka_unit_test(ranks_of_different_lanes_reach_each_other),
	};

	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
