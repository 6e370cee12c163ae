/* Choosing addresses, and telling them; see verbs_address.h. */
#include "transport/verbs_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

#define HELLO_VERSION 1
#define BACKLOG       4096 /* as many ranks as a world can have */
#define TRIED_BYTES   400

/* ---- text -------------------------------------------------------------- */

const char *address_text(
	const struct sockaddr_storage *address, char text[ADDRESS_TEXT_BYTES])
{
	const void *bytes =
		address->ss_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)address)
				  ->sin_addr
			: &((const struct sockaddr_in6 *)address)->sin6_addr;

	if (!inet_ntop(address->ss_family, bytes, text, ADDRESS_TEXT_BYTES))
		snprintf(text, ADDRESS_TEXT_BYTES, "(no address)");
	return text;
}

/* IPv4, or IPv6 with an optional %interface. */
static bool address_parse(const char *text, struct sockaddr_storage *address)
{
	struct sockaddr_in *four = (void *)address;
	struct sockaddr_in6 *six = (void *)address;
	char plain[ADDRESS_TEXT_BYTES];
	const char *scope = strchr(text, '%');

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		return true;
	}
	snprintf(plain, sizeof(plain), "%.*s",
		scope ? (int)(scope - text) : (int)strlen(text), text);
	if (inet_pton(AF_INET6, plain, &six->sin6_addr) != 1)
		return false;
	six->sin6_family = AF_INET6;
	six->sin6_scope_id = scope ? if_nametoindex(scope + 1) : 0;
	return !scope || six->sin6_scope_id != 0;
}

/* Addresses that mean nothing on another host: loopback, and those of one link,
 * which need an interface there. */
static bool is_local(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *four = (const void *)address;
	const struct sockaddr_in6 *six = (const void *)address;

	if (address->ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
	       IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
}

/* As IPv6, IPv4 mapped: so it is in hellos, and in the GIDs of RoCE. */
static void address_map(
	const struct sockaddr_storage *address, uint8_t bytes[16])
{
	const struct sockaddr_in *four = (const void *)address;
	const struct sockaddr_in6 *six = (const void *)address;

	if (address->ss_family == AF_INET6) {
		memcpy(bytes, &six->sin6_addr, 16);
		return;
	}
	memset(bytes, 0, 10);
	memset(bytes + 10, 0xff, 2);
	memcpy(bytes + 12, &four->sin_addr, 4);
}

static void address_unmap(const uint8_t bytes[16], uint16_t port,
	struct sockaddr_storage *address)
{
	struct sockaddr_in *four = (void *)address;
	struct sockaddr_in6 *six = (void *)address;

	memset(address, 0, sizeof(*address));
	memcpy(&six->sin6_addr, bytes, 16);
	if (!IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		six->sin6_family = AF_INET6;
		six->sin6_port = port;
		return;
	}
	memset(address, 0, sizeof(*address));
	memcpy(&four->sin_addr, bytes + 12, 4);
	four->sin_family = AF_INET;
	four->sin_port = port;
}

/* ---- one device -------------------------------------------------------- */

/* A search for the address of one device, and what it met on its way. */
struct search {
	struct far *far;
	struct verbs_device *device;
	char name[IBV_SYSFS_NAME_MAX]; /* "": any */
	char tried[TRIED_BYTES];
};

static void note_tried(struct search *search,
	const struct sockaddr_storage *address, const char *what,
	const char *which)
{
	size_t used = strlen(search->tried);
	char text[ADDRESS_TEXT_BYTES];

	snprintf(search->tried + used, sizeof(search->tried) - used,
		"%s%s %s%s", used ? ", " : "", address_text(address, text),
		what, which);
}

static bool gid_fits(const struct rdma_cm_id *id, int32_t index,
	const struct sockaddr_storage *address)
{
	union ibv_gid gid;
	uint8_t mapped[16];

	/* GIDs of InfiniBand and iWARP are no addresses; which was used shows
	 * in the queue pair (verbs_connect). */
	if (index < 0 ||
		verbs_api()->query_gid(id->verbs, id->port_num, index, &gid))
		return index < 0;
	address_map(address, mapped);
	return memcmp(gid.raw, mapped, 16) == 0;
}

static bool is_roce(const struct rdma_cm_id *id)
{
	struct ibv_port_attr port;

	return id->verbs->device->transport_type == IBV_TRANSPORT_IB &&
	       verbs_api()->query_port(id->verbs, id->port_num, &port) == 0 &&
	       port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* Whether a bound id is what the search is for. */
static bool is_wanted(struct search *search, const struct rdma_cm_id *id,
	const struct sockaddr_storage *address)
{
	const struct far_config *config = &search->far->config;
	const char *name;

	if (!id->verbs) {
		note_tried(search, address, "has no RDMA device", "");
		return false;
	}
	name = verbs_api()->get_device_name(id->verbs->device);
	if (search->name[0] && strcmp(search->name, name) != 0)
		note_tried(search, address, "leads over ", name);
	else if (config->port && config->port != id->port_num)
		note_tried(
			search, address, "leads over another port of ", name);
	else if (is_roce(id) && !gid_fits(id, config->gid_index, address))
		note_tried(search, address, "is not that GID of ", name);
	else
		return true;
	return false;
}

void address_options(const struct far_config *config, struct rdma_cm_id *id)
{
	uint8_t tos = (uint8_t)config->traffic_class;

	if (config->traffic_class >= 0 &&
		verbs_api()->cm_set_option(id, RDMA_OPTION_ID,
			RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) != 0)
		log_note(LOG_WARN, "traffic class %d was refused: %s", tos,
			strerror(errno));
}

/* Listens at the address if it is what the search is for. */
static bool try_address(
	struct search *search, const struct sockaddr_storage *address)
{
	const struct verbs_api *api = verbs_api();
	struct sockaddr_storage bound = *address;
	struct rdma_cm_id *id;

	if (api->cm_create_id(search->far->events, &id, NULL, RDMA_PS_TCP)) {
		note_tried(search, address, "gets no id: ", strerror(errno));
		return false;
	}
	address_options(&search->far->config, id);
	if (api->cm_bind_addr(id, (struct sockaddr *)&bound) != 0)
		note_tried(
			search, address, "cannot be bound: ", strerror(errno));
	else if (is_wanted(search, id, address)) {
		if (api->cm_listen(id, BACKLOG) == 0) {
			search->device->listener = id;
			search->device->address = *address;
			return true;
		}
		note_tried(search, address,
			"cannot be listened at: ", strerror(errno));
	}
	api->cm_destroy_id(id);
	return false;
}

/* A further address may have a label, "eth0:1". */
static bool is_of(const char *interface, const char *label)
{
	size_t length = strlen(interface);

	return strncmp(interface, label, length) == 0 &&
	       (label[length] == '\0' || label[length] == ':');
}

/* Tries the addresses of all interfaces, or of the one. */
static bool try_interfaces(struct search *search, const char *interface)
{
	struct ifaddrs *all, *one;
	bool found = false;

	if (verbs_api()->get_interfaces(&all) != 0)
		return false;
	for (one = all; one && !found; one = one->ifa_next) {
		struct sockaddr_storage address = {0};
		int family = one->ifa_addr ? one->ifa_addr->sa_family : 0;

		if ((family != AF_INET && family != AF_INET6) ||
			(interface && !is_of(interface, one->ifa_name)))
			continue;
		memcpy(&address, one->ifa_addr,
			family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6));
		if (!is_local(&address))
			found = try_address(search, &address);
	}
	verbs_api()->free_interfaces(all);
	return found;
}

static bool try_text(struct search *search, const char *text)
{
	struct sockaddr_storage address;

	if (!text || !address_parse(text, &address))
		return false;
	if (!is_local(&address))
		return try_address(search, &address);
	note_tried(search, &address, "is no address between hosts", "");
	return false;
}

static bool search_run(struct search *search)
{
	const struct far_config *config = &search->far->config;

	if (config->address)
		return try_text(search, config->address);
	if (config->interface)
		return try_interfaces(search, config->interface);
	/* The rendezvous' address reaches the others, so it comes first; but
	 * it may be of a network for management. */
	return try_text(search, config->fallback_address) ||
	       try_interfaces(search, NULL);
}

/* ---- what contradicts itself ------------------------------------------- */

static bool is_same(
	const struct sockaddr_storage *address, const struct sockaddr *other)
{
	struct sockaddr_storage copy = {0};
	uint8_t one[16], two[16];

	if (!other ||
		(other->sa_family != AF_INET && other->sa_family != AF_INET6))
		return false;
	memcpy(&copy, other,
		other->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					    : sizeof(struct sockaddr_in6));
	address_map(address, one);
	address_map(&copy, two);
	return memcmp(one, two, sizeof(one)) == 0;
}

/* The address alone would decide, whatever the interface. */
static enum shunt_status pair_check(const struct far *far)
{
	const struct far_config *config = &far->config;
	struct sockaddr_storage address;
	char owner[IF_NAMESIZE] = "";
	struct ifaddrs *all, *one;
	bool found = false;

	if (!config->interface || !config->address ||
		!address_parse(config->address, &address))
		return SHUNT_OK; /* what is no address is told as such */
	if (verbs_api()->get_interfaces(&all) != 0)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: listing the network interfaces", far->rank);
	for (one = all; one && !found; one = one->ifa_next) {
		if (!is_same(&address, one->ifa_addr))
			continue;
		snprintf(owner, sizeof(owner), "%s", one->ifa_name);
		found = is_of(config->interface, one->ifa_name);
	}
	verbs_api()->free_interfaces(all);
	if (found)
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"rank %d: rdma_address=%s is no address of rdma_interface=%s, "
		"but of %s: leave one of them out, or give one of its own",
		far->rank, config->address, config->interface,
		owner[0] ? owner : "no interface here");
}

/* ---- all devices ------------------------------------------------------- */

int32_t address_num_devices(const struct far_config *config)
{
	int32_t num = 1;

	for (const char *c = config->device; c && *c; c++)
		num += *c == ',';
	return num;
}

/* The name of device number `index` of the list. */
static void device_name_copy(
	const char *list, int index, char name[IBV_SYSFS_NAME_MAX])
{
	name[0] = '\0';
	if (!list)
		return;
	for (; index > 0; index--)
		list = strchr(list, ',') + 1;
	snprintf(name, IBV_SYSFS_NAME_MAX, "%.*s", (int)strcspn(list, ","),
		list);
}

static bool is_asked_for(const struct far_config *config)
{
	return config->device || config->interface || config->address ||
	       config->port || config->gid_index >= 0;
}

/* Why no address was even tried. */
static const char *untried(const struct far_config *config)
{
	struct sockaddr_storage address;

	if (config->address && !address_parse(config->address, &address))
		return "rdma_address is no IPv4 or IPv6 address";
	if (config->interface)
		return "there is no such interface, or it has no address";
	return "no address to try";
}

static enum shunt_status search_failed(const struct search *search)
{
	const struct far_config *config = &search->far->config;
	char gid[48] = "";

	if (config->gid_index >= 0)
		snprintf(gid, sizeof(gid), ", rdma_gid_index=%d",
			config->gid_index);
	return error_set(
		is_asked_for(config) ? SHUNT_INVALID : SHUNT_UNSUPPORTED,
		"rank %d: no RDMA device (rdma_device=%s, rdma_interface=%s, "
		"rdma_address=%s, rdma_port=%d%s): %s; see `rdma link' and "
		"`shunt doctor'",
		search->far->rank, search->name[0] ? search->name : "any",
		config->interface ? config->interface : "any",
		config->address ? config->address : "any", config->port, gid,
		search->tried[0] ? search->tried : untried(config));
}

static void listeners_close(struct far *far)
{
	for (int d = 0; d < far->num_devices; d++)
		if (far->devices[d].listener)
			verbs_api()->cm_destroy_id(far->devices[d].listener);
	memset(far->devices, 0, sizeof(far->devices));
	far->num_devices = 0;
}

static bool is_double(const struct far *far, int index)
{
	for (int d = 0; d < index; d++)
		if (far->devices[d].listener->verbs ==
			far->devices[index].listener->verbs)
			return true;
	return false;
}

enum shunt_status address_listen(struct far *far)
{
	int32_t wanted = address_num_devices(&far->config);
	enum shunt_status status = pair_check(far);

	if (status != SHUNT_OK)
		return status;
	for (int d = 0; d < wanted; d++) {
		struct search search = {
			.far = far,
			.device = &far->devices[d],
		};

		far->devices[d].number = d;
		device_name_copy(far->config.device, d, search.name);
		if (!search_run(&search))
			status = search_failed(&search);
		else
			far->num_devices = d + 1;
		if (status == SHUNT_OK && is_double(far, d))
			status = error_set(SHUNT_INVALID,
				"rank %d: rdma_device=%s names a device twice",
				far->rank, far->config.device);
		if (status != SHUNT_OK) {
			listeners_close(far);
			return status;
		}
	}
	return SHUNT_OK;
}

/* ---- the hello --------------------------------------------------------- */

struct hello_layout {
	uint8_t version; /* 0: no device */
	uint8_t num_devices;
	uint8_t num_lanes;
	uint8_t zero[5];
	uint64_t base;
	uint8_t addresses[FAR_MAX_DEVICES][16];
	uint16_t ports[FAR_MAX_DEVICES]; /* network byte order */
};
_Static_assert(sizeof(struct hello_layout) == sizeof(struct far_hello),
	"layout of a hello");

void address_pack(const struct far *far, struct far_hello *hello)
{
	struct hello_layout layout = {
		.version = HELLO_VERSION,
		.num_devices = (uint8_t)far->num_devices,
		.num_lanes = (uint8_t)far->num_lanes,
		.base = (uintptr_t)far->base,
	};

	for (int d = 0; d < far->num_devices; d++) {
		const struct verbs_device *device = &far->devices[d];

		address_map(&device->address, layout.addresses[d]);
		layout.ports[d] =
			verbs_api()->cm_get_src_port(device->listener);
	}
	memcpy(hello->bytes, &layout, sizeof(layout));
}

bool address_read(const struct far_hello *hello, uint64_t segment_bytes,
	struct far_address *address, bool *absent)
{
	struct hello_layout layout;

	memcpy(&layout, hello->bytes, sizeof(layout));
	*absent = layout.version == 0;
	if (layout.version != HELLO_VERSION || layout.num_devices < 1 ||
		layout.num_devices > FAR_MAX_DEVICES || layout.num_lanes < 1 ||
		layout.num_lanes > FAR_MAX_LANES || layout.base % 4096 != 0 ||
		layout.base == 0 || layout.base > UINT64_MAX - segment_bytes)
		return false;
	*address = (struct far_address){
		.base = layout.base,
		.num_devices = layout.num_devices,
		.num_lanes = layout.num_lanes,
	};
	for (int d = 0; d < layout.num_devices; d++) {
		if (layout.ports[d] == 0)
			return false;
		address_unmap(layout.addresses[d], layout.ports[d],
			&address->addresses[d]);
	}
	return true;
}
