/* The heap of a segment: where its memory lies, and that all of it returns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pthread.h>

#include <cmocka.h>

#include "memory/heap.h"
#include "support/scale.h"

#define MIB           (UINT64_C(1) << 20)
#define RESERVE_BYTES (64 * MIB)
#define NUM_THREADS   4
#define NUM_SLOTS     64

struct place {
	struct segment *segment;
	struct heap *heap;
};

static void place_open(struct place *place, enum segment_kind kind)
{
	assert_int_equal(
		segment_create(kind, RESERVE_BYTES, &place->segment), SHUNT_OK);
	assert_int_equal(heap_create(place->segment, &place->heap), SHUNT_OK);
}

static void place_close(struct place *place)
{
	heap_destroy(place->heap);
	segment_put(place->segment);
}

static bool inside(const struct place *place, const void *memory, size_t bytes)
{
	uintptr_t base = (uintptr_t)segment_base(place->segment);
	uintptr_t at = (uintptr_t)memory;

	return at >= base + CONTROL_BYTES &&
	       at + bytes <= base + segment_reserved_bytes(place->segment);
}

/* A field of /proc/self/statm: 0 is address space, 1 what is resident. */
static uint64_t memory_of_process(int field)
{
	unsigned long long pages[2];
	FILE *file = fopen("/proc/self/statm", "r");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu %llu", &pages[0], &pages[1]), 2);
	fclose(file);
	return pages[field] * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void all_blocks_lie_inside_the_segment_aligned_and_apart(void **state)
{
	static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 14336, 100000,
		MIB - 1, MIB, MIB + 1, 5 * MIB + 12345};
	const size_t num_sizes = sizeof(sizes) / sizeof(sizes[0]);
	uint8_t *blocks[sizeof(sizes) / sizeof(sizes[0])];
	struct place place;

	(void)state;
	place_open(&place, SEGMENT_SHARED);
	for (size_t i = 0; i < num_sizes; i++) {
		blocks[i] = heap_alloc(place.heap, sizes[i]);
		assert_non_null(blocks[i]);
		assert_int_equal((uintptr_t)blocks[i] % 64, 0);
		assert_true(inside(&place, blocks[i], sizes[i] + !sizes[i]));
		memset(blocks[i], (int)i + 1, sizes[i]);
	}
	for (size_t i = 0; i < num_sizes; i++)
		for (size_t j = 0; j < sizes[i]; j++)
			if (blocks[i][j] != i + 1)
				fail_msg("block %zu byte %zu", i, j);
	for (size_t i = 0; i < num_sizes; i++)
		heap_free(place.heap, blocks[i]);
	place_close(&place);
}

static void a_heap_that_is_not_used_takes_nothing(void **state)
{
	struct place place;
	uint64_t before;

	(void)state;
	assert_int_equal(
		segment_create(SEGMENT_PRIVATE, RESERVE_BYTES, &place.segment),
		SHUNT_OK);
	before = segment_used_bytes(place.segment);
	assert_int_equal(heap_create(place.segment, &place.heap), SHUNT_OK);
	assert_int_equal(segment_used_bytes(place.segment), before);
	place_close(&place);
}

static void null_is_freed_and_destroyed_without_harm(void **state)
{
	struct place place;

	(void)state;
	heap_destroy(NULL);
	place_open(&place, SEGMENT_PRIVATE);
	heap_free(place.heap, NULL);
	place_close(&place);
}

/* Allocates until there is nothing left; returns how many blocks there were. */
static size_t exhaust(struct place *place, size_t bytes, void **blocks)
{
	size_t count = 0;

	while ((blocks[count] = heap_alloc(place->heap, bytes)) != NULL)
		count++;
	return count;
}

static void exhaustion_is_told_and_ends_with_a_free(void **state)
{
	static const size_t sizes[] = {16 * 1024, 700000, MIB, 3 * MIB};
	void **blocks = calloc(RESERVE_BYTES / 4096, sizeof(*blocks));
	struct place place;

	(void)state;
	assert_non_null(blocks);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t count;

		place_open(&place, SEGMENT_PRIVATE);
		count = exhaust(&place, sizes[i], blocks);
		/* At most a third is lost in chunks that do not divide. */
		assert_true(count * sizes[i] > RESERVE_BYTES * 2 / 3);
		assert_true(count * sizes[i] < RESERVE_BYTES);
		assert_non_null(strstr(shunt_error_message(), "needed"));
		heap_free(place.heap, blocks[count / 2]);
		blocks[count / 2] = heap_alloc(place.heap, sizes[i]);
		assert_non_null(blocks[count / 2]);
		place_close(&place);
	}
	free(blocks);
}

static void a_block_larger_than_the_segment_is_refused(void **state)
{
	struct place place;

	(void)state;
	place_open(&place, SEGMENT_PRIVATE);
	assert_null(heap_alloc(place.heap, RESERVE_BYTES + 1));
	assert_null(heap_alloc(place.heap, SIZE_MAX));
	assert_null(heap_alloc(place.heap, SIZE_MAX / 2));
	place_close(&place);
}

static void large_blocks_give_their_memory_back_at_once(void **state)
{
	struct place place;
	uint64_t before;

	(void)state;
	place_open(&place, SEGMENT_PRIVATE);
	before = segment_used_bytes(place.segment);
	for (int i = 0; i < 100; i++) {
		void *block = heap_alloc(place.heap, 40 * MIB);

		assert_non_null(block);
		assert_true(
			segment_used_bytes(place.segment) >= before + 40 * MIB);
		heap_free(place.heap, block);
		assert_int_equal(segment_used_bytes(place.segment), before);
	}
	place_close(&place);
}

/* 5 MB at a time, 500 MB in all. */
static void small_blocks_are_reused(void **state)
{
	struct place place;

	(void)state;
	place_open(&place, SEGMENT_PRIVATE);
	for (int round = 0; round < 100; round++) {
		void *blocks[100];

		for (int i = 0; i < 100; i++) {
			blocks[i] = heap_alloc(place.heap, 100 + 997 * i);
			assert_non_null(blocks[i]);
		}
		for (int i = 0; i < 100; i++)
			heap_free(place.heap, blocks[i]);
	}
	assert_true(segment_used_bytes(place.segment) < 16 * MIB);
	place_close(&place);
}

/* One life of a heap, which leaves some of everything allocated. */
static void live(struct segment *segment)
{
	struct heap *heap;

	assert_int_equal(heap_create(segment, &heap), SHUNT_OK);
	for (int i = 0; i < 4; i++) {
		uint8_t *small = heap_alloc(heap, 10000 + 200000 * i);
		uint8_t *large = heap_alloc(heap, MIB + 10000 * i);

		assert_non_null(small);
		assert_non_null(large);
		small[0] = 1;
		large[0] = 1;
		if (i % 2 == 0) {
			heap_free(heap, small);
			heap_free(heap, large);
		}
	}
	heap_destroy(heap);
}

static void a_thousand_lives_leave_nothing(void **state)
{
	const int warm_up = 20;
	const int num_lives = scale_of(1000);
	struct segment *segment;
	uint64_t used, space = 0, resident = 0;

	(void)state;
	assert_int_equal(
		segment_create(SEGMENT_PRIVATE, RESERVE_BYTES, &segment),
		SHUNT_OK);
	used = segment_used_bytes(segment);
	for (int i = 0; i < warm_up + num_lives; i++) {
		if (i == warm_up) {
			space = memory_of_process(0);
			resident = memory_of_process(1);
		}
		live(segment);
		assert_int_equal(segment_used_bytes(segment), used);
	}
	/* One page lost per life would be 4 MB. A sanitizer's own records
	 * grow, so they are not judged. */
	if (!scale_is_small()) {
		assert_true(memory_of_process(0) < space + 2 * MIB);
		assert_true(memory_of_process(1) < resident + 2 * MIB);
	}
	segment_put(segment);
}

struct worker {
	struct place *place;
	uint64_t seed;
	const char *complaint;
	pthread_t thread;
};

static uint64_t draw(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return *seed >> 33;
}

struct block {
	uint8_t *memory;
	size_t bytes;
};

/* Frees a block after a look at its ends, which carry the owner's mark. */
static bool block_drop(struct place *place, struct block *block, uint8_t mark)
{
	bool intact = block->memory[0] == mark &&
		      block->memory[block->bytes - 1] == mark;

	heap_free(place->heap, block->memory);
	block->memory = NULL;
	return intact;
}

static const char *block_make(
	struct place *place, struct block *block, uint8_t mark, uint64_t *seed)
{
	bool large = draw(seed) % 16 == 0;

	block->bytes = 1 + draw(seed) % (large ? 2 * MIB : 20000);
	block->memory = heap_alloc(place->heap, block->bytes);
	if (block->memory == NULL)
		return large ? NULL : "a small block was refused";
	if (!inside(place, block->memory, block->bytes))
		return "a block lies outside";
	block->memory[0] = mark;
	block->memory[block->bytes - 1] = mark;
	return NULL;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct block blocks[NUM_SLOTS] = {{NULL, 0}};
	uint8_t mark = (uint8_t)worker->seed;
	int rounds = scale_of(20000);

	for (int i = 0; i < rounds && worker->complaint == NULL; i++) {
		struct block *block = &blocks[draw(&worker->seed) % NUM_SLOTS];

		if (block->memory == NULL)
			worker->complaint = block_make(
				worker->place, block, mark, &worker->seed);
		else if (!block_drop(worker->place, block, mark))
			worker->complaint = "a block was overwritten";
	}
	for (int i = 0; i < NUM_SLOTS; i++)
		if (blocks[i].memory != NULL)
			block_drop(worker->place, &blocks[i], mark);
	return NULL;
}

static void threads_share_a_heap(void **state)
{
	struct worker workers[NUM_THREADS];
	struct place place;

	(void)state;
	place_open(&place, SEGMENT_SHARED);
	for (int i = 0; i < NUM_THREADS; i++) {
		workers[i] = (struct worker){
			.place = &place, .seed = (uint64_t)i + 1};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work,
					 &workers[i]),
			0);
	}
	for (int i = 0; i < NUM_THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].complaint != NULL)
			fail_msg("thread %d: %s", i, workers[i].complaint);
	}
	place_close(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			all_blocks_lie_inside_the_segment_aligned_and_apart),
		cmocka_unit_test(a_heap_that_is_not_used_takes_nothing),
		cmocka_unit_test(null_is_freed_and_destroyed_without_harm),
		cmocka_unit_test(exhaustion_is_told_and_ends_with_a_free),
		cmocka_unit_test(a_block_larger_than_the_segment_is_refused),
		cmocka_unit_test(large_blocks_give_their_memory_back_at_once),
		cmocka_unit_test(small_blocks_are_reused),
		cmocka_unit_test(a_thousand_lives_leave_nothing),
		cmocka_unit_test(threads_share_a_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
