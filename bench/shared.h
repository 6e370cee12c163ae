/*
 * Memory that the launcher reserves and that all ranks share. It is of the
 * kind that the library's windows have: shared pages for forked ranks, private
 * ones for threads, which the kernel may treat differently (huge pages). Pages
 * are taken when they are touched.
 */
#ifndef BENCH_SHARED_H
#define BENCH_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/* A region in the making. Zero is empty. */
struct shared_layout {
	size_t bytes;
	bool one_process; /* all ranks are threads */
	bool too_big;     /* the sizes do not fit into a size_t */
};

/* Adds `count` times `bytes`, page-aligned; returns the offset. */
size_t shared_reserve(struct shared_layout *layout, size_t count, size_t bytes);

/* Maps the region, all zero. NULL with errno set: ENOMEM also where the
 * machine has not that much available. */
void *shared_map(const struct shared_layout *layout);
void shared_unmap(void *memory, size_t bytes);

void *shared_at(void *memory, size_t offset);

#endif
