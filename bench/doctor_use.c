/*
 * What of the RDMA devices the library would use for ranks on other hosts, and
 * why: shunt_world_create()'s rules, over what doctor_rdma.c has found.
 *
 *	SHUNT_RDMA_DEVICE, _PORT, _INTERFACE, _ADDRESS, _GID_INDEX leave some;
 *	of these the address that reaches the rendezvous, else the first in
 *	the order of the network interfaces; a loopback address never.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define MAX_CANDIDATES 256

/* A port of a device with an address that ranks can be reached at. */
struct candidate {
	const char *device, *netdev;
	int port;
	int gid; /* index of the address's own; -1: it has none */
	bool active;
	char how[64]; /* "RoCE v2, GID 3" */
	char address[INET6_ADDRSTRLEN];
};

struct candidates {
	struct candidate list[MAX_CANDIDATES];
	int num;
};

static const char *text_of(const cJSON *object, const char *name)
{
	const char *text =
		cJSON_GetStringValue(cJSON_GetObjectItem(object, name));

	return text ? text : "";
}

static int number_of(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(object, name);

	return cJSON_IsNumber(item) ? item->valueint : -1;
}

/* ---- who could be used ------------------------------------------------- */

static struct candidate *add(struct candidates *all, const cJSON *device,
	const cJSON *port, const char *address)
{
	struct candidate *candidate;

	if (all->num == MAX_CANDIDATES || strlen(address) >= INET6_ADDRSTRLEN)
		return NULL;
	candidate = &all->list[all->num++];
	*candidate = (struct candidate){
		.device = text_of(device, "device"),
		.netdev = text_of(port, "netdev"),
		.port = number_of(port, "port"),
		.gid = -1,
		.active = strstr(text_of(port, "state"), "ACTIVE") != NULL,
	};
	snprintf(candidate->address, sizeof(candidate->address), "%s", address);
	return candidate;
}

/* RoCE v2 has a GID for each address. */
static void add_roce(
	struct candidates *all, const cJSON *device, const cJSON *port)
{
	const cJSON *gid;

	cJSON_ArrayForEach(gid, cJSON_GetObjectItem(port, "gids"))
	{
		struct candidate *candidate;

		if (strcmp(text_of(gid, "type"), "RoCE v2") ||
			!strcmp(text_of(gid, "kind"), "IPv6 link-local"))
			continue;
		candidate = add(all, device, port, text_of(gid, "address"));
		if (!candidate)
			continue;
		candidate->gid = number_of(gid, "index");
		snprintf(candidate->how, sizeof(candidate->how),
			"RoCE v2, GID %d", candidate->gid);
	}
}

/* The text of an interface's address; false if it is not one that other hosts
 * could reach. */
static bool address_of(const struct ifaddrs *at, char address[INET6_ADDRSTRLEN])
{
	int family = at->ifa_addr ? at->ifa_addr->sa_family : 0;
	socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in)
					    : sizeof(struct sockaddr_in6);

	if (family != AF_INET && family != AF_INET6)
		return false;
	return !getnameinfo(at->ifa_addr, bytes, address, INET6_ADDRSTRLEN,
		       NULL, 0, NI_NUMERICHOST) &&
	       !strchr(address, '%') && strncmp(address, "127.", 4) != 0 &&
	       strcmp(address, "::1") != 0;
}

/* Others are reached by the addresses of their network device. */
static void add_by_netdev(struct candidates *all, const cJSON *device,
	const cJSON *port, const char *how)
{
	struct ifaddrs *list = NULL;
	char address[INET6_ADDRSTRLEN];

	if (getifaddrs(&list))
		return;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		struct candidate *candidate;

		if (strcmp(at->ifa_name, text_of(port, "netdev")) != 0 ||
			!address_of(at, address))
			continue;
		candidate = add(all, device, port, address);
		if (candidate)
			snprintf(candidate->how, sizeof(candidate->how), "%s",
				how);
	}
	freeifaddrs(list);
}

static void collect(const struct doctor *doctor, struct candidates *all)
{
	const cJSON *device, *port;

	all->num = 0;
	cJSON_ArrayForEach(device, doctor->devices)
	{
		bool iwarp = strstr(text_of(device, "node_type"), "RNIC");

		cJSON_ArrayForEach(port, cJSON_GetObjectItem(device, "ports"))
		{
			bool ethernet = !strcmp(
				text_of(port, "link_layer"), "Ethernet");

			if (iwarp)
				add_by_netdev(all, device, port, "iWARP");
			else if (ethernet)
				add_roce(all, device, port);
			else
				add_by_netdev(all, device, port, "InfiniBand");
		}
	}
}

/* ---- choosing ---------------------------------------------------------- */

/* Whether a list such as "mlx5_0,mlx5_1" has the name. */
static bool lists(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, length) &&
			(at[length] == '\0' || at[length] == ','))
			return true;
	}
	return false;
}

struct wish {
	const char *device, *interface, *address;
	int port; /* 0: any */
	int gid;  /* -1: any */
};

static bool is_same_address(const char *one, const char *other)
{
	struct in6_addr a, b;

	if (inet_pton(AF_INET6, one, &a) == 1 &&
		inet_pton(AF_INET6, other, &b) == 1)
		return IN6_ARE_ADDR_EQUAL(&a, &b);
	return !strcmp(one, other);
}

static bool fits(const struct wish *wish, const struct candidate *candidate)
{
	return (!wish->device || lists(wish->device, candidate->device)) &&
	       (!wish->interface ||
		       !strcmp(wish->interface, candidate->netdev)) &&
	       (!wish->address ||
		       is_same_address(wish->address, candidate->address)) &&
	       (wish->port == 0 || wish->port == candidate->port) &&
	       (wish->gid < 0 || candidate->gid < 0 ||
		       wish->gid == candidate->gid);
}

static const struct candidate *first_fit(
	const struct candidates *all, const struct wish *wish, bool active)
{
	for (int i = 0; i < all->num; i++)
		if (fits(wish, &all->list[i]) &&
			(all->list[i].active || !active))
			return &all->list[i];
	return NULL;
}

/* The first one by the order of this host's interfaces; of a tree that is
 * another's, by that of devices. */
static const struct candidate *first_of_interfaces(
	const struct candidates *all, const struct wish *wish)
{
	const struct candidate *found = NULL;
	struct wish exact = *wish;
	struct ifaddrs *list = NULL;
	char address[INET6_ADDRSTRLEN];

	if (!wish->address && !getifaddrs(&list)) {
		exact.address = address;
		for (const struct ifaddrs *at = list; at && !found;
			at = at->ifa_next)
			if (address_of(at, address))
				found = first_fit(all, &exact, true);
		freeifaddrs(list);
	}
	return found ? found : first_fit(all, wish, true);
}

/* ---- saying ------------------------------------------------------------ */

/* A job on several hosts fails without; others only cannot grow. */
static enum doctor_verdict lack(const struct doctor *doctor)
{
	return doctor->on_many_hosts ? DOCTOR_PROBLEM : DOCTOR_NOTE;
}

static void say_chosen(struct doctor *doctor, const struct candidate *candidate,
	const char *why)
{
	cJSON *finding = doctor_say(doctor, "use", DOCTOR_OK,
		"ranks on other hosts are reached through %s port %d (%s), "
		"address %s%s%s: %s",
		candidate->device, candidate->port, candidate->how,
		candidate->address, candidate->netdev[0] ? " of " : "",
		candidate->netdev, why);

	doctor_text(finding, "device", candidate->device);
	doctor_number(finding, "port", candidate->port);
	doctor_text(finding, "address", candidate->address);
	doctor_text(finding, "netdev", candidate->netdev);
	doctor_text(finding, "why", why);
}

static void say_none(struct doctor *doctor)
{
	bool devices = cJSON_GetArraySize(doctor->devices) > 0;
	cJSON *finding = doctor_say(doctor, "use", lack(doctor),
		"ranks on other hosts cannot be reached: %s; ranks of this "
		"host are, through shared memory",
		devices ? "no device has an active port with an address"
			: "there is no RDMA device");

	doctor_remedy(finding, "%s",
		devices ? "see the ports and GIDs above"
			: "see devices, above; none is needed on one host");
}

/* The variables of a wish, those that leave the least over first. */
static const char *const wish_names[] = {"SHUNT_RDMA_ADDRESS",
	"SHUNT_RDMA_INTERFACE", "SHUNT_RDMA_DEVICE", "SHUNT_RDMA_PORT",
	"SHUNT_RDMA_GID_INDEX"};
#define NUM_WISHES (sizeof(wish_names) / sizeof(wish_names[0]))

/* "A=1, B=2": all that are set; returns the first of them. */
static const char *wishes_text(char *text, size_t capacity)
{
	const char *first = NULL;
	size_t used = 0;

	text[0] = '\0';
	for (size_t w = 0; w < NUM_WISHES; w++) {
		const char *value = getenv(wish_names[w]);

		if (!value || !*value || used + 1 >= capacity)
			continue;
		used += (size_t)snprintf(text + used, capacity - used,
			"%s%s=%.64s", first ? ", " : "", wish_names[w], value);
		first = first ? first : wish_names[w];
	}
	return first;
}

/* Whether the port of a candidate has a GID at the index. */
static bool has_gid(const struct doctor *doctor,
	const struct candidate *candidate, int index)
{
	const cJSON *device, *port, *gid;

	cJSON_ArrayForEach(device, doctor->devices) cJSON_ArrayForEach(
		port, cJSON_GetObjectItem(device,
			      "ports")) if (!strcmp(text_of(device, "device"),
						    candidate->device) &&
					    number_of(port, "port") ==
						    candidate->port)
		cJSON_ArrayForEach(
			gid, cJSON_GetObjectItem(port,
				     "gids")) if (number_of(gid, "index") ==
						  index) return true;
	return false;
}

/* All is well but the GID: `fits` has another. */
static void say_wrong_gid(struct doctor *doctor, const struct wish *wish,
	const struct candidate *fits)
{
	cJSON *finding = doctor_say(doctor, "use", DOCTOR_PROBLEM,
		"SHUNT_RDMA_GID_INDEX=%d: GID %d of %s port %d %s", wish->gid,
		wish->gid, fits->device, fits->port,
		has_gid(doctor, fits, wish->gid)
			? "is of no address that is to be used"
			: "is empty");

	doctor_remedy(finding,
		"unset SHUNT_RDMA_GID_INDEX, or set it to %d, the GID of %s "
		"(an address that `ip address add' gives %s gets a GID, too)",
		fits->gid, fits->address,
		fits->netdev[0] ? fits->netdev : "its interface");
}

/* What was asked for is not there: the library refuses it. */
static void say_wrong(struct doctor *doctor, const struct candidates *all,
	const struct wish *wish)
{
	const struct candidate *down = first_fit(all, wish, false);
	const struct candidate *other;
	struct wish any_gid = *wish;
	char given[512];
	const char *first = wishes_text(given, sizeof(given));
	cJSON *finding;

	any_gid.gid = -1;
	other = first_fit(all, &any_gid, true);
	if (other && !down) {
		say_wrong_gid(doctor, wish, other);
		return;
	}
	if (down)
		finding = doctor_say(doctor, "use", DOCTOR_PROBLEM,
			"%s asks for %s port %d, which is not active", given,
			down->device, down->port);
	else
		finding = doctor_say(doctor, "use", DOCTOR_PROBLEM,
			"no device has an address that fits %s", given);
	doctor_remedy(finding,
		"unset %s, or give what is above among devices, ports and GIDs",
		first);
}

static const char *why_chosen(const struct wish *wish, bool reaches)
{
	if (wish->address)
		return "SHUNT_RDMA_ADDRESS says so";
	if (wish->interface)
		return "SHUNT_RDMA_INTERFACE says so";
	if (reaches)
		return "it is the address that reaches rank 0";
	if (wish->device)
		return "SHUNT_RDMA_DEVICE says so";
	if (wish->gid >= 0)
		return "SHUNT_RDMA_GID_INDEX says so";
	return "it is the first that a device has";
}

static void look_at_choice(struct doctor *doctor, const struct wish *wish)
{
	static struct candidates all;
	struct wish reached = *wish;
	const struct candidate *chosen = NULL;
	bool wished = wish->device || wish->interface || wish->address ||
		      wish->port || wish->gid >= 0;

	collect(doctor, &all);
	reached.address = doctor->reach;
	if (!wish->address && !wish->interface && doctor->reach[0])
		chosen = first_fit(&all, &reached, true);
	if (chosen) {
		say_chosen(doctor, chosen, why_chosen(wish, true));
		return;
	}
	chosen = first_of_interfaces(&all, wish);
	if (chosen)
		say_chosen(doctor, chosen, why_chosen(wish, false));
	else if (wished)
		say_wrong(doctor, &all, wish);
	else
		say_none(doctor);
}

/* ---- options ----------------------------------------------------------- */

/* An empty one counts as not set. */
static const char *variable_text(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

/* Checks a variable that must be a number. Returns it; -1 if it is not set, or
 * wrong. */
static int look_at_number(
	struct doctor *doctor, const char *variable, long low, long high)
{
	const char *text = variable_text(variable);
	cJSON *finding;
	char *end;
	long value;

	if (!text)
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	if (isdigit((unsigned char)text[0]) && !errno && !*end &&
		value >= low && value <= high)
		return (int)value;
	finding = doctor_say(doctor, "option", DOCTOR_PROBLEM,
		"%s is \"%.64s\", must be %ld .. %ld", variable, text, low,
		high);
	doctor_remedy(finding, "unset it, or set such a number");
	return -1;
}

void doctor_look_at_use(struct doctor *doctor)
{
	static const struct {
		const char *variable;
		long low, high;
	} numbers[] = {
		{"SHUNT_RDMA_SERVICE_LEVEL", 0, 15},
		{"SHUNT_RDMA_TRAFFIC_CLASS", 0, 255},
		{"SHUNT_RDMA_LANES", 1, 16},
		{"SHUNT_RDMA_ACK_TIMEOUT", 1, 31},
		{"SHUNT_RDMA_QUEUE_DEPTH", 4, 32768},
	};
	struct wish wish = {
		.device = variable_text("SHUNT_RDMA_DEVICE"),
		.interface = variable_text("SHUNT_RDMA_INTERFACE"),
		.address = variable_text("SHUNT_RDMA_ADDRESS"),
	};
	int port = look_at_number(doctor, "SHUNT_RDMA_PORT", 1, 255);

	wish.port = port > 0 ? port : 0;
	wish.gid = look_at_number(doctor, "SHUNT_RDMA_GID_INDEX", 0, 65535);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		look_at_number(doctor, numbers[i].variable, numbers[i].low,
			numbers[i].high);
	look_at_choice(doctor, &wish);
}
