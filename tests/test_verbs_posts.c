/* Which requests go to a device together, and that none is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "support/child.h"
#include "support/form_rig.h"
#include "transport/verbs.h"

#define ROW_BYTES UINT64_C(8192) /* eight of them make a post */
#define NUM_ROWS  64
#define COUNTER   0
#define ROWS      UINT64_C(65536)
#define SOURCE    (UINT64_C(2) << 20)

/* Each by either answers; short queues have no room for so many. */
static const char *const forms[] = {"roce", "iwarp", "two_devices"};

static struct rig rig;

static void start(const char *form)
{
	form_rig_init(&rig, fake_form_find(form), 2, 3);
	form_rig_open(&rig);
	memset(rig.ranks[1].area + ROWS, 0, NUM_ROWS * ROW_BYTES);
	for (uint64_t r = 0; r < NUM_ROWS; r++)
		memset(rig.ranks[0].area + SOURCE + r * ROW_BYTES, (int)r + 1,
			ROW_BYTES);
}

static int put_row(struct rig_rank *rank, uint64_t row, uint64_t counter)
{
	CHILD_CHECK(rig_put(rank, 1, ROWS + row * ROW_BYTES,
			    rank->area + SOURCE + row * ROW_BYTES, ROW_BYTES,
			    counter, 1) == SHUNT_OK);
	return 0;
}

static bool row_has_come(uint64_t row)
{
	const uint8_t *at = rig.ranks[1].area + ROWS + row * ROW_BYTES;
	uint64_t due = UINT64_C(0x0101010101010101) * (row + 1);

	for (uint64_t b = 0; b < ROW_BYTES; b += sizeof(due))
		if (__atomic_load_n((const uint64_t *)(const void *)(at + b),
			    __ATOMIC_ACQUIRE) != due)
			return false;
	return true;
}

/* ------------------------------------------------------------------------- */

static int put_rows(struct rig_rank *rank)
{
	for (uint64_t r = 0; rank->rank == 0 && r < NUM_ROWS; r++)
		CHILD_CHECK(put_row(rank, r,
				    r == NUM_ROWS - 1 ? COUNTER
						      : PUT_NO_COUNTER) == 0);
	CHILD_CHECK(rank->rank == 0 || rig_await(rank, 0, COUNTER, 1));
	return 0;
}

static void rows_are_posted_together_and_counted_behind(void **state)
{
	(void)state;
	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
		start(forms[f]);
		assert_true(rig_run(&rig, put_rows));
		for (uint64_t r = 0; r < NUM_ROWS; r++)
			assert_true(row_has_come(r));
		assert_true(fake_verbs_largest_post() >= 8);
		form_rig_close(&rig);
	}
}

/* Its rank does nothing more: it computes, say. */
static void a_row_that_is_kept_goes_out_by_itself(void **state)
{
	int64_t deadline;

	(void)state;
	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
		start(forms[f]);
		assert_int_equal(put_row(&rig.ranks[0], 5, PUT_NO_COUNTER), 0);
		deadline = clock_deadline(RIG_LONG_NS);
		while (!row_has_come(5))
			assert_true(clock_now() < deadline);
		form_rig_close(&rig);
	}
}

static void waiting_for_a_flush_sends_what_is_kept(void **state)
{
	(void)state;
	start("roce");
	assert_int_equal(put_row(&rig.ranks[0], 7, PUT_NO_COUNTER), 0);
	assert_true(rig_await_quiet(&rig.ranks[0]));
	assert_true(row_has_come(7)); /* RoCE acknowledges what is there */
	form_rig_close(&rig);
}

static void what_is_kept_goes_nowhere_once_the_link_has_ended(void **state)
{
	(void)state;
	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
		start(forms[f]);
		assert_int_equal(put_row(&rig.ranks[0], 0, PUT_NO_COUNTER), 0);
		far_cut(rig.ranks[0].peers[1]);
		assert_int_equal(put_row(&rig.ranks[0], 1, PUT_NO_COUNTER), 0);
		assert_true(rig_await_quiet(&rig.ranks[0]));
		assert_true(rig_await_state(&rig.ranks[0], 1, PEER_DEAD));
		assert_true(rig_await_state(&rig.ranks[1], 0, PEER_DEAD));
		form_rig_close(&rig);
	}
}

/* Its credits do not come back, as if it were stopped. Rows go by what waits. */
static void counts_for_a_peer_that_takes_none_wait_and_nobody_for_them(
	void **state)
{
	enum { COUNTS = 200 };
	struct peer *peer;
	bool again;

	(void)state;
	form_rig_init(&rig, fake_form_find("iwarp"), 2, 3);
	rig.configs[0].queue_depth = rig.configs[1].queue_depth = 8;
	form_rig_open(&rig);
	peer = rig.ranks[0].peers[1];
	fake_verbs_mute(1, 0, true);
	for (int c = 0; c < COUNTS; c++) {
		assert_int_equal(
			peer->ops->put(peer, 0, NULL, 0,
				rig.ranks[1].area_off + COUNTER, 1, &again),
			SHUNT_OK);
		assert_false(again);
	}
	memset(rig.ranks[0].area + SOURCE, 10, ROW_BYTES);
	assert_int_equal(rig_put(&rig.ranks[0], 1, ROWS + 9 * ROW_BYTES,
				 rig.ranks[0].area + SOURCE, ROW_BYTES,
				 PUT_NO_COUNTER, 0),
		SHUNT_OK);
	assert_true(rig_await_quiet(&rig.ranks[0]));
	while (!row_has_come(9))
		far_progress(rig.ranks[0].far);
	fake_verbs_mute(1, 0, false);
	assert_true(rig_await(&rig.ranks[1], 0, COUNTER, COUNTS));
	form_rig_close(&rig);
}

/* ---- without room --------------------------------------------------------- */

/* Of a request; all of them take longer than who leaves waits for one. */
#define LEAVE_PACE_NS 20000000
#define MARKS         (UINT64_C(3) << 20)
#define MANY_ROWS     (2 * NUM_ROWS) /* half of them while there is no room */

/* A row, a mark that is gone from here as soon as it is put, and a count. */
static void put_all(struct rig_rank *rank, uint64_t row)
{
	const struct transport_ops *ops = rank->peers[1]->ops;
	uint64_t to = rank->rig->ranks[1].area_off;
	uint64_t mark = ~row;
	bool again;

	assert_int_equal(ops->put(rank->peers[1], to + ROWS + row * ROW_BYTES,
				 rank->area + SOURCE + row * ROW_BYTES,
				 ROW_BYTES, PUT_NO_COUNTER, 0, &again),
		SHUNT_OK);
	assert_false(again);
	assert_int_equal(
		ops->put(rank->peers[1], to + MARKS + row * sizeof(mark), &mark,
			sizeof(mark), to + COUNTER, 1, &again),
		SHUNT_OK);
	assert_false(again);
	mark = 0;
}

/* Each count covers the row and the mark before it. */
static int expect_in_order(struct rig_rank *rank)
{
	const uint64_t *marks = (const void *)(rank->area + MARKS);

	for (uint64_t r = NUM_ROWS; rank->rank == 0 && r < MANY_ROWS; r++)
		put_all(rank, r);
	for (uint64_t r = 0; rank->rank == 1 && r < MANY_ROWS; r++) {
		CHILD_CHECK(rig_await(rank, 0, COUNTER, r + 1));
		CHILD_CHECK(row_has_come(r));
		CHILD_CHECK(marks[r] == ~r);
	}
	return 0;
}

static void start_full(const char *form)
{
	form_rig_init(&rig, fake_form_find(form), 2, 3);
	rig.configs[0].queue_depth = rig.configs[1].queue_depth = 8;
	form_rig_open(&rig);
	memset(rig.ranks[1].area + ROWS, 0, MANY_ROWS * ROW_BYTES);
	for (uint64_t r = 0; r < MANY_ROWS; r++)
		memset(rig.ranks[0].area + SOURCE + r * ROW_BYTES, (int)r + 1,
			ROW_BYTES);
	fake_verbs_hold(true);
	for (uint64_t r = 0; r < NUM_ROWS; r++)
		put_all(&rig.ranks[0], r);
	assert_false(far_is_quiet(rig.ranks[0].far));
}

static const char *const full_forms[] = {"roce", "iwarp", "bounced",
	"at_post_short_lanes", "short_lanes_bounced", "two_devices_lanes"};
#define NUM_FULL_FORMS (sizeof(full_forms) / sizeof(full_forms[0]))

static void puts_without_room_wait_in_order_and_nobody_for_them(void **state)
{
	(void)state;
	for (size_t f = 0; f < NUM_FULL_FORMS; f++) {
		start_full(full_forms[f]);
		fake_verbs_hold(false);
		assert_true(rig_run(&rig, expect_in_order));
		assert_true(rig_await_quiet(&rig.ranks[0]));
		form_rig_close(&rig);
	}
}

/* Who put them computes, say. */
static void what_waits_for_room_goes_out_by_itself(void **state)
{
	int64_t deadline;

	(void)state;
	for (size_t f = 0; f < NUM_FULL_FORMS; f++) {
		start_full(full_forms[f]);
		fake_verbs_hold(false);
		deadline = clock_deadline(RIG_LONG_NS);
		while (!row_has_come(NUM_ROWS - 1))
			assert_true(clock_now() < deadline);
		form_rig_close(&rig);
	}
}

static void what_waits_for_room_goes_nowhere_once_the_link_has_ended(
	void **state)
{
	(void)state;
	for (size_t f = 0; f < NUM_FULL_FORMS; f++) {
		start_full(full_forms[f]);
		far_cut(rig.ranks[0].peers[1]);
		put_all(&rig.ranks[0], 0);
		fake_verbs_hold(false);
		assert_true(rig_await_quiet(&rig.ranks[0]));
		assert_true(rig_await_state(&rig.ranks[0], 1, PEER_DEAD));
		assert_true(rig_await_state(&rig.ranks[1], 0, PEER_DEAD));
		assert_false(row_has_come(NUM_ROWS - 1));
		form_rig_close(&rig);
	}
}

/* It has all that it wants itself, and closes; the wire takes seconds for what is
 * still to go, in which it moves. */
static void who_leaves_waits_while_its_puts_move(void **state)
{
	(void)state;
	for (size_t f = 1; f < NUM_FULL_FORMS; f += 2) {
		start_full(full_forms[f]);
		fake_verbs_hold(false);
		fake_verbs_pace(LEAVE_PACE_NS);
		assert_true(rig_close_rank(&rig.ranks[0]));
		fake_verbs_pace(0);
		assert_true(rig_await(&rig.ranks[1], 0, COUNTER, NUM_ROWS));
		assert_true(rig_await_state(&rig.ranks[1], 0, PEER_LEFT));
		form_rig_close(&rig);
	}
}

/* Its ring is full and stays so; beats get there all the same. */
static void who_leaves_does_not_wait_for_who_is_stopped(void **state)
{
	struct rig_rank *rank = &rig.ranks[0];

	(void)state;
	form_rig_init(&rig, fake_form_find("roce"), 2, 3);
	rig.configs[0].patience_ns = INT64_MAX; /* it would wait for ever */
	form_rig_open(&rig);
	far_lock(rig.ranks[1].far);
	for (int c = 0; c < 2 * FAR_QUEUE_DEPTH; c++)
		assert_int_equal(
			rig_put(rank, 1, 0, NULL, 0, COUNTER, 1), SHUNT_OK);
	assert_true(rig_close_rank(rank));
	far_unlock(rig.ranks[1].far);
	form_rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_posted_together_and_counted_behind),
		cmocka_unit_test(a_row_that_is_kept_goes_out_by_itself),
		cmocka_unit_test(waiting_for_a_flush_sends_what_is_kept),
		cmocka_unit_test(
			what_is_kept_goes_nowhere_once_the_link_has_ended),
		cmocka_unit_test(
			counts_for_a_peer_that_takes_none_wait_and_nobody_for_them),
		cmocka_unit_test(
			puts_without_room_wait_in_order_and_nobody_for_them),
		cmocka_unit_test(what_waits_for_room_goes_out_by_itself),
		cmocka_unit_test(
			what_waits_for_room_goes_nowhere_once_the_link_has_ended),
		cmocka_unit_test(who_leaves_waits_while_its_puts_move),
		cmocka_unit_test(who_leaves_does_not_wait_for_who_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
