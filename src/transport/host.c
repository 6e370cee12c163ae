/* The identity of a host and network namespace; see host.h. */
#include "transport/host.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <sodium.h>

struct identity {
	char boot[64];
	dev_t device; /* of the network namespace */
	ino_t inode;
};

static bool boot_read(char boot[64])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool found;

	if (!file)
		return false;
	found = fgets(boot, 64, file) != NULL;
	fclose(file);
	return found;
}

void host_id(uint8_t id[16])
{
	struct identity identity;
	struct stat space;

	memset(&identity, 0, sizeof(identity));
	if (!boot_read(identity.boot) ||
		stat("/proc/self/ns/net", &space) != 0) {
		randombytes_buf(id, 16);
		return;
	}
	identity.device = space.st_dev;
	identity.inode = space.st_ino;
	crypto_generichash(
		id, 16, (const uint8_t *)&identity, sizeof(identity), NULL, 0);
}
