/*
 * The region of a group in each member's segment:
 *
 *	post[2]     what this member brings to an even and to an odd gather
 *	arrived[W]  line i: number of gathers that member i has come to
 *	closed[W]   line i: member i will not touch this region again
 *	sent[W][2]  only where members are on several hosts: posts of members of
 *	            other hosts, who write them here
 *
 * This file owns its offsets, and group.c and gather.c use them.
 */
#ifndef WORLD_REGION_H
#define WORLD_REGION_H

#include "world/group.h"
#include "world/retire.h"

struct post {
	uint64_t tag;
	uint64_t num_bytes;
	uint8_t bytes[GROUP_BLOB_BYTES];
};

struct group_region {
	struct post post[2];
	_Alignas(128) struct line lines[]; /* arrived[size], closed[size] */
};

/* Where member `i` of another host writes its post of gather `n`. */
static inline uint64_t sent_off(int32_t size, int32_t i, uint64_t n)
{
	return sizeof(struct group_region) +
	       2 * (uint64_t)size * sizeof(struct line) +
	       (2 * (uint64_t)i + (n & 1)) * sizeof(struct post);
}

static inline uint64_t region_bytes(int32_t size, bool spans_hosts)
{
	return sent_off(size, spans_hosts ? size : 0, 0);
}

static inline uint64_t arrived_off(int32_t member)
{
	return sizeof(struct group_region) +
	       (uint64_t)member * sizeof(struct line);
}

static inline uint64_t closed_off(
	const struct shunt_group *group, int32_t member)
{
	return arrived_off(group->size + member);
}

/* NULL for a member of another host. */
static inline struct group_region *region_of(
	const struct shunt_group *group, int32_t member)
{
	struct peer *peer = group->peers[member];

	return peer->ops->map(
		peer, group->region_off[member], group->region_bytes);
}

/* Adds 1 to a counter of `member`'s region. */
static inline void region_signal(
	struct shunt_group *group, int32_t member, uint64_t counter_off)
{
	peer_signal(group->peers[member],
		group->region_off[member] + counter_off, 1);
}

/*
 * Gathers in two parts, for the first gather of a group, which may be waited
 * for again after a TIMEOUT: bring, then wait and collect.
 */
void gather_post(struct shunt_group *group, uint64_t tag, const void *blob,
	uint64_t blob_bytes);
enum shunt_status gather_finish(
	struct shunt_group *group, int64_t deadline, struct gathered *gathered);

#endif
