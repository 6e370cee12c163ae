/*
 * Owns the heap: small blocks from a jemalloc arena, large ones straight from
 * the segment.
 *
 *	segment	| control | 2 MiB chunk | window | 2 MiB chunk | large block |
 *		             small blocks           small blocks
 *
 * The arena takes chunks of the segment (2 MiB, or what is left) and keeps
 * them until the heap is destroyed: its small blocks would not leave whole
 * chunks to give back anyway. A large block is a range of its own: it is not
 * rounded up to a size class, and its memory is free for windows again as
 * soon as the block is.
 *
 * Nothing that the allocator relies on lies in the segment, where peers could
 * scribble on it: jemalloc's own data comes from plain mmap, our lists from
 * malloc.
 */
#include "memory/heap.h"

#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <shunt_jemalloc.h>

#include "base/error.h"

#define HEAP_ALIGN       64
#define HEAP_CHUNK_BYTES (UINT64_C(2) << 20)
#define HEAP_LARGE_BYTES (UINT64_C(1) << 20)
#define HEAP_NO_ARENA    UINT32_MAX

/* A range of the segment: a chunk of the arena, or a large block. */
struct heap_range {
	const uint8_t *memory; /* first: heap_range_compare() reads it */
	uint64_t offset;
	uint64_t bytes;
	struct heap_range *next; /* of the chunks */
};

struct heap {
	extent_hooks_t hooks; /* first: jemalloc hands it to chunk_alloc() */
	struct segment *segment;
	pthread_mutex_t mutex;  /* guards all below but the reading of arena */
	_Atomic uint32_t arena; /* HEAP_NO_ARENA before the first block */
	struct heap_range *chunks;
	void *large; /* tsearch() tree of struct heap_range */
};

/* ---- the arena's own data: plain memory ------------------------------- */

static void *plain_alloc(extent_hooks_t *hooks, void *new_addr, size_t size,
	size_t alignment, bool *zero, bool *commit, unsigned arena)
{
	size_t mapped = size + alignment;
	uint8_t *base;
	size_t head;

	(void)hooks;
	(void)arena;
	if (new_addr != NULL)
		return NULL;
	base = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	head = -(uintptr_t)base & (alignment - 1);
	if (head > 0)
		munmap(base, head);
	munmap(base + head + size, alignment - head);
	*zero = true;
	*commit = true;
	return base + head;
}

static bool plain_dalloc(extent_hooks_t *hooks, void *addr, size_t size,
	bool committed, unsigned arena)
{
	(void)hooks;
	(void)committed;
	(void)arena;
	return munmap(addr, size) != 0;
}

/*
 * An arena is created with these hooks and keeps them for its own data, while
 * arena.<i>.extent_hooks, set afterwards, counts for what it hands out.
 * jemalloc's default would serve too, but loses the address space of each
 * arena that is destroyed.
 */
static extent_hooks_t plain_hooks = {
	.alloc = plain_alloc,
	.dalloc = plain_dalloc,
};

/* ---- ranges ----------------------------------------------------------- */

/* Takes a range of the segment. Errors: NO_MEMORY. */
static enum shunt_status range_take(struct heap *heap, uint64_t bytes,
	uint64_t align, struct heap_range **range)
{
	struct heap_range *taken = calloc(1, sizeof(*taken));
	enum shunt_status status;

	if (taken == NULL)
		return error_set(SHUNT_NO_MEMORY,
			"heap: no memory for the record of a range");
	status = segment_alloc(heap->segment, bytes, align, &taken->offset);
	if (status != SHUNT_OK) {
		free(taken);
		return status;
	}
	taken->memory = segment_base(heap->segment) + taken->offset;
	taken->bytes = bytes;
	*range = taken;
	return SHUNT_OK;
}

static void range_return(struct heap *heap, struct heap_range *range)
{
	segment_free(heap->segment, range->offset, range->bytes);
	free(range);
}

static int range_compare(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t)((const struct heap_range *)left)->memory;
	uintptr_t b = (uintptr_t)((const struct heap_range *)right)->memory;

	return (a > b) - (a < b);
}

/* ---- chunks: what the arena hands out --------------------------------- */

static void *chunk_alloc(extent_hooks_t *hooks, void *new_addr, size_t size,
	size_t alignment, bool *zero, bool *commit, unsigned arena)
{
	struct heap *heap = (struct heap *)hooks;
	struct heap_range *chunk;

	(void)arena;
	if (new_addr != NULL)
		return NULL;
	if (range_take(heap, size, alignment, &chunk) != SHUNT_OK)
		return NULL;
	pthread_mutex_lock(&heap->mutex);
	chunk->next = heap->chunks;
	heap->chunks = chunk;
	pthread_mutex_unlock(&heap->mutex);
	*zero = true;
	*commit = true;
	return segment_base(heap->segment) + chunk->offset;
}

/* Declines: the arena keeps the memory for later, see the head. */
static bool chunk_dalloc(extent_hooks_t *hooks, void *addr, size_t size,
	bool committed, unsigned arena)
{
	(void)hooks;
	(void)addr;
	(void)size;
	(void)committed;
	(void)arena;
	return true;
}

/* Cutting needs no work of ours: chunks are returned as they were taken. */
static bool chunk_split(extent_hooks_t *hooks, void *addr, size_t size,
	size_t left, size_t right, bool committed, unsigned arena)
{
	(void)hooks;
	(void)addr;
	(void)size;
	(void)left;
	(void)right;
	(void)committed;
	(void)arena;
	return false;
}

/* Within a chunk only: RDMA registers each by itself, and an allocation that lay in
 * two could not be sent in one piece. True declines. */
static bool chunk_merge(extent_hooks_t *hooks, void *left, size_t left_size,
	void *right, size_t right_size, bool committed, unsigned arena)
{
	struct heap *heap = (struct heap *)hooks;
	const uint8_t *first = left;
	const uint8_t *end = (const uint8_t *)right + right_size;
	const struct heap_range *chunk;

	(void)left_size;
	(void)committed;
	(void)arena;
	pthread_mutex_lock(&heap->mutex);
	chunk = heap->chunks;
	while (chunk &&
		(first < chunk->memory || end > chunk->memory + chunk->bytes))
		chunk = chunk->next;
	pthread_mutex_unlock(&heap->mutex);
	return !chunk;
}

/* ---- the arena -------------------------------------------------------- */

/* Writes one setting, or triggers one action, of an arena. */
static int arena_control(
	uint32_t arena, const char *leaf, void *value, size_t bytes)
{
	char name[64];

	snprintf(name, sizeof(name), "arena.%u.%s", arena, leaf);
	return shunt_je_mallctl(name, NULL, NULL, value, bytes);
}

static int arena_configure(struct heap *heap, uint32_t arena)
{
	extent_hooks_t *hooks = &heap->hooks;
	size_t grow = HEAP_CHUNK_BYTES;
	ssize_t never = -1;
	int error;

	error = arena_control(
		arena, "extent_hooks", &hooks, sizeof(extent_hooks_t *));
	if (error == 0)
		error = arena_control(
			arena, "retain_grow_limit", &grow, sizeof(grow));
	if (error == 0)
		error = arena_control(
			arena, "dirty_decay_ms", &never, sizeof(never));
	return error;
}

/* Makes the arena. The mutex is held. Errors: NO_MEMORY. */
static enum shunt_status arena_create(struct heap *heap, uint32_t *arena)
{
	extent_hooks_t *hooks = &plain_hooks;
	unsigned made;
	size_t bytes = sizeof(made);
	int error;

	error = shunt_je_mallctl("arenas.create", &made, &bytes, (void *)&hooks,
		sizeof(extent_hooks_t *));
	if (error != 0)
		return error_set(SHUNT_NO_MEMORY,
			"heap: no arena (error %d); a process can have about "
			"4000 worlds with memory in use",
			error);
	error = arena_configure(heap, made);
	if (error != 0) {
		arena_control(made, "destroy", NULL, 0);
		return error_set(SHUNT_NO_MEMORY,
			"heap: arena refused its settings (error %d)", error);
	}
	*arena = made;
	return SHUNT_OK;
}

/* The arena, made by the first who needs it. Errors: NO_MEMORY. */
static enum shunt_status arena_get(struct heap *heap, uint32_t *arena)
{
	enum shunt_status status = SHUNT_OK;

	*arena = atomic_load_explicit(&heap->arena, memory_order_acquire);
	if (*arena != HEAP_NO_ARENA)
		return SHUNT_OK;
	pthread_mutex_lock(&heap->mutex);
	*arena = heap->arena;
	if (*arena == HEAP_NO_ARENA) {
		status = arena_create(heap, arena);
		if (status == SHUNT_OK)
			atomic_store_explicit(
				&heap->arena, *arena, memory_order_release);
	}
	pthread_mutex_unlock(&heap->mutex);
	return status;
}

/* ---- blocks ----------------------------------------------------------- */

static void *small_alloc(struct heap *heap, size_t bytes)
{
	uint32_t arena;
	void *memory;

	if (arena_get(heap, &arena) != SHUNT_OK)
		return NULL;
	memory = shunt_je_mallocx(bytes, MALLOCX_ARENA(arena) |
						 MALLOCX_TCACHE_NONE |
						 MALLOCX_ALIGN(HEAP_ALIGN));
	if (memory == NULL)
		error_set(SHUNT_NO_MEMORY,
			"heap: bytes=%zu needed; of the segment's %llu bytes "
			"%llu are in use: free some, or raise segment_bytes "
			"(SHUNT_SEGMENT_BYTES)",
			bytes,
			(unsigned long long)segment_reserved_bytes(
				heap->segment),
			(unsigned long long)segment_used_bytes(heap->segment));
	return memory;
}

static void *large_alloc(struct heap *heap, size_t bytes)
{
	struct heap_range *block;
	void *node;

	if (range_take(heap, bytes, HEAP_ALIGN, &block) != SHUNT_OK)
		return NULL;
	pthread_mutex_lock(&heap->mutex);
	node = tsearch(block, &heap->large, range_compare);
	pthread_mutex_unlock(&heap->mutex);
	if (node == NULL) {
		range_return(heap, block);
		error_set(SHUNT_NO_MEMORY,
			"heap: no memory for the record of a block");
		return NULL;
	}
	return segment_base(heap->segment) + block->offset;
}

/* Takes the block at `memory` out of the large ones; NULL if it is small. */
static struct heap_range *large_remove(struct heap *heap, void *memory)
{
	struct heap_range wanted = {.memory = memory};
	struct heap_range *block = NULL;
	void *node;

	pthread_mutex_lock(&heap->mutex);
	node = tfind(&wanted, &heap->large, range_compare);
	if (node != NULL) {
		block = *(struct heap_range **)node;
		tdelete(block, &heap->large, range_compare);
	}
	pthread_mutex_unlock(&heap->mutex);
	return block;
}

void *heap_alloc(struct heap *heap, size_t bytes)
{
	if (bytes == 0)
		bytes = 1;
	return bytes < HEAP_LARGE_BYTES ? small_alloc(heap, bytes)
					: large_alloc(heap, bytes);
}

void heap_free(struct heap *heap, void *memory)
{
	struct heap_range *block;

	if (memory == NULL)
		return;
	block = large_remove(heap, memory);
	if (block != NULL)
		range_return(heap, block);
	else
		shunt_je_dallocx(memory, MALLOCX_TCACHE_NONE);
}

/* ---- the heap --------------------------------------------------------- */

enum shunt_status heap_create(struct segment *segment, struct heap **heap)
{
	struct heap *made = calloc(1, sizeof(*made));

	if (made == NULL)
		return error_set(SHUNT_NO_MEMORY, "heap: no memory for it");
	made->hooks = (extent_hooks_t){
		.alloc = chunk_alloc,
		.dalloc = chunk_dalloc,
		.split = chunk_split,
		.merge = chunk_merge,
	};
	made->segment = segment;
	made->arena = HEAP_NO_ARENA;
	pthread_mutex_init(&made->mutex, NULL);
	*heap = made;
	return SHUNT_OK;
}

void heap_destroy(struct heap *heap)
{
	if (heap == NULL)
		return;
	if (heap->arena != HEAP_NO_ARENA)
		arena_control(heap->arena, "destroy", NULL, 0);
	while (heap->chunks != NULL) {
		struct heap_range *chunk = heap->chunks;

		heap->chunks = chunk->next;
		range_return(heap, chunk);
	}
	while (heap->large != NULL)
		range_return(heap,
			large_remove(heap,
				(void *)(*(struct heap_range **)heap->large)
					->memory));
	pthread_mutex_destroy(&heap->mutex);
	free(heap);
}
