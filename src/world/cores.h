/*
 * The processors that the ranks of a host share. A rank that is bound to one
 * cannot tell from its own binding whether the others have theirs.
 */
#ifndef WORLD_CORES_H
#define WORLD_CORES_H

#include <stdint.h>

#include "world/world.h"

/* Writes where the calling thread may run into the rank's control page. */
void cores_publish(struct control *control);

/* How many processors there are for the ranks that this rank has attached, all
 * together. */
int32_t cores_of_all(const struct shunt_world *world);

#endif
