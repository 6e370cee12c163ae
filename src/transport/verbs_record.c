/*
 * Applying records. What a peer says is copied once, checked, and only then
 * used; nonsense ends the link.
 */
#include "transport/verbs_record.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/order.h"
#include "transport/verbs_image.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_link.h"
#include "transport/verbs_memory.h"

#define MAX_REMOTE_RANGES 65536

/* ---- what records say -------------------------------------------------- */

/* Whether the peer may add to a counter there: in what is exposed, and in its
 * image. */
static bool counter_is_sound(const struct verbs_link *link, uint64_t offset)
{
	const uint64_t bytes = sizeof(uint64_t);

	if (offset % bytes != 0)
		return false;
	return memory_is_exposed(link->far, offset, bytes) ||
	       (offset >= link->image_off &&
		       offset <= link->image_off + CONTROL_BYTES - bytes);
}

static void apply_count(struct verbs_link *link, const struct record *record)
{
	struct far *far = link->far;

	if (!counter_is_sound(link, record->offset)) {
		link_fault(link, "adds to offset %llu, which is no counter",
			(unsigned long long)record->offset);
		return;
	}
	order_publish_add((void *)(far->base + record->offset), record->value);
	doorbell_ring(&segment_control(far->segment)->doorbell, record->offset);
}

static bool range_is_sound(
	const struct verbs_link *link, const struct record *record)
{
	return record->value > 0 && record->offset <= link->peer_bytes &&
	       record->value <= link->peer_bytes - record->offset &&
	       record->device < link->num_peer_devices &&
	       link->remote.num < MAX_REMOTE_RANGES;
}

/* A range comes with the key of one device after the other. */
static void apply_expose(struct verbs_link *link, const struct record *record)
{
	struct verbs_range fresh = {
		.offset = record->offset,
		.bytes = record->value,
	};
	struct verbs_range *range =
		verbs_ranges_at(&link->remote, record->offset);
	bool full = false;

	if (range_is_sound(link, record) && !range && record->device == 0 &&
		verbs_ranges_add(&link->remote, &fresh, &full))
		range = verbs_ranges_at(&link->remote, record->offset);
	if (full) {
		link_fail(link, "no memory to note a range of it");
		return;
	}
	if (!range || range->bytes != record->value ||
		range->num_rkeys != record->device) {
		link_fault(link,
			"exposes %llu bytes at %llu of %llu by device %d",
			(unsigned long long)record->value,
			(unsigned long long)record->offset,
			(unsigned long long)link->peer_bytes, record->device);
		return;
	}
	range->rkeys[range->num_rkeys++] = record->rkey;
}

static void apply_hide(struct verbs_link *link, const struct record *record)
{
	struct verbs_range *range =
		verbs_ranges_at(&link->remote, record->offset);

	if (range)
		verbs_ranges_remove(&link->remote, range);
	else
		link_fault(link, "hides offset %llu, which it had not exposed",
			(unsigned long long)record->offset);
}

static void apply_hello(struct verbs_lane *lane)
{
	if (lane->state == LANE_ACCEPTED)
		lane->state = LANE_OPEN;
	else if (lane->state == LANE_OPEN)
		link_fault(lane->link, "greets again on lane %d", lane->number);
}

static bool is_for_lane(const struct verbs_lane *lane, uint8_t kind)
{
	if (kind == RECORD_HELLO)
		return true;
	if (lane->state == LANE_ACCEPTED)
		return false; /* HELLO is the first */
	return (lane->number != 0) == (kind == RECORD_FENCE);
}

static void apply(struct verbs_lane *lane, const struct record *record)
{
	struct verbs_link *link = lane->link;

	if (!is_for_lane(lane, record->kind)) {
		link_fault(link, "sends record %d on lane %d", record->kind,
			lane->number);
		return;
	}
	switch (record->kind) {
	case RECORD_HELLO:
		apply_hello(lane);
		break;
	case RECORD_COUNT:
		apply_count(link, record);
		break;
	case RECORD_EXPOSE:
		apply_expose(link, record);
		break;
	case RECORD_HIDE:
		apply_hide(link, record);
		break;
	case RECORD_FENCE:
		lane->fences_seen++;
		break;
	case RECORD_LEAVE:
		link->said_leave = true;
		break;
	default:
		link_fault(link, "sends record %d, which there is none",
			record->kind);
	}
}

/* ---- in which order ---------------------------------------------------- */

/* Fences are of lanes that there are, but of the first: else the record would
 * not wait for what it says. */
static bool fences_are_sound(
	struct verbs_link *link, const struct record *record)
{
	if (!(record->fences & 1) && record->fences >> link->num_lanes == 0)
		return true;
	link_fault(link, "counts behind fences %#x, of %d lanes",
		record->fences, link->num_lanes);
	return false;
}

/* Whether the fences that a record names have come. Its fences are due from
 * the moment that it is applied. */
static bool fences_came(
	const struct verbs_link *link, const struct record *record)
{
	for (int l = 1; l < link->num_lanes; l++) {
		const struct verbs_lane *lane = &link->lanes[l];

		if (record->fences >> l & 1 &&
			lane->fences_seen == lane->fences_due)
			return false;
	}
	return true;
}

static void take_fences(struct verbs_link *link, const struct record *record)
{
	for (int l = 1; l < link->num_lanes; l++)
		link->lanes[l].fences_due += record->fences >> l & 1;
}

/* Whether anything of the peer still counts. */
static bool is_heard(const struct verbs_link *link)
{
	return !link->at_fault && !link->said_leave;
}

static void apply_lane(struct verbs_lane *lane)
{
	struct verbs_link *link = lane->link;

	while (lane->applied < lane->arrived && is_heard(link)) {
		/* Once: the peer may write there again. */
		const struct record record = *image_slot(lane, lane->applied);

		if (record.sequence != (uint32_t)lane->applied) {
			link_fault(link, "record %u of lane %d is number %u",
				(uint32_t)lane->applied, lane->number,
				record.sequence);
			return;
		}
		if (record.kind == RECORD_COUNT && lane->number == 0) {
			if (!fences_are_sound(link, &record) ||
				!fences_came(link, &record))
				return;
			take_fences(link, &record);
		}
		apply(lane, &record);
		lane->applied++;
	}
}

static bool is_record(
	const struct verbs_lane *lane, const struct ibv_wc *completion)
{
	if (!lane->device->has_immediate)
		return completion->opcode == IBV_WC_RECV &&
		       completion->byte_len == sizeof(struct record);
	return completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
	       completion->wc_flags & IBV_WC_WITH_IMM &&
	       ntohl(completion->imm_data) == (uint32_t)lane->arrived;
}

void record_arrived(struct verbs_lane *lane, const struct ibv_wc *completion)
{
	struct verbs_link *link = lane->link;

	if (!is_record(lane, completion)) {
		link_fault(link, "sends what is no record on lane %d",
			lane->number);
		return;
	}
	lane->arrived++;
	apply_lane(lane);
	/* A fence of this lane may be what lane 0 waits for. */
	if (lane->number != 0)
		apply_lane(&link->lanes[0]);
	for (int l = 0; l < link->num_lanes; l++)
		if (lane_return_credits(&link->lanes[l]))
			link_keep_busy(link);
}

/* ---- going out --------------------------------------------------------- */

enum shunt_status outbox_reserve(struct verbs_link *link, uint32_t num)
{
	struct verbs_outbox *outbox = &link->outbox;
	uint64_t needed = (uint64_t)outbox->num + outbox->num_owed + num;
	struct record *grown;

	if (needed <= outbox->capacity)
		return SHUNT_OK;
	grown = needed <= UINT32_MAX / 2 ? reallocarray(outbox->records,
						   2 * needed, sizeof(*grown))
					 : NULL;
	if (!grown)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %llu records to rank %d",
			link->far->rank, (unsigned long long)needed,
			link->peer.rank);
	outbox->records = grown;
	outbox->capacity = (uint32_t)(2 * needed);
	return SHUNT_OK;
}

void outbox_add(struct verbs_link *link, const struct record *record)
{
	link->outbox.records[link->outbox.num++] = *record;
	link_send_soon(link);
}

bool outbox_send(struct verbs_link *link)
{
	struct verbs_outbox *outbox = &link->outbox;
	struct verbs_lane *lane = &link->lanes[0];
	struct lane_batch batch;

	if (outbox->num == 0)
		return true;
	lane_batch_begin(&batch, lane);
	while (outbox->sent < outbox->num && lane_takes_record(lane, 0))
		lane_add_record(&batch, &outbox->records[outbox->sent++]);
	/* Signalled: who leaves waits until all of it is there. */
	lane_post_signalled(&batch);
	/* By halves, so that each is moved once on average. */
	if (outbox->sent < outbox->num - outbox->sent)
		return false;
	outbox->num -= outbox->sent;
	memmove(outbox->records, outbox->records + outbox->sent,
		outbox->num * sizeof(*outbox->records));
	outbox->sent = 0;
	return outbox->num == 0;
}
