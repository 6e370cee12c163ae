/* Telling a watcher; see watch.h. */
#include "memory/watch.h"

void watch_init(struct watch *watch)
{
	*watch = (struct watch){0};
	pthread_mutex_init(&watch->lock, NULL);
}

void watch_fini(struct watch *watch)
{
	pthread_mutex_destroy(&watch->lock);
}

void watch_set(struct watch *watch, const struct segment_watcher *watcher)
{
	pthread_mutex_lock(&watch->lock);
	watch->watcher = *watcher;
	pthread_mutex_unlock(&watch->lock);
}

enum shunt_status watch_alloc(
	struct watch *watch, uint64_t offset, uint64_t bytes)
{
	const struct segment_watcher *watcher = &watch->watcher;
	enum shunt_status status = SHUNT_OK;

	pthread_mutex_lock(&watch->lock);
	if (watcher->on_alloc)
		status = watcher->on_alloc(watcher->context, offset, bytes);
	pthread_mutex_unlock(&watch->lock);
	return status;
}

void watch_free(struct watch *watch, uint64_t offset, uint64_t bytes)
{
	const struct segment_watcher *watcher = &watch->watcher;

	pthread_mutex_lock(&watch->lock);
	if (watcher->on_alloc)
		watcher->on_free(watcher->context, offset, bytes);
	pthread_mutex_unlock(&watch->lock);
}
