/*
 * Paths of a chosen service level. The connection manager resolves a route by
 * the kernel's choice; so it is asked once, and its answer, with another
 * service level, is given to a second id instead of resolving. The passive
 * side takes the level from the request.
 */
#ifndef TRANSPORT_VERBS_PATH_H
#define TRANSPORT_VERBS_PATH_H

#include "transport/verbs.h"

/* Keeps the route that the lane's id has resolved, with the config's service
 * level. Errors: UNSUPPORTED (a device without paths: iWARP). */
enum shunt_status path_keep(struct verbs_lane *lane);

/* Gives the kept path to the lane's id, whose address is resolved; the event
 * that its route is resolved follows. Errors: UNSUPPORTED. */
enum shunt_status path_give(struct verbs_lane *lane);

/* Warns if the queue pair of a connected lane names another level. No error:
 * Soft-RoCE has no levels and always names 0. */
void path_look(const struct verbs_lane *lane);

#endif
