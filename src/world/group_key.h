/*
 * Keys by which members find each other's region: a hash of the name, the
 * list of ranks, and how often this list was made before, so that a group made
 * again never meets the region of its predecessor.
 */
#ifndef WORLD_GROUP_KEY_H
#define WORLD_GROUP_KEY_H

#include <stdbool.h>

#include <shunt/status.h>

struct shunt_group;

/*
 * Sets group->key. `whole` marks the world's own group, which no user's group
 * collides with. *earlier becomes the group that was suspended under this key,
 * if there is one. Errors: STATE (one with this list and name is alive),
 * NO_MEMORY.
 */
enum shunt_status group_key_begin(
	struct shunt_group *group, bool whole, struct shunt_group **earlier);

/* Keeps a group that is not complete yet for the next attempt, or for the end
 * of the world, which frees it. */
void group_key_suspend(struct shunt_group *group);

/* Gives the key back. `existed`: the group was made, and its next life gets
 * another key; else the next attempt uses the same one again. */
void group_key_end(struct shunt_group *group, bool existed);

#endif
