/* Keys of groups; see group_key.h. */
#include "world/group_key.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/error.h"
#include "world/world.h"
#include "world/group.h"

/* How often a list of ranks was made into a group. */
struct group_count {
	struct group_count *next;
	uint64_t base; /* hash without the count */
	uint64_t made;
	bool alive;
	struct shunt_group *suspended; /* waits for its next attempt */
};

static uint64_t hash_list(const struct shunt_group *group, bool whole)
{
	crypto_generichash_state state;
	uint64_t hash;

	crypto_generichash_init(&state, NULL, 0, sizeof(hash));
	crypto_generichash_update(
		&state, (const uint8_t *)&whole, sizeof(whole));
	crypto_generichash_update(
		&state, (const uint8_t *)group->name, sizeof(group->name));
	crypto_generichash_update(&state, (const uint8_t *)group->members,
		(size_t)group->size * sizeof(*group->members));
	crypto_generichash_final(&state, (uint8_t *)&hash, sizeof(hash));
	return hash;
}

/* 0 marks a free directory entry, so no key is 0. */
static uint64_t hash_count(uint64_t base, uint64_t made)
{
	uint64_t pair[2] = {base, made};
	uint64_t hash;

	crypto_generichash((uint8_t *)&hash, sizeof(hash),
		(const uint8_t *)pair, sizeof(pair), NULL, 0);
	return hash ? hash : 1;
}

static struct group_count *find_base(struct shunt_world *world, uint64_t base)
{
	struct group_count *count = world->group_counts;

	while (count && count->base != base)
		count = count->next;
	return count;
}

static struct group_count *find_key(struct shunt_world *world, uint64_t key)
{
	struct group_count *count = world->group_counts;

	while (count && hash_count(count->base, count->made) != key)
		count = count->next;
	return count;
}

static enum shunt_status begin_locked(
	struct shunt_group *group, uint64_t base, struct shunt_group **earlier)
{
	struct shunt_world *world = group->world;
	struct group_count *count = find_base(world, base);

	if (!count) {
		count = calloc(1, sizeof(*count));
		if (!count)
			return error_set(SHUNT_NO_MEMORY,
				"rank %d: no memory for a group", world->rank);
		count->base = base;
		count->next = world->group_counts;
		world->group_counts = count;
	}
	if (count->suspended) {
		*earlier = count->suspended;
		count->suspended = NULL;
		return SHUNT_OK;
	}
	if (count->alive)
		return error_set(SHUNT_STATE,
			"rank %d: a group with these ranks and the name \"%s\" "
			"is alive; give another name",
			world->rank, group->name);
	count->alive = true;
	group->key = hash_count(base, count->made);
	return SHUNT_OK;
}

enum shunt_status group_key_begin(
	struct shunt_group *group, bool whole, struct shunt_group **earlier)
{
	uint64_t base = hash_list(group, whole);
	enum shunt_status status;

	pthread_mutex_lock(&group->world->lock);
	status = begin_locked(group, base, earlier);
	pthread_mutex_unlock(&group->world->lock);
	return status;
}

void group_key_end(struct shunt_group *group, bool existed)
{
	struct shunt_world *world = group->world;
	struct group_count *count;

	pthread_mutex_lock(&world->lock);
	count = find_key(world, group->key);
	if (count) {
		count->alive = false;
		count->made += existed;
	}
	pthread_mutex_unlock(&world->lock);
}

void group_key_suspend(struct shunt_group *group)
{
	struct shunt_world *world = group->world;
	struct group_count *count;

	pthread_mutex_lock(&world->lock);
	count = find_key(world, group->key);
	if (count)
		count->suspended = group;
	pthread_mutex_unlock(&world->lock);
}

void group_counts_drop(struct shunt_world *world)
{
	while (world->group_counts) {
		struct group_count *count = world->group_counts;

		world->group_counts = count->next;
		if (count->suspended)
			group_free(count->suspended);
		free(count);
	}
}
