/* Ports and GIDs of an RDMA device, for `shunt doctor`. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "doctor_files.h"

#define MAX_PORTS 16
/* What RoCE's headers take from the network device's MTU (kernel's
 * iboe_get_mtu()): GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4. */
#define ROCE_HEADER_BYTES 96

struct port {
	struct doctor *doctor;
	const char *device;
	const char *name; /* its number, as sysfs has it */
	char path[PATH_MAX];
	cJSON *object;
	cJSON *gids;
	char state[FILES_LINE_BYTES];
	char link[FILES_LINE_BYTES];
	char netdev[FILES_LINE_BYTES];
	int num_gids;
	int num_v2; /* of them RoCE v2 */
	bool iwarp;
	const char *device_path;
};

static bool is_ethernet(const struct port *port)
{
	return !strcmp(port->link, "Ethernet");
}

static void read_text(
	const struct port *port, const char *name, char line[FILES_LINE_BYTES])
{
	if (!files_line(line, "%s/%s", port->path, name) || !line[0])
		snprintf(line, FILES_LINE_BYTES, "unknown");
	cJSON_AddStringToObject(port->object, name, line);
}

/* ---- GIDs -------------------------------------------------------------- */

/* Whether a GID is text of one, and not all zero, which is an empty entry. */
static bool parse_gid(const char *text, struct in6_addr *gid)
{
	return inet_pton(AF_INET6, text, gid) == 1 &&
	       !IN6_IS_ADDR_UNSPECIFIED(gid);
}

/* RoCE makes GIDs of the network device's addresses. */
static const char *kind_of(const struct port *port, const struct in6_addr *gid)
{
	if (port->iwarp)
		return "MAC";
	if (!is_ethernet(port))
		return "InfiniBand";
	if (IN6_IS_ADDR_V4MAPPED(gid))
		return "IPv4";
	return IN6_IS_ADDR_LINKLOCAL(gid) ? "IPv6 link-local" : "IPv6";
}

/* "IB/RoCE v1" says two things; the link layer knows which. */
static void type_of(
	const struct port *port, const char *index, char type[FILES_LINE_BYTES])
{
	if (port->iwarp)
		snprintf(type, FILES_LINE_BYTES, "iWARP");
	else if (!files_line(
			 type, "%s/gid_attrs/types/%s", port->path, index) ||
		 !type[0])
		snprintf(type, FILES_LINE_BYTES, "type unknown");
	else if (!strcmp(type, "IB/RoCE v1"))
		snprintf(type, FILES_LINE_BYTES, "%s",
			is_ethernet(port) ? "RoCE v1" : "IB");
}

static void add_gid(struct port *port, const char *index,
	const struct in6_addr *gid, const char *type, const char *netdev)
{
	cJSON *object = cJSON_CreateObject();
	char address[INET6_ADDRSTRLEN];
	const char *kind = kind_of(port, gid);
	bool v4 = !strcmp(kind, "IPv4");
	cJSON *finding;

	inet_ntop(v4 ? AF_INET : AF_INET6,
		v4 ? (const void *)&gid->s6_addr[12] : (const void *)gid,
		address, sizeof(address));
	finding = doctor_say(port->doctor, "gid", DOCTOR_OK,
		"%s port %s GID %s: %s, %s %s%s%s", port->device, port->name,
		index, type, kind, address, netdev[0] ? ", " : "", netdev);
	doctor_text(finding, "device", port->device);
	cJSON_AddNumberToObject(object, "index", atof(index));
	cJSON_AddStringToObject(object, "type", type);
	cJSON_AddStringToObject(object, "kind", kind);
	cJSON_AddStringToObject(object, "address", address);
	cJSON_AddStringToObject(object, "netdev", netdev);
	if (!cJSON_AddItemToArray(port->gids, object)) {
		cJSON_Delete(object);
		port->doctor->out_of_memory = true;
	}
}

static void look_at_gid(struct port *port, const char *index)
{
	char text[FILES_LINE_BYTES], type[FILES_LINE_BYTES];
	char netdev[FILES_LINE_BYTES];
	struct in6_addr gid;

	if (!files_line(text, "%s/gids/%s", port->path, index) ||
		!parse_gid(text, &gid))
		return;
	type_of(port, index, type);
	files_line(netdev, "%s/gid_attrs/ndevs/%s", port->path, index);
	port->num_gids++;
	port->num_v2 += !strcmp(type, "RoCE v2");
	add_gid(port, index, &gid, type, netdev);
}

/* The network device of the first GID that has one. */
static void find_netdev(struct port *port, char **indices, int num)
{
	char text[FILES_LINE_BYTES];
	struct in6_addr gid;

	for (int i = 0; i < num && !port->netdev[0]; i++)
		files_line(port->netdev, "%s/gid_attrs/ndevs/%s", port->path,
			indices[i]);
	for (int i = 0; i < num && !port->netdev[0]; i++)
		if (files_line(text, "%s/gids/%s", port->path, indices[i]) &&
			parse_gid(text, &gid))
			doctor_find_netdev(port->doctor, port->device_path,
				&gid, port->netdev);
}

static void look_at_gids(struct port *port, char **indices, int num)
{
	cJSON *finding;

	for (int i = 0; i < num; i++)
		look_at_gid(port, indices[i]);
	if (port->num_gids == 0) {
		finding = doctor_say(port->doctor, "gids", DOCTOR_NOTE,
			"%s port %s has no GID", port->device, port->name);
		doctor_remedy(finding,
			"give its network device an address and set it up; in "
			"a container it must be in the same network namespace");
	} else if (is_ethernet(port) && !port->iwarp && port->num_v2 == 0) {
		finding = doctor_say(port->doctor, "gids", DOCTOR_NOTE,
			"%s port %s has no RoCE v2 GID: v1 does not pass "
			"routers",
			port->device, port->name);
		doctor_remedy(finding,
			"give its network device an IP address; look at the "
			"driver's RoCE mode (cma_roce_mode)");
	}
}

/* ---- the port ---------------------------------------------------------- */

/* sysfs has no active MTU of a port; RoCE's follows from the network device. */
static void describe_mtu(struct port *port, char text[96])
{
	int64_t netdev_mtu, left, mtu;

	snprintf(text, 96, "%s",
		port->iwarp ? "TCP" : "MTU not in sysfs (ibv_devinfo has it)");
	if (port->iwarp || !is_ethernet(port) || !port->netdev[0] ||
		strchr(port->netdev, '/') ||
		!files_number(&netdev_mtu, "%s/class/net/%s/mtu",
			port->doctor->sysfs, port->netdev))
		return;
	left = netdev_mtu - ROCE_HEADER_BYTES;
	for (mtu = 4096; mtu > 256 && mtu > left; mtu /= 2)
		;
	snprintf(text, 96, "MTU up to %lld (%.15s has %lld)", (long long)mtu,
		port->netdev, (long long)netdev_mtu);
	cJSON_AddNumberToObject(port->object, "roce_mtu", (double)mtu);
	cJSON_AddNumberToObject(port->object, "netdev_mtu", (double)netdev_mtu);
}

static void add_remedy(const struct port *port, cJSON *finding)
{
	const char *netdev = port->netdev[0] ? port->netdev : "NETDEV";

	if (is_ethernet(port))
		doctor_remedy(finding,
			"ip link set %s up; look at cable and switch", netdev);
	else if (strstr(port->state, "INIT") || strstr(port->state, "ARMED"))
		doctor_remedy(finding,
			"the link is up, and no subnet manager has set it up: "
			"start opensm, or look at the switch's");
	else
		doctor_remedy(finding, "look at cable and switch (ibstat)");
}

/* RoCE whose packets could be larger. */
static bool is_small(const struct port *port)
{
	const cJSON *mtu = cJSON_GetObjectItem(port->object, "roce_mtu");

	return cJSON_IsNumber(mtu) && mtu->valueint < 4096;
}

static void say_port(struct port *port)
{
	char phys[FILES_LINE_BYTES], rate[FILES_LINE_BYTES], mtu[96];
	bool active = strstr(port->state, "ACTIVE") != NULL;
	cJSON *finding;

	read_text(port, "phys_state", phys);
	read_text(port, "rate", rate);
	describe_mtu(port, mtu);
	cJSON_AddStringToObject(port->object, "netdev", port->netdev);
	finding = doctor_say(port->doctor, "port",
		active ? DOCTOR_OK : DOCTOR_NOTE,
		"%s port %s: %s, %s, %s, %s, %s%s%s", port->device, port->name,
		port->link, port->state, phys, rate, mtu,
		port->netdev[0] ? ", " : "", port->netdev);
	if (!active)
		add_remedy(port, finding);
	else if (is_small(port))
		doctor_remedy(finding,
			"for packets of 4096 bytes: ip link set %s mtu 4200 or "
			"more, on all hosts and switches",
			port->netdev);
	doctor_text(finding, "device", port->device);
}

static void look_at_port(struct port *port, cJSON *list)
{
	char path[PATH_MAX + 8];
	char **indices = NULL;
	int num;

	port->object = cJSON_CreateObject();
	if (!cJSON_AddItemToArray(list, port->object)) {
		cJSON_Delete(port->object);
		port->doctor->out_of_memory = true;
		return;
	}
	snprintf(path, sizeof(path), "%s/gids", port->path);
	num = files_list(path, &indices);
	cJSON_AddNumberToObject(port->object, "port", atof(port->name));
	read_text(port, "state", port->state);
	read_text(port, "link_layer", port->link);
	find_netdev(port, indices, num);
	say_port(port);
	port->gids = cJSON_AddArrayToObject(port->object, "gids");
	look_at_gids(port, indices, num);
	files_free(indices, num);
}

void doctor_look_at_ports(struct doctor *doctor, const char *device,
	const char *path, cJSON *object)
{
	cJSON *list = cJSON_AddArrayToObject(object, "ports");
	char folder[PATH_MAX];
	char **names = NULL;
	cJSON *finding;
	const char *type =
		cJSON_GetStringValue(cJSON_GetObjectItem(object, "node_type"));
	bool iwarp = type && strstr(type, "RNIC");
	int num = -1;

	if (snprintf(folder, sizeof(folder), "%s/ports", path) <
		(int)sizeof(folder))
		num = files_list(folder, &names);
	for (int i = 0; i < num && i < MAX_PORTS; i++) {
		struct port port = {.doctor = doctor,
			.device = device,
			.name = names[i],
			.device_path = path,
			.iwarp = iwarp};

		if (snprintf(port.path, sizeof(port.path), "%s/%s", folder,
			    names[i]) < (int)sizeof(port.path))
			look_at_port(&port, list);
	}
	if (num <= 0) {
		finding = doctor_say(doctor, "ports", DOCTOR_NOTE,
			"%s: no ports can be read", device);
		doctor_remedy(finding, "look at dmesg for its driver");
	} else if (num > MAX_PORTS) {
		doctor_say(doctor, "ports", DOCTOR_NOTE,
			"%s: %d ports, of which %d are shown", device, num,
			MAX_PORTS);
	}
	files_free(names, num);
}
