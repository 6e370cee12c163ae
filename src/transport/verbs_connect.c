/* The loop of connecting, and events; see verbs_connect.h. */
#include "transport/verbs_connect.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs_device.h"
#include "transport/verbs_image.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_link.h"
#include "transport/verbs_memory.h"

#define MAX_DIALLING 64 /* at once: a backlog is not endless */
#define LOOK_MS      1  /* HELLO comes without an event */

/* ---- both sides -------------------------------------------------------- */

void connect_options(const struct far_config *config, struct rdma_cm_id *id)
{
	uint8_t timeout = (uint8_t)config->ack_timeout;

	/* iWARP has no such thing; see verbs_echo.h. */
	if (verbs_api()->cm_set_option(id, RDMA_OPTION_ID,
		    RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)))
		log_note(LOG_DEBUG, "ack timeout %d was refused: %s", timeout,
			strerror(errno));
}

enum shunt_status connect_prepare(
	struct verbs_lane *lane, struct rdma_cm_id *id)
{
	enum shunt_status status;

	id->context = lane;
	lane->id = id;
	lane->ring_depth = lane->link->far->queue_depth;
	lane_reset(lane);
	status = device_make_qp(lane);
	if (status != SHUNT_OK)
		return status;
	if (!lane_fill_ring(lane))
		return error_set(SHUNT_SYSTEM, "rank %d: %s",
			lane->link->far->rank, lane->link->why);
	return SHUNT_OK;
}

void connect_drop(struct verbs_lane *lane, int64_t retry_at)
{
	struct rdma_cm_id *id = lane->id;

	lane->id = NULL;
	lane->state = LANE_IDLE;
	lane->retry_at = retry_at;
	lane->num_receives = 0;
	if (!id)
		return;
	if (id->qp)
		verbs_api()->cm_destroy_qp(id);
	verbs_api()->cm_destroy_id(id);
	lane_release(lane);
}

void connect_fill(struct verbs_lane *lane, enum greeting_way way,
	const struct greeting_terms *terms, struct greeting *greeting,
	struct rdma_conn_param *parameters)
{
	const struct verbs_link *link = lane->link;
	struct far *far = link->far;
	const struct ibv_mr *mr = memory_find(far, lane->device,
		far->base + link->image_off, far->block_bytes);

	*greeting = (struct greeting){
		.from = far->rank,
		.image_off = link->image_off,
		.rkey = mr->rkey,
		.ring_depth = (uint16_t)lane->ring_depth,
		.lane = lane->number,
		.num_lanes = link->num_lanes,
	};
	greeting_sign(greeting, way, link->peer.rank, terms);
	/* One echo at a time; and not every device takes 0. */
	*parameters = (struct rdma_conn_param){
		.private_data = greeting,
		.private_data_len = sizeof(*greeting),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = FAR_RETRIES,
		.rnr_retry_count = FAR_RETRIES,
	};
}

bool connect_fits(
	const struct verbs_lane *lane, const struct greeting *greeting)
{
	const struct verbs_link *link = lane->link;
	uint64_t bytes;

	if (greeting->from != link->peer.rank ||
		greeting->lane != lane->number ||
		greeting->num_lanes != link->num_lanes ||
		greeting->ring_depth < FAR_MIN_QUEUE_DEPTH)
		return false;
	bytes = image_block_bytes(greeting->num_lanes, greeting->ring_depth);
	return greeting->image_off % 4096 == 0 && bytes <= link->peer_bytes &&
	       greeting->image_off <= link->peer_bytes - bytes;
}

void connect_learn(struct verbs_lane *lane, const struct greeting *greeting)
{
	lane->peer_depth = greeting->ring_depth;
	lane->peer_image_rkey = greeting->rkey;
	lane->link->peer_image_off = greeting->image_off;
}

enum shunt_status connect_check_gid(const struct verbs_lane *lane)
{
	const struct far *far = lane->link->far;
	struct ibv_qp_init_attr initial;
	struct ibv_qp_attr used;

	if (far->config.gid_index < 0 ||
		verbs_api()->query_qp(
			lane->id->qp, &used, IBV_QP_AV, &initial) != 0 ||
		used.ah_attr.grh.sgid_index == far->config.gid_index)
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"rank %d: rdma_gid_index=%d, but the connection manager uses "
		"%d of %s for this address; see `rdma link' and the default "
		"RoCE mode of the device",
		far->rank, far->config.gid_index, used.ah_attr.grh.sgid_index,
		lane->device->name);
}

/* ---- events ------------------------------------------------------------ */

/* The next event, acknowledged; false if there is none. */
static bool event_take(struct far *far, struct connect_event *event)
{
	struct rdma_cm_event *given;
	const struct rdma_conn_param *conn;

	if (verbs_api()->cm_get_event(far->events, &given) != 0)
		return false;
	conn = &given->param.conn;
	*event = (struct connect_event){
		.type = given->event,
		.id = given->id,
		.is_request = given->event == RDMA_CM_EVENT_CONNECT_REQUEST,
		.status = given->status,
	};
	if ((event->is_request || event->type == RDMA_CM_EVENT_ESTABLISHED) &&
		conn->private_data) {
		event->num_data_bytes = conn->private_data_len;
		memcpy(event->data, conn->private_data, conn->private_data_len);
	}
	verbs_api()->cm_ack_event(given);
	return true;
}

/* Listeners have no context: all that happens to them is that they go. */
static void listener_event(struct far *far, const struct connect_event *event)
{
	if (event->type != RDMA_CM_EVENT_DEVICE_REMOVAL)
		return;
	for (int d = 0; d < far->num_devices; d++)
		if (far->devices[d].listener == event->id)
			link_fail_device(
				far, &far->devices[d], "is being removed");
}

/* What happens to a lane that was open. */
static void open_lane_event(
	struct verbs_lane *lane, const struct connect_event *event)
{
	/* Its LEAVE may have come and not been looked at. */
	link_poll_all(lane->link->far);
	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED:   /* its last message, late */
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: /* of a link that has failed */
	case RDMA_CM_EVENT_ADDR_CHANGE:   /* the connection goes on */
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		link_fail(lane->link, "disconnected by it");
		return;
	default:
		link_fail(lane->link, "%s (status %d)",
			verbs_api()->cm_event_str(event->type), event->status);
	}
}

static void event_handle(struct far *far, struct connecting *connecting,
	const struct connect_event *event)
{
	struct verbs_lane *lane = event->is_request ? NULL : event->id->context;

	if (event->is_request)
		answer_request(far, connecting, event);
	else if (!lane)
		listener_event(far, event);
	else if (lane->state == LANE_OPEN || lane->state == LANE_DEAD)
		open_lane_event(lane, event);
	else if (lane->state == LANE_ACCEPTED)
		answer_event(lane, event);
	else if (connecting)
		dial_event(connecting, lane, event);
}

static void events_take(struct far *far, struct connecting *connecting)
{
	struct connect_event event;

	while (event_take(far, &event)) {
		far_lock(far);
		event_handle(far, connecting, &event);
		far_unlock(far);
	}
}

void connect_take_events(struct far *far)
{
	events_take(far, NULL);
}

/* ---- the loop ---------------------------------------------------------- */

static void dial_all(struct far *far, struct connecting *connecting)
{
	int64_t now = clock_now();

	for (uint32_t l = 0; l < far->num_lanes_of_all; l++) {
		struct verbs_lane *lane = far->lanes[l];

		dial_look(connecting, lane, now);
		if (lane->state == LANE_IDLE && lane->retry_at <= now &&
			lane->link->peer.rank > far->rank &&
			connecting->num_dialling < MAX_DIALLING)
			dial_begin(connecting, lane);
	}
}

static bool link_is_open(struct verbs_link *link)
{
	for (int l = 0; l < link->num_lanes; l++)
		if (link->lanes[l].state != LANE_OPEN)
			return false;
	if (link->phase == LINK_CONNECTING)
		link->phase = LINK_OPEN;
	return link->phase == LINK_OPEN;
}

/* Sets the error about all links that are not open. */
static enum shunt_status report(struct far *far, enum shunt_status status,
	bool (*about)(const struct verbs_link *), const char *what)
{
	char text[600] = "";
	size_t used = 0;
	int32_t num = 0;

	for (int32_t k = 0; k < far->num_links; k++) {
		const struct verbs_link *link = &far->links[k];

		if (!about(link))
			continue;
		num++;
		if (used + 1 < sizeof(text))
			used += (size_t)snprintf(text + used,
				sizeof(text) - used, "%srank %d (%s)",
				num > 1 ? ", " : "", link->peer.rank,
				link->why[0] ? link->why : "nothing heard");
	}
	error_set(status, "rank %d: %s by RDMA: %d rank%s: %s", far->rank, what,
		num, num == 1 ? "" : "s", text);
	for (int32_t k = 0; k < far->num_links; k++)
		if (about(&far->links[k]))
			error_add_rank(far->links[k].peer.rank);
	return status;
}

static bool is_lost(const struct verbs_link *link)
{
	return link->phase == LINK_FAILING;
}

static bool is_at_fault(const struct verbs_link *link)
{
	return link->phase == LINK_FAILING && link->at_fault;
}

static bool is_missing(const struct verbs_link *link)
{
	return link->phase != LINK_OPEN;
}

/* Where connecting stands; OK with *over false means go on. */
static enum shunt_status look(struct far *far,
	const struct connecting *connecting, int64_t deadline, bool *over)
{
	bool any_lost = false, any_fault = false;

	*over = true;
	for (int32_t k = 0; k < far->num_links; k++) {
		*over &= link_is_open(&far->links[k]);
		any_lost |= is_lost(&far->links[k]);
		any_fault |= is_at_fault(&far->links[k]);
	}
	if (connecting->status != SHUNT_OK)
		return connecting->status;
	if (any_fault)
		return report(far, SHUNT_PEER_FAULT, is_at_fault,
			"not sound in connecting");
	if (any_lost)
		return report(
			far, SHUNT_PEER_LOST, is_lost, "lost while connecting");
	if (!*over && clock_now() >= deadline)
		return report(far, SHUNT_TIMEOUT, is_missing,
			"deadline passed while connecting");
	return SHUNT_OK;
}

enum shunt_status connect_all(
	struct far *far, struct connecting *connecting, int64_t deadline)
{
	struct pollfd polled = {.fd = far->events->fd, .events = POLLIN};
	enum shunt_status status = SHUNT_OK;
	bool over = false;

	while (!over && status == SHUNT_OK) {
		far_lock(far);
		dial_all(far, connecting);
		far_unlock(far);
		poll(&polled, 1, LOOK_MS);
		events_take(far, connecting);
		far_lock(far);
		link_poll_all(far);
		status = look(far, connecting, deadline, &over);
		far_unlock(far);
	}
	return status;
}
