/*
 * Transport "verbs" with each call failing once: whatever fails, and whenever,
 * every rank goes on, or says why not, or sees that the other is lost; nothing
 * hangs, leaks or is misused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/child.h"
#include "support/fake_verbs.h"
#include "support/far_rig.h"
#include "support/scale.h"

#define NUM_RANKS 2
#define ROUNDS    6
#define PUT_BYTES 20000
#define SOURCE    (UINT64_C(2) << 20)

/* Calls that go on for as long as anything does: so many of them are enough. */
#define MOST_CALLS 25

static const struct fake_config usual = {
	.devices =
		{
			{.name = "fake0", .host = 0, .address = "10.1.0.1"},
			{.name = "fake1", .host = 1, .address = "10.1.0.2"},
		},
	.num_devices = 2,
	.retry_ns = 2000000,
	.cm_ns = 20000000,
};

/* How the other form differs: lanes, no immediates, copies in buffers. */
static void make_iwarp(struct fake_config *config)
{
	for (int d = 0; d < config->num_devices; d++) {
		config->devices[d].iwarp = true;
		config->devices[d].max_inline = -1;
	}
}

/* ---- what ranks do ------------------------------------------------------ */

/* A rank may stop early if its peer is lost. What it has seen must be right. */
static int exchange(struct rig_rank *rank)
{
	int32_t other = 1 - rank->rank;

	for (int round = 1; round <= ROUNDS; round++) {
		/* As who is about to sleep; on a quick machine nobody has to. */
		far_arm(rank->far);
		memset(rank->area + SOURCE, round, PUT_BYTES);
		CHILD_CHECK(rig_put(rank, other, 4096, rank->area + SOURCE,
				    PUT_BYTES, 0, 1) == SHUNT_OK);
		if (!rig_await(rank, other, 0, (uint64_t)round))
			return 0;
		for (uint64_t b = 0; b < PUT_BYTES; b++)
			CHILD_CHECK(rank->area[4096 + b] == round);
		CHILD_CHECK(
			rig_put(rank, other, 0, NULL, 0, 128, 1) == SHUNT_OK);
		if (!rig_await(rank, other, 128, (uint64_t)round) ||
			!rig_await_quiet(rank))
			return 0;
	}
	return 0;
}

/* Only a link that ends while both ranks are there has its queue pairs put into
 * error for certain: of two that leave at once neither sees the other go. */
static bool hang_up(struct rig *rig)
{
	return fake_verbs_raise(0, RDMA_CM_EVENT_DISCONNECTED, 0) > 0 &&
	       rig_await_state(&rig->ranks[0], 1, PEER_DEAD) &&
	       rig_await_state(&rig->ranks[1], 0, PEER_DEAD);
}

/* One life with the nth call of a function failing. False if it has not so
 * many. */
static bool live(const struct fake_config *config, int32_t lanes,
	const char *function, int nth)
{
	struct rig rig;
	bool opened, failed;

	fake_verbs_start(config);
	rig_init(&rig, NUM_RANKS);
	for (int r = 0; r < NUM_RANKS; r++) {
		rig.configs[r].fallback_address = config->devices[r].address;
		rig.configs[r].lanes = lanes;
		rig.configs[r].queue_depth = 4;
	}
	/* The one that succeeds waits for the one that failed. */
	rig.connect_ns = 300000000;
	fake_verbs_fail_call(function, nth);
	opened = rig_open(&rig);
	if (opened && !rig_run(&rig, exchange))
		fail_msg("%s %d: lines %d, %d", function, nth,
			rig.ranks[0].line, rig.ranks[1].line);
	if (opened && strcmp(function, "modify_qp") == 0 && !hang_up(&rig))
		fail_msg("%s %d: the link does not end", function, nth);
	for (int r = 0; r < NUM_RANKS; r++)
		if (rig.ranks[r].status != SHUNT_OK &&
			!strstr(rig.ranks[r].message, "rank"))
			fail_msg("%s %d: rank %d says \"%s\"", function, nth, r,
				rig.ranks[r].message);
	if (!rig_close(&rig))
		fail_msg("%s %d: a range of a segment is left", function, nth);
	failed = fake_verbs_failed();
	if (fake_verbs_finish() != 0 || rig_hangs() != 0)
		fail_msg("%s %d: misuse, or %d hangs", function, nth,
			rig_hangs());
	return failed;
}

/* ---- each function ------------------------------------------------------ */

static const char *const functions[] = {
	"get_device_list",
	"query_device",
	"query_port",
	"alloc_pd",
	"dealloc_pd",
	"reg_mr",
	"dereg_mr",
	"create_comp_channel",
	"destroy_comp_channel",
	"create_cq",
	"destroy_cq",
	"req_notify_cq",
	"get_cq_event",
	"poll_cq",
	"modify_qp",
	"post_send",
	"post_recv",
	"cm_create_event_channel",
	"cm_create_id",
	"cm_destroy_id",
	"cm_set_option",
	"cm_bind_addr",
	"cm_listen",
	"cm_resolve_addr",
	"cm_resolve_route",
	"cm_create_qp",
	"cm_connect",
	"cm_accept",
	"cm_disconnect",
	"cm_get_event",
	"cm_ack_event",
};
#define NUM_FUNCTIONS (sizeof(functions) / sizeof(*functions))

static void lives_with_each_call_failing(void **state)
{
	const char *function = *state;
	struct fake_config config = usual;
	int nth = 1;

	for (; nth <= scale_of(MOST_CALLS); nth++) {
		config.seed = (uint64_t)nth;
		if (!live(&config, 1, function, nth))
			break;
	}
	if (nth == 1)
		fail_msg("%s is never called", function);
	make_iwarp(&config);
	for (nth = 1; nth <= scale_of(MOST_CALLS); nth++) {
		config.seed = (uint64_t)nth;
		if (!live(&config, 2, function, nth))
			break;
	}
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[NUM_FUNCTIONS];

	for (size_t f = 0; f < NUM_FUNCTIONS; f++)
		tests[f] = (struct CMUnitTest){
			.name = functions[f],
			.test_func = lives_with_each_call_failing,
			.initial_state = (void *)(uintptr_t)functions[f],
		};
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
