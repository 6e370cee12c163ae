/* The side that answers: requests of lower ranks, and of strangers; see
 * verbs_connect.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_link.h"

static struct verbs_link *link_of(struct far *far, int32_t rank)
{
	for (int32_t k = 0; k < far->num_links; k++)
		if (far->links[k].peer.rank == rank)
			return &far->links[k];
	return NULL;
}

/* The lane that a genuine request is for; NULL, and why, if there is none. */
static struct verbs_lane *lane_for(struct far *far,
	const struct greeting *greeting, const struct connect_event *event,
	const char **why)
{
	struct verbs_link *link = link_of(far, greeting->from);
	struct verbs_lane *lane;

	*why = "it is no rank that connects to this one";
	if (!link || greeting->from >= far->rank)
		return NULL;
	*why = "its greeting does not fit";
	if (greeting->lane >= link->num_lanes)
		return NULL;
	lane = &link->lanes[greeting->lane];
	*why = "that lane is there already";
	if (link->phase != LINK_CONNECTING || lane->state == LANE_OPEN ||
		lane->state == LANE_DEAD)
		return NULL;
	*why = "it came over another device than expected";
	return event->id->verbs == lane->device->context ? lane : NULL;
}

static void turn_away(const struct connect_event *event, const char *why)
{
	log_note(
		LOG_INFO, "a request to connect by RDMA was rejected: %s", why);
	verbs_api()->cm_reject(event->id, NULL, 0);
	verbs_api()->cm_destroy_id(event->id);
}

static void accept_lane(struct connecting *connecting, struct verbs_lane *lane,
	const struct greeting *came, struct rdma_cm_id *id)
{
	struct verbs_link *link = lane->link;
	struct rdma_conn_param parameters;
	struct greeting greeting;
	enum shunt_status status;

	connect_drop(lane, 0); /* an earlier try of the peer's */
	connect_options(&link->far->config, id);
	status = connect_prepare(lane, id);
	if (status != SHUNT_OK) {
		if (connecting->status == SHUNT_OK)
			connecting->status = status;
		connect_drop(lane, 0);
		return;
	}
	connect_learn(lane, came);
	connect_fill(lane, GREETING_ANSWER, &connecting->terms, &greeting,
		&parameters);
	lane->state = LANE_ACCEPTED;
	if (verbs_api()->cm_accept(id, &parameters) == 0)
		return;
	snprintf(link->why, sizeof(link->why), "lane %d: accepting: %s",
		lane->number, strerror(errno));
	connect_drop(lane, 0);
}

void answer_request(struct far *far, struct connecting *connecting,
	const struct connect_event *event)
{
	struct verbs_lane *lane = NULL;
	struct greeting greeting;
	const char *why = "everybody is here";

	if (connecting &&
		greeting_read(&greeting, event->data, event->num_data_bytes,
			GREETING_REQUEST, far->rank, &connecting->terms)) {
		lane = lane_for(far, &greeting, event, &why);
		if (lane && !connect_fits(lane, &greeting)) {
			why = "its greeting does not fit";
			lane = NULL;
		}
	} else if (connecting) {
		why = "it comes from no rank of this job";
	}
	if (lane)
		accept_lane(connecting, lane, &greeting, event->id);
	else
		turn_away(event, why);
}

/* The peer tries again, or is gone; its next request tells. */
void answer_event(struct verbs_lane *lane, const struct connect_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED: /* HELLO is what opens the lane */
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	default:
		snprintf(lane->link->why, sizeof(lane->link->why),
			"lane %d: %s (status %d)", lane->number,
			verbs_api()->cm_event_str(event->type), event->status);
		connect_drop(lane, 0);
	}
}
