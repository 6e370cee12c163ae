/* The group of all members of an exchange with TP; see create.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/error.h"
#include "exchange/create.h"

#define TAG_LISTS UINT64_C(0x6c697374)
#define TAG_GRID  UINT64_C(0x67726964)

/* What an EP rank tells its EP group about its TP group. */
struct tp_list {
	uint64_t serial; /* of grids that this EP group has made */
	int32_t tp_rank;
	int32_t members[GRID_MAX_TP]; /* world ranks */
};

/* What ranks of a TP group compare. */
struct grid_notice {
	uint64_t serial;
	uint8_t hash[32]; /* of the members' world ranks */
};

_Static_assert(sizeof(struct tp_list) <= GROUP_BLOB_BYTES, "tp_list");

/* A grid being made: members' world ranks, [P * W]. */
struct grid {
	struct shunt_group *ep_group;
	struct shunt_group *tp_group;
	int32_t *members;
	int32_t num_members;
	uint64_t serial;
};

/* Takes in what EP rank `r` has said. */
static enum shunt_status take_list(
	struct grid *grid, int32_t r, const struct tp_list *list)
{
	int32_t tp_rank = grid->tp_group->rank;
	int32_t num_ranks = grid->ep_group->size;

	if (list->tp_rank != tp_rank ||
		list->members[tp_rank] != grid->ep_group->members[r]) {
		error_set(SHUNT_MISMATCH,
			"EP rank %d is rank %d of its TP group and EP rank %d "
			"is rank %d of its own: a rank's number in its TP "
			"group is that of its EP group",
			r, list->tp_rank, grid->ep_group->rank, tp_rank);
		error_add_rank(r);
		return SHUNT_MISMATCH;
	}
	for (int32_t p = 0; p < grid->tp_group->size; p++)
		grid->members[p * num_ranks + r] = list->members[p];
	if (list->serial > grid->serial)
		grid->serial = list->serial;
	return SHUNT_OK;
}

static enum shunt_status gather_lists(struct grid *grid, int64_t deadline)
{
	struct tp_list mine = {
		.serial = grid->ep_group->num_grids,
		.tp_rank = grid->tp_group->rank,
	};
	struct gathered gathered;
	enum shunt_status status;

	memcpy(mine.members, grid->tp_group->members,
		(size_t)grid->tp_group->size * sizeof(*mine.members));
	status = group_gather(grid->ep_group, TAG_LISTS, &mine, sizeof(mine),
		deadline, &gathered);
	if (status != SHUNT_OK)
		return status;
	for (int32_t r = 0; r < grid->ep_group->size && !status; r++)
		status = take_list(grid, r,
			(const struct tp_list *)(void *)gathered.blobs + r);
	free(gathered.blobs);
	return status;
}

/* All EP groups have worked out the same grid, or all ranks fail. `own`: what
 * became of it here. */
static enum shunt_status compare_grids(
	struct grid *grid, enum shunt_status own, int64_t deadline)
{
	struct grid_notice mine = {.serial = grid->serial};
	char message[256];
	const struct grid_notice *notices;
	struct gathered gathered;
	enum shunt_status status;

	snprintf(message, sizeof(message), "%s", shunt_error_message());
	if (own == SHUNT_OK)
		crypto_generichash(mine.hash, sizeof(mine.hash),
			(const uint8_t *)grid->members,
			(size_t)grid->num_members * sizeof(*grid->members),
			NULL, 0);
	status = group_gather(grid->tp_group, TAG_GRID, &mine, sizeof(mine),
		deadline, &gathered);
	if (status != SHUNT_OK)
		return status;
	if (own != SHUNT_OK) {
		free(gathered.blobs);
		return error_set(own, "%s", message);
	}
	notices = (const struct grid_notice *)(void *)gathered.blobs;
	for (int32_t p = 0; p < grid->tp_group->size && !status; p++) {
		if (notices[p].serial > grid->serial)
			grid->serial = notices[p].serial;
		if (memcmp(notices[p].hash, mine.hash, sizeof(mine.hash)) == 0)
			continue;
		status = error_set(SHUNT_MISMATCH,
			"the EP groups of TP ranks %d and %d do not have the "
			"same TP groups",
			grid->tp_group->rank, p);
		error_add_rank(p);
	}
	free(gathered.blobs);
	return status;
}

enum shunt_status grid_create(struct shunt_group *ep_group,
	struct shunt_group *tp_group, int64_t deadline,
	struct shunt_group **out)
{
	struct grid grid = {
		.ep_group = ep_group,
		.tp_group = tp_group,
		.num_members = ep_group->size * tp_group->size,
	};
	int64_t left;
	char name[GROUP_NAME_BYTES];
	enum shunt_status status;

	grid.members = calloc((size_t)grid.num_members, sizeof(int32_t));
	if (!grid.members)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for a grid of %d ranks",
			ep_group->rank, grid.num_members);
	status = gather_lists(&grid, deadline);
	/* After a mismatch too: other EP groups may not see it. */
	if (status == SHUNT_OK || status == SHUNT_MISMATCH)
		status = compare_grids(&grid, status, deadline);
	if (status == SHUNT_OK) {
		ep_group->num_grids = grid.serial + 1;
		snprintf(name, sizeof(name), "shunt TP %llu",
			(unsigned long long)grid.serial);
		left = deadline - clock_now();
		status = shunt_group_create(ep_group->world, grid.members,
			grid.num_members, name, left > 0 ? left : 1, out);
	}
	free(grid.members);
	return status;
}
