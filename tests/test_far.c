/* What transport "verbs" promises beyond transport.h: puts of any size over
 * lanes and short queues, order of additions, exposure. See ends.h for the
 * devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "support/child.h"
#include "support/ends.h"
#include "transport/far.h"

#define NUM_LARGE   40
#define NUM_SIGNALS 3000
#define MOST_BYTES  (ENDS_AREA_BYTES - ENDS_DATA)

static void start(struct ends *ends, ends_function function)
{
	ends_start(ends, ENDS_VERBS, function);
}

static void tell_end(struct ends *ends)
{
	assert_int_equal(ends_put(&ends->mine, 0, NULL, 0), SHUNT_OK);
	ends_join(ends);
}

/* ---- large puts -------------------------------------------------------- */

/* Sizes around those where puts are split: odd ones, whole pages, all. */
static uint64_t size_of(uint64_t put)
{
	static const uint64_t sizes[] = {1, 256, 257, 4096, 65535, 65536, 65537,
		131072, 300001, MOST_BYTES};

	return sizes[put % (sizeof(sizes) / sizeof(*sizes))];
}

static uint8_t byte_of(uint64_t put, uint64_t at)
{
	return (uint8_t)(put * 31 + at * 7 + (at >> 12));
}

static int check_large(struct end *end)
{
	for (uint64_t put = 1; put <= NUM_LARGE; put++) {
		ends_await(end, put);
		for (uint64_t at = 0; at < size_of(put); at++)
			CHILD_CHECK(*ends_own(end, ENDS_DATA + at) ==
				    byte_of(put, at));
		CHILD_CHECK(ends_put(end, 0, NULL, 0) == SHUNT_OK);
	}
	return 0;
}

static void a_put_of_any_size_is_whole_when_it_is_counted(void **state)
{
	static uint8_t bytes[MOST_BYTES];
	struct ends ends;

	(void)state;
	start(&ends, check_large);
	for (uint64_t put = 1; put <= NUM_LARGE; put++) {
		for (uint64_t at = 0; at < size_of(put); at++)
			bytes[at] = byte_of(put, at);
		assert_int_equal(
			ends_put(&ends.mine, ENDS_DATA, bytes, size_of(put)),
			SHUNT_OK);
		ends_await(&ends.mine, put);
	}
	ends_join(&ends);
	ends_close(&ends);
}

/* ---- what an addition covers ------------------------------------------- */

static void put_plain(const struct end *end, uint64_t offset, const void *bytes,
	uint64_t num_bytes)
{
	bool again = true;

	while (again) {
		assert_int_equal(end->other->ops->put(end->other,
					 end->other_area + offset, bytes,
					 num_bytes, PUT_NO_COUNTER, 0, &again),
			SHUNT_OK);
		end->other->ops->progress(end->other);
	}
}

static int check_covered(struct end *end)
{
	for (uint64_t round = 1; round <= 20; round++) {
		ends_await(end, round);
		for (uint64_t at = 0; at < 200000; at++)
			CHILD_CHECK(*ends_own(end, ENDS_DATA + at) == round);
		CHILD_CHECK(*ends_own(end, ENDS_DATA + 200000) == round);
		CHILD_CHECK(ends_put(end, 0, NULL, 0) == SHUNT_OK);
	}
	return 0;
}

static void an_addition_covers_the_bytes_of_earlier_puts(void **state)
{
	struct ends ends;
	uint8_t *source;

	(void)state;
	start(&ends, check_covered);
	source = ends_own(&ends.mine, ENDS_SOURCE);
	for (uint8_t round = 1; round <= 20; round++) {
		/* The round before was counted behind all of its bytes. */
		memset(source, round, 200000);
		put_plain(&ends.mine, ENDS_DATA, source, 200000);
		put_plain(&ends.mine, ENDS_DATA + 200000, &round, 1);
		assert_int_equal(ends_put(&ends.mine, 0, NULL, 0), SHUNT_OK);
		ends_await(&ends.mine, round);
	}
	ends_join(&ends);
	ends_close(&ends);
}

/* Two counters, added to in turn: the second is never ahead of the first. */
static int check_turns(struct end *end)
{
	_Atomic uint64_t *first = (void *)ends_own(end, ENDS_COUNTER + 8);
	_Atomic uint64_t *second = (void *)ends_own(end, ENDS_COUNTER + 16);
	uint64_t seen = 0;

	while (seen < NUM_SIGNALS) {
		ends_far_progress(end);
		seen = order_acquire(second);
		CHILD_CHECK(order_acquire(first) >= seen);
		CHILD_CHECK(end->other->ops->state(end->other) == PEER_ALIVE);
	}
	CHILD_CHECK(order_acquire(first) == NUM_SIGNALS);
	CHILD_CHECK(seen == NUM_SIGNALS);
	ends_await(end, 1);
	return 0;
}

static void additions_are_applied_in_the_order_of_the_puts(void **state)
{
	struct ends ends;
	struct end *mine = &ends.mine;

	(void)state;
	start(&ends, check_turns);
	for (int i = 0; i < NUM_SIGNALS; i++) {
		peer_signal(
			mine->other, mine->other_area + ENDS_COUNTER + 8, 1);
		peer_signal(
			mine->other, mine->other_area + ENDS_COUNTER + 16, 1);
	}
	tell_end(&ends);
	ends_close(&ends);
}

/* ---- exposure ---------------------------------------------------------- */

static int wait_for_end(struct end *end)
{
	ends_await(end, 1);
	return 0;
}

static enum shunt_status put_at(
	const struct end *end, uint64_t offset, uint64_t counter_offset)
{
	bool again = true;
	enum shunt_status status = SHUNT_OK;

	while (again && status == SHUNT_OK) {
		status = end->other->ops->put(
			end->other, offset, "x", 1, counter_offset, 1, &again);
		end->other->ops->progress(end->other);
	}
	return status;
}

static void a_put_to_what_is_not_exposed_is_refused(void **state)
{
	struct ends ends;
	struct end *mine = &ends.mine;
	uint64_t area;

	(void)state;
	start(&ends, wait_for_end);
	area = mine->other_area;
	assert_int_equal(put_at(mine, 0, PUT_NO_COUNTER), SHUNT_INVALID);
	assert_int_equal(put_at(mine, area - 1, PUT_NO_COUNTER), SHUNT_INVALID);
	assert_int_equal(put_at(mine, area + ENDS_DATA, 8), SHUNT_INVALID);
	assert_int_equal(
		put_at(mine, area + 2 * ENDS_AREA_BYTES, PUT_NO_COUNTER),
		SHUNT_INVALID);
	assert_int_equal(
		put_at(mine, area + ENDS_DATA, PUT_NO_COUNTER), SHUNT_OK);
	tell_end(&ends);
	ends_close(&ends);
}

static void a_large_source_outside_the_segment_is_refused(void **state)
{
	static const uint8_t bytes[PUT_COPY_BYTES + 1];
	struct ends ends;
	struct end *mine = &ends.mine;
	bool again = true;

	(void)state;
	start(&ends, wait_for_end);
	assert_int_equal(
		mine->other->ops->put(mine->other, mine->other_area + ENDS_DATA,
			bytes, sizeof(bytes), PUT_NO_COUNTER, 0, &again),
		SHUNT_INVALID);
	assert_false(again);
	tell_end(&ends);
	ends_close(&ends);
}

static int hide_and_tell(struct end *end)
{
	ends_await(end, 1);
	far_hide(end->far, end->own_area);
	CHILD_CHECK(far_expose(end->far, end->own_area, ENDS_DATA) == SHUNT_OK);
	CHILD_CHECK(ends_put(end, 0, NULL, 0) == SHUNT_OK);
	ends_await(end, 2);
	return 0;
}

static void what_is_hidden_again_is_refused(void **state)
{
	struct ends ends;
	struct end *mine = &ends.mine;
	uint64_t data;

	(void)state;
	start(&ends, hide_and_tell);
	data = mine->other_area + ENDS_DATA;
	assert_int_equal(put_at(mine, data, PUT_NO_COUNTER), SHUNT_OK);
	assert_int_equal(ends_put(mine, 0, NULL, 0), SHUNT_OK);
	ends_await(mine, 1);
	assert_int_equal(put_at(mine, data, PUT_NO_COUNTER), SHUNT_INVALID);
	tell_end(&ends);
	ends_close(&ends);
}

/* ---- the image --------------------------------------------------------- */

static int tell_beat(struct end *end)
{
	struct beat *beat = &segment_control(end->segment)->beat;

	atomic_store(&beat->epoch, 77);
	atomic_store(&beat->phase, BEAT_COMBINE_START);
	ends_await(end, 1);
	return 0;
}

static void what_a_far_rank_did_last_is_known(void **state)
{
	struct ends ends;
	const struct beat *beat;

	(void)state;
	start(&ends, tell_beat);
	beat = &ends.mine.other->control->beat;
	while (order_peek(&beat->epoch) != 77 &&
		ends.mine.other->ops->state(ends.mine.other) == PEER_ALIVE)
		ends_far_progress(&ends.mine);
	assert_int_equal(order_peek(&beat->epoch), 77);
	assert_int_equal(order_peek(&beat->phase), BEAT_COMBINE_START);
	tell_end(&ends);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_put_of_any_size_is_whole_when_it_is_counted),
		cmocka_unit_test(an_addition_covers_the_bytes_of_earlier_puts),
		cmocka_unit_test(
			additions_are_applied_in_the_order_of_the_puts),
		cmocka_unit_test(a_put_to_what_is_not_exposed_is_refused),
		cmocka_unit_test(a_large_source_outside_the_segment_is_refused),
		cmocka_unit_test(what_is_hidden_again_is_refused),
		cmocka_unit_test(what_a_far_rank_did_last_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
