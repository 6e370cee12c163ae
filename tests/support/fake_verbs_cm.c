/* Identifiers of the connection manager, their addresses and their events. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct fake_id *fake_id_find(int number)
{
	struct fake_id *id;

	TAILQ_FOREACH(id, &fake.ids, link)
	if (id->number == number)
		return id;
	return NULL;
}

/* ---- channels ----------------------------------------------------------- */

static struct rdma_event_channel *create_event_channel(void)
{
	struct fake_events *events;

	if (fake_fails("cm_create_event_channel")) {
		errno = EMFILE;
		return NULL;
	}
	fake_lock();
	events = fake_new(sizeof(*events));
	mailbox_init(&events->events);
	events->channel.fd = events->events.fd;
	fake_unlock();
	return &events->channel;
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
	struct fake_events *mine = (struct fake_events *)channel;

	fake_lock();
	if (mine->children)
		fake_misuse("cm_destroy_event_channel: %d ids use it",
			mine->children);
	mailbox_fini(&mine->events);
	fake_delete(mine);
	fake_unlock();
}

/* ---- identifiers -------------------------------------------------------- */

struct fake_id *fake_id_new(struct fake_events *channel, void *context)
{
	struct fake_id *id = fake_new(sizeof(*id));

	id->id.channel = &channel->channel;
	id->id.context = context;
	id->id.ps = RDMA_PS_TCP;
	id->id.qp_type = IBV_QPT_RC;
	id->host = -1;
	id->number = (int)++fake.last_number;
	TAILQ_INIT(&id->unacked);
	channel->children++;
	TAILQ_INSERT_TAIL(&fake.ids, id, link);
	return id;
}

void fake_attach_device(struct fake_id *id, struct fake_device *device)
{
	id->host = device->config.host;
	id->id.verbs = fake_cm_context(device);
	id->id.port_num = 1;
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
	void *context, enum rdma_port_space space)
{
	if (fake_fails("cm_create_id")) {
		errno = ENOMEM;
		return -1;
	}
	if (!channel || space != RDMA_PS_TCP) {
		fake_misuse("cm_create_id: without a channel, or not for TCP");
		errno = EINVAL;
		return -1;
	}
	fake_lock();
	*id = &fake_id_new((struct fake_events *)channel, context)->id;
	fake_unlock();
	return 0;
}

static void delete_id(struct fake_id *id)
{
	struct fake_events *events = (struct fake_events *)id->id.channel;

	mailbox_drop(&events->events, id);
	events->children--;
	TAILQ_REMOVE(&fake.ids, id, link);
	fake_delete(id);
}

/* Requests that nobody has seen go with their listener. */
static void delete_unseen(const struct fake_id *listener)
{
	struct fake_id *id = TAILQ_FIRST(&fake.ids);
	struct fake_id *next;

	for (; id; id = next) {
		next = TAILQ_NEXT(id, link);
		if (id->listener != listener)
			continue;
		fake_hang_up(id);
		fake.objects++;
		delete_id(id);
	}
}

static void acknowledge(struct letter *letter)
{
	struct fake_id *id = letter->owner;

	TAILQ_REMOVE(&id->unacked, letter, link);
	fake_delete(letter);
}

static void acknowledge_all(struct fake_id *id)
{
	while (!TAILQ_EMPTY(&id->unacked))
		acknowledge(TAILQ_FIRST(&id->unacked));
}

static int destroy_id(struct rdma_cm_id *id)
{
	struct fake_id *mine = (struct fake_id *)id;
	bool failed = fake_fails("cm_destroy_id");

	fake_lock();
	if (id->qp)
		fake_misuse("cm_destroy_id: it has a queue pair");
	if (!TAILQ_EMPTY(&mine->unacked))
		fake_misuse("cm_destroy_id blocks: an event was not "
			    "acknowledged");
	acknowledge_all(mine);
	delete_unseen(mine);
	fake_hang_up(mine);
	delete_id(mine);
	fake_unlock();
	errno = EIO;
	return failed ? -1 : 0;
}

static int set_option(
	struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	struct fake_id *mine = (struct fake_id *)id;
	size_t wanted =
		name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT
			? sizeof(uint8_t)
			: sizeof(int);

	if (fake_fails("cm_set_option")) {
		errno = ENOSYS;
		return -1;
	}
	if (level != RDMA_OPTION_ID || bytes != wanted) {
		errno = EINVAL;
		return -1;
	}
	fake_lock();
	if (name == RDMA_OPTION_ID_ACK_TIMEOUT)
		mine->timeout = *(uint8_t *)value;
	fake_unlock();
	return 0;
}

/* ---- addresses ---------------------------------------------------------- */

static uint16_t *port_of(struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6
		       ? &((struct sockaddr_in6 *)address)->sin6_port
		       : &((struct sockaddr_in *)address)->sin_port;
}

static size_t bytes_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static bool is_wildcard(const struct sockaddr *address)
{
	static const struct in6_addr any = IN6ADDR_ANY_INIT;

	if (address->sa_family == AF_INET)
		return ((const struct sockaddr_in *)address)->sin_addr.s_addr ==
		       htonl(INADDR_ANY);
	return memcmp(&((const struct sockaddr_in6 *)address)->sin6_addr, &any,
		       sizeof(any)) == 0;
}

static bool port_is_taken(const struct fake_id *id, uint16_t port)
{
	struct fake_id *other;

	TAILQ_FOREACH(other, &fake.ids, link)
	if (other != id && other->host == id->host && !other->passive &&
		other->state != ID_IDLE &&
		*port_of(&other->id.route.addr.src_storage) == port)
		return true;
	return false;
}

static int bind_to(struct fake_id *id, const struct sockaddr *address)
{
	struct fake_device *device = NULL;
	int host = fake_current_host();
	uint16_t *port;

	if (id->state != ID_IDLE)
		return EINVAL;
	if (!is_wildcard(address)) {
		device = fake_device_by_address(address);
		if (!device || (host >= 0 && device->config.host != host))
			return ENODEV;
		fake_attach_device(id, device);
	} else {
		id->host = host < 0 ? 0 : host;
	}
	memcpy(&id->id.route.addr.src_storage, address, bytes_of(address));
	port = port_of(&id->id.route.addr.src_storage);
	if (*port == 0)
		*port = htons((uint16_t)(20000 + ++fake.last_number % 40000));
	else if (port_is_taken(id, *port))
		return EADDRINUSE;
	id->state = ID_BOUND;
	return 0;
}

static int answer(int error)
{
	errno = error;
	return error ? -1 : 0;
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	int error;

	if (fake_fails("cm_bind_addr"))
		return answer(EADDRNOTAVAIL);
	fake_lock();
	error = bind_to((struct fake_id *)id, address);
	fake_unlock();
	return answer(error);
}

/* Without a source: of the host's first device. */
static int bind_to_any(struct fake_id *id, sa_family_t family)
{
	int host = fake_current_host();

	for (int d = 0; d < fake.config.num_devices; d++) {
		struct fake_device *device = &fake.devices[d];

		if ((host < 0 || device->config.host == host) &&
			device->address.ss_family == family)
			return bind_to(id, (void *)&device->address);
	}
	return ENODEV;
}

static int start_resolving(struct fake_id *id, const struct sockaddr *source,
	const struct sockaddr *destination, int timeout_ms)
{
	struct fake_device *device = fake_device_by_address(destination);
	int error = 0;

	if (id->state == ID_IDLE)
		error = source ? bind_to(id, source)
			       : bind_to_any(id, destination->sa_family);
	if (error)
		return error;
	if (id->state != ID_BOUND || !id->id.verbs)
		return EINVAL;
	memcpy(&id->id.route.addr.dst_storage, destination,
		bytes_of(destination));
	id->state = ID_RESOLVING;
	if (device && fake_wire_is_whole(id->host, device->config.host))
		fake_event_later(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, 0);
	else
		fake_event_later(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT,
			(int64_t)timeout_ms * 100000);
	return 0;
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *source,
	struct sockaddr *destination, int timeout_ms)
{
	int error;

	if (fake_fails("cm_resolve_addr"))
		return answer(ENODEV);
	fake_lock();
	error = start_resolving(
		(struct fake_id *)id, source, destination, timeout_ms);
	fake_unlock();
	return answer(error);
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	struct fake_id *mine = (struct fake_id *)id;
	int error = 0;

	(void)timeout_ms;
	if (fake_fails("cm_resolve_route"))
		return answer(ENODEV);
	fake_lock();
	if (mine->state == ID_RESOLVED) {
		mine->state = ID_ROUTING;
		fake_event_later(mine, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, 0);
	} else {
		error = EINVAL;
	}
	fake_unlock();
	return answer(error);
}

static int start_listening(struct fake_id *id)
{
	if (id->state != ID_BOUND)
		return EINVAL;
	id->state = ID_LISTENING;
	return 0;
}

static int listen_for(struct rdma_cm_id *id, int backlog)
{
	int error;

	(void)backlog; /* no request is refused for want of room */
	if (fake_fails("cm_listen"))
		return answer(EADDRINUSE);
	fake_lock();
	error = start_listening((struct fake_id *)id);
	fake_unlock();
	return answer(error);
}

static uint16_t get_src_port(struct rdma_cm_id *id)
{
	return *port_of(&id->route.addr.src_storage);
}

/* ---- events ------------------------------------------------------------- */

static int get_event(
	struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct fake_events *mine = (struct fake_events *)channel;
	struct letter *letter;
	struct fake_id *id;

	if (fake_fails("cm_get_event"))
		return answer(ENOMEM);
	fake_lock();
	letter = mailbox_take(&mine->events);
	if (letter) {
		fake_event_is_taken(letter);
		id = letter->owner;
		TAILQ_INSERT_TAIL(&id->unacked, letter, link);
		fake.objects++;
		*event = &letter->cm;
	}
	fake_unlock();
	return letter ? 0 : -1;
}

static int ack_event(struct rdma_cm_event *event)
{
	struct letter *letter =
		(void *)((char *)event - offsetof(struct letter, cm));
	bool failed = fake_fails("cm_ack_event");

	fake_lock();
	acknowledge(letter);
	fake_unlock();
	return answer(failed ? EINVAL : 0);
}

void fake_cm_init(struct verbs_api *api)
{
	api->cm_create_event_channel = create_event_channel;
	api->cm_destroy_event_channel = destroy_event_channel;
	api->cm_create_id = create_id;
	api->cm_destroy_id = destroy_id;
	api->cm_set_option = set_option;
	api->cm_bind_addr = bind_addr;
	api->cm_listen = listen_for;
	api->cm_resolve_addr = resolve_addr;
	api->cm_resolve_route = resolve_route;
	api->cm_get_event = get_event;
	api->cm_ack_event = ack_event;
	api->cm_event_str = rdma_event_str;
	api->cm_get_src_port = get_src_port;
}
