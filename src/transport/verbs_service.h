/*
 * The thread of the far side. It does what may take time or must happen while
 * the rank computes: events of the connection manager and of completion
 * channels, a beat to each peer, burying links that fail. It never blocks but
 * in poll().
 *
 * The beat is also how a dead host is noticed: an idle connection tells
 * nothing, while a request that nobody acknowledges fails.
 */
#ifndef TRANSPORT_VERBS_SERVICE_H
#define TRANSPORT_VERBS_SERVICE_H

#include "transport/verbs.h"

/* Makes the thread's eventfd. Errors: SYSTEM. */
enum shunt_status service_open(struct far *far);

/* Starts the thread, behind connecting. Errors: SYSTEM. */
enum shunt_status service_start(struct far *far);

/* Stops it, if it runs, and closes the eventfd. */
void service_stop(struct far *far);

/* Has the thread look around now. Any thread; never blocks. */
void service_wake(struct far *far);

#endif
