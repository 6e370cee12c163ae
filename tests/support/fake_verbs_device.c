/* Devices, their ports and addresses, and their contexts. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE(index) (&fake.devices[index])

struct fake_device *fake_device_of(const struct ibv_context *context)
{
	return ((const struct fake_context *)context)->device;
}

bool fake_same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, 16) == 0;
}

struct fake_device *fake_device_by_address(const struct sockaddr *address)
{
	for (int d = 0; d < fake.config.num_devices; d++)
		if (!DEVICE(d)->removed &&
			fake_same_address((void *)&DEVICE(d)->address, address))
			return DEVICE(d);
	return NULL;
}

static bool is_visible(const struct fake_device *device);

/* Each device has an interface of its own name. */
static int get_interfaces(struct ifaddrs **list)
{
	struct ifaddrs *entries;
	int count = 0;

	if (fake_fails("get_interfaces")) {
		errno = ENOMEM;
		return -1;
	}
	fake_lock();
	entries = fake_new(sizeof(*entries) * FAKE_MAX_DEVICES);
	for (int d = 0; d < fake.config.num_devices; d++) {
		if (!is_visible(DEVICE(d)))
			continue;
		entries[count].ifa_name = DEVICE(d)->device.name;
		entries[count].ifa_addr = (void *)&DEVICE(d)->address;
		if (count > 0)
			entries[count - 1].ifa_next = &entries[count];
		count++;
	}
	fake_unlock();
	*list = entries;
	return 0;
}

static void free_interfaces(struct ifaddrs *list)
{
	fake_lock();
	fake_delete(list);
	fake_unlock();
}

/* ---- the list ----------------------------------------------------------- */

static bool is_visible(const struct fake_device *device)
{
	int host = fake_current_host();

	return !device->removed && (host < 0 || device->config.host == host);
}

static struct ibv_device **get_device_list(int *num_devices)
{
	struct ibv_device **list;
	int count = 0;

	if (fake_fails("get_device_list")) {
		errno = ENOSYS;
		return NULL;
	}
	fake_lock();
	list = fake_new(sizeof(*list) * (FAKE_MAX_DEVICES + 1));
	for (int d = 0; d < fake.config.num_devices; d++)
		if (is_visible(DEVICE(d)))
			list[count++] = &DEVICE(d)->device;
	fake_unlock();
	if (num_devices)
		*num_devices = count;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	fake_lock();
	fake_delete(list);
	fake_unlock();
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* ---- contexts ----------------------------------------------------------- */

/* librdmacm opens a device when first it is met, for all, to the end. */
struct ibv_context *fake_cm_context(struct fake_device *device)
{
	struct fake_context *context;

	if (device->cm_context)
		return device->cm_context;
	context = calloc(1, sizeof(*context));
	if (!context)
		abort();
	context->device = device;
	context->context.device = &device->device;
	context->context.num_comp_vectors = 1;
	context->context.cmd_fd = -1;
	mailbox_init(&context->events);
	context->context.async_fd = context->events.fd;
	device->cm_context = &context->context;
	return device->cm_context;
}

void fake_close_cm_context(struct fake_device *device)
{
	struct fake_context *context = (void *)device->cm_context;

	if (!context)
		return;
	if (context->children || context->unacked)
		fake_misuse("%s: %d objects are left, %d events were not "
			    "acknowledged",
			device->config.name, context->children,
			context->unacked);
	mailbox_fini(&context->events);
	free(context);
	device->cm_context = NULL;
}

/* ---- what they are ------------------------------------------------------ */

static int query_device(
	struct ibv_context *context, struct ibv_device_attr *attributes)
{
	const struct fake_device_config *config =
		&fake_device_of(context)->config;

	if (fake_fails("query_device"))
		return EIO;
	memset(attributes, 0, sizeof(*attributes));
	attributes->max_mr_size = config->max_mr_bytes;
	attributes->page_size_cap = 4096;
	attributes->max_qp = 4096;
	attributes->max_qp_wr = config->max_queue;
	attributes->max_sge = config->max_sge;
	attributes->max_cq = 4096;
	attributes->max_cqe = config->max_cqe;
	attributes->max_mr = 4096;
	attributes->max_pd = 4096;
	attributes->max_pkeys = 1;
	attributes->phys_port_cnt = 1;
	attributes->max_qp_rd_atom = config->iwarp ? 1 : 16;
	attributes->max_qp_init_rd_atom = config->iwarp ? 1 : 16;
	attributes->atomic_cap =
		config->iwarp ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port,
	struct ibv_port_attr *attributes)
{
	const struct fake_device_config *config =
		&fake_device_of(context)->config;

	if (fake_fails("query_port"))
		return EIO;
	if (port != 1)
		return EINVAL;
	memset(attributes, 0, sizeof(*attributes));
	attributes->state = config->down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	attributes->max_mtu = IBV_MTU_4096;
	attributes->active_mtu = IBV_MTU_1024;
	attributes->gid_tbl_len = 2;
	attributes->pkey_tbl_len = 1;
	attributes->max_msg_sz = UINT32_C(1) << 30;
	attributes->lid = config->infiniband ? 1 : 0;
	attributes->link_layer = config->infiniband ? IBV_LINK_LAYER_INFINIBAND
						    : IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static void fill_gid(const struct fake_device *device, union ibv_gid *gid)
{
	const struct sockaddr_in *four = (const void *)&device->address;
	const struct sockaddr_in6 *six = (const void *)&device->address;

	memset(gid, 0, sizeof(*gid));
	if (device->address.ss_family == AF_INET6) {
		memcpy(gid->raw, &six->sin6_addr, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &four->sin_addr, 4);
}

/* Index 0 is the link's own, as on RoCE; 1 is of the address. */
static int query_gid(struct ibv_context *context, uint8_t port, int index,
	union ibv_gid *gid)
{
	if (fake_fails("query_gid") || port != 1 || index < 0 || index > 1) {
		errno = EINVAL;
		return -1;
	}
	fill_gid(fake_device_of(context), gid);
	if (index == 0) {
		memset(gid, 0, sizeof(*gid));
		gid->raw[0] = 0xfe;
		gid->raw[1] = 0x80;
	}
	return 0;
}

static int fork_init(void)
{
	return fake_fails("fork_init") ? ENOSYS : 0;
}

static enum ibv_fork_status is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* ---- asynchronous events ------------------------------------------------ */

void fake_async(struct fake_device *device, const struct ibv_async_event *event,
	const void *about)
{
	struct fake_context *context = (void *)device->cm_context;
	struct letter *letter;

	if (!context)
		return;
	letter = calloc(1, sizeof(*letter));
	if (!letter)
		abort();
	letter->owner = (void *)about;
	letter->async = *event;
	mailbox_post(&context->events, letter);
}

static int get_async_event(
	struct ibv_context *context, struct ibv_async_event *event)
{
	struct fake_context *mine = (struct fake_context *)context;
	struct letter *letter;

	if (fake_fails("get_async_event")) {
		errno = EIO;
		return -1;
	}
	fake_lock();
	letter = mailbox_take(&mine->events);
	if (letter) {
		*event = letter->async;
		mine->unacked++;
		free(letter);
	}
	fake_unlock();
	return letter ? 0 : -1;
}

/* Which context an event is of is not in it; events come from librdmacm's. */
static void ack_async_event(struct ibv_async_event *event)
{
	struct fake_context *context = NULL;

	fake_lock();
	for (int d = 0; d < fake.config.num_devices; d++) {
		struct fake_context *other = (void *)DEVICE(d)->cm_context;

		if (other && other->unacked > 0)
			context = other;
	}
	if (context)
		context->unacked--;
	else
		fake_misuse("ack_async_event: %d was never given",
			(int)event->event_type);
	fake_unlock();
}

void fake_device_init(struct verbs_api *api)
{
	api->get_interfaces = get_interfaces;
	api->free_interfaces = free_interfaces;
	api->get_device_list = get_device_list;
	api->free_device_list = free_device_list;
	api->get_device_name = get_device_name;
	api->query_device = query_device;
	api->query_port = query_port;
	api->query_gid = query_gid;
	api->get_async_event = get_async_event;
	api->ack_async_event = ack_async_event;
	api->event_type_str = ibv_event_type_str;
	api->fork_init = fork_init;
	api->is_fork_initialized = is_fork_initialized;
}

struct fake_device *fake_device_by_name(const char *name)
{
	for (int d = 0; d < fake.config.num_devices; d++)
		if (strcmp(DEVICE(d)->config.name, name) == 0)
			return DEVICE(d);
	abort();
}

void fake_verbs_remove_device(const char *name)
{
	struct fake_device *device = fake_device_by_name(name);
	struct fake_id *id;
	struct fake_qp *qp;

	fake_lock();
	device->removed = true;
	fake_async(device,
		&(struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL},
		NULL);
	TAILQ_FOREACH(qp, &fake.qps, link)
	if (qp->device == device)
		fake_qp_break(qp);
	TAILQ_FOREACH(id, &fake.ids, link)
	if (id->id.verbs && fake_device_of(id->id.verbs) == device)
		fake_event(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
}
