/* Who watches a segment, and telling it: one call at a time. */
#ifndef MEMORY_WATCH_H
#define MEMORY_WATCH_H

#include <pthread.h>

#include "memory/segment.h"

struct watch {
	pthread_mutex_t lock;
	struct segment_watcher watcher; /* on_alloc NULL: nobody watches */
};

void watch_init(struct watch *watch);
void watch_fini(struct watch *watch);

/* Replaces the watcher. */
void watch_set(struct watch *watch, const struct segment_watcher *watcher);

/* Tells it, if there is one. */
enum shunt_status watch_alloc(
	struct watch *watch, uint64_t offset, uint64_t bytes);
void watch_free(struct watch *watch, uint64_t offset, uint64_t bytes);

#endif
