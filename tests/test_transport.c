/* The contract of transport.h. Every transport runs the same tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/order.h"
#include "support/child.h"
#include "support/ends.h"
#include "support/leftovers.h"
#include "transport/far.h"

#define NUM_PUTS  20000
#define FAR_PUTS  1000 /* where each takes its time */
#define PUT_BYTES 20000

static bool is_verbs(enum ends_kind kind)
{
	return kind == ENDS_VERBS || kind == ENDS_VERBS_PROCESS;
}

static enum ends_kind kind_of(void **state)
{
	enum ends_kind kind = *(enum ends_kind *)*state;

	if (kind == ENDS_VERBS_PROCESS && !ends_have_rdma())
		skip();
	return kind;
}

static uint64_t counter_of(const struct end *end)
{
	return order_acquire((void *)ends_own(end, ENDS_COUNTER));
}

/* The other end that only waits to be told that it is over. */
static int wait_for_end(struct end *end)
{
	ends_await(end, 1);
	return 0;
}

static void tell_end(struct ends *ends)
{
	assert_int_equal(ends_put(&ends->mine, 0, NULL, 0), SHUNT_OK);
	ends_join(ends);
}

/* ---- visibility -------------------------------------------------------- */

static uint64_t num_puts(enum ends_kind kind)
{
	return is_verbs(kind) ? FAR_PUTS : NUM_PUTS;
}

/* Bytes of put number `put`, at one of two places in turn. */
static uint64_t place_of(uint64_t put)
{
	return ENDS_DATA + put % 2 * 65536 + put % 64;
}

static int check_each_put(struct end *end)
{
	static uint8_t expected[PUT_BYTES];
	uint64_t last = num_puts(end->far ? ENDS_VERBS : ENDS_SHM);

	for (uint64_t put = 1; put <= last; put++) {
		memset(expected, (int)(put % 251), sizeof(expected));
		ends_await(end, put);
		/* From behind: a copy that came late would stay ahead. */
		CHILD_CHECK(*ends_own(end, place_of(put) + PUT_BYTES - 1) ==
			    put % 251);
		CHILD_CHECK(memcmp(ends_own(end, place_of(put)), expected,
				    sizeof(expected)) == 0);
		CHILD_CHECK(ends_put(end, 0, NULL, 0) == SHUNT_OK);
	}
	return 0;
}

static void who_sees_the_count_sees_the_bytes(void **state)
{
	static uint8_t bytes[PUT_BYTES];
	struct ends ends;

	ends_start(&ends, kind_of(state), check_each_put);
	for (uint64_t put = 1; put <= num_puts(ends.kind); put++) {
		memset(bytes, (int)(put % 251), sizeof(bytes));
		assert_int_equal(ends_put(&ends.mine, place_of(put), bytes,
					 sizeof(bytes)),
			SHUNT_OK);
		/* In step, so that the other end waits for each put. */
		ends_await(&ends.mine, put);
	}
	ends_join(&ends);
	ends_close(&ends);
}

static int sum_of_signals(struct end *end)
{
	ends_await(end, 1000);
	CHILD_CHECK(counter_of(end) == 1000);
	for (uint64_t i = 8; i < ENDS_AREA_BYTES; i++)
		CHILD_CHECK(ends_own(end, 0)[i] == 0);
	return 0;
}

static void a_put_of_nothing_is_a_signal(void **state)
{
	struct ends ends;

	ends_start(&ends, kind_of(state), sum_of_signals);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(
			ends_put(&ends.mine, ENDS_DATA, NULL, 0), SHUNT_OK);
	ends_join(&ends);
	ends_close(&ends);
}

static int check_mapped_store(struct end *end)
{
	ends_await(end, 1);
	for (int i = 0; i < 5000; i++)
		CHILD_CHECK(ends_own(end, ENDS_DATA)[i] == i % 256);
	return 0;
}

static void stores_through_a_mapping_are_visible_with_a_later_put(void **state)
{
	struct ends ends;
	struct peer *other;
	uint8_t *mapped;

	if (is_verbs(kind_of(state)))
		skip(); /* only put reaches it */
	ends_start(&ends, kind_of(state), check_mapped_store);
	other = ends.mine.other;
	mapped = other->ops->map(other, ends.mine.other_area + ENDS_DATA, 5000);
	assert_non_null(mapped);
	for (int i = 0; i < 5000; i++)
		mapped[i] = (uint8_t)i;
	assert_int_equal(ends_put(&ends.mine, 0, NULL, 0), SHUNT_OK);
	ends_join(&ends);
	ends_close(&ends);
}

/* ---- placement --------------------------------------------------------- */

/* Put number i of unaligned_puts(): i bytes at this offset. */
static uint64_t unaligned_place(uint64_t i)
{
	return ENDS_DATA + i * 300 + i % 67;
}

static int check_unaligned(struct end *end)
{
	uint64_t at = ENDS_DATA;

	ends_await(end, 130);
	for (uint64_t i = 0; i < 130; i++) {
		for (; at < unaligned_place(i); at++)
			CHILD_CHECK(*ends_own(end, at) == 0);
		for (; at < unaligned_place(i) + i; at++)
			CHILD_CHECK(*ends_own(end, at) == 0x80 + i % 100);
	}
	return 0;
}

static void payloads_of_any_length_and_alignment_land_exactly(void **state)
{
	struct ends ends;
	uint8_t bytes[256];

	ends_start(&ends, kind_of(state), check_unaligned);
	for (uint64_t i = 0; i < 130; i++) {
		memset(bytes, 0x80 + (int)(i % 100), sizeof(bytes));
		assert_int_equal(ends_put(&ends.mine, unaligned_place(i),
					 bytes + i % 13, i),
			SHUNT_OK);
	}
	ends_join(&ends);
	ends_close(&ends);
}

static int check_last_byte(struct end *end)
{
	ends_await(end, 1);
	CHILD_CHECK(*ends_own(end, ENDS_AREA_BYTES - 1) == 9);
	return 0;
}

static void offsets_beyond_four_gib_are_reached(void **state)
{
	struct ends ends;
	const uint8_t byte = 9;

	ends_start(&ends, kind_of(state), check_last_byte);
	assert_true(ends.mine.own_area >= UINT64_C(1) << 32);
	assert_true(ends.mine.other_area >= UINT64_C(1) << 32);
	assert_int_equal(
		ends_put(&ends.mine, ENDS_AREA_BYTES - 1, &byte, 1), SHUNT_OK);
	ends_join(&ends);
	ends_close(&ends);
}

/* ---- refusals ---------------------------------------------------------- */

static int saw_nothing(struct end *end)
{
	ends_await(end, 1);
	CHILD_CHECK(counter_of(end) == 1);
	for (uint64_t i = ENDS_DATA; i < ENDS_AREA_BYTES; i++)
		CHILD_CHECK(ends_own(end, 0)[i] == 0);
	return 0;
}

static void check_refused(struct ends *ends, uint64_t offset,
	uint64_t num_bytes, uint64_t counter_offset)
{
	static const uint8_t bytes[64] = {1, 2, 3};
	struct peer *other = ends->mine.other;
	bool again = true;

	assert_int_equal(other->ops->put(other, offset, bytes, num_bytes,
				 counter_offset, 1, &again),
		SHUNT_INVALID);
	assert_false(again);
}

static void a_put_outside_the_segment_is_refused_and_does_nothing(void **state)
{
	const uint64_t end = ENDS_RESERVE_BYTES;
	struct ends ends;
	uint64_t area, counter;

	ends_start(&ends, kind_of(state), saw_nothing);
	area = ends.mine.other_area + ENDS_DATA;
	counter = ends.mine.other_area + ENDS_COUNTER;
	check_refused(&ends, end, 1, counter);
	check_refused(&ends, end - 1, 2, counter);
	check_refused(&ends, end + 1, 0, counter);
	check_refused(&ends, UINT64_MAX, 1, counter);
	check_refused(&ends, UINT64_MAX - 7, 16, counter);
	check_refused(&ends, area, UINT64_MAX, counter);
	check_refused(&ends, area, UINT64_MAX - area + 1, counter);
	check_refused(&ends, area, 8, end);
	check_refused(&ends, area, 8, end - 4);
	check_refused(&ends, area, 8, UINT64_MAX - 7);
	check_refused(&ends, area, 8, counter + 4);
	tell_end(&ends);
	ends_close(&ends);
}

static void a_mapping_outside_the_segment_is_refused(void **state)
{
	const uint64_t end = ENDS_RESERVE_BYTES;
	struct peer *other;
	struct ends ends;

	ends_start(&ends, kind_of(state), wait_for_end);
	other = ends.mine.other;
	assert_null(other->ops->map(other, end, 1));
	assert_null(other->ops->map(other, end - 1, 2));
	assert_null(other->ops->map(other, 0, end + 1));
	assert_null(other->ops->map(other, UINT64_MAX, 2));
	assert_null(other->ops->map(other, 1, UINT64_MAX));
	assert_null(other->ops->map(other, end + 1, 0));
	if (is_verbs(kind_of(state))) {
		assert_null(other->ops->map(other, 0, 1));
		tell_end(&ends);
		ends_close(&ends);
		return;
	}
	assert_ptr_equal(other->ops->map(other, 0, end), other->control);
	assert_non_null(other->ops->map(other, end - 1, 1));
	tell_end(&ends);
	ends_close(&ends);
}

/* ---- the rest of the slots --------------------------------------------- */

static void the_source_may_be_reused_once_flushed(void **state)
{
	struct ends ends;
	struct peer *other;

	ends_start(&ends, kind_of(state), wait_for_end);
	other = ends.mine.other;
	tell_end(&ends);
	for (int i = 0; i < 1000000 && !other->ops->flushed(other); i++)
		other->ops->progress(other);
	assert_true(other->ops->flushed(other));
	/* Credits and beats may still come over a wire. */
	if (!is_verbs(ends.kind))
		assert_false(other->ops->progress(other));
	ends_close(&ends);
}

static void a_peer_knows_its_name_rank_and_control_page(void **state)
{
	static const char *const names[] = {
		[ENDS_SELF] = "self",
		[ENDS_THREADS] = "threads",
		[ENDS_SHM] = "shm",
		[ENDS_VERBS] = "verbs",
		[ENDS_VERBS_PROCESS] = "verbs",
	};
	enum ends_kind kind = kind_of(state);
	struct ends ends;

	ends_start(&ends, kind, wait_for_end);
	assert_string_equal(ends.mine.other->ops->name, names[kind]);
	assert_int_equal(ends.mine.other->rank, kind != ENDS_SELF);
	assert_true(ends.mine.other->control->magic == CONTROL_MAGIC);
	tell_end(&ends);
	ends_close(&ends);
}

static void a_peer_that_left_is_known_and_puts_to_it_do_no_harm(void **state)
{
	enum ends_kind kind = kind_of(state);
	struct peer *other;
	struct ends ends;

	ends_start(&ends, kind, wait_for_end);
	other = ends.mine.other;
	assert_int_equal(other->ops->state(other), PEER_ALIVE);
	tell_end(&ends);
	assert_int_equal(ends_await_state(&ends.mine,
				 kind == ENDS_SELF ? PEER_ALIVE : PEER_LEFT),
		kind == ENDS_SELF ? PEER_ALIVE : PEER_LEFT);
	for (int i = 0; i < 100; i++)
		assert_int_equal(
			ends_put(&ends.mine, ENDS_DATA, "abc", 3), SHUNT_OK);
	ends_close(&ends);
}

static void a_killed_peer_is_known_and_puts_to_it_do_no_harm(void **state)
{
	struct peer *other;
	struct ends ends;

	ends_start(&ends, kind_of(state), wait_for_end);
	other = ends.mine.other;
	assert_int_equal(other->ops->state(other), PEER_ALIVE);
	ends_kill(&ends);
	assert_int_equal(ends_await_state(&ends.mine, PEER_DEAD), PEER_DEAD);
	for (int i = 0; i < 100; i++)
		assert_int_equal(
			ends_put(&ends.mine, ENDS_DATA, "abc", 3), SHUNT_OK);
	ends_close(&ends);
}

/* Puts again and again, and hears only by that of its end. */
static int put_until_cut(struct end *end)
{
	static uint8_t bytes[PUT_BYTES];
	struct peer *other = end->other;

	for (int put = 1; other->ops->state(other) == PEER_ALIVE; put++) {
		memset(bytes, put % 251 + 1, sizeof(bytes));
		CHILD_CHECK(ends_put(end, ENDS_DATA, bytes, sizeof(bytes)) ==
			    SHUNT_OK);
	}
	CHILD_CHECK(other->ops->state(other) == PEER_DEAD);
	return 0;
}

/* For peers of other hosts alone: what is mapped cannot be taken back. */
static void nothing_comes_from_a_peer_that_was_cut_and_it_hears_of_it(
	void **state)
{
	struct peer *other;
	struct ends ends;
	uint64_t count;

	ends_start(&ends, kind_of(state), put_until_cut);
	other = ends.mine.other;
	ends_await(&ends.mine, 20);
	assert_true(far_cut(other));
	assert_false(far_cut(other));
	assert_int_equal(ends_await_state(&ends.mine, PEER_DEAD), PEER_DEAD);
	count = counter_of(&ends.mine);
	memset(ends_own(&ends.mine, ENDS_DATA), 0, PUT_BYTES);
	ends_join(&ends);
	ends_far_progress(&ends.mine);
	assert_true(count >= 20 && counter_of(&ends.mine) == count);
	for (uint64_t i = 0; i < PUT_BYTES; i++)
		assert_int_equal(*ends_own(&ends.mine, ENDS_DATA + i), 0);
	assert_int_equal(ends_put(&ends.mine, ENDS_DATA, "abc", 3), SHUNT_OK);
	assert_true(other->ops->flushed(other));
	ends_close(&ends);
}

static void nothing_stays_behind(void **state)
{
	struct leftovers before;
	char why[256] = "";
	int mappings = 0;

	leftovers_count(&before);
	for (int i = 0; i < 20; i++) {
		struct ends ends;

		ends_start(&ends, kind_of(state), wait_for_end);
		tell_end(&ends);
		ends_close(&ends);
		if (i == 5)
			mappings = leftovers_mappings();
	}
	if (!leftovers_check(&before, why, sizeof(why)))
		fail_msg("left behind: %s", why);
	assert_true(leftovers_mappings() <= mappings + 8);
}

static enum ends_kind self_kind = ENDS_SELF;
static enum ends_kind threads_kind = ENDS_THREADS;
static enum ends_kind shm_kind = ENDS_SHM;
static enum ends_kind verbs_kind = ENDS_VERBS;
static enum ends_kind verbs_process_kind = ENDS_VERBS_PROCESS;

/* The same test for each transport. */
#define KIND(test, kind)                                         \
	{                                                        \
#kind ": " #test, test, NULL, NULL, &kind##_kind \
	}
#define EACH(test)                                              \
	KIND(test, shm), KIND(test, self), KIND(test, threads), \
		KIND(test, verbs)

/* The other end of ENDS_VERBS_PROCESS is this program, run anew: a forked child
 * cannot use the devices that its parent has open. */
static int far_end_main(const char *wire)
{
	return ends_far_main(atoi(wire), wait_for_end);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		EACH(who_sees_the_count_sees_the_bytes),
		EACH(a_put_of_nothing_is_a_signal),
		EACH(stores_through_a_mapping_are_visible_with_a_later_put),
		EACH(payloads_of_any_length_and_alignment_land_exactly),
		EACH(offsets_beyond_four_gib_are_reached),
		EACH(a_put_outside_the_segment_is_refused_and_does_nothing),
		EACH(a_mapping_outside_the_segment_is_refused),
		EACH(the_source_may_be_reused_once_flushed),
		EACH(a_peer_knows_its_name_rank_and_control_page),
		EACH(a_peer_that_left_is_known_and_puts_to_it_do_no_harm),
		EACH(nothing_stays_behind),
		KIND(a_killed_peer_is_known_and_puts_to_it_do_no_harm, shm),
		KIND(a_killed_peer_is_known_and_puts_to_it_do_no_harm,
			verbs_process),
		KIND(nothing_comes_from_a_peer_that_was_cut_and_it_hears_of_it,
			verbs),
	};

	if (argc == 3 && strcmp(argv[1], ENDS_FAR_OPTION) == 0)
		return far_end_main(argv[2]);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]); /* "verbs*" in a guest */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
