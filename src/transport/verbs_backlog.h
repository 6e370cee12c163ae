/* Puts that wait for room in the queues of a link, in their order, so that no
 * caller has to. Under the lock. */
#ifndef TRANSPORT_VERBS_BACKLOG_H
#define TRANSPORT_VERBS_BACKLOG_H

#include "transport/verbs.h"

/* Small: its bytes may lie anywhere, and are copied at once. */
static inline bool put_is_copied(const struct verbs_put *put)
{
	return put->num_bytes <= PUT_COPY_BYTES;
}

/* Takes the put over, as the last; of a small one a copy of its bytes. False if
 * there is no memory to note it. */
bool backlog_add(struct verbs_backlog *backlog, const struct verbs_put *put);

/* The first; false if none waits. A copy stays where put->bytes says until the next
 * backlog_add(), also when it is taken out. */
bool backlog_first(const struct verbs_backlog *backlog, struct verbs_put *put);

/* Takes the first out. */
void backlog_take(struct verbs_backlog *backlog);

/* Forgets all. */
void backlog_clear(struct verbs_backlog *backlog);

static inline bool backlog_is_empty(const struct verbs_backlog *backlog)
{
	return backlog->from == backlog->to;
}

#endif
