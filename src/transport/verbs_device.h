/*
 * Devices: what they can do, and the queues that all links share there.
 */
#ifndef TRANSPORT_VERBS_DEVICE_H
#define TRANSPORT_VERBS_DEVICE_H

#include "transport/verbs.h"

/* Fills in a device from its bound listener: limits, protection domain,
 * completion channel. Errors: UNSUPPORTED (what it lacks), NO_MEMORY, SYSTEM.
 * On failure nothing but the listener is there. */
enum shunt_status device_open(struct far *far, struct verbs_device *device);

/* Closes all but the listener. Does nothing to what was not opened. */
void device_close(struct verbs_device *device);

/* Lowers far->queue_depth to what all devices can serve, for `num_lanes`
 * queue pairs on each, and makes their completion queues. Errors: UNSUPPORTED
 * (not even the least depth), NO_MEMORY. */
enum shunt_status devices_size(struct far *far, uint32_t num_lanes);

/* Makes the queue pair of a lane, on its id. Errors: NO_MEMORY, SYSTEM. */
enum shunt_status device_make_qp(struct verbs_lane *lane);

#endif
