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

static void identity_read(struct identity *identity, const uint8_t process[16])
{
	struct stat space;

	memset(identity, 0, sizeof(*identity));
	if (!boot_read(identity->boot) ||
		stat("/proc/self/ns/net", &space) != 0) {
		memset(identity, 0, sizeof(*identity));
		memcpy(identity->boot, process, 16);
		return;
	}
	identity->device = space.st_dev;
	identity->inode = space.st_ino;
}

void host_id(uint8_t id[16], const uint8_t process[16], const char *text)
{
	struct identity identity;
	crypto_generichash_state state;

	identity_read(&identity, process);
	crypto_generichash_init(&state, NULL, 0, 16);
	crypto_generichash_update(
		&state, (const uint8_t *)&identity, sizeof(identity));
	if (text)
		crypto_generichash_update(
			&state, (const uint8_t *)text, strlen(text));
	crypto_generichash_final(&state, id, 16);
}
