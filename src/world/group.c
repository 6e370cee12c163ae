/* Groups: members find each other, and leave; see group.h. */
#include "world/group.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/order.h"
#include "world/group_key.h"
#include "world/region.h"
#include "world/wait.h"
#include "world/world.h"

#define DEFAULT_DEADLINE_NS INT64_C(60000000000)

const char *group_rank_text(
	const struct shunt_group *group, int32_t rank, char text[48])
{
	int32_t member = group->members[rank];

	if (member == rank)
		snprintf(text, 48, "rank %d", rank);
	else
		snprintf(text, 48, "rank %d (world rank %d)", rank, member);
	return text;
}

/* ---- creation --------------------------------------------------------- */

/* Entry of `key` in a rank's directory, NULL if there is none. Peers only
 * read; the offset is checked by map() at each use. */
static struct directory_entry *directory_find(
	struct control *control, uint64_t key)
{
	for (int i = 0; i < CONTROL_MAX_GROUPS; i++)
		if (order_acquire(&control->directory[i].key) == key)
			return &control->directory[i];
	return NULL;
}

/* What a rank that waits for an entry of `member` sleeps for: out of the way
 * of the tokens that are offsets of counters. */
static uint64_t directory_token(int32_t member)
{
	return (UINT64_C(1) << 47) + (uint64_t)member;
}

/* An entry of the own directory is another now: members of other hosts have an
 * image of it. Its key is a counter of theirs, with this rank for its writer. */
static void directory_send(const struct shunt_group *group,
	const struct directory_entry *entry, uint64_t add)
{
	uint64_t at = (uint64_t)((const uint8_t *)entry -
				 (const uint8_t *)group->world->control);

	for (int32_t r = 0; r < group->size; r++) {
		struct peer *peer = group->peers[r];
		uint64_t image;

		if (!peer->is_far)
			continue;
		image = far_image_off(peer) + at;
		peer_put(peer, image + offsetof(struct directory_entry, offset),
			&group->region_off[group->rank], sizeof(uint64_t),
			image + offsetof(struct directory_entry, key), add);
	}
}

/* A free entry, none that was used lately: an image of the directory on another
 * host may show its new offset a moment before it loses the old key. */
static struct directory_entry *directory_take(struct shunt_world *world)
{
	for (int i = 0; i < CONTROL_MAX_GROUPS; i++) {
		struct directory_entry *entry =
			&world->control->directory[world->next_entry++ %
						   CONTROL_MAX_GROUPS];

		if (order_acquire(&entry->key) == 0)
			return entry;
	}
	return NULL;
}

static enum shunt_status directory_publish(struct shunt_group *group)
{
	struct shunt_world *world = group->world;
	struct directory_entry *entry;

	pthread_mutex_lock(&world->lock);
	entry = directory_take(world);
	if (entry) {
		order_publish(&entry->offset, group->region_off[group->rank]);
		order_publish(&entry->key, group->key);
		group->published = true;
	}
	pthread_mutex_unlock(&world->lock);
	if (!entry)
		return error_set(SHUNT_STATE,
			"rank %d: %d groups are alive, which is the limit",
			group->rank, CONTROL_MAX_GROUPS);
	directory_send(group, entry, group->key);
	for (int32_t r = 0; r < group->size; r++)
		if (!group->peers[r]->is_far)
			doorbell_ring(&group->peers[r]->control->doorbell,
				directory_token(group->members[group->rank]));
	return SHUNT_OK;
}

static void directory_withdraw(struct shunt_group *group)
{
	struct directory_entry *entry =
		directory_find(group->world->control, group->key);

	if (!entry)
		return;
	directory_send(group, entry, -group->key);
	order_publish(&entry->key, 0);
}

struct meet_waiter {
	struct waiter waiter;
	struct shunt_group *group;
	int32_t cursor;
};

static bool meet_awaits(struct waiter *waiter, int32_t rank)
{
	struct meet_waiter *self = (struct meet_waiter *)waiter;
	struct shunt_group *group = self->group;

	return !directory_find(group->peers[rank]->control, group->key);
}

static bool meet_ready(struct waiter *waiter)
{
	struct meet_waiter *self = (struct meet_waiter *)waiter;
	struct shunt_group *group = self->group;

	for (; self->cursor < group->size; self->cursor++) {
		struct directory_entry *entry = directory_find(
			group->peers[self->cursor]->control, group->key);

		if (!entry)
			return false;
		group->region_off[self->cursor] = order_acquire(&entry->offset);
	}
	return true;
}

static uint64_t meet_token(struct waiter *waiter)
{
	struct meet_waiter *self = (struct meet_waiter *)waiter;

	return directory_token(self->group->members[self->cursor]);
}

/* Checks what peers said about where their regions are. */
static enum shunt_status regions_check(struct shunt_group *group)
{
	char name[48];

	for (int32_t r = 0; r < group->size; r++) {
		uint64_t offset = group->region_off[r];

		if (offset % sizeof(struct line) == 0 &&
			peer_has(group->peers[r], offset, group->region_bytes))
			continue;
		error_set(SHUNT_PEER_FAULT,
			"%s says that its region is at offset %llu, outside "
			"its segment",
			group_rank_text(group, r, name),
			(unsigned long long)group->region_off[r]);
		error_add_rank(r);
		return SHUNT_PEER_FAULT;
	}
	return SHUNT_OK;
}

/* Lets members of other hosts write to the own region. */
static enum shunt_status region_expose(struct shunt_group *group)
{
	if (!group->spans_hosts)
		return SHUNT_OK;
	return far_expose(group->world->far, group->region_off[group->rank],
		group->region_bytes);
}

/* Every member looks the others up; a first gather then tells all that all
 * have done so, and from then on a member may leave at any time. After a
 * TIMEOUT it goes on where it stopped. */
static enum shunt_status group_meet(struct shunt_group *group, int64_t deadline)
{
	struct meet_waiter self = {
		.waiter = {.group = group,
			.what = "the members of a group",
			.ready = meet_ready,
			.awaits = meet_awaits,
			.token = meet_token},
		.group = group,
	};
	struct gathered gathered;
	enum shunt_status status = SHUNT_OK;

	if (!group->published)
		status = region_expose(group);
	if (status == SHUNT_OK && !group->published)
		status = directory_publish(group);
	if (status == SHUNT_OK)
		status = wait_for(&self.waiter, deadline);
	if (status == SHUNT_OK)
		status = regions_check(group);
	if (status == SHUNT_OK && group->num_gathers == 0)
		gather_post(group, group->key, "", 0);
	if (status == SHUNT_OK)
		status = gather_finish(group, deadline, &gathered);
	if (status == SHUNT_OK)
		free(gathered.blobs);
	return status;
}

void group_free(struct shunt_group *group)
{
	pthread_mutex_destroy(&group->lock);
	free(group->members);
	free(group->peers);
	free(group->region_off);
	free(group);
}

static struct shunt_group *group_new(struct shunt_world *world,
	const int32_t *ranks, int32_t num_ranks, const char *name)
{
	struct shunt_group *group = calloc(1, sizeof(*group));
	size_t size = (size_t)num_ranks;

	if (!group)
		return NULL;
	pthread_mutex_init(&group->lock, NULL);
	group->world = world;
	group->size = num_ranks;
	group->members = calloc(size, sizeof(*group->members));
	group->peers = calloc(size, sizeof(struct peer *));
	group->region_off = calloc(size, sizeof(*group->region_off));
	snprintf(group->name, sizeof(group->name), "%s", name);
	if (!group->members || !group->peers || !group->region_off) {
		group_free(group);
		return NULL;
	}
	for (int32_t r = 0; r < num_ranks; r++) {
		group->members[r] = ranks ? ranks[r] : r;
		group->peers[r] = world->peers[group->members[r]];
		if (group->members[r] == world->rank)
			group->rank = r;
		group->spans_hosts =
			group->spans_hosts || group->peers[r]->is_far;
	}
	group->region_bytes = region_bytes(num_ranks, group->spans_hosts);
	return group;
}

/* Signals the members that this rank is done with their regions, and keeps
 * the own one until they say the same. */
static void group_close(struct shunt_group *group)
{
	for (int32_t r = 0; r < group->size; r++)
		if (group->region_off[r])
			region_signal(group, r, closed_off(group, group->rank));
	retire_range(group->world, group->region_off[group->rank],
		group->region_bytes,
		group->region_off[group->rank] + closed_off(group, 0),
		group->members, group->size);
}

/* A group under a key of its own, or the one that an earlier attempt left when
 * its deadline passed: others may have found that one already. */
static enum shunt_status group_begin(struct shunt_world *world,
	const int32_t *ranks, int32_t num_ranks, const char *name, bool whole,
	struct shunt_group **out)
{
	struct shunt_group *group = group_new(world, ranks, num_ranks, name);
	struct shunt_group *earlier = NULL;
	enum shunt_status status;

	if (!group)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for a group of %d ranks",
			world->rank, num_ranks);
	status = group_key_begin(group, whole, &earlier);
	if (status != SHUNT_OK || earlier) {
		group_free(group);
		*out = earlier;
		return status;
	}
	status = segment_alloc(world->segment, group->region_bytes, 0,
		&group->region_off[group->rank]);
	if (status != SHUNT_OK) {
		group_key_end(group, false);
		group_free(group);
		return status;
	}
	*out = group;
	return SHUNT_OK;
}

static enum shunt_status group_make(struct shunt_world *world,
	const int32_t *ranks, int32_t num_ranks, const char *name, bool whole,
	int64_t deadline, struct shunt_group **out)
{
	struct shunt_group *group;
	enum shunt_status status;

	retire_sweep(world);
	status = group_begin(world, ranks, num_ranks, name, whole, &group);
	if (status != SHUNT_OK)
		return status;
	status = group_meet(group, deadline);
	if (status == SHUNT_OK) {
		*out = group;
	} else if (status == SHUNT_TIMEOUT) {
		group_key_suspend(group);
	} else {
		directory_withdraw(group);
		group_close(group);
		group_key_end(group, false);
		group_free(group);
	}
	return status;
}

enum shunt_status group_create_world(
	struct shunt_world *world, int64_t deadline, struct shunt_group **group)
{
	return group_make(
		world, NULL, world->num_ranks, "", true, deadline, group);
}

/* ---- public ----------------------------------------------------------- */

static enum shunt_status check_ranks(const struct shunt_world *world,
	const int32_t *ranks, int32_t num_ranks)
{
	bool found = false;

	if (num_ranks < 1 || num_ranks > world->num_ranks)
		return error_set(SHUNT_INVALID,
			"num_ranks is %d, must be 1 .. %d (rank %d)", num_ranks,
			world->num_ranks, world->rank);
	for (int32_t i = 0; i < num_ranks; i++) {
		if (ranks[i] < 0 || ranks[i] >= world->num_ranks)
			return error_set(SHUNT_INVALID,
				"ranks[%d] is %d, must be 0 .. %d (rank %d)", i,
				ranks[i], world->num_ranks - 1, world->rank);
		found = found || ranks[i] == world->rank;
		for (int32_t j = 0; j < i; j++)
			if (ranks[j] == ranks[i])
				return error_set(SHUNT_INVALID,
					"ranks[%d] and ranks[%d] are both %d, "
					"must be distinct (rank %d)",
					j, i, ranks[i], world->rank);
	}
	if (!found)
		return error_set(SHUNT_INVALID,
			"ranks does not contain this rank, %d", world->rank);
	return SHUNT_OK;
}

enum shunt_status shunt_group_create(struct shunt_world *world,
	const int32_t *ranks, int32_t num_ranks, const char *name,
	int64_t deadline_ns, struct shunt_group **group)
{
	enum shunt_status status;

	if (!world || !group)
		return error_set(SHUNT_NULL_ARGUMENT, "%s is NULL",
			world ? "group" : "world");
	status = guard_check(world->generation);
	if (status != SHUNT_OK)
		return status;
	if (!ranks && num_ranks != 0)
		return error_set(SHUNT_NULL_ARGUMENT,
			"ranks is NULL with num_ranks %d; NULL goes with 0 "
			"(rank %d)",
			num_ranks, world->rank);
	if (ranks)
		status = check_ranks(world, ranks, num_ranks);
	if (status != SHUNT_OK)
		return status;
	if (name && strlen(name) >= GROUP_NAME_BYTES)
		return error_set(SHUNT_INVALID,
			"name has %zu bytes, at most %d (rank %d)",
			strlen(name), GROUP_NAME_BYTES - 1, world->rank);
	if (deadline_ns < 0)
		return error_set(SHUNT_INVALID,
			"deadline_ns is %lld, must be >= 0 (rank %d)",
			(long long)deadline_ns, world->rank);
	return group_make(world, ranks, ranks ? num_ranks : world->num_ranks,
		name ? name : "", false,
		clock_deadline(deadline_ns ? deadline_ns : DEFAULT_DEADLINE_NS),
		group);
}

void shunt_group_destroy(struct shunt_group *group)
{
	if (!group || guard_check(group->world->generation) != SHUNT_OK)
		return;
	directory_withdraw(group);
	group_close(group);
	group_key_end(group, true);
	group_free(group);
}

int32_t shunt_group_rank(const struct shunt_group *group)
{
	return group ? group->rank : -1;
}

int32_t shunt_group_size(const struct shunt_group *group)
{
	return group ? group->size : -1;
}
