/*
 * The heap: user-visible memory of a segment, handed out by a jemalloc arena
 * of its own whose extents are ranges of the segment. jemalloc is a private
 * build under another name (cmake/jemalloc.cmake): the process keeps its own
 * malloc.
 */
#ifndef MEMORY_HEAP_H
#define MEMORY_HEAP_H

#include <stddef.h>

#include "memory/segment.h"

struct heap;

/* Makes a heap over the segment, which must outlive it. Takes no memory of
 * the segment before the first allocation. Errors: NO_MEMORY. */
enum shunt_status heap_create(struct segment *segment, struct heap **heap);

/* Frees the arena with all that is still allocated. NULL is allowed. */
void heap_destroy(struct heap *heap);

/* Memory of at least `bytes` (0 counts as 1), 64-byte aligned; NULL with the
 * error set if there is none. Thread-safe. */
void *heap_alloc(struct heap *heap, size_t bytes);

/* Thread-safe; NULL is allowed. */
void heap_free(struct heap *heap, void *memory);

#endif
