/* Transport "verbs" when the connection manager says what it should not, or
 * the right thing at the wrong time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "support/child.h"
#include "support/form_rig.h"
#include "support/scale.h"
#include "transport/transport.h"

#define COUNTER 0
/* A connection of one lane takes about so many events of both sides. */
#define MOST_EVENTS 12

static struct rig rig;

static void prepare(const char *form, int num_ranks, uint64_t seed)
{
	form_rig_init(&rig, fake_form_find(form), num_ranks, seed);
}

static int signal_all(struct rig_rank *rank)
{
	int num_ranks = rank->rig->num_ranks;

	for (int r = 0; r < num_ranks; r++)
		if (r != rank->rank)
			CHILD_CHECK(
				rig_put(rank, r, 0, NULL, 0,
					COUNTER + 128 * (uint64_t)rank->rank,
					1) == SHUNT_OK);
	for (int r = 0; r < num_ranks; r++)
		if (r != rank->rank)
			CHILD_CHECK(rig_await(
				rank, r, COUNTER + 128 * (uint64_t)r, 1));
	return 0;
}

/* ---- while connecting --------------------------------------------------- */

static const struct odd {
	enum rdma_cm_event_type type;
	int status;
	bool harmless; /* besides what was to come */
} odds[] = {
	{RDMA_CM_EVENT_ADDR_RESOLVED, 0, false},
	{RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, false},
	{RDMA_CM_EVENT_ROUTE_RESOLVED, 0, false},
	{RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, false},
	{RDMA_CM_EVENT_CONNECT_RESPONSE, 0, false},
	{RDMA_CM_EVENT_CONNECT_ERROR, -EIO, false},
	{RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, false},
	{RDMA_CM_EVENT_REJECTED, 28, false},
	{RDMA_CM_EVENT_ESTABLISHED, 0, false},
	{RDMA_CM_EVENT_DISCONNECTED, 0, false},
	{RDMA_CM_EVENT_DEVICE_REMOVAL, 0, false},
	{RDMA_CM_EVENT_ADDR_CHANGE, 0, true},
	{RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, true},
	{RDMA_CM_EVENT_MULTICAST_ERROR, -EIO, false},
};
#define NUM_ODDS (sizeof(odds) / sizeof(*odds))

static bool says_why(const struct rig_rank *rank)
{
	return rank->status == SHUNT_OK || strstr(rank->message, "rank");
}

/* One connection with an odd event. False if there were fewer events. */
static bool connect_oddly(const struct odd *odd, enum fake_place place, int nth)
{
	bool connected, failed;

	prepare(nth % 2 ? "iwarp" : "roce", 2, (uint64_t)nth);
	/* An event that is replaced may never come again. */
	rig.connect_ns = 200000000;
	fake_verbs_odd_event(nth, place, odd->type, odd->status);
	connected = rig_open(&rig);
	failed = fake_verbs_failed();
	if (odd->harmless && place != FAKE_INSTEAD && !connected)
		fail_msg("%s at %d: %s; %s", rdma_event_str(odd->type), nth,
			rig.ranks[0].message, rig.ranks[1].message);
	if (!says_why(&rig.ranks[0]) || !says_why(&rig.ranks[1]))
		fail_msg("%s at %d: %s; %s", rdma_event_str(odd->type), nth,
			rig.ranks[0].message, rig.ranks[1].message);
	form_rig_close(&rig);
	return failed;
}

static void an_odd_event_in_connecting_harms_nothing_else(void **state)
{
	(void)state;
	/* All of it takes a thousand connections. */
	for (size_t o = 0; o < NUM_ODDS; o += scale_is_small() ? 3 : 1)
		for (int place = FAKE_BEFORE; place <= FAKE_BEHIND; place++)
			for (int nth = 1; nth <= MOST_EVENTS; nth++)
				if (!connect_oddly(&odds[o],
					    (enum fake_place)place, nth))
					break;
}

static void late_and_doubled_events_harm_nothing(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= (uint64_t)scale_of(20); seed++) {
		prepare(seed % 2 ? "roce" : "relaxed_lanes", 3, seed);
		fake_verbs_disorder(true);
		if (!rig_open(&rig) || !rig_run(&rig, signal_all))
			fail_msg("%s; %s", rig.ranks[0].message,
				rig.ranks[1].message);
		form_rig_close(&rig);
	}
}

/* ---- once connected ----------------------------------------------------- */

static void expect_after(enum rdma_cm_event_type type, enum peer_state state)
{
	prepare("roce", 2, 1);
	assert_true(rig_open(&rig));
	assert_true(fake_verbs_raise(0, type, -EIO) > 0);
	assert_true(rig_await_state(&rig.ranks[0], 1, state));
	if (state == PEER_ALIVE)
		assert_true(rig_run(&rig, signal_all));
	form_rig_close(&rig);
}

static void a_link_outlives_what_is_no_loss(void **state)
{
	(void)state;
	expect_after(RDMA_CM_EVENT_ADDR_CHANGE, PEER_ALIVE);
	expect_after(RDMA_CM_EVENT_TIMEWAIT_EXIT, PEER_ALIVE);
	expect_after(RDMA_CM_EVENT_ESTABLISHED, PEER_ALIVE);
}

static void a_link_ends_with_any_loss(void **state)
{
	(void)state;
	expect_after(RDMA_CM_EVENT_DISCONNECTED, PEER_DEAD);
	expect_after(RDMA_CM_EVENT_DEVICE_REMOVAL, PEER_DEAD);
	expect_after(RDMA_CM_EVENT_UNREACHABLE, PEER_DEAD);
	expect_after(RDMA_CM_EVENT_REJECTED, PEER_DEAD);
	expect_after(RDMA_CM_EVENT_CONNECT_ERROR, PEER_DEAD);
}

/* ---- who is not there --------------------------------------------------- */

static void expect_missing(int rank, int missing, enum shunt_status status)
{
	const struct rig_rank *one = &rig.ranks[rank];

	if (one->status != status)
		fail_msg("rank %d: %s: %s", rank,
			shunt_status_name(one->status), one->message);
	assert_int_equal(one->num_lost, 1);
	assert_int_equal(one->lost[0], missing);
}

static void a_host_that_is_dead_in_connecting_is_named(void **state)
{
	(void)state;
	prepare("roce", 3, 1);
	rig.connect_ns = 300000000;
	assert_true(rig_listen(&rig));
	fake_verbs_kill_host(1);
	assert_false(rig_connect(&rig));
	expect_missing(0, 1, SHUNT_TIMEOUT);
	expect_missing(2, 1, SHUNT_TIMEOUT);
	form_rig_close(&rig);
}

static void a_rank_with_another_secret_is_not_let_in(void **state)
{
	(void)state;
	for (int stranger = 0; stranger < 3; stranger++) {
		prepare("infiniband", 3, 1);
		rig.connect_ns = 300000000;
		rig.secrets[stranger][31] ^= 1;
		assert_true(rig_listen(&rig));
		assert_false(rig_connect(&rig));
		for (int r = 0; r < 3; r++)
			if (r != stranger)
				expect_missing(r, stranger, SHUNT_TIMEOUT);
		form_rig_close(&rig);
	}
}

static void a_rank_that_listens_no_more_is_lost_before_the_deadline(
	void **state)
{
	(void)state;
	prepare("roce", 2, 1);
	assert_true(rig_listen(&rig));
	assert_true(rig_close_rank(&rig.ranks[1]));
	assert_false(rig_connect(&rig));
	expect_missing(0, 1, SHUNT_PEER_LOST);
	form_rig_close(&rig);
}

/* ---- acknowledgements ---------------------------------------------------- */

/* A small put is copied, but arrives no sooner for that: whoever is told by a
 * third rank that this one has flushed relies on it. */
static void a_copied_put_is_flushed_when_it_has_arrived(void **state)
{
	struct rig_rank *rank = &rig.ranks[0];
	struct peer *peer;
	uint64_t word = 7;

	(void)state;
	for (int bounced = 0; bounced < 2; bounced++) {
		prepare(bounced ? "short_lanes_bounced" : "roce", 2, 3);
		assert_true(rig_open(&rig));
		assert_true(rig_await_quiet(rank));
		peer = rank->peers[1];
		fake_verbs_hold(true);
		assert_int_equal(rig_put(rank, 1, 4096, &word, sizeof(word),
					 PUT_NO_COUNTER, 0),
			SHUNT_OK);
		far_progress(rank->far);
		assert_false(peer->ops->flushed(peer));
		fake_verbs_hold(false);
		assert_true(rig_await_quiet(rank));
		/* A pure signal has no bytes to wait for. */
		fake_verbs_hold(true);
		assert_int_equal(
			rig_put(rank, 1, 0, NULL, 0, COUNTER, 1), SHUNT_OK);
		assert_true(bounced || peer->ops->flushed(peer));
		fake_verbs_hold(false);
		assert_true(rig_await(&rig.ranks[1], 0, COUNTER, 1));
		form_rig_close(&rig);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_odd_event_in_connecting_harms_nothing_else),
		cmocka_unit_test(late_and_doubled_events_harm_nothing),
		cmocka_unit_test(a_link_outlives_what_is_no_loss),
		cmocka_unit_test(a_link_ends_with_any_loss),
		cmocka_unit_test(a_host_that_is_dead_in_connecting_is_named),
		cmocka_unit_test(a_rank_with_another_secret_is_not_let_in),
		cmocka_unit_test(
			a_rank_that_listens_no_more_is_lost_before_the_deadline),
		cmocka_unit_test(a_copied_put_is_flushed_when_it_has_arrived),
	};

	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
