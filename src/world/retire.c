/* Retired ranges; see retire.h. */
#include "world/retire.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "world/world.h"

struct retired {
	struct retired *next;
	uint64_t offset;
	uint64_t bytes;
	uint64_t closed_off;
	int32_t num_members;
	int32_t members[];
};

void retire_range(struct shunt_world *world, uint64_t offset, uint64_t bytes,
	uint64_t closed_off, const int32_t *members, int32_t num_members)
{
	size_t list_bytes = (size_t)num_members * sizeof(*members);
	struct retired *range = malloc(sizeof(*range) + list_bytes);

	if (!range)
		return;
	range->offset = offset;
	range->bytes = bytes;
	range->closed_off = closed_off;
	range->num_members = num_members;
	memcpy(range->members, members, list_bytes);

	pthread_mutex_lock(&world->lock);
	range->next = world->retired;
	world->retired = range;
	pthread_mutex_unlock(&world->lock);
	retire_sweep(world);
}

static bool member_is_done(const struct shunt_world *world,
	const struct retired *range, int32_t member)
{
	uint8_t *base = segment_base(world->segment) + range->closed_off;
	const struct line *closed = (const struct line *)(void *)base;
	struct peer *peer = world->peers[range->members[member]];

	return order_acquire(&closed[member].value) != 0 ||
	       peer->ops->state(peer) != PEER_ALIVE;
}

static bool range_is_quiet(
	const struct shunt_world *world, const struct retired *range)
{
	for (int32_t i = 0; i < range->num_members; i++)
		if (!member_is_done(world, range, i))
			return false;
	/* Puts to other hosts may still read it. */
	return !world->far || far_is_quiet(world->far);
}

void retire_sweep(struct shunt_world *world)
{
	pthread_mutex_lock(&world->lock);
	for (struct retired **link = &world->retired; *link;) {
		struct retired *range = *link;

		if (!range_is_quiet(world, range)) {
			link = &range->next;
			continue;
		}
		*link = range->next;
		if (world->far)
			far_hide(world->far, range->offset);
		segment_free(world->segment, range->offset, range->bytes);
		free(range);
	}
	pthread_mutex_unlock(&world->lock);
}

void retire_drop(struct shunt_world *world)
{
	while (world->retired) {
		struct retired *range = world->retired;

		world->retired = range->next;
		free(range);
	}
}
