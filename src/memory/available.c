/* Available memory, from /proc and the cgroup v2 tree; see available.h. */
#include "memory/available.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CGROUP_ROOT "/sys/fs/cgroup"

static uint64_t meminfo_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	uint64_t available = UINT64_MAX;
	uint64_t kib;
	char line[128];

	if (!file)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
			available = kib * 1024;
	fclose(file);
	return available;
}

/* A file of one number; false if it is not there or says "max". */
static bool read_number(const char *folder, const char *name, uint64_t *value)
{
	char path[PATH_MAX];
	FILE *file;
	bool found;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >=
		(int)sizeof(path))
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	found = fscanf(file, "%" SCNu64, value) == 1;
	fclose(file);
	return found;
}

static uint64_t folder_available(const char *folder)
{
	uint64_t most, now;

	if (!read_number(folder, "memory.max", &most) ||
		!read_number(folder, "memory.current", &now))
		return UINT64_MAX;
	return most > now ? most - now : 0;
}

/* The folder of this process's cgroup; false without cgroup v2. */
static bool cgroup_folder(char folder[PATH_MAX])
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			found = snprintf(folder, PATH_MAX, "%s%s", CGROUP_ROOT,
					line + 3) < PATH_MAX;
	}
	fclose(file);
	return found;
}

/* A limit may stand at any level above; the tightest counts. */
static uint64_t cgroup_available(void)
{
	uint64_t least = UINT64_MAX;
	char folder[PATH_MAX];
	char *slash;

	if (!cgroup_folder(folder))
		return UINT64_MAX;
	while (strlen(folder) >= strlen(CGROUP_ROOT)) {
		uint64_t here = folder_available(folder);

		least = here < least ? here : least;
		slash = strrchr(folder, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
	return least;
}

uint64_t available_bytes(void)
{
	uint64_t machine = meminfo_available();
	uint64_t cgroup = cgroup_available();

	return machine < cgroup ? machine : cgroup;
}
