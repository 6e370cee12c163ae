/*
 * Groups: an ordered list of ranks with a region of its own in each member's
 * segment, found through the control page's directory. Carries the gather
 * that collective creation needs; steady-state steps do not come here.
 * region.h draws the region.
 */
#ifndef WORLD_GROUP_H
#define WORLD_GROUP_H

#include <pthread.h>
#include <stdbool.h>

#include <shunt/shunt.h>

#include "transport/transport.h"
#include "world/retire.h"

#define GROUP_NAME_BYTES 128
#define GROUP_BLOB_BYTES 4064

struct shunt_group {
	struct shunt_world *world;
	int32_t rank;
	int32_t size;
	int32_t *members;     /* [size]: world ranks */
	struct peer **peers;  /* [size] */
	uint64_t *region_off; /* [size]: in each member's segment */
	uint64_t region_bytes;
	uint64_t key;
	bool spans_hosts;
	uint64_t num_gathers;
	uint64_t num_grids;   /* exchanges with TP that it has made */
	bool published;       /* in the directory */
	bool broken;          /* a gather failed: members may be out of step */
	pthread_mutex_t lock; /* one collective creation at a time */
	char name[GROUP_NAME_BYTES];
};

/* What a gather brought: blob i is that of group rank i, each blob_bytes. */
struct gathered {
	uint64_t blob_bytes;
	uint8_t *blobs;
};

/*
 * Every member brings `blob_bytes` (<= GROUP_BLOB_BYTES) and gets all, in
 * group order; the caller frees gathered->blobs. `tag` says what it is about
 * and must be the same everywhere. The group's lock must be held.
 * Errors: TIMEOUT, PEER_LOST, MISMATCH (another tag or size), NO_MEMORY,
 * STATE (an earlier gather failed).
 */
enum shunt_status group_gather(struct shunt_group *group, uint64_t tag,
	const void *blob, uint64_t blob_bytes, int64_t deadline,
	struct gathered *gathered);

/* The group of all ranks, made with the world. */
enum shunt_status group_create_world(struct shunt_world *world,
	int64_t deadline, struct shunt_group **group);

/* Describes group rank `rank` for a message: "rank 2" or, where the numbers
 * differ, "rank 2 (world rank 5)". Returns `text`. */
const char *group_rank_text(
	const struct shunt_group *group, int32_t rank, char text[48]);

/* Frees the memory of a group, and nothing else. */
void group_free(struct shunt_group *group);

/* Frees the records of how often each group was made. */
void group_counts_drop(struct shunt_world *world);

#endif
