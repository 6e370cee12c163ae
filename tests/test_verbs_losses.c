/* Transport "verbs" when something is lost: a request, a host, a process, a
 * device, a wire. Who is left is told, and nothing of the lost comes later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/segment.h"
#include "support/child.h"
#include "support/form_rig.h"
#include "transport/verbs.h"

#define PUT_BYTES 100000
#define SOURCE    (UINT64_C(2) << 20)
#define COUNTER   0
#define DATA      4096

static struct rig rig;

static void start_patient(const char *form, int num_ranks, int64_t patience_ns)
{
	form_rig_init(&rig, fake_form_find(form), num_ranks, 11);
	for (int r = 0; r < num_ranks; r++)
		rig.configs[r].patience_ns = patience_ns;
	form_rig_open(&rig);
}

static void start(const char *form, int num_ranks)
{
	start_patient(form, num_ranks, 0);
}

static void expect_state(int rank, int peer, enum peer_state state)
{
	assert_true(rig_await_state(&rig.ranks[rank], peer, state));
}

static int put_once(struct rig_rank *rank)
{
	int32_t other = rank->rank ^ 1;

	CHILD_CHECK(rig_put(rank, other, DATA, rank->area + SOURCE, PUT_BYTES,
			    COUNTER, 1) == SHUNT_OK);
	return 0;
}

/* ---- requests ----------------------------------------------------------- */

static int put_until_lost(struct rig_rank *rank)
{
	for (uint64_t round = 1; round <= 10; round++) {
		int line = put_once(rank);

		if (line)
			return line;
		if (!rig_await(rank, rank->rank ^ 1, COUNTER, round))
			return 0;
	}
	return 0;
}

/* Whatever a completion says, both ends of the link end, and no more. */
static void a_request_that_fails_ends_the_link_at_both_ends(void **state)
{
	static const enum ibv_wc_status statuses[] = {IBV_WC_LOC_LEN_ERR,
		IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR,
		IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR,
		IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_FATAL_ERR, IBV_WC_GENERAL_ERR};

	(void)state;
	for (int nth = 1; nth <= 9; nth++) {
		start(nth % 2 ? "short" : "relaxed_lanes", 2);
		fake_verbs_fail_send(nth, statuses[nth - 1]);
		assert_true(rig_run(&rig, put_until_lost));
		assert_true(fake_verbs_failed());
		expect_state(0, 1, PEER_DEAD);
		expect_state(1, 0, PEER_DEAD);
		form_rig_close(&rig);
	}
}

/* ---- hosts, processes, devices ------------------------------------------ */

/* By RoCE a beat fails; by iWARP none does, but none comes back. */
static void an_idle_link_to_a_dead_host_ends(void **state)
{
	const char *const forms[] = {"roce", "iwarp", "iwarp_relaxed_lanes"};

	(void)state;
	for (int f = 0; f < 3; f++) {
		start(forms[f], 3);
		fake_verbs_kill_host(1);
		expect_state(0, 1, PEER_DEAD);
		expect_state(2, 1, PEER_DEAD);
		assert_int_equal(rig_state(&rig.ranks[0], 2), PEER_ALIVE);
		assert_int_equal(rig_state(&rig.ranks[2], 0), PEER_ALIVE);
		form_rig_close(&rig);
	}
}

/* Its device answers: also where silence is death, after five seconds. */
static void who_does_nothing_for_long_is_not_taken_for_dead(void **state)
{
	(void)state;
	start("iwarp", 2);
	far_lock(rig.ranks[1].far);
	sleep(6);
	far_unlock(rig.ranks[1].far);
	for (int r = 0; r < 2; r++)
		assert_int_equal(rig_state(&rig.ranks[r], 1 - r), PEER_ALIVE);
	assert_true(rig_run(&rig, put_once));
	form_rig_close(&rig);
}

/* The wire takes longer for what was queued before a beat than a peer may be
 * silent: nothing comes back, but requests get through. */
static void a_slow_wire_is_not_taken_for_a_dead_host(void **state)
{
	enum { PUTS = 7, PACE_NS = 500000000 }; /* and a record with each */

	(void)state;
	start("iwarp", 2);
	fake_verbs_pace(PACE_NS);
	for (int i = 0; i < PUTS; i++)
		assert_int_equal(put_once(&rig.ranks[0]), 0);
	assert_true(rig_await(&rig.ranks[1], 0, COUNTER, PUTS));
	fake_verbs_pace(0);
	for (int r = 0; r < 2; r++)
		assert_int_equal(rig_state(&rig.ranks[r], 1 - r), PEER_ALIVE);
	form_rig_close(&rig);
}

/* TCP goes on taking what is for it. */
static void a_dead_host_is_found_behind_what_was_queued(void **state)
{
	(void)state;
	start("iwarp_bounced", 2);
	fake_verbs_pace(1000000);
	for (int i = 0; i < 50; i++)
		assert_int_equal(
			rig_put(&rig.ranks[0], 1, DATA,
				rig.ranks[0].area + SOURCE, 2000, COUNTER, 1),
			SHUNT_OK);
	fake_verbs_kill_host(1);
	fake_verbs_pace(0);
	expect_state(0, 1, PEER_DEAD);
	form_rig_close(&rig);
}

static void a_killed_process_is_noticed_without_a_put(void **state)
{
	const char *const forms[] = {"roce", "iwarp"};

	(void)state;
	for (int f = 0; f < 2; f++) {
		start(forms[f], 2);
		fake_verbs_kill_process(1);
		expect_state(0, 1, PEER_DEAD);
		form_rig_close(&rig);
	}
}

static void a_device_that_is_pulled_out_ends_its_links(void **state)
{
	(void)state;
	start("two_devices", 2);
	fake_verbs_remove_device("twin1");
	expect_state(0, 1, PEER_DEAD);
	expect_state(1, 0, PEER_DEAD);
	form_rig_close(&rig);
}

static void a_wire_that_is_mended_in_time_loses_nothing(void **state)
{
	(void)state;
	start("roce", 2);
	for (int cut = 0; cut < 20; cut++) {
		memset(rig.ranks[0].area + SOURCE, cut + 1, PUT_BYTES);
		fake_verbs_cut(0, 1, true);
		assert_int_equal(put_once(&rig.ranks[0]), 0);
		fake_verbs_cut(0, 1, false);
		assert_true(rig_await(
			&rig.ranks[1], 0, COUNTER, (uint64_t)cut + 1));
		assert_int_equal(rig.ranks[1].area[DATA], cut + 1);
		assert_int_equal(
			rig.ranks[1].area[DATA + PUT_BYTES - 1], cut + 1);
		assert_true(rig_await_quiet(&rig.ranks[0]));
	}
	form_rig_close(&rig);
}

static void a_wire_that_stays_cut_ends_the_link_at_both_ends(void **state)
{
	(void)state;
	start("relaxed_lanes", 2);
	fake_verbs_cut(0, 1, true);
	expect_state(0, 1, PEER_DEAD);
	expect_state(1, 0, PEER_DEAD);
	form_rig_close(&rig);
}

/* ---- what is left ------------------------------------------------------- */

static void who_leaves_is_not_taken_for_dead(void **state)
{
	(void)state;
	for (int f = 0; f < fake_num_forms; f++) {
		start(fake_forms[f].name, 2);
		assert_int_equal(put_once(&rig.ranks[1]), 0);
		assert_true(rig_close_rank(&rig.ranks[1]));
		expect_state(0, 1, PEER_LEFT);
		/* What it had put before it left is all there. */
		assert_true(rig_await(&rig.ranks[0], 1, COUNTER, 1));
		form_rig_close(&rig);
	}
}

static void puts_to_the_lost_go_nowhere_and_their_sources_are_free(void **state)
{
	(void)state;
	start("relaxed_lanes", 2);
	fake_verbs_kill_host(1);
	for (int i = 0; i < 50; i++)
		assert_int_equal(put_once(&rig.ranks[0]), 0);
	expect_state(0, 1, PEER_DEAD);
	assert_int_equal(put_once(&rig.ranks[0]), 0);
	assert_true(rig_await_quiet(&rig.ranks[0]));
	assert_true(rig.ranks[0].peers[1]->ops->flushed(rig.ranks[0].peers[1]));
	form_rig_close(&rig);
}

/* Rank 0 gives the link up; rank 1 goes on writing, as it does not know. */
static void nothing_of_the_lost_arrives_any_more(void **state)
{
	static uint8_t before[PUT_BYTES];
	uint8_t *area;

	(void)state;
	for (int seed = 0; seed < 20; seed++) {
		start("relaxed_lanes", 2);
		area = rig.ranks[0].area;
		memset(rig.ranks[1].area + SOURCE, seed + 1, PUT_BYTES);
		for (int i = 0; i < 5; i++)
			assert_int_equal(put_once(&rig.ranks[1]), 0);
		fake_verbs_raise(0, RDMA_CM_EVENT_DISCONNECTED, 0);
		expect_state(0, 1, PEER_DEAD);
		memcpy(before, area + DATA, PUT_BYTES);
		memset(rig.ranks[1].area + SOURCE, 99, PUT_BYTES);
		for (int i = 0; i < 5; i++)
			assert_int_equal(put_once(&rig.ranks[1]), 0);
		expect_state(1, 0, PEER_DEAD);
		assert_memory_equal(before, area + DATA, PUT_BYTES);
		form_rig_close(&rig);
	}
}

static void who_sleeps_is_woken_by_the_loss(void **state)
{
	(void)state;
	start("roce", 2);
	fake_verbs_kill_host(1);
	/* Never comes; the wait ends as the peer is lost. */
	assert_false(rig_await(&rig.ranks[0], 1, COUNTER, 1));
	form_rig_close(&rig);
}

static void a_world_of_the_dead_closes(void **state)
{
	(void)state;
	start("two_devices_lanes", 3);
	for (int host = 0; host < 3; host++)
		fake_verbs_kill_host(host);
	for (int i = 0; i < 10; i++)
		assert_int_equal(put_once(&rig.ranks[0]), 0);
	form_rig_close(&rig);
}

static void exposing_to_the_lost_does_no_harm(void **state)
{
	struct rig_rank *rank = &rig.ranks[0];
	uint64_t offset;

	(void)state;
	start("roce", 3);
	fake_verbs_kill_host(1);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(
			segment_alloc(rank->segment, 4096, 4096, &offset),
			SHUNT_OK);
		assert_int_equal(far_expose(rank->far, offset, 4096), SHUNT_OK);
		far_progress(rank->far);
		far_hide(rank->far, offset);
		segment_free(rank->segment, offset, 4096);
	}
	expect_state(0, 1, PEER_DEAD);
	assert_int_equal(rig_state(rank, 2), PEER_ALIVE);
	form_rig_close(&rig);
}

/* It is alive, as far as its device can tell, but takes nothing in. */
static void a_put_to_who_takes_no_records_ends(void **state)
{
	struct rig_rank *rank = &rig.ranks[0];
	enum shunt_status status = SHUNT_OK;

	(void)state;
	start_patient("roce", 2, 50000000);
	far_lock(rig.ranks[1].far);
	for (int i = 0; i < 2 * FAR_QUEUE_DEPTH && status == SHUNT_OK; i++)
		status = rig_put(rank, 1, 0, NULL, 0, COUNTER, 1);
	assert_int_equal(status, SHUNT_OK); /* the last ones go nowhere */
	/* Not before: it would take them. */
	expect_state(0, 1, PEER_DEAD);
	far_unlock(rig.ranks[1].far);
	form_rig_close(&rig);
}

/* Some wait for a receive, or the link has ended. */
static bool counts_wait(struct rig_rank *rank, int32_t to)
{
	const struct verbs_link *link = (void *)rank->peers[to];
	const struct verbs_lane *lane = &link->lanes[0];
	bool waits;

	far_lock(rank->far);
	waits = link->phase != LINK_OPEN ||
		(link->outbox.num > 0 &&
			lane->records_sent - lane->records_taken ==
				lane->peer_depth);
	far_unlock(rank->far);
	return waits;
}

/* Nobody puts any more, and sources are free: only the service thread is there to
 * notice. */
static void who_takes_no_records_is_lost_though_nobody_waits_for_it(
	void **state)
{
	struct rig_rank *rank = &rig.ranks[0];

	(void)state;
	start_patient("roce", 2, 50000000);
	far_lock(rig.ranks[1].far);
	while (!counts_wait(rank, 1))
		assert_int_equal(rig_put(rank, 1, DATA, rank->area + SOURCE,
					 PUT_BYTES, COUNTER, 1),
			SHUNT_OK);
	assert_true(rig_await_quiet(rank));
	expect_state(0, 1, PEER_DEAD);
	far_unlock(rig.ranks[1].far);
	expect_state(1, 0, PEER_DEAD);
	form_rig_close(&rig);
}

/* Its device takes bytes all the time. */
static void who_takes_no_records_is_lost_though_bytes_get_there(void **state)
{
	struct rig_rank *rank = &rig.ranks[0];

	(void)state;
	start_patient("roce", 2, 50000000);
	far_lock(rig.ranks[1].far);
	while (rig_state(rank, 1) == PEER_ALIVE) {
		assert_int_equal(rig_put(rank, 1, DATA, rank->area + SOURCE,
					 PUT_BYTES, PUT_NO_COUNTER, 0),
			SHUNT_OK);
		assert_int_equal(
			rig_put(rank, 1, 0, NULL, 0, COUNTER, 1), SHUNT_OK);
	}
	expect_state(0, 1, PEER_DEAD);
	far_unlock(rig.ranks[1].far);
	expect_state(1, 0, PEER_DEAD);
	form_rig_close(&rig);
}

/* A caller's fault: it costs the link, and nobody's memory. */
static void a_source_that_is_freed_under_a_stalled_put_ends_the_link(
	void **state)
{
	struct rig_rank *rank = &rig.ranks[0];
	uint64_t source;

	(void)state;
	start("short", 2);
	assert_int_equal(segment_alloc(rank->segment, PUT_BYTES, 4096, &source),
		SHUNT_OK);
	fake_verbs_hold(true);
	/* More than the queue takes. */
	for (int p = 0; p < 2 * FAR_QUEUE_DEPTH; p++)
		assert_int_equal(rig_put(rank, 1, DATA,
					 segment_base(rank->segment) + source,
					 PUT_BYTES, PUT_NO_COUNTER, 0),
			SHUNT_OK);
	segment_free(rank->segment, source, PUT_BYTES);
	fake_verbs_hold(false);
	expect_state(0, 1, PEER_DEAD);
	assert_true(rig_close(&rig));
	assert_int_equal(rig_hangs(), 0);
	fake_verbs_finish(); /* the device read what was freed: misuse */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_request_that_fails_ends_the_link_at_both_ends),
		cmocka_unit_test(an_idle_link_to_a_dead_host_ends),
		cmocka_unit_test(
			who_does_nothing_for_long_is_not_taken_for_dead),
		cmocka_unit_test(a_slow_wire_is_not_taken_for_a_dead_host),
		cmocka_unit_test(a_dead_host_is_found_behind_what_was_queued),
		cmocka_unit_test(a_killed_process_is_noticed_without_a_put),
		cmocka_unit_test(a_device_that_is_pulled_out_ends_its_links),
		cmocka_unit_test(a_wire_that_is_mended_in_time_loses_nothing),
		cmocka_unit_test(
			a_wire_that_stays_cut_ends_the_link_at_both_ends),
		cmocka_unit_test(who_leaves_is_not_taken_for_dead),
		cmocka_unit_test(
			puts_to_the_lost_go_nowhere_and_their_sources_are_free),
		cmocka_unit_test(nothing_of_the_lost_arrives_any_more),
		cmocka_unit_test(who_sleeps_is_woken_by_the_loss),
		cmocka_unit_test(a_world_of_the_dead_closes),
		cmocka_unit_test(exposing_to_the_lost_does_no_harm),
		cmocka_unit_test(a_put_to_who_takes_no_records_ends),
		cmocka_unit_test(
			who_takes_no_records_is_lost_though_nobody_waits_for_it),
		cmocka_unit_test(
			who_takes_no_records_is_lost_though_bytes_get_there),
		cmocka_unit_test(
			a_source_that_is_freed_under_a_stalled_put_ends_the_link),
	};

	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
