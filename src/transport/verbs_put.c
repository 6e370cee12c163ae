/*
 * Puts. A small one is copied and goes out whole, but for its count, which may wait. A
 * larger one goes out as there is room: then it is the link's pending put. Those that
 * find no room, or others before them, are the link's backlog.
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
#include "transport/verbs_backlog.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_link.h"
#include "transport/verbs_memory.h"
#include "transport/verbs_record.h"

/* From so many bytes on a put is spread over all lanes, by whole pages. */
#define STRIPE_BYTES 65536
#define STRIPE_ALIGN 4096
/* A look costs as much as there are links with something to send. */
#define LOOK_EVERY 16

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

static bool counts(const struct verbs_put *put)
{
	return put->counter_offset != PUT_NO_COUNTER;
}

static enum shunt_status target_check(
	const struct verbs_link *link, const struct verbs_put *put)
{
	static const char misfit[] = "does not fit into the segment";
	static const char hidden[] = "is not exposed in the segment";
	const uint64_t word = sizeof(uint64_t);
	uint64_t counter = put->counter_offset;
	uint64_t num_bytes = put->num_bytes;

	if (is_outside(link, put->offset, num_bytes))
		return refuse(link, "its", misfit, put->offset, num_bytes);
	if (counts(put) &&
		(is_outside(link, counter, word) || counter % word != 0))
		return refuse(
			link, "the counter's", misfit, counter, num_bytes);
	if (link->phase != LINK_OPEN)
		return SHUNT_OK; /* it goes nowhere */
	if (num_bytes && !is_exposed(link, put->offset, num_bytes))
		return refuse(link, "its", hidden, put->offset, num_bytes);
	if (counts(put) && !is_exposed(link, counter, word))
		return refuse(
			link, "the counter's", hidden, counter, num_bytes);
	return SHUNT_OK;
}

static enum shunt_status source_check(
	const struct verbs_link *link, const struct verbs_put *put)
{
	if (put_is_copied(put) || memory_find(link->far, &link->far->devices[0],
					  put->bytes, put->num_bytes))
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"a put of %llu bytes to rank %d: over %d bytes, they must lie "
		"in one range of the own segment",
		(unsigned long long)put->num_bytes, link->peer.rank,
		PUT_COPY_BYTES);
}

/* What it was for may have gone since it was put: then so has who would read it. */
static bool is_wanted(
	const struct verbs_link *link, const struct verbs_put *put)
{
	return (put->num_bytes == 0 ||
		       is_exposed(link, put->offset, put->num_bytes)) &&
	       (!counts(put) ||
		       is_exposed(link, put->counter_offset, sizeof(uint64_t)));
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
static bool fits_whole(struct verbs_link *link, const struct verbs_put *put)
{
	struct verbs_lane *lane = &link->lanes[0];
	uint32_t num_writes = put->num_bytes > 0;

	if (lane->device->inline_bytes < PUT_COPY_BYTES &&
		link->far->num_free_bounces < 2 + link->num_lanes)
		return false;
	if (lane_room(lane) < num_writes)
		return false;
	if (!counts(put))
		return true;
	for (int l = 1; l < link->num_lanes; l++)
		if (link->lanes[l].dirty &&
			!lane_takes_record(&link->lanes[l], 0))
			return false;
	return count_fits(link, num_writes);
}

/* ---- sending ----------------------------------------------------------- */

/* Gives each lane its part of the bytes. */
static void spread(const struct verbs_link *link, struct verbs_pending *pending)
{
	uint64_t bytes = pending->put.num_bytes;
	uint64_t lanes = bytes >= STRIPE_BYTES ? link->num_lanes : 1;
	uint64_t part = (bytes + lanes - 1) / lanes;
	uint64_t from = 0;

	part = (part + STRIPE_ALIGN - 1) / STRIPE_ALIGN * STRIPE_ALIGN;
	for (int l = 0; l < link->num_lanes; l++) {
		pending->from[l] = from;
		from = bytes - from < part ? bytes : from + part;
		pending->to[l] = from;
	}
}

static uint32_t key_of(const struct verbs_lane *lane,
	const struct verbs_put *put, uint64_t num_bytes)
{
	const struct verbs_range *range =
		range_of(lane->link, put->offset, num_bytes);

	return range ? range->rkeys[lane->peer_device] : lane->peer_image_rkey;
}

/* Writes a piece of the put. False if its source is gone: freed before flushed(),
 * and not to be taken for one that is copied. */
static bool write_piece(struct lane_batch *batch, const struct verbs_put *put,
	uint64_t from, uint32_t num_bytes, uint32_t rkey)
{
	struct verbs_lane *lane = batch->lane;
	const uint8_t *bytes = put->bytes + from;
	const struct ibv_mr *mr = NULL;

	if (!put_is_copied(put)) {
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
static bool write_part(struct lane_batch *batch, struct verbs_pending *pending)
{
	struct verbs_lane *lane = batch->lane;
	uint64_t *from = &pending->from[lane->number];
	uint64_t to = pending->to[lane->number];
	uint32_t rkey;

	if (*from == to)
		return true;
	rkey = key_of(lane, &pending->put, to);
	while (*from < to && lane_room(lane) > 0) {
		uint32_t piece = lane->device->max_message_bytes;

		if (to - *from < piece)
			piece = (uint32_t)(to - *from);
		if (!write_piece(batch, &pending->put, *from, piece, rkey))
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
static bool send_others(struct verbs_link *link, struct verbs_pending *pending)
{
	static const struct record fence = {.kind = RECORD_FENCE};
	bool fenced = counts(&pending->put);
	bool all = true;

	for (int l = 1; l < link->num_lanes; l++) {
		struct verbs_lane *lane = &link->lanes[l];
		struct lane_batch batch;
		bool done;

		lane_batch_begin(&batch, lane);
		done = write_part(&batch, pending);
		if (done && fenced && lane->dirty) {
			done = lane_takes_record(lane, 0);
			if (done) {
				lane_add_record(&batch, &fence);
				lane->dirty = false;
				pending->fences |= (uint16_t)(1u << l);
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
	struct verbs_link *link, struct verbs_pending *pending, bool may_count)
{
	const struct verbs_put *put = &pending->put;
	const struct record count = {
		.kind = RECORD_COUNT,
		.fences = pending->fences,
		.offset = put->counter_offset,
		.value = put->add,
	};
	struct verbs_lane *lane = &link->lanes[0];
	struct lane_batch *batch = lane_kept(lane);
	bool done = write_part(batch, pending) && may_count;

	if (done && !counts(put) && !put_is_copied(put)) {
		if (!lane_post_kept_if_full(lane))
			link_keep_busy(link);
		return true;
	}
	if (done && counts(put))
		done = send_count(link, batch, &count);
	lane_post(batch);
	return done;
}

/* Sends what has room of the pending put. True if that was the rest. */
static bool send_pending(struct verbs_link *link)
{
	struct verbs_pending *pending = &link->pending;
	bool others;

	if (!pending->active)
		return true;
	others = send_others(link, pending);
	if (send_first(link, pending, others))
		pending->active = false;
	/* If posting failed, so has the link. */
	return !pending->active;
}

/* Makes it the pending put. False if it has to fit whole and does not. To a link that
 * has ended meanwhile it goes nowhere. */
static bool begin(struct verbs_link *link, const struct verbs_put *put)
{
	if (put_is_copied(put) && !fits_whole(link, put))
		return false;
	if (link->phase != LINK_OPEN)
		return true;
	link->pending = (struct verbs_pending){.active = true, .put = *put};
	spread(link, &link->pending);
	return true;
}

bool put_continue(struct verbs_link *link)
{
	struct verbs_put put;

	while (send_pending(link)) {
		if (!backlog_first(&link->backlog, &put))
			return true;
		if (is_wanted(link, &put) && !begin(link, &put))
			return false;
		backlog_take(&link->backlog);
	}
	return false;
}

/* Sends the put, or what has room of it; false if others are before it, or it has
 * none. */
static bool start(struct verbs_link *link, const struct verbs_put *put)
{
	if (!put_continue(link) || !begin(link, put))
		return false;
	if (!send_pending(link))
		link_send_soon(link);
	return true;
}

/* Looks whether there is room by now, at the first put that waits and then now and
 * then; else lets it wait. False if there is no memory for that. */
static bool start_later(struct verbs_link *link, const struct verbs_put *put)
{
	if (link->backlog.num_added % LOOK_EVERY == 0) {
		link_poll_all(link->far);
		if (link->phase != LINK_OPEN || !is_wanted(link, put) ||
			start(link, put))
			return true;
	}
	if (!backlog_add(&link->backlog, put)) {
		link_stalls(link);
		return link->phase != LINK_OPEN;
	}
	link_send_soon(link);
	return true;
}

enum shunt_status put_start(
	struct verbs_link *link, const struct verbs_put *put, bool *again)
{
	enum shunt_status status = target_check(link, put);

	*again = false;
	if (status == SHUNT_OK)
		status = source_check(link, put);
	if (status != SHUNT_OK || link->phase != LINK_OPEN)
		return status;
	outbox_send(link);
	if (!start(link, put))
		*again = !start_later(link, put);
	return SHUNT_OK;
}
