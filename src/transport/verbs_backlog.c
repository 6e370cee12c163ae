/* Puts that wait; see verbs_backlog.h. One behind the other in one piece of memory:
 * each with its copy, if it has one. */
#include "transport/verbs_backlog.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bytes_of(const struct verbs_put *put)
{
	const uint64_t align = _Alignof(struct verbs_put);

	if (!put_is_copied(put))
		return sizeof(*put);
	return sizeof(*put) + (put->num_bytes + align - 1) / align * align;
}

/* Makes room for `num_bytes` behind the last. */
static bool reserve(struct verbs_backlog *backlog, uint64_t num_bytes)
{
	uint64_t used = backlog->to - backlog->from;
	uint64_t capacity = 2 * (used + num_bytes);
	uint8_t *bytes = backlog->bytes;

	if (backlog->capacity - backlog->to >= num_bytes)
		return true;
	/* By halves, so that each is moved once on average. */
	if (backlog->capacity < capacity) {
		bytes = malloc(capacity);
		if (bytes)
			backlog->capacity = capacity;
		else if (backlog->capacity - used >= num_bytes)
			bytes = backlog->bytes;
		else
			return false;
	}
	if (used > 0)
		memmove(bytes, backlog->bytes + backlog->from, used);
	if (bytes != backlog->bytes)
		free(backlog->bytes);
	backlog->bytes = bytes;
	backlog->from = 0;
	backlog->to = used;
	return true;
}

bool backlog_add(struct verbs_backlog *backlog, const struct verbs_put *put)
{
	uint64_t num_bytes = bytes_of(put);
	uint8_t *at;

	if (!reserve(backlog, num_bytes))
		return false;
	at = backlog->bytes + backlog->to;
	memcpy(at, put, sizeof(*put));
	if (put_is_copied(put) && put->num_bytes > 0)
		memcpy(at + sizeof(*put), put->bytes, put->num_bytes);
	backlog->to += num_bytes;
	backlog->num_added++;
	return true;
}

bool backlog_first(const struct verbs_backlog *backlog, struct verbs_put *put)
{
	const uint8_t *at = backlog->bytes + backlog->from;

	if (backlog_is_empty(backlog))
		return false;
	memcpy(put, at, sizeof(*put));
	if (put_is_copied(put))
		put->bytes = at + sizeof(*put);
	return true;
}

void backlog_take(struct verbs_backlog *backlog)
{
	struct verbs_put put;

	if (backlog_first(backlog, &put))
		backlog->from += bytes_of(&put);
	if (backlog_is_empty(backlog))
		backlog_clear(backlog);
}

void backlog_clear(struct verbs_backlog *backlog)
{
	backlog->from = backlog->to = 0;
	backlog->num_added = 0;
}
