/* Which network device an RDMA device belongs to, where no GID says so. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "doctor_files.h"

/* A device of a card has the network devices of the same card beside it. */
static bool find_beside(const char *device_path, char netdev[FILES_LINE_BYTES])
{
	char folder[PATH_MAX];
	char **names = NULL;
	int num = -1;

	if (snprintf(folder, sizeof(folder), "%s/device/net", device_path) <
		(int)sizeof(folder))
		num = files_list(folder, &names);
	if (num > 0)
		snprintf(netdev, FILES_LINE_BYTES, "%.100s", names[0]);
	files_free(names, num);
	return num > 0;
}

/* iWARP's GID is the address of the network card. */
static void find_by_mac(const struct doctor *doctor, const struct in6_addr *gid,
	char netdev[FILES_LINE_BYTES])
{
	char folder[PATH_MAX], text[FILES_LINE_BYTES], mac[32];
	char **names = NULL;
	int num = -1;

	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x",
		gid->s6_addr[0], gid->s6_addr[1], gid->s6_addr[2],
		gid->s6_addr[3], gid->s6_addr[4], gid->s6_addr[5]);
	if (snprintf(folder, sizeof(folder), "%s/class/net", doctor->sysfs) <
		(int)sizeof(folder))
		num = files_list(folder, &names);
	for (int i = 0; i < num && !netdev[0]; i++)
		if (files_line(text, "%s/%s/address", folder, names[i]) &&
			!strcmp(text, mac))
			snprintf(netdev, FILES_LINE_BYTES, "%.100s", names[i]);
	files_free(names, num);
}

void doctor_find_netdev(const struct doctor *doctor, const char *device_path,
	const struct in6_addr *gid, char netdev[FILES_LINE_BYTES])
{
	netdev[0] = '\0';
	if (!find_beside(device_path, netdev))
		find_by_mac(doctor, gid, netdev);
}
