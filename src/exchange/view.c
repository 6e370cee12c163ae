/* Views; see view.h. */
#include "exchange/view.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/error.h"

#define TABLE_HEAD 4 /* entries before table 1 */

enum shunt_status view_init(
	struct view *view, const struct shape *shape, int32_t rank)
{
	size_t members = (size_t)shape->num_members;
	size_t ranks = (size_t)shape->num_ranks;
	size_t units = (size_t)shape->num_units + 1;
	enum shunt_status status;

	*view = (struct view){
		.members = calloc(members, sizeof(int32_t)),
		.original = calloc(ranks, sizeof(int32_t)),
		.scale_row = calloc(units, sizeof(int64_t)),
		.by_host = calloc(members, sizeof(int32_t)),
		.host_first = calloc(members + 1, sizeof(int32_t)),
		.number = calloc(members, sizeof(int32_t)),
	};
	status = placement_alloc(
		&view->placement, shape->num_ranks, shape->num_units, rank);
	if (view->members && view->original && view->scale_row &&
		view->by_host && view->host_first && view->number &&
		status == SHUNT_OK)
		return SHUNT_OK;
	view_fini(view);
	return error_set(SHUNT_NO_MEMORY,
		"rank %d: no memory for a view of %d ranks", rank,
		shape->num_members);
}

void view_fini(struct view *view)
{
	free(view->members);
	free(view->original);
	free(view->scale_row);
	free(view->by_host);
	free(view->host_first);
	free(view->number);
	placement_fini(&view->placement);
	*view = (struct view){0};
}

uint64_t view_bytes(const struct shape *shape)
{
	uint64_t units = (uint64_t)shape->num_units + 1;

	return ((uint64_t)shape->num_members * 4 + 1) * sizeof(int32_t) +
	       (uint64_t)shape->num_ranks * sizeof(int32_t) +
	       units * sizeof(int64_t) +
	       placement_bytes(shape->num_ranks, shape->num_units);
}

void view_copy(struct view *to, const struct view *from)
{
	to->table = from->table;
	to->num_ranks = from->num_ranks;
	to->num_shared_ranks = from->num_shared_ranks;
	to->num_experts = from->num_experts;
	to->rank = from->rank;
	to->num_members = from->num_members;
	memcpy(to->members, from->members,
		(size_t)from->num_members * sizeof(*to->members));
	memcpy(to->original, from->original,
		(size_t)from->num_ranks * sizeof(*to->original));
	to->num_hosts = from->num_hosts;
	to->num_all = from->num_all;
	memcpy(to->by_host, from->by_host,
		(size_t)from->num_members * sizeof(*to->by_host));
	memcpy(to->host_first, from->host_first,
		(size_t)(from->num_hosts + 1) * sizeof(*to->host_first));
	memcpy(to->number, from->number,
		(size_t)from->num_all * sizeof(*to->number));
	placement_copy(&to->placement, &from->placement);
	memcpy(to->scale_row, from->scale_row,
		(size_t)from->placement.num_units * sizeof(*to->scale_row));
}

/* Lm of the even placement; at least 1, for divisions by it. */
static int64_t experts_per_rank(const struct shape *shape)
{
	int32_t ranks = shape->num_ranks - shape->num_shared_ranks;

	return ranks > 0 && shape->num_experts > ranks
		       ? shape->num_experts / ranks
		       : 1;
}

/* Rows of scales: shared experts come first, if there are any. */
static void fill_scale_rows(
	struct view *view, const struct shape *shape, const struct view *whole)
{
	int64_t per_rank = experts_per_rank(shape);
	int32_t replicas = view_replicas(view, shape);

	for (int64_t e = 0; e < view->num_experts; e++) {
		int64_t original = e;

		if (whole != view)
			original = (view->original[view->placement.rank[e]] -
					   shape->num_shared_ranks) *
					   per_rank +
				   e % per_rank;
		view->scale_row[e] = shape->num_shared + original;
	}
	for (int32_t i = 0; i < view->num_shared_ranks; i++)
		view->scale_row[view->num_experts + i] = i / replicas;
}

/* Sorts the members by host. */
static void fill_hosts(struct view *view, const struct shape *shape)
{
	const struct hosts *hosts = shape->hosts;
	int32_t num = 0;

	view->num_hosts = hosts ? hosts->num_hosts : 0;
	view->num_all = shape->num_members;
	for (int32_t m = 0; m < shape->num_members; m++)
		view->number[m] = -1;
	for (int32_t h = 0; h < view->num_hosts; h++) {
		view->host_first[h] = num;
		for (int32_t i = 0; i < view->num_members; i++) {
			int32_t member = view->members[i];

			if (hosts->host[member] != h)
				continue;
			view->number[member] = num - view->host_first[h];
			view->by_host[num++] = member;
		}
		view->host_first[h + 1] = num;
	}
}

static void fill_members(struct view *view, const struct shape *shape)
{
	view->num_members = shape->tp_size * view->num_ranks;
	for (int32_t p = 0; p < shape->tp_size; p++)
		for (int32_t r = 0; r < view->num_ranks; r++)
			view->members[p * view->num_ranks + r] =
				p * shape->num_ranks + view->original[r];
	fill_hosts(view, shape);
}

void view_fill_whole(struct view *view, const struct shape *shape,
	const struct placement *placement, int32_t rank)
{
	view->table = 0;
	view->num_ranks = shape->num_ranks;
	view->num_shared_ranks = shape->num_shared_ranks;
	view->num_experts = shape->num_experts;
	view->rank = rank;
	for (int32_t r = 0; r < shape->num_ranks; r++)
		view->original[r] = r;
	placement_copy(&view->placement, placement);
	fill_members(view, shape);
	fill_scale_rows(view, shape, view);
}

/* ---- tables ----------------------------------------------------------- */

uint64_t view_table_hash(const int32_t *table, int32_t num_ranks)
{
	unsigned char bytes[16];
	uint64_t hash;

	if (!table || table[0] != 1)
		return 0;
	crypto_generichash(bytes, sizeof(bytes), (const unsigned char *)table,
		(TABLE_HEAD + 2 * (size_t)num_ranks) * sizeof(*table), NULL, 0);
	memcpy(&hash, bytes, sizeof(hash));
	return hash ? hash : 1;
}

static enum shunt_status refuse_entry(const int32_t *table, int64_t index,
	const char *legal, const struct view *whole)
{
	return error_set(SHUNT_INVALID,
		"elastic_info[%lld] is %d, must be %s (rank %d)",
		(long long)index, table[index], legal, whole->rank);
}

/* Counts that must fit what the exchange was made with. */
static enum shunt_status check_counts(const struct shape *shape,
	const struct view *whole, const int32_t *table)
{
	int64_t per_rank = shape->num_experts ? experts_per_rank(shape) : 0;
	int32_t ranks = table[1];
	int32_t shared = table[2];

	if (ranks < 1 || ranks > shape->num_ranks)
		return refuse_entry(
			table, 1, "1 .. the number of ranks", whole);
	if (shared < 0 || shared > shape->num_shared_ranks || shared >= ranks)
		return refuse_entry(table, 2,
			"0 .. num_shared_ranks and below elastic_info[1]: a "
			"rank with experts must remain",
			whole);
	if (shape->num_shared > 0 &&
		(shared < shape->num_shared || shared % shape->num_shared))
		return refuse_entry(table, 2,
			"the same number of ranks, at least 1, for each "
			"shared expert",
			whole);
	if (table[3] != (ranks - shared) * per_rank)
		return refuse_entry(table, 3,
			"the experts of the ranks that are left, as many on "
			"each as before",
			whole);
	return SHUNT_OK;
}

/* Tables 1 and 2 are each other's inverse. */
static enum shunt_status check_maps(const struct shape *shape,
	const struct view *whole, const int32_t *table)
{
	int32_t num_ranks = shape->num_ranks;
	const int32_t *to_new = table + TABLE_HEAD;
	const int32_t *to_original = to_new + num_ranks;
	int32_t left = 0;

	for (int32_t o = 0; o < num_ranks; o++) {
		if (to_new[o] == -1)
			continue;
		left++;
		if (to_new[o] < 0 || to_new[o] >= table[1] ||
			to_original[to_new[o]] != o)
			return refuse_entry(table, TABLE_HEAD + o,
				"-1, or a new rank below elastic_info[1] that "
				"table 2 leads back from",
				whole);
	}
	if (left != table[1])
		return refuse_entry(
			table, 1, "the number of ranks in table 1", whole);
	for (int32_t n = table[1]; n < num_ranks; n++)
		if (to_original[n] != -1)
			return refuse_entry(table, TABLE_HEAD + num_ranks + n,
				"-1 from elastic_info[1] on", whole);
	return SHUNT_OK;
}

/* Shared ranks stay in front and keep their expert. */
static enum shunt_status check_shared(const struct shape *shape,
	const struct view *whole, const int32_t *table)
{
	int32_t num_ranks = shape->num_ranks;
	int32_t shared = table[2];

	for (int32_t n = 0; n < table[1]; n++) {
		int64_t index = TABLE_HEAD + num_ranks + n;
		int32_t original = table[index];
		int32_t before, after;

		if ((original < shape->num_shared_ranks) != (n < shared))
			return refuse_entry(table, index,
				"a rank of the same kind: shared-expert ranks "
				"stay in front",
				whole);
		if (n >= shared)
			continue;
		before = original /
			 (shape->num_shared_ranks / (int32_t)shape->num_shared);
		after = n / (shared / (int32_t)shape->num_shared);
		if (before != after)
			return refuse_entry(table, index,
				"a rank that held the same shared expert "
				"before",
				whole);
	}
	return SHUNT_OK;
}

static void place_units(struct view *view, const struct shape *shape)
{
	int64_t per_rank = experts_per_rank(shape);

	for (int64_t e = 0; e < view->num_experts; e++)
		view->placement.rank[e] =
			view->num_shared_ranks + (int32_t)(e / per_rank);
	for (int32_t i = 0; i < view->num_shared_ranks; i++)
		view->placement.rank[view->num_experts + i] = i;
	placement_order(&view->placement, view->num_ranks,
		view->num_experts + view->num_shared_ranks);
}

enum shunt_status view_fill_table(struct view *view, const struct shape *shape,
	const struct view *whole, const int32_t *table)
{
	int32_t own = table[TABLE_HEAD + whole->rank];
	enum shunt_status status = check_counts(shape, whole, table);

	if (status == SHUNT_OK)
		status = check_maps(shape, whole, table);
	if (status == SHUNT_OK)
		status = check_shared(shape, whole, table);
	if (status == SHUNT_OK && own < 0)
		status = refuse_entry(table, TABLE_HEAD + whole->rank,
			"a new rank: one that is removed takes no part", whole);
	if (status != SHUNT_OK)
		return status;
	view->table = view_table_hash(table, shape->num_ranks);
	view->num_ranks = table[1];
	view->num_shared_ranks = table[2];
	view->num_experts = table[3];
	view->rank = own;
	memcpy(view->original, table + TABLE_HEAD + shape->num_ranks,
		(size_t)table[1] * sizeof(*table));
	place_units(view, shape);
	fill_members(view, shape);
	fill_scale_rows(view, shape, whole);
	return SHUNT_OK;
}
