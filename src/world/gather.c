/* Gathers over the regions of a group; see group.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/order.h"
#include "world/region.h"
#include "world/wait.h"
#include "world/world.h"

struct gather_waiter {
	struct waiter waiter;
	const struct line *arrived;
	uint64_t count;
	int32_t cursor; /* members before it have arrived */
};

static bool gather_awaits(struct waiter *waiter, int32_t rank)
{
	struct gather_waiter *self = (struct gather_waiter *)waiter;

	return order_acquire(&self->arrived[rank].value) < self->count;
}

static bool gather_ready(struct waiter *waiter)
{
	struct gather_waiter *self = (struct gather_waiter *)waiter;

	while (self->cursor < waiter->group->size &&
		!gather_awaits(waiter, self->cursor))
		self->cursor++;
	return self->cursor == waiter->group->size;
}

static uint64_t gather_token(struct waiter *waiter)
{
	struct gather_waiter *self = (struct gather_waiter *)waiter;
	const struct shunt_group *group = waiter->group;

	return group->region_off[group->rank] + arrived_off(self->cursor);
}

static enum shunt_status gather_wait(
	struct shunt_group *group, const char *what, int64_t deadline)
{
	struct gather_waiter self = {
		.waiter = {.group = group,
			.what = what,
			.ready = gather_ready,
			.awaits = gather_awaits,
			.token = gather_token},
		.arrived = region_of(group, group->rank)->lines,
		.count = group->num_gathers,
	};

	return wait_for(&self.waiter, deadline);
}

/* What member r brought, where this rank reads it. */
static const struct post *post_of(const struct shunt_group *group, int32_t r)
{
	uint64_t n = group->num_gathers;
	const uint8_t *mine = (const uint8_t *)region_of(group, group->rank);

	if (group->peers[r]->is_far)
		return (const struct post *)(const void *)(mine +
							   sent_off(group->size,
								   r, n));
	return &region_of(group, r)->post[n & 1];
}

/* Copies the post of each member out; sizes come from peers. */
static enum shunt_status gather_collect(const struct shunt_group *group,
	const struct post *mine, struct gathered *gathered)
{
	uint64_t bytes = mine->num_bytes;
	uint8_t *blobs = malloc((size_t)group->size * bytes + 1);
	char name[48];

	if (!blobs)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for what %d ranks bring",
			group->rank, group->size);
	for (int32_t r = 0; r < group->size; r++) {
		const struct post *post = post_of(group, r);

		if (post->tag != mine->tag || post->num_bytes != bytes) {
			free(blobs);
			error_set(SHUNT_MISMATCH,
				"%s makes something else on the group than "
				"rank %d: calls must be in the same order on "
				"all ranks",
				group_rank_text(group, r, name), group->rank);
			error_add_rank(r);
			return SHUNT_MISMATCH;
		}
		memcpy(blobs + (uint64_t)r * bytes, post->bytes, bytes);
	}
	gathered->blob_bytes = bytes;
	gathered->blobs = blobs;
	return SHUNT_OK;
}

static void tell(struct shunt_group *group, int32_t r, const struct post *post)
{
	struct peer *peer = group->peers[r];
	uint64_t region = group->region_off[r];

	if (peer->is_far)
		peer_put(peer,
			region + sent_off(group->size, group->rank,
					 group->num_gathers),
			post, offsetof(struct post, bytes) + post->num_bytes,
			PUT_NO_COUNTER, 0);
	region_signal(group, r, arrived_off(group->rank));
}

/*
 * A post is written over two gathers later. By then every member has arrived
 * at the gather in between, that is, has left the first.
 */
void gather_post(struct shunt_group *group, uint64_t tag, const void *blob,
	uint64_t blob_bytes)
{
	struct post *post;

	group->num_gathers++;
	post = &region_of(group, group->rank)->post[group->num_gathers & 1];
	post->tag = tag;
	post->num_bytes = blob_bytes;
	memcpy(post->bytes, blob, blob_bytes);
	world_beat(group->world, BEAT_GROUP, group->num_gathers);
	for (int32_t r = 0; r < group->size; r++)
		tell(group, r, post);
}

enum shunt_status gather_finish(
	struct shunt_group *group, int64_t deadline, struct gathered *gathered)
{
	const struct group_region *mine = region_of(group, group->rank);
	enum shunt_status status =
		gather_wait(group, "a collective creation", deadline);

	if (status != SHUNT_OK)
		return status;
	return gather_collect(
		group, &mine->post[group->num_gathers & 1], gathered);
}

enum shunt_status group_gather(struct shunt_group *group, uint64_t tag,
	const void *blob, uint64_t blob_bytes, int64_t deadline,
	struct gathered *gathered)
{
	enum shunt_status status;

	if (group->broken)
		return error_set(SHUNT_STATE,
			"rank %d: an earlier collective call on this group "
			"failed; make a new group",
			group->rank);
	gather_post(group, tag, blob, blob_bytes);
	status = gather_finish(group, deadline, gathered);
	group->broken = status != SHUNT_OK;
	return status;
}
