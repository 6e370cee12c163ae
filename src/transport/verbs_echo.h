/*
 * Echoes: how a host that is silent is found where completions do not tell.
 *
 * RoCE and InfiniBand complete a write when the other device has acknowledged
 * it, and give up after some tries. An iWARP device completes it when TCP has
 * taken it, and TCP tries for a quarter of an hour. So there a beat is read back
 * behind each beat that is written: requests are executed in order, so what comes
 * is that beat or a later one, and it comes from the other device alone. The
 * peer's process may be stopped meanwhile; that is no death.
 *
 * Under the lock, all of it.
 */
#ifndef TRANSPORT_VERBS_ECHO_H
#define TRANSPORT_VERBS_ECHO_H

#include "transport/verbs_lane.h"

/* Looks for the echo of a lane, at each beat. The link fails if none has come
 * for as long as a device would try, or five seconds if that is longer. */
void echo_look(struct verbs_lane *lane, int64_t now);

/* How many requests echo_ask() adds at most. */
uint32_t echo_requests(const struct verbs_lane *lane);

/* Adds the reading back of the beat that was added, unless one is under way. */
void echo_ask(struct lane_batch *batch);

#endif
