/* Available memory, from /proc and the cgroup tree; see available.h. */
#include "memory/available.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* How the two versions of cgroups name the same things. */
struct cgroup_names {
	const char *controllers; /* in /proc/self/cgroup */
	const char *root;
	const char *most;
	const char *now;
	const char *cache[2]; /* in memory.stat: what is dropped on demand */
};

static const struct cgroup_names versions[] = {
	{"", "/sys/fs/cgroup", "memory.max", "memory.current",
		{"inactive_file", "active_file"}},
	{"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
		"memory.usage_in_bytes",
		{"total_inactive_file", "total_active_file"}},
};

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

/* Page cache counts as used, but makes room when somebody needs it. */
static uint64_t folder_cache(
	const struct cgroup_names *names, const char *folder)
{
	char path[PATH_MAX];
	char key[64];
	uint64_t value, sum = 0;
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/memory.stat", folder) >=
		(int)sizeof(path))
		return 0;
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fscanf(file, "%63s %" SCNu64, key, &value) == 2)
		if (strcmp(key, names->cache[0]) == 0 ||
			strcmp(key, names->cache[1]) == 0)
			sum += value;
	fclose(file);
	return sum;
}

static uint64_t folder_available(
	const struct cgroup_names *names, const char *folder)
{
	uint64_t most, now, cache;

	if (!read_number(folder, names->most, &most) ||
		!read_number(folder, names->now, &now))
		return UINT64_MAX;
	cache = folder_cache(names, folder);
	now -= cache < now ? cache : now;
	return most > now ? most - now : 0;
}

/* The folder of this process's cgroup; false if this version is not used.
 * Lines read ID:CONTROLLERS:PATH. */
static bool cgroup_folder(
	const struct cgroup_names *names, char folder[PATH_MAX])
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (strcmp(controllers + 1, names->controllers) == 0)
			found = snprintf(folder, PATH_MAX, "%s%s", names->root,
					path) < PATH_MAX;
	}
	fclose(file);
	return found;
}

/* A limit may stand at any level above; the tightest counts. */
static uint64_t cgroup_available(const struct cgroup_names *names)
{
	uint64_t least = UINT64_MAX;
	char folder[PATH_MAX];
	char *slash;

	if (!cgroup_folder(names, folder))
		return UINT64_MAX;
	while (strlen(folder) >= strlen(names->root)) {
		uint64_t here = folder_available(names, folder);

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
	uint64_t least = meminfo_available();

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		uint64_t here = cgroup_available(&versions[i]);

		least = here < least ? here : least;
	}
	return least;
}
