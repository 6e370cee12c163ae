/* A getifaddrs() before the C library's; see interfaces.h. */
#include "support/interfaces.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct interface {
	struct ifaddrs entry;
	struct sockaddr_in address;
	char name[IF_NAMESIZE];
} interfaces[INTERFACES_MAX];

static int num_interfaces;

void interfaces_set(const char *const *addresses, int num_addresses)
{
	memset(interfaces, 0, sizeof(interfaces));
	num_interfaces = num_addresses;
	for (int i = 0; i < num_addresses; i++) {
		struct interface *one = &interfaces[i];

		snprintf(one->name, sizeof(one->name), "fake%d", i);
		one->address.sin_family = AF_INET;
		inet_pton(AF_INET, addresses[i], &one->address.sin_addr);
		one->entry = (struct ifaddrs){
			.ifa_next = i + 1 < num_addresses
					    ? &interfaces[i + 1].entry
					    : NULL,
			.ifa_name = one->name,
			.ifa_flags = IFF_UP | IFF_RUNNING,
			.ifa_addr = (struct sockaddr *)&one->address,
		};
	}
}

/* The C library's own function of this name. */
static void *original(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

__attribute__((visibility("default"))) int getifaddrs(struct ifaddrs **list)
{
	int (*next)(struct ifaddrs **);

	if (num_interfaces > 0) {
		*list = &interfaces[0].entry;
		return 0;
	}
	*(void **)&next = original("getifaddrs");
	return next(list);
}

__attribute__((visibility("default"))) void freeifaddrs(struct ifaddrs *list)
{
	void (*next)(struct ifaddrs *);

	if (list == &interfaces[0].entry)
		return;
	*(void **)&next = original("freeifaddrs");
	next(list);
}
