/* Links: failing, polling, transport_ops; see verbs_link.h. */
#include "transport/verbs_link.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/verbs_backlog.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_put.h"
#include "transport/verbs_record.h"
#include "transport/verbs_service.h"

#define POLL_AT_ONCE 16
/* Receives of a queue pair in error come back at once; a device that is gone
 * gives none back. */
#define STILL_NS (500 * VERBS_NS_PER_MS)
/* The service thread looks more often. Where it did not, this process stood still
 * itself, which says nothing of the peer: a job may be suspended as a whole. */
#define LOOK_NS (1000 * VERBS_NS_PER_MS)

/* ---- failing ----------------------------------------------------------- */

static void lanes_to_error(struct verbs_link *link)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	for (int l = 0; l < link->num_lanes; l++) {
		struct verbs_lane *lane = &link->lanes[l];

		/* That it fails is no news of a device that is gone. */
		if (lane->id && lane->id->qp)
			verbs_api()->modify_qp(
				lane->id->qp, &error, IBV_QP_STATE);
		lane->state = LANE_DEAD;
		lane_drop_kept(lane);
	}
}

static void link_end(struct verbs_link *link)
{
	bool is_news = !link->said_leave || link->at_fault;

	log_note(is_news ? LOG_WARN : LOG_DEBUG, "link to rank %d ends: %s",
		link->peer.rank, link->why);
	link->phase = LINK_FAILING;
	link->failing_since = clock_now();
	link->pending.active = false;
	backlog_clear(&link->backlog);
	link->outbox.num = link->outbox.sent = 0;
	lanes_to_error(link);
	service_wake(link->far);
}

static bool has_ended(const struct verbs_link *link)
{
	return link->phase == LINK_FAILING || link->phase == LINK_GONE;
}

void link_fail(struct verbs_link *link, const char *format, ...)
{
	va_list args;

	if (has_ended(link))
		return;
	va_start(args, format);
	vsnprintf(link->why, sizeof(link->why), format, args);
	va_end(args);
	link_end(link);
}

void link_fault(struct verbs_link *link, const char *format, ...)
{
	va_list args;

	/* Also while it fails: what it says last is no LEAVE to believe. */
	link->at_fault = true;
	if (has_ended(link))
		return;
	va_start(args, format);
	vsnprintf(link->why, sizeof(link->why), format, args);
	va_end(args);
	link_end(link);
}

bool link_is_still(const struct verbs_link *link, int64_t now)
{
	uint32_t num_receives = 0;

	for (int l = 0; l < link->num_lanes; l++)
		num_receives += link->lanes[l].num_receives;
	return num_receives == 0 || now - link->failing_since > STILL_NS;
}

void link_bury(struct verbs_link *link)
{
	const struct verbs_api *api = verbs_api();
	struct far *far = link->far;
	struct rdma_cm_id *ids[FAR_MAX_LANES];

	far_lock(far);
	for (int l = 0; l < link->num_lanes; l++) {
		ids[l] = link->lanes[l].id;
		link->lanes[l].id = NULL;
	}
	far_unlock(far);
	for (int l = 0; l < link->num_lanes; l++) {
		if (!ids[l])
			continue;
		if (ids[l]->qp) {
			api->cm_disconnect(ids[l]);
			api->cm_destroy_qp(ids[l]);
		}
		api->cm_destroy_id(ids[l]);
	}
	far_lock(far);
	for (int l = 0; l < link->num_lanes; l++)
		lane_release(&link->lanes[l]);
	link->phase = LINK_GONE;
	atomic_store(&link->state,
		link->said_leave && !link->at_fault ? PEER_LEFT : PEER_DEAD);
	far_unlock(far);
	doorbell_ring(&segment_control(far->segment)->doorbell, DOORBELL_ANY);
}

/* ---- moving along ------------------------------------------------------ */

void link_keep_busy(struct verbs_link *link)
{
	if (link->busy)
		return;
	link->busy = true;
	link->next_busy = link->far->busy;
	link->far->busy = link;
}

void link_send_soon(struct verbs_link *link)
{
	link_keep_busy(link);
	if (link->far->looks_soon)
		return;
	link->far->looks_soon = true;
	service_wake(link->far);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* A process that is stopped, or waits for something else for ever, takes no
 * records, though its device goes on to answer. */
void link_stalls(struct verbs_link *link)
{
	int64_t patience = link->far->config.patience_ns;
	int64_t now = clock_now();

	link_keep_busy(link);
	if (link->stalled_seen == 0)
		link->stalled_ns = 0;
	else
		link->stalled_ns += least(now - link->stalled_seen, LOOK_NS);
	link->stalled_seen = now;
	if (link->stalled_ns > patience)
		link_fail(link, "it has taken no records for %lld ms",
			(long long)(patience / VERBS_NS_PER_MS));
}

bool link_look_soon(struct far *far)
{
	bool any;

	far_lock(far);
	any = far->busy != NULL;
	far->looks_soon = any;
	far_unlock(far);
	return any;
}

void link_pump(struct verbs_link *link)
{
	bool sent;

	if (link->phase != LINK_OPEN)
		return;
	lane_post(lane_kept(&link->lanes[0]));
	/* Before the puts, which may take all the room that there is. */
	for (int l = 0; l < link->num_lanes && link->phase == LINK_OPEN; l++)
		if (lane_return_credits(&link->lanes[l]))
			link_keep_busy(link);
	if (link->phase != LINK_OPEN)
		return;
	sent = outbox_send(link);
	if (!put_continue(link) || !sent)
		link_stalls(link);
}

/* Whoever ends a link knows the reason, but that is not always told first. */
static void take_error(struct verbs_lane *lane, bool is_receive,
	const struct ibv_wc *completion)
{
	struct verbs_link *link = lane->link;
	const char *what = is_receive ? "a receive" : "a request";
	const char *why = verbs_api()->wc_status_str(completion->status);

	if (has_ended(link) && completion->status != IBV_WC_WR_FLUSH_ERR)
		log_note(LOG_WARN,
			"link to rank %d, which ends: lane %d, %s: %s "
			"(vendor's code %u)",
			link->peer.rank, lane->number, what, why,
			completion->vendor_err);
	link_fail(link, "lane %d, %s: %s (vendor's code %u)", lane->number,
		what, why, completion->vendor_err);
}

static void take_completion(struct far *far, const struct ibv_wc *completion)
{
	struct verbs_lane *lane;
	bool is_receive;

	if (!lane_of(far, completion->wr_id, &lane, &is_receive))
		return;
	if (is_receive)
		lane->num_receives--;
	else
		lane_complete(lane, completion->wr_id);
	if (completion->status != IBV_WC_SUCCESS)
		take_error(lane, is_receive, completion);
	else if (is_receive)
		record_arrived(lane, completion);
}

void link_fail_device(
	struct far *far, const struct verbs_device *device, const char *what)
{
	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];

		for (int l = 0; l < link->num_lanes; l++)
			if (link->lanes[l].device == device)
				link_fail(link, "%s %s", device->name, what);
	}
}

static bool device_poll(struct far *far, struct verbs_device *device)
{
	struct ibv_wc completions[POLL_AT_ONCE];
	bool any = false;
	int num = 0;

	/* Before anybody is connected to, there is no queue. */
	if (!device->cq)
		return false;
	do {
		num = verbs_api()->poll_cq(
			device->cq, POLL_AT_ONCE, completions);
		for (int c = 0; c < num; c++)
			take_completion(far, &completions[c]);
		any = any || num > 0;
	} while (num == POLL_AT_ONCE);
	if (num < 0)
		link_fail_device(far, device, "cannot be polled");
	return any;
}

bool link_poll_all(struct far *far)
{
	struct verbs_link *link;
	bool any = false;

	for (int d = 0; d < far->num_devices; d++)
		any |= device_poll(far, &far->devices[d]);
	link = far->busy;
	far->busy = NULL;
	while (link) {
		struct verbs_link *next = link->next_busy;

		link->busy = false;
		link_pump(link);
		link = next;
	}
	return any;
}

bool link_is_flushed(const struct verbs_link *link)
{
	if (link->phase != LINK_OPEN)
		return link->phase == LINK_GONE;
	for (int l = 0; l < link->num_lanes; l++)
		if (link->lanes[l].tail < link->lanes[l].awaited_head)
			return false;
	return !link->pending.active && backlog_is_empty(&link->backlog);
}

/* ---- transport_ops ----------------------------------------------------- */

static void *verbs_map(struct peer *peer, uint64_t offset, uint64_t bytes)
{
	(void)peer;
	(void)offset;
	(void)bytes;
	return NULL;
}

static enum shunt_status verbs_put(struct peer *peer, uint64_t offset,
	const void *bytes, uint64_t num_bytes, uint64_t counter_offset,
	uint64_t add, bool *again)
{
	struct verbs_link *link = (void *)peer;
	const struct verbs_put put = {
		.bytes = bytes,
		.offset = offset,
		.num_bytes = num_bytes,
		.counter_offset = counter_offset,
		.add = add,
	};
	enum shunt_status status;

	far_lock(link->far);
	status = put_start(link, &put, again);
	far_unlock(link->far);
	return status;
}

static bool verbs_progress(struct peer *peer)
{
	return far_progress(((struct verbs_link *)(void *)peer)->far);
}

static bool verbs_flushed(struct peer *peer)
{
	struct verbs_link *link = (void *)peer;
	bool flushed;

	far_lock(link->far);
	flushed = link_is_flushed(link);
	far_unlock(link->far);
	return flushed;
}

static enum peer_state verbs_state(struct peer *peer)
{
	const struct verbs_link *link = (const void *)peer;

	return (enum peer_state)atomic_load_explicit(
		&link->state, memory_order_acquire);
}

/* The link stays until far_close(): the peer may still have to be told that
 * this rank leaves. */
static void verbs_close(struct peer *peer)
{
	(void)peer;
}

const struct transport_ops verbs_ops = {
	.name = "verbs",
	.map = verbs_map,
	.put = verbs_put,
	.progress = verbs_progress,
	.flushed = verbs_flushed,
	.state = verbs_state,
	.close = verbs_close,
};
