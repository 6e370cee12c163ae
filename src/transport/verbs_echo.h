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
 * The read waits for what was posted before it, which a slow wire takes its time
 * for. So signs of life are, on each lane:
 *
 *	an echo			the peer's device has answered
 *	a record		the peer has sent it
 *	a request is over that	TCP had room for it. That proves little of one
 *	was posted before the	request, as TCP fills its buffer for the dead,
 *	read			too; but these are no more than were posted,
 *				and the buffer is full at once
 *
 * A request behind the read is no sign: beats are posted for ever, and so small
 * that a buffer takes hours of them. (Some devices complete them before the read.)
 *
 * Between two signs lie at most as many bytes as one message, as each is signalled
 * here, and TCP's buffers hold. Messages are therefore short.
 *
 * Under the lock, all of it.
 */
#ifndef TRANSPORT_VERBS_ECHO_H
#define TRANSPORT_VERBS_ECHO_H

#include "transport/verbs_lane.h"

/* The longest message: with some mebibytes in TCP's buffers it takes a wire of 14
 * Mbit/s less than five seconds. */
#define ECHO_MESSAGE_BYTES (UINT32_C(1) << 20)

/* Looks for signs of life on a lane, at each beat. The link fails if there were
 * none for as long as a device would try, or five seconds if that is longer. */
void echo_look(struct verbs_lane *lane, int64_t now);

/* How many requests echo_ask() adds at most. */
uint32_t echo_requests(const struct verbs_lane *lane);

/* Adds the reading back of the beat that was added, unless one is under way. */
void echo_ask(struct lane_batch *batch);

#endif
