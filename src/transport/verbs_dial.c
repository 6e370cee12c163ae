/* The side that asks: each lane to a higher rank; see verbs_connect.h. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/verbs_address.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_link.h"
#include "transport/verbs_path.h"

#define RESOLVE_MS 2000
#define RETRY_NS   (20 * VERBS_NS_PER_MS)
/* One try; the manager's own timeouts, if any, can be longer than a deadline. */
#define TRY_NS (5000 * VERBS_NS_PER_MS)
/* The peer listened before the rendezvous: so it has gone. A few times, as an
 * overflowing backlog looks the same on iWARP. */
#define MAX_REFUSALS 10
#define NO_LISTENER  8 /* IB_CM_REJ_INVALID_SERVICE_ID */

static void dial_end(struct connecting *connecting, struct verbs_lane *lane)
{
	connecting->num_dialling--;
	connect_drop(lane, clock_now() + RETRY_NS);
}

/* Notes why, to be told if the deadline passes, and tries again later. */
static void dial_retry(struct connecting *connecting, struct verbs_lane *lane,
	const char *what, const char *why)
{
	struct verbs_link *link = lane->link;

	snprintf(link->why, sizeof(link->why), "lane %d: %s: %s", lane->number,
		what, why);
	dial_end(connecting, lane);
}

static void dial_errno(struct connecting *connecting, struct verbs_lane *lane,
	const char *what)
{
	dial_retry(connecting, lane, what, strerror(errno));
}

/* What no second try makes better ends connecting. */
static void dial_hopeless(struct connecting *connecting,
	struct verbs_lane *lane, enum shunt_status status)
{
	if (connecting->status == SHUNT_OK)
		connecting->status = status;
	dial_end(connecting, lane);
}

/* The own address that a lane goes out from; any port. */
static void source_of(
	const struct verbs_lane *lane, struct sockaddr_storage *source)
{
	*source = lane->device->address;
	if (source->ss_family == AF_INET)
		((struct sockaddr_in *)source)->sin_port = 0;
	else
		((struct sockaddr_in6 *)source)->sin6_port = 0;
}

static void target_of(
	const struct verbs_lane *lane, struct sockaddr_storage *target)
{
	const struct sockaddr_in6 *own = (void *)&lane->device->address;
	struct sockaddr_in6 *six = (void *)target;

	*target = lane->peer_address;
	/* A link-local address of the peer is one of this lane's network. */
	if (six->sin6_family == AF_INET6 && own->sin6_family == AF_INET6 &&
		IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
		six->sin6_scope_id = own->sin6_scope_id;
}

void dial_begin(struct connecting *connecting, struct verbs_lane *lane)
{
	const struct verbs_api *api = verbs_api();
	struct far *far = lane->link->far;
	struct sockaddr_storage source, target;
	struct rdma_cm_id *id;

	connecting->num_dialling++;
	lane->give_up_at = clock_deadline(TRY_NS);
	if (api->cm_create_id(far->events, &id, lane, RDMA_PS_TCP) != 0) {
		dial_errno(connecting, lane, "making an id");
		return;
	}
	lane->id = id;
	lane->state = LANE_ADDRESS;
	source_of(lane, &source);
	target_of(lane, &target);
	address_options(&far->config, id);
	if (api->cm_resolve_addr(id, (struct sockaddr *)&source,
		    (struct sockaddr *)&target, RESOLVE_MS) != 0)
		dial_errno(connecting, lane, "resolving its address");
}

static void on_address(struct connecting *connecting, struct verbs_lane *lane)
{
	struct rdma_cm_id *id = lane->id;

	if (id->verbs != lane->device->context) {
		dial_retry(connecting, lane, "its address",
			"the way there is over another device");
		return;
	}
	connect_options(&lane->link->far->config, id);
	lane->state = LANE_ROUTE;
	if (lane->has_path) {
		enum shunt_status status = path_give(lane);

		if (status != SHUNT_OK)
			dial_hopeless(connecting, lane, status);
		return;
	}
	if (verbs_api()->cm_resolve_route(id, RESOLVE_MS) != 0)
		dial_errno(connecting, lane, "resolving the route to it");
}

/* The route is of the kernel's service level: begins again, with another. */
static void redial(struct connecting *connecting, struct verbs_lane *lane)
{
	enum shunt_status status = path_keep(lane);

	if (status != SHUNT_OK) {
		dial_hopeless(connecting, lane, status);
		return;
	}
	dial_end(connecting, lane);
	lane->retry_at = 0;
}

static void on_route(struct connecting *connecting, struct verbs_lane *lane)
{
	struct rdma_conn_param parameters;
	struct greeting greeting;
	enum shunt_status status;

	if (lane->link->far->config.service_level >= 0 && !lane->has_path) {
		redial(connecting, lane);
		return;
	}
	status = connect_prepare(lane, lane->id);
	if (status != SHUNT_OK) {
		dial_hopeless(connecting, lane, status);
		return;
	}
	connect_fill(lane, GREETING_REQUEST, &connecting->terms, &greeting,
		&parameters);
	lane->state = LANE_CONNECTING;
	if (verbs_api()->cm_connect(lane->id, &parameters) != 0)
		dial_errno(connecting, lane, "connecting");
}

static void say_hello(struct verbs_lane *lane)
{
	static const struct record hello = {.kind = RECORD_HELLO};
	struct lane_batch batch;

	lane_batch_begin(&batch, lane);
	lane_add_record(&batch, &hello);
	lane_post_signalled(&batch);
}

static void on_established(struct connecting *connecting,
	struct verbs_lane *lane, const struct connect_event *event)
{
	struct far *far = lane->link->far;
	struct greeting greeting;
	enum shunt_status status;

	if (!greeting_read(&greeting, event->data, event->num_data_bytes,
		    GREETING_ANSWER, far->rank, &connecting->terms) ||
		!connect_fits(lane, &greeting)) {
		dial_retry(connecting, lane, "connecting",
			"who answered is not that rank");
		return;
	}
	connect_learn(lane, &greeting);
	status = connect_check_gid(lane);
	if (status != SHUNT_OK) {
		dial_hopeless(connecting, lane, status);
		return;
	}
	path_look(lane);
	connecting->num_dialling--;
	lane->state = LANE_OPEN;
	say_hello(lane);
}

static void on_failure(struct connecting *connecting, struct verbs_lane *lane,
	const struct connect_event *event)
{
	char status[32];
	bool refused = event->type == RDMA_CM_EVENT_REJECTED &&
		       (event->status == NO_LISTENER ||
			       event->status == -ECONNREFUSED);

	lane->refusals = refused ? lane->refusals + 1 : 0;
	snprintf(status, sizeof(status), "status %d", event->status);
	dial_retry(connecting, lane, verbs_api()->cm_event_str(event->type),
		status);
	if (lane->refusals >= MAX_REFUSALS)
		link_fail(lane->link, "it listens no more");
}

void dial_look(
	struct connecting *connecting, struct verbs_lane *lane, int64_t now)
{
	static const char *const awaited[] = {
		[LANE_ADDRESS] = "resolving its address",
		[LANE_ROUTE] = "resolving the route to it",
		[LANE_CONNECTING] = "connecting",
	};

	if (lane->state >= LANE_ADDRESS && lane->state <= LANE_CONNECTING &&
		now > lane->give_up_at)
		dial_retry(connecting, lane, awaited[lane->state],
			"no answer for 5 s");
}

void dial_event(struct connecting *connecting, struct verbs_lane *lane,
	const struct connect_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		on_address(connecting, lane);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		on_route(connecting, lane);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(connecting, lane, event);
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		on_failure(connecting, lane, event);
	}
}
