/*
 * A segment: all memory of one rank that peers can reach. It holds the
 * control page, the windows of exchanges, and the heap.
 *
 * Address space is reserved once, at creation, so that a peer attaches once;
 * memory is taken when a range is allocated, all at once, so that exhaustion
 * is an error here and never a SIGBUS there. Ranges are found first-fit in a
 * list that lives outside the segment: a peer that scribbles over its reach
 * cannot lead the allocator astray.
 *
 * SEGMENT_SHARED is a sealed memfd (nothing in /dev/shm, no size limit of a
 * mount); SEGMENT_PRIVATE is plain memory for ranks that are threads of one
 * process. Both are left out of core dumps and of forked children.
 */
#ifndef MEMORY_SEGMENT_H
#define MEMORY_SEGMENT_H

#include <stdint.h>

#include <shunt/status.h>

#include "memory/control.h"

enum segment_kind { SEGMENT_PRIVATE, SEGMENT_SHARED };

struct segment;

/*
 * Makes a segment of `reserve_bytes` of address space (rounded up to pages)
 * with a zeroed control page. The caller holds one reference.
 * Errors: NO_MEMORY (address space, or memory for the control page; names
 * needed, limit and remedy), SYSTEM (descriptors).
 */
enum shunt_status segment_create(enum segment_kind kind, uint64_t reserve_bytes,
	struct segment **segment);

/* Another reference. Threads of one process share a segment by it. */
struct segment *segment_get(struct segment *segment);

/* Returns a reference; the last one unmaps and closes. NULL is allowed. */
void segment_put(struct segment *segment);

/* The descriptor to hand over; -1 if the segment is private. */
int segment_fd(const struct segment *segment);
uint8_t *segment_base(const struct segment *segment);
uint64_t segment_reserved_bytes(const struct segment *segment);
struct control *segment_control(const struct segment *segment);

/*
 * Takes `bytes` (any number >= 1) of zeroed memory, page-aligned or to
 * `align` (a power of two) where that is larger. Thread-safe.
 * Errors: NO_MEMORY, naming needed and available.
 */
enum shunt_status segment_alloc(struct segment *segment, uint64_t bytes,
	uint64_t align, uint64_t *offset);

/* Gives a range back, memory included. Exactly what segment_alloc() gave.
 * Thread-safe. */
void segment_free(struct segment *segment, uint64_t offset, uint64_t bytes);

/*
 * Somebody who has to know the ranges of a segment, to register them with a
 * device. Called with ranges of whole pages, in any thread that allocates or
 * frees, one call at a time.
 */
struct segment_watcher {
	void *context;
	/* A range was taken. Not OK: the allocation fails with that. */
	enum shunt_status (*on_alloc)(
		void *context, uint64_t offset, uint64_t bytes);
	/* A range that on_alloc was told of is about to be given back. */
	void (*on_free)(void *context, uint64_t offset, uint64_t bytes);
};

/*
 * Tells the watcher of all ranges that there are, the control page included,
 * and of every change from now on, until segment_unwatch(), which tells it of
 * no more frees. One watcher at a time; while nobody allocates or frees.
 * Errors: those of on_alloc; it is then told to free what it had agreed to.
 */
enum shunt_status segment_watch(
	struct segment *segment, const struct segment_watcher *watcher);
void segment_unwatch(struct segment *segment);

/* Bytes now taken by ranges, the control page included; for tests. */
uint64_t segment_used_bytes(struct segment *segment);

#endif
