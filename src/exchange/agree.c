/* How ranks agree on a new exchange; see create.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exchange/create.h"

#define TAG_CONFIG    UINT64_C(0x636f6e66)
#define TAG_PLACEMENT UINT64_C(0x706c6163)
#define TAG_TP        UINT64_C(0x7470)
#define TAG_WINDOW    UINT64_C(0x77696e64)
#define CHUNK_EXPERTS (GROUP_BLOB_BYTES / (int64_t)sizeof(int32_t))
#define LIST_BYTES    64

/* What a rank brings: its own outcome, and if that is OK the content. */
struct notice {
	int32_t status;
	char reason[STEP_REASON_BYTES];
	struct config_fields fields;
	uint64_t window_off;
};

_Static_assert(sizeof(struct notice) <= GROUP_BLOB_BYTES, "notice");

static const struct notice *notice_of(
	const struct gathered *gathered, int32_t rank)
{
	return (const struct notice *)(void *)gathered->blobs + rank;
}

/* Gathers notices; the error is about whoever refused. */
static enum shunt_status gather_notices(struct shunt_group *group, uint64_t tag,
	struct notice *mine, enum shunt_status own, int64_t deadline,
	struct gathered *gathered)
{
	enum shunt_status status;
	char reason[STEP_REASON_BYTES];
	char name[48];

	mine->status = (int32_t)own;
	if (own != SHUNT_OK)
		snprintf(mine->reason, sizeof(mine->reason), "%s",
			shunt_error_message());
	status = group_gather(
		group, tag, mine, sizeof(*mine), deadline, gathered);
	if (own != SHUNT_OK) {
		if (status == SHUNT_OK)
			free(gathered->blobs);
		return error_set(own, "%s", mine->reason);
	}
	for (int32_t r = 0; r < group->size && status == SHUNT_OK; r++) {
		const struct notice *notice = notice_of(gathered, r);

		if (notice->status == SHUNT_OK)
			continue;
		snprintf(reason, sizeof(reason), "%.*s",
			(int)sizeof(notice->reason) - 1, notice->reason);
		status = error_set(SHUNT_PEER_REFUSED,
			"%s cannot make the exchange: %s",
			group_rank_text(group, r, name), reason);
		error_add_rank(r);
		free(gathered->blobs);
	}
	return status;
}

/* ---- comparing -------------------------------------------------------- */

/* The ranks with `value` in field `field`: "0, 2, 3". */
static void list_ranks(char list[LIST_BYTES], const struct gathered *gathered,
	int32_t num_ranks, int field, int64_t value)
{
	size_t used = 0;

	list[0] = '\0';
	for (int32_t r = 0; r < num_ranks; r++) {
		if (notice_of(gathered, r)->fields.value[field] != value)
			continue;
		if (used + 16 > LIST_BYTES) {
			snprintf(list + used, LIST_BYTES - used, ", ...");
			return;
		}
		used += (size_t)snprintf(list + used, LIST_BYTES - used, "%s%d",
			used ? ", " : "", r);
	}
}

/* Names rank 0's value of a field and the first other one. The ranks of the
 * error are those that differ from rank 0. */
static enum shunt_status mismatch(const struct gathered *gathered,
	int32_t num_ranks, int field, int64_t other)
{
	int64_t first = notice_of(gathered, 0)->fields.value[field];
	char first_list[LIST_BYTES];
	char other_list[LIST_BYTES];

	list_ranks(first_list, gathered, num_ranks, field, first);
	list_ranks(other_list, gathered, num_ranks, field, other);
	error_set(SHUNT_MISMATCH,
		"%s differs: %" PRId64 " on ranks %s; %" PRId64 " on ranks %s",
		config_field_name(field), first, first_list, other, other_list);
	for (int32_t r = 0; r < num_ranks; r++)
		if (notice_of(gathered, r)->fields.value[field] != first)
			error_add_rank(r);
	return SHUNT_MISMATCH;
}

static enum shunt_status compare_fields(
	const struct gathered *gathered, int32_t num_ranks)
{
	const struct config_fields *first = &notice_of(gathered, 0)->fields;

	for (int i = 0; i < CONFIG_NUM_FIELDS; i++)
		for (int32_t r = 1; r < num_ranks; r++) {
			int64_t value = notice_of(gathered, r)->fields.value[i];

			if (value != first->value[i])
				return mismatch(gathered, num_ranks, i, value);
		}
	return SHUNT_OK;
}

/* The first rank whose placement is not rank 0's, -1 if there is none. */
static int32_t other_placement(
	const struct gathered *gathered, int32_t num_ranks)
{
	const struct config_fields *first = &notice_of(gathered, 0)->fields;

	for (int32_t r = 1; r < num_ranks; r++)
		if (memcmp(notice_of(gathered, r)->fields.placement_hash,
			    first->placement_hash,
			    sizeof(first->placement_hash)) != 0)
			return r;
	return -1;
}

/* Looks for the first expert that ranks 0 and `other` place differently in
 * one gathered chunk; -1: none. */
static int64_t differing_expert(
	const struct gathered *gathered, int32_t other, int64_t count)
{
	const uint8_t *a = gathered->blobs;
	const uint8_t *b =
		gathered->blobs + (uint64_t)other * gathered->blob_bytes;

	for (int64_t i = 0; i < count; i++)
		if (memcmp(a + i * 4, b + i * 4, 4) != 0)
			return i;
	return -1;
}

/* The hashes say that placements differ; all ranks know it and bring their
 * maps piece by piece to say where. */
static enum shunt_status explain_placement(
	struct shunt_exchange *exchange, int32_t other, int64_t deadline)
{
	const struct placement *placement = &exchange->accepted.placement;
	int64_t total = placement->num_units;
	int32_t first_rank = -1;
	int32_t other_rank = -1;
	int64_t expert = -1;

	for (int64_t at = 0; at < total && expert < 0; at += CHUNK_EXPERTS) {
		int64_t count =
			total - at < CHUNK_EXPERTS ? total - at : CHUNK_EXPERTS;
		struct gathered chunk;
		enum shunt_status status = group_gather(exchange->group,
			TAG_PLACEMENT, placement->rank + at,
			(uint64_t)count * sizeof(int32_t), deadline, &chunk);

		if (status != SHUNT_OK)
			return status;
		expert = differing_expert(&chunk, other, count);
		if (expert >= 0) {
			memcpy(&first_rank, chunk.blobs + expert * 4, 4);
			memcpy(&other_rank,
				chunk.blobs +
					(uint64_t)other * chunk.blob_bytes +
					expert * 4,
				4);
			expert += at;
		}
		free(chunk.blobs);
	}
	error_set(SHUNT_MISMATCH,
		"the placement differs: expert %" PRId64
		" is on rank %d by rank 0, on rank %d by rank %d",
		expert, first_rank, other_rank, other);
	error_add_rank(other);
	return SHUNT_MISMATCH;
}

/* Gathers the members' fields, which must be alike. *other is a member whose
 * placement is not the first one's, or -1. */
static enum shunt_status compare_members(struct shunt_exchange *exchange,
	struct shunt_group *group, uint64_t tag, enum shunt_status own,
	int64_t deadline, int32_t *other)
{
	struct notice mine = {0};
	struct gathered gathered;
	enum shunt_status status;

	if (own == SHUNT_OK)
		config_fields_fill(&mine.fields, &exchange->accepted);
	status = gather_notices(group, tag, &mine, own, deadline, &gathered);
	if (status != SHUNT_OK)
		return status;
	status = compare_fields(&gathered, group->size);
	*other = other_placement(&gathered, group->size);
	free(gathered.blobs);
	return status;
}

enum shunt_status agree_config(struct shunt_exchange *exchange,
	enum shunt_status own, int64_t deadline)
{
	int32_t other = -1;
	enum shunt_status status = compare_members(
		exchange, exchange->group, TAG_CONFIG, own, deadline, &other);

	if (status != SHUNT_OK || other < 0)
		return status;
	return explain_placement(exchange, other, deadline);
}

enum shunt_status agree_tp(struct shunt_exchange *exchange,
	struct shunt_group *tp_group, enum shunt_status own, int64_t deadline)
{
	int32_t other = -1;
	enum shunt_status status = compare_members(
		exchange, tp_group, TAG_TP, own, deadline, &other);

	if (status != SHUNT_OK || other < 0)
		return status;
	error_set(SHUNT_MISMATCH,
		"the placement differs between TP ranks 0 and %d", other);
	error_add_rank(other);
	return SHUNT_MISMATCH;
}

/* ---- windows ---------------------------------------------------------- */

/* The member's window, mapped; NULL with OK if it is on another host. */
static enum shunt_status map_window(struct shunt_exchange *exchange, int32_t r,
	uint64_t offset, uint8_t **window)
{
	struct peer *peer = exchange->group->peers[r];
	uint64_t bytes = exchange->layouts[r].total_bytes;
	char name[48];

	*window = NULL;
	if (offset % 4096 == 0 && peer_has(peer, offset, bytes)) {
		*window = peer->ops->map(peer, offset, bytes);
		return SHUNT_OK;
	}
	error_set(SHUNT_PEER_FAULT,
		"%s says that its window is at offset %" PRIu64
		", outside its segment",
		group_rank_text(exchange->group, r, name), offset);
	error_add_rank(r);
	return SHUNT_PEER_FAULT;
}

/* Maps the windows; their offsets come from peers. */
static enum shunt_status map_windows(
	struct shunt_exchange *exchange, const struct gathered *gathered)
{
	enum shunt_status status = SHUNT_OK;

	for (int32_t r = 0; r < exchange->group->size && !status; r++) {
		exchange->window_off[r] = notice_of(gathered, r)->window_off;
		status = map_window(exchange, r, exchange->window_off[r],
			&exchange->windows[r]);
	}
	return status;
}

enum shunt_status agree_windows(struct shunt_exchange *exchange,
	enum shunt_status own, int64_t deadline, bool *published)
{
	struct notice mine = {0};
	struct gathered gathered;
	enum shunt_status status;

	if (own == SHUNT_OK)
		mine.window_off = exchange->window_off[exchange->rank];
	status = gather_notices(
		exchange->group, TAG_WINDOW, &mine, own, deadline, &gathered);
	/* When a rank refused, all know it and none comes here. Otherwise
	 * some may have gathered everything. */
	*published = status != SHUNT_PEER_REFUSED && own == SHUNT_OK;
	if (status != SHUNT_OK)
		return status;
	status = map_windows(exchange, &gathered);
	free(gathered.blobs);
	return status;
}
