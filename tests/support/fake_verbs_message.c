/* Messages between connection managers, and the events that they become. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define REASON_NO_LISTENER 8
#define REASON_TIMEOUT     4

#define LATE_NS 5000000

/* ---- sending ------------------------------------------------------------ */

struct message *fake_message(
	enum message_type type, const struct fake_id *from, int to)
{
	struct message *message = calloc(1, sizeof(*message));

	if (!message)
		abort();
	message->type = type;
	message->from = from->number;
	message->to = to;
	message->from_host = from->host;
	message->due = fake_due();
	TAILQ_INSERT_TAIL(&fake.messages, message, link);
	pthread_cond_broadcast(&fake.wake);
	return message;
}

void fake_event_later(struct fake_id *id, enum rdma_cm_event_type type,
	int status, int64_t delay_ns)
{
	struct message *message = fake_message(MESSAGE_EVENT, id, id->number);

	message->event = type;
	message->status = status;
	message->due = clock_now() + delay_ns;
}

void fake_hang_up(struct fake_id *id)
{
	struct message *message;

	switch (id->state) {
	case ID_LISTENING:
		break;
	case ID_CONNECTING:
	case ID_REQUESTED:
		message = fake_message(MESSAGE_REJECT, id, id->other);
		message->status = REASON_TIMEOUT;
		break;
	case ID_ACCEPTED:
	case ID_RESPONDED:
	case ID_CONNECTED:
		fake_message(MESSAGE_DISCONNECT, id, id->other);
		break;
	default:
		return;
	}
	id->state = ID_DISCONNECTED;
}

/* ---- events ------------------------------------------------------------- */

void fake_event(struct fake_id *id, enum rdma_cm_event_type type, int status,
	const struct message *message)
{
	struct letter *letter = calloc(1, sizeof(*letter));

	if (!letter)
		abort();
	letter->cm.id = &id->id;
	letter->cm.event = type;
	letter->cm.status = status;
	if (message) {
		letter->cm.param.conn = message->param;
		memcpy(letter->data, message->data, sizeof(letter->data));
	}
	letter->cm.param.conn.private_data =
		letter->cm.param.conn.private_data_len ? letter->data : NULL;
	if (id->listener) {
		letter->cm.listen_id = &id->listener->id;
		fake_deliver(id->listener, letter);
		return;
	}
	fake_deliver(id, letter);
}

/* The connecting side is ready, and tells the other. */
static void establish(struct fake_id *id)
{
	struct message *message = fake_message(MESSAGE_READY, id, id->other);

	if (fake.disorder)
		message->due += LATE_NS;
	if (id->id.qp)
		fake_qp_ready((struct fake_qp *)id->id.qp, id->remote_qp);
	id->state = ID_CONNECTED;
}

/* What the library does before it gives an event to the caller. */
void fake_event_is_taken(struct letter *letter)
{
	struct fake_id *id = (struct fake_id *)letter->cm.id;

	if (letter->cm.event == RDMA_CM_EVENT_CONNECT_REQUEST && id->listener) {
		id->listener = NULL;
		fake.objects++; /* the caller's from now on */
	}
	if (letter->cm.event == RDMA_CM_EVENT_CONNECT_RESPONSE && id->id.qp &&
		id->state == ID_RESPONDED) {
		letter->cm.event = RDMA_CM_EVENT_ESTABLISHED;
		establish(id);
	}
}

static void event_twice(struct fake_id *id, enum rdma_cm_event_type type)
{
	fake_event(id, type, 0, NULL);
	if (fake.disorder)
		fake_event(id, type, 0, NULL);
}

/* An event that was set for later: is it still true? */
static void event_arrives(struct fake_id *id, const struct message *message)
{
	switch (message->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		id->state = ID_RESOLVED;
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		id->state = ID_BOUND;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		id->state = ID_ROUTED;
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		if (id->state != ID_CONNECTING && id->state != ID_ACCEPTED)
			return;
		id->state = ID_DISCONNECTED;
		break;
	default:
		event_twice(id, message->event);
		return;
	}
	fake_event(id, message->event, message->status, NULL);
}

/* ---- arriving ----------------------------------------------------------- */

static uint16_t port_of(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6
		       ? ((const struct sockaddr_in6 *)address)->sin6_port
		       : ((const struct sockaddr_in *)address)->sin_port;
}

static struct fake_id *listener_at(
	const struct sockaddr_storage *address, int host)
{
	struct fake_id *id;

	TAILQ_FOREACH(id, &fake.ids, link)
	{
		const struct rdma_addr *own = &id->id.route.addr;

		if (id->state == ID_LISTENING && id->host == host &&
			port_of(&own->src_storage) == port_of(address) &&
			(!id->id.verbs || fake_same_address(&own->src_addr,
						  (const void *)address)))
			return id;
	}
	return NULL;
}

static void refuse_request(
	const struct message *message, const struct fake_device *device)
{
	struct fake_id *from = fake_id_find(message->from);
	struct message *back;

	if (!from)
		return;
	back = fake_message(MESSAGE_REJECT, from, from->number);
	back->from = 0;
	back->from_host = device->config.host;
	back->status =
		device->config.iwarp ? -ECONNREFUSED : REASON_NO_LISTENER;
}

static void request_arrives(const struct message *message)
{
	struct fake_device *device =
		fake_device_by_address((const void *)&message->address);
	const struct fake_id *from = fake_id_find(message->from);
	struct fake_id *listener;
	struct fake_id *id;

	if (!device || !from ||
		!fake_wire_is_whole(message->from_host, device->config.host))
		return;
	listener = listener_at(&message->address, device->config.host);
	if (!listener) {
		refuse_request(message, device);
		return;
	}
	id = fake_id_new((struct fake_events *)listener->id.channel,
		listener->id.context);
	fake.objects--; /* nobody's until it is seen */
	fake_attach_device(id, device);
	id->passive = true;
	id->listener = listener;
	id->other = message->from;
	id->remote_qp = message->param.qp_num;
	id->connect = message->param;
	id->state = ID_REQUESTED;
	id->id.route.addr.src_storage = message->address;
	id->id.route.addr.dst_storage = from->id.route.addr.src_storage;
	fake_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, message);
}

static void reply_arrives(struct fake_id *id, const struct message *message)
{
	if (id->state != ID_CONNECTING)
		return;
	id->other = message->from;
	id->remote_qp = message->param.qp_num;
	id->state = ID_RESPONDED;
	if (fake_device_of(id->id.verbs)->config.iwarp) {
		establish(id);
		fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, message);
		return;
	}
	fake_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, message);
}

static void reject_arrives(struct fake_id *id, const struct message *message)
{
	if (id->state != ID_CONNECTING && id->state != ID_REQUESTED &&
		id->state != ID_ACCEPTED)
		return;
	/* A request that nobody has seen yet stays a request: only its
	 * answer will fail. */
	if (id->listener)
		return;
	id->state = ID_DISCONNECTED;
	fake_event(id, RDMA_CM_EVENT_REJECTED, message->status, message);
}

static void disconnect_arrives(struct fake_id *id)
{
	if (id->state != ID_ACCEPTED && id->state != ID_RESPONDED &&
		id->state != ID_CONNECTED)
		return;
	id->state = ID_DISCONNECTED;
	if (id->id.qp && fake_device_of(id->id.verbs)->config.iwarp)
		fake_qp_break((struct fake_qp *)id->id.qp);
	event_twice(id, RDMA_CM_EVENT_DISCONNECTED);
}

void fake_message_arrives(struct message *message)
{
	struct fake_id *id = fake_id_find(message->to);

	if (message->type == MESSAGE_REQUEST) {
		request_arrives(message);
		return;
	}
	if (!id || (message->from_host >= 0 && id->host >= 0 &&
			   message->type != MESSAGE_EVENT &&
			   !fake_wire_is_whole(message->from_host, id->host)))
		return;
	switch (message->type) {
	case MESSAGE_EVENT:
		event_arrives(id, message);
		break;
	case MESSAGE_REPLY:
		reply_arrives(id, message);
		break;
	case MESSAGE_READY:
		if (id->state != ID_ACCEPTED)
			break;
		id->state = ID_CONNECTED;
		fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
		break;
	case MESSAGE_REJECT:
		reject_arrives(id, message);
		break;
	case MESSAGE_DISCONNECT:
		disconnect_arrives(id);
		break;
	case MESSAGE_REQUEST:
		break;
	}
}
