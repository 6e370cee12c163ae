/*
 * The life of a link, and what the world sees of it.
 *
 *	CONNECTING -> OPEN -> FAILING -> GONE
 *
 * A link that fails has its queue pairs put into error at once, so that
 * nothing more of the peer is placed; but what had arrived is still applied,
 * as the peer sent it while it lived. When every receive has come back and the
 * queue pairs are destroyed the link is gone: only then peers' state says DEAD
 * or LEFT, so that a window which is used again cannot be written by the dead.
 *
 * Under the lock, unless said otherwise.
 */
#ifndef TRANSPORT_VERBS_LINK_H
#define TRANSPORT_VERBS_LINK_H

#include "transport/verbs.h"

extern const struct transport_ops verbs_ops;

/* Ends a link because of what happened here or on the wire. Does nothing if it
 * has ended before. */
void link_fail(struct verbs_link *link, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Ends a link because the peer is not sound: "rank 3 (its) MESSAGE". */
void link_fault(struct verbs_link *link, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Ends all links that go over a device. */
void link_fail_device(
	struct far *far, const struct verbs_device *device, const char *what);

/* Has link_pump() called at the next progress. */
void link_keep_busy(struct verbs_link *link);

/* The same, and the service thread looks within a millisecond: the caller may not
 * look again for long. */
void link_send_soon(struct verbs_link *link);

/* The same, as something finds no room. Ends the link if none has come for too
 * long: whoever puts, or waits until its sources are free, shall not wait for
 * ever. */
void link_stalls(struct verbs_link *link);

/* True if link_poll_all() has anything to send that waits: then the service thread is
 * taken to look soon, which the caller sees to. Takes the lock. */
bool link_look_soon(struct far *far);

/* Sends what waits for room: credits, records, the put under way, the backlog. */
void link_pump(struct verbs_link *link);

/* Takes all completions that there are, and what follows from them. True if
 * there were any. */
bool link_poll_all(struct far *far);

/* Whether a failing link can be buried: nothing of it arrives any more. */
bool link_is_still(const struct verbs_link *link, int64_t now);

/* Buries a failing link: destroys its queue pairs, then says so. Not under
 * the lock; only one thread does it. */
void link_bury(struct verbs_link *link);

/* True once the sources of all puts may be reused. */
bool link_is_flushed(const struct verbs_link *link);

#endif
