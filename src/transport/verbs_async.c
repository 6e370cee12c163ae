/* Asynchronous events of devices; see verbs_async.h. */
#include "transport/verbs_async.h"

#include "base/log.h"
#include "transport/verbs_link.h"

/* All far sides that events reach. Taken before a far side's own lock. */
static pthread_mutex_t joined_lock = PTHREAD_MUTEX_INITIALIZER;
static struct far *joined;

void async_join(struct far *far)
{
	pthread_mutex_lock(&joined_lock);
	far->next_joined = joined;
	joined = far;
	pthread_mutex_unlock(&joined_lock);
}

void async_leave(struct far *far)
{
	struct far **at = &joined;

	pthread_mutex_lock(&joined_lock);
	while (*at && *at != far)
		at = &(*at)->next_joined;
	if (*at)
		*at = far->next_joined;
	pthread_mutex_unlock(&joined_lock);
}

/* ---- what follows from an event ----------------------------------------- */

static void device_ends(
	struct far *far, const struct verbs_device *device, const char *event)
{
	log_note(LOG_WARN, "device %s: %s: all links over it end", device->name,
		event);
	link_fail_device(far, device, event);
}

static void queue_pair_ends(
	struct far *far, const struct ibv_qp *qp, const char *event)
{
	for (uint32_t l = 0; l < far->num_lanes_of_all; l++) {
		struct verbs_lane *lane = far->lanes[l];

		if (lane->id && lane->id->qp == qp)
			link_fail(lane->link, "lane %d, %s: %s", lane->number,
				lane->device->name, event);
	}
}

/* Beats decide whether anybody is lost by it. */
static void port_changes(const struct verbs_device *device,
	const struct ibv_async_event *event, const char *name)
{
	bool is_down = event->event_type == IBV_EVENT_PORT_ERR;

	if (event->element.port_num != device->listener->port_num)
		return;
	log_note(is_down ? LOG_WARN : LOG_INFO, "device %s, port %d: %s",
		device->name, event->element.port_num, name);
}

static void event_handle(struct far *far, const struct verbs_device *device,
	const struct ibv_async_event *event)
{
	const char *name = verbs_api()->event_type_str(event->event_type);

	/* What had come before is good, and a LEAVE is no loss. */
	link_poll_all(far);
	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		device_ends(far, device, name);
		break;
	case IBV_EVENT_CQ_ERR:
		if (event->element.cq == device->cq)
			device_ends(far, device, name);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		queue_pair_ends(far, event->element.qp, name);
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
		port_changes(device, event, name);
		break;
	default:
		log_note(LOG_DEBUG, "device %s: %s", device->name, name);
	}
}

/* ---- whom it reaches ---------------------------------------------------- */

static void hand_on(
	const struct ibv_context *context, const struct ibv_async_event *event)
{
	pthread_mutex_lock(&joined_lock);
	for (struct far *far = joined; far; far = far->next_joined) {
		log_set_rank(far->rank);
		far_lock(far);
		for (int d = 0; d < far->num_devices; d++)
			if (far->devices[d].context == context)
				event_handle(far, &far->devices[d], event);
		far_unlock(far);
	}
	pthread_mutex_unlock(&joined_lock);
}

void async_take_events(struct far *far)
{
	const struct verbs_api *api = verbs_api();

	for (int d = 0; d < far->num_devices; d++) {
		struct ibv_context *context = far->devices[d].context;
		struct ibv_async_event event;

		while (api->get_async_event(context, &event) == 0) {
			hand_on(context, &event);
			/* Behind all use of what it is about. */
			api->ack_async_event(&event);
		}
	}
	log_set_rank(far->rank);
}
