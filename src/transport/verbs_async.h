/*
 * Asynchronous events of devices: what no completion tells. A completion queue
 * in error gives none any more, and neither does a queue pair whose work queue
 * is broken; a device that has failed does nothing at all.
 *
 * librdmacm opens a device once a process, and an event is given once. So what
 * a far side takes it hands on to all others of the process; and who else uses
 * librdmacm in this process must not wait for events of these devices. Each
 * event is acknowledged, since whoever destroys what it is about waits for that.
 */
#ifndef TRANSPORT_VERBS_ASYNC_H
#define TRANSPORT_VERBS_ASYNC_H

#include "transport/verbs.h"

/* From now on events reach this far side, whoever takes them: its links are
 * there, and stay until async_leave(). Not under the lock. */
void async_join(struct far *far);

/* The opposite. Does nothing if it has not joined. Not under the lock. */
void async_leave(struct far *far);

/* Takes the events that there are of the far side's devices, and what follows
 * from them: links end with their device, completion queue or queue pair; all
 * else is for the log. Never blocks. Not under the lock. */
void async_take_events(struct far *far);

#endif
