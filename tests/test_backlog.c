/* Puts that wait for room: first in, first out, with what they carry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "transport/verbs_backlog.h"

#define NUM_PUTS 5000

/* The n-th put: every third is large, and only told of. */
static uint64_t size_of(uint64_t n)
{
	return n % 3 == 2 ? PUT_COPY_BYTES + 1 + n : n % (PUT_COPY_BYTES + 1);
}

static void add(struct verbs_backlog *backlog, uint64_t n)
{
	uint8_t bytes[PUT_COPY_BYTES];
	struct verbs_put put = {
		.bytes = n % 3 == 2 ? (const uint8_t *)backlog + n : bytes,
		.offset = 8 * n,
		.num_bytes = size_of(n),
		.counter_offset = n % 2 ? PUT_NO_COUNTER : n,
		.add = n + 1,
	};

	memset(bytes, (int)n, sizeof(bytes));
	assert_true(backlog_add(backlog, &put));
	memset(bytes, 0, sizeof(bytes)); /* the caller may do so */
}

static void take(struct verbs_backlog *backlog, uint64_t n)
{
	uint8_t bytes[PUT_COPY_BYTES];
	struct verbs_put put;

	memset(bytes, (int)n, sizeof(bytes));
	assert_true(backlog_first(backlog, &put));
	backlog_take(backlog);
	assert_int_equal(put.offset, 8 * n);
	assert_int_equal(put.num_bytes, size_of(n));
	assert_int_equal(put.counter_offset, n % 2 ? PUT_NO_COUNTER : n);
	assert_int_equal(put.add, n + 1);
	if (n % 3 == 2)
		assert_ptr_equal(put.bytes, (const uint8_t *)backlog + n);
	else
		assert_memory_equal(put.bytes, bytes, put.num_bytes);
}

/* In waves: it grows, is moved to the front, and becomes empty. */
static void they_come_out_as_they_went_in(void **state)
{
	struct verbs_backlog backlog = {0};
	uint64_t added = 0, taken = 0;

	(void)state;
	for (uint64_t wave = 1; added < NUM_PUTS; wave = wave * 7 % 97) {
		for (uint64_t i = 0; i < wave; i++)
			add(&backlog, added++);
		for (uint64_t i = 0; i < wave - wave % 5 && taken < added; i++)
			take(&backlog, taken++);
	}
	assert_false(backlog_is_empty(&backlog));
	while (taken < added)
		take(&backlog, taken++);
	assert_true(backlog_is_empty(&backlog));
	assert_false(backlog_first(&backlog, &(struct verbs_put){0}));
	free(backlog.bytes);
}

/* It holds twice what it held at most, however many went through. */
static void its_memory_is_that_of_the_most_that_waited(void **state)
{
	struct verbs_backlog backlog = {0};

	(void)state;
	for (uint64_t n = 0; n < 3; n++)
		add(&backlog, 3 * n + 2);
	for (uint64_t n = 3; n < NUM_PUTS; n++) {
		take(&backlog, 3 * (n - 3) + 2);
		add(&backlog, 3 * n + 2);
	}
	assert_in_range(backlog.capacity, 3 * sizeof(struct verbs_put),
		8 * sizeof(struct verbs_put));
	backlog_clear(&backlog);
	assert_true(backlog_is_empty(&backlog));
	free(backlog.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_come_out_as_they_went_in),
		cmocka_unit_test(its_memory_is_that_of_the_most_that_waited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
