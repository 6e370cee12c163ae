/*
 * Puts. A small one is copied and goes out whole or not at all, but for its count,
 * which may wait. A larger one is taken over at once and goes out as there is room:
 * then it is the link's pending put, and the next put waits for it.
 *
 *	lane 0	write, write, ...                 COUNT {fences 1, 2}
 *	lane 1	write, write, ... FENCE
 *	lane 2	write, write, ... FENCE
 *
 * Queue pairs are not ordered with each other, so the receiver holds COUNT back
 * until the fences that it names have come. A lane owes a FENCE (dirty) from
 * its first write to the next COUNT, whichever put that is of: so an addition
 * also covers the bytes of earlier puts.
 */
#include "transport/verbs_put.h"

#include "base/error.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_link.h"
#include "transport/verbs_memory.h"
#include "transport/verbs_record.h"

/* From so many bytes on a put is spread over all lanes, by whole pages. */
#define STRIPE_BYTES 65536
#define STRIPE_ALIGN 4096

/* ---- what may be put --------------------------------------------------- */

static bool is_in_image(
	const struct verbs_link *link, uint64_t offset, uint64_t num_bytes)
{
	return offset >= link->peer_image_off &&
	       offset - link->peer_image_off <= CONTROL_BYTES &&
	       num_bytes <= CONTROL_BYTES - (offset - link->peer_image_off);
}

/* The peer's range that holds the bytes, its keys all known; or NULL. */
static const struct verbs_range *range_of(
	const struct verbs_link *link, uint64_t offset, uint64_t num_bytes)
{
	const struct verbs_range *range =
		verbs_ranges_find(&link->remote, offset, num_bytes);

	return range && range->num_rkeys == link->num_peer_devices ? range
								   : NULL;
}

static bool is_exposed(
	const struct verbs_link *link, uint64_t offset, uint64_t num_bytes)
{
	return range_of(link, offset, num_bytes) ||
	       is_in_image(link, offset, num_bytes);
}

static enum shunt_status refuse(const struct verbs_link *link, const char *what,
	const char *why, uint64_t offset, uint64_t num_bytes)
{
	return error_set(SHUNT_INVALID,
		"a put of %llu bytes: %s offset %llu %s of rank %d, 0 .. %llu",
		(unsigned long long)num_bytes, what, (unsigned long long)offset,
		why, link->peer.rank, (unsigned long long)link->peer_bytes);
}

static bool is_outside(
	const struct verbs_link *link, uint64_t offset, uint64_t num_bytes)
{
	return offset > link->peer_bytes ||
	       num_bytes > link->peer_bytes - offset;
}

static enum shunt_status target_check(const struct verbs_link *link,
	uint64_t offset, uint64_t num_bytes, uint64_t counter_offset)
{
	static const char misfit[] = "does not fit into the segment";
	static const char hidden[] = "is not exposed in the segment";
	const uint64_t word = sizeof(uint64_t);
	bool counts = counter_offset != PUT_NO_COUNTER;

	if (is_outside(link, offset, num_bytes))
		return refuse(link, "its", misfit, offset, num_bytes);
	if (counts && (is_outside(link, counter_offset, word) ||
			      counter_offset % word != 0))
		return refuse(link, "the counter's", misfit, counter_offset,
			num_bytes);
	if (link->phase != LINK_OPEN)
		return SHUNT_OK; /* it goes nowhere */
	if (num_bytes && !is_exposed(link, offset, num_bytes))
		return refuse(link, "its", hidden, offset, num_bytes);
	if (counts && !is_exposed(link, counter_offset, word))
		return refuse(link, "the counter's", hidden, counter_offset,
			num_bytes);
	return SHUNT_OK;
}

static enum shunt_status source_check(
	const struct verbs_link *link, const void *bytes, uint64_t num_bytes)
{
	if (num_bytes <= PUT_COPY_BYTES ||
		memory_find(
			link->far, &link->far->devices[0], bytes, num_bytes))
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"a put of %llu bytes to rank %d: over %d bytes, they must lie "
		"in one range of the own segment",
		(unsigned long long)num_bytes, link->peer.rank, PUT_COPY_BYTES);
}

/* ---- counts ------------------------------------------------------------ */

/* A count goes out behind what waits in the outbox, and waits there itself for a peer
 * that takes nothing now: it may be stopped, and the caller may have no time. */
static bool count_fits(struct verbs_link *link, uint32_t num_writes)
{
	return (link->outbox.num == 0 &&
		       lane_takes_record(&link->lanes[0], num_writes)) ||
	       outbox_reserve(link, 1) == SHUNT_OK;
}

static bool send_count(struct verbs_link *link, struct lane_batch *batch,
	const struct record *count)
{
	if (!count_fits(link, 0))
		return false;
	if (link->outbox.num == 0 && lane_takes_record(batch->lane, 0))
		lane_add_record(batch, count);
	else
		outbox_add(link, count);
	return true;
}

/* ---- small puts -------------------------------------------------------- */

/* Whether a copied put fits whole: all of its requests, and buffers for them
 * where the device takes nothing inline. */
static bool fits_whole(
	struct verbs_link *link, uint64_t num_bytes, uint64_t counter_offset)
{
	struct verbs_lane *lane = &link->lanes[0];
	uint32_t num_writes = num_bytes > 0;

	if (lane->device->inline_bytes < PUT_COPY_BYTES &&
		link->far->num_free_bounces < 2 + link->num_lanes)
		return false;
	if (lane_room(lane) < num_writes)
		return false;
	if (counter_offset == PUT_NO_COUNTER)
		return true;
	for (int l = 1; l < link->num_lanes; l++)
		if (link->lanes[l].dirty &&
			!lane_takes_record(&link->lanes[l], 0))
			return false;
	return count_fits(link, num_writes);
}

/* ---- sending ----------------------------------------------------------- */

/* Gives each lane its part of the bytes. */
static void spread(const struct verbs_link *link, struct verbs_pending *put,
	uint64_t bytes)
{
	uint64_t lanes = bytes >= STRIPE_BYTES ? link->num_lanes : 1;
	uint64_t part = (bytes + lanes - 1) / lanes;
	uint64_t from = 0;

	part = (part + STRIPE_ALIGN - 1) / STRIPE_ALIGN * STRIPE_ALIGN;
	for (int l = 0; l < link->num_lanes; l++) {
		put->from[l] = from;
		from = bytes - from < part ? bytes : from + part;
		put->to[l] = from;
	}
}

static uint32_t key_of(const struct verbs_lane *lane,
	const struct verbs_pending *put, uint64_t num_bytes)
{
	const struct verbs_range *range =
		range_of(lane->link, put->offset, num_bytes);

	return range ? range->rkeys[lane->peer_device] : lane->peer_image_rkey;
}

/* Writes a piece of the put. False if its source is gone: freed before flushed(),
 * and not to be taken for one that is copied. */
static bool write_piece(struct lane_batch *batch,
	const struct verbs_pending *put, uint64_t from, uint32_t num_bytes,
	uint32_t rkey)
{
	struct verbs_lane *lane = batch->lane;
	const uint8_t *bytes = put->bytes + from;
	const struct ibv_mr *mr = NULL;

	if (!put->copied) {
		mr = memory_find(
			lane->link->far, lane->device, bytes, num_bytes);
		if (!mr) {
			link_fail(lane->link,
				"the source of a put of %u bytes was freed",
				num_bytes);
			return false;
		}
	}
	lane_add_write(batch, put->offset + from, rkey, bytes, num_bytes, mr);
	lane_await_last(batch);
	return true;
}

/* Writes what has room of a lane's part. True if that is all of it. */
static bool write_part(struct lane_batch *batch, struct verbs_pending *put)
{
	struct verbs_lane *lane = batch->lane;
	uint64_t *from = &put->from[lane->number];
	uint64_t to = put->to[lane->number];
	uint32_t rkey;

	if (*from == to)
		return true;
	rkey = key_of(lane, put, to);
	while (*from < to && lane_room(lane) > 0) {
		uint32_t piece = lane->device->max_message_bytes;

		if (to - *from < piece)
			piece = (uint32_t)(to - *from);
		if (!write_piece(batch, put, *from, piece, rkey))
			return false;
		*from += piece;
		/* Who is stopped has room for bytes, but takes no records. */
		if (lane->link->outbox.num == 0)
			lane->link->stalled_seen = 0;
		lane->dirty = lane->number != 0;
	}
	return *from == to;
}

/* Writes the parts of the lanes but the first, and the fences behind them. */
static bool send_others(struct verbs_link *link, struct verbs_pending *put)
{
	static const struct record fence = {.kind = RECORD_FENCE};
	bool fenced = put->counter_offset != PUT_NO_COUNTER;
	bool all = true;

	for (int l = 1; l < link->num_lanes; l++) {
		struct verbs_lane *lane = &link->lanes[l];
		struct lane_batch batch;
		bool done;

		lane_batch_begin(&batch, lane);
		done = write_part(&batch, put);
		if (done && fenced && lane->dirty) {
			done = lane_takes_record(lane, 0);
			if (done) {
				lane_add_record(&batch, &fence);
				lane->dirty = false;
				put->fences |= (uint16_t)(1u << l);
			}
		}
		/* Signalled: who leaves waits until all of it is there. */
		if (done && fenced)
			lane_post_signalled(&batch);
		else
			lane_post(&batch);
		all = all && done;
	}
	return all;
}

static bool send_first(
	struct verbs_link *link, struct verbs_pending *put, bool may_count)
{
	const struct record count = {
		.kind = RECORD_COUNT,
		.fences = put->fences,
		.offset = put->counter_offset,
		.value = put->add,
	};
	bool counts = put->counter_offset != PUT_NO_COUNTER;
	struct verbs_lane *lane = &link->lanes[0];
	struct lane_batch *batch = lane_kept(lane);
	bool done = write_part(batch, put) && may_count;

	if (done && !counts && !put->copied) {
		if (!lane_post_kept_if_full(lane))
			link_keep_busy(link);
		return true;
	}
	if (done && counts)
		done = send_count(link, batch, &count);
	lane_post(batch);
	return done;
}

bool put_continue(struct verbs_link *link)
{
	struct verbs_pending *put = &link->pending;
	bool others;

	if (!put->active)
		return true;
	others = send_others(link, put);
	if (send_first(link, put, others))
		put->active = false;
	/* If posting failed, so has the link. */
	return !put->active;
}

enum shunt_status put_start(struct verbs_link *link, uint64_t offset,
	const void *bytes, uint64_t num_bytes, uint64_t counter_offset,
	uint64_t add, bool *again)
{
	enum shunt_status status =
		target_check(link, offset, num_bytes, counter_offset);
	bool copied = num_bytes <= PUT_COPY_BYTES;

	*again = false;
	if (status == SHUNT_OK)
		status = source_check(link, bytes, num_bytes);
	if (status != SHUNT_OK || link->phase != LINK_OPEN)
		return status;
	outbox_send(link);
	*again = !put_continue(link) ||
		 (copied && !fits_whole(link, num_bytes, counter_offset));
	if (*again)
		link_stalls(link);
	if (*again || link->phase != LINK_OPEN) {
		*again = link->phase == LINK_OPEN;
		return SHUNT_OK;
	}
	link->pending = (struct verbs_pending){
		.active = true,
		.copied = copied,
		.bytes = bytes,
		.offset = offset,
		.counter_offset = counter_offset,
		.add = add,
	};
	spread(link, &link->pending, num_bytes);
	if (!put_continue(link))
		link_keep_busy(link);
	return SHUNT_OK;
}
