/* Walks from this process's control group up to the root; see the header. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor_cgroup.h"
#include "doctor_files.h"

/* Whether "a,b,c" has the word. */
static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	while (*list) {
		size_t here = strcspn(list, ",");

		if (here == length && !memcmp(list, word, length))
			return true;
		list += here + (list[here] == ',');
	}
	return false;
}

/* The folder of this process's group: in the hierarchy of `controller`, or in
 * version 2's if that is "". Lines of the file read ID:CONTROLLERS:PATH. */
static bool find_folder(
	const char *controller, const char *root, char folder[PATH_MAX])
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		found = (*controller ? list_has(list + 1, controller)
				     : list[1] == '\0') &&
			snprintf(folder, PATH_MAX, "%s%s", root, path) <
				PATH_MAX;
	}
	if (file)
		fclose(file);
	return found;
}

/* The least of what `look` finds in the folder and all above it. */
static double least_of_all(const char *controller, const char *root,
	double (*look)(const char *folder), double none)
{
	char folder[PATH_MAX];
	double least = none;

	if (!find_folder(controller, root, folder))
		return none;
	while (strlen(folder) >= strlen(root)) {
		double here = look(folder);
		char *slash = strrchr(folder, '/');

		if (here < least)
			least = here;
		if (!slash)
			break;
		*slash = '\0';
	}
	return least;
}

#define NONE 1e30

/* ---- memory ------------------------------------------------------------ */

static double memory_of_v2(const char *folder)
{
	int64_t bytes;

	return files_number(&bytes, "%s/memory.max", folder) ? (double)bytes
							     : NONE;
}

static double memory_of_v1(const char *folder)
{
	int64_t bytes;

	/* Without a limit it says the largest number of pages. */
	if (!files_number(&bytes, "%s/memory.limit_in_bytes", folder) ||
		bytes > INT64_MAX / 2)
		return NONE;
	return (double)bytes;
}

uint64_t cgroup_memory_bytes(void)
{
	double v2 = least_of_all("", "/sys/fs/cgroup", memory_of_v2, NONE);
	double v1 = least_of_all(
		"memory", "/sys/fs/cgroup/memory", memory_of_v1, NONE);
	double least = v1 < v2 ? v1 : v2;

	return least < NONE ? (uint64_t)least : UINT64_MAX;
}

/* ---- processor time ---------------------------------------------------- */

static double processors_of_v2(const char *folder)
{
	char line[FILES_LINE_BYTES];
	double quota, period;

	/* "QUOTA PERIOD" or "max PERIOD". */
	if (!files_line(line, "%s/cpu.max", folder) ||
		sscanf(line, "%lf %lf", &quota, &period) != 2 || period <= 0)
		return NONE;
	return quota / period;
}

static double processors_of_v1(const char *folder)
{
	int64_t quota, period;

	if (!files_number(&quota, "%s/cpu.cfs_quota_us", folder) ||
		!files_number(&period, "%s/cpu.cfs_period_us", folder) ||
		quota <= 0 || period <= 0)
		return NONE;
	return (double)quota / (double)period;
}

double cgroup_processors(void)
{
	double v2 = least_of_all("", "/sys/fs/cgroup", processors_of_v2, NONE);
	double v1 = least_of_all(
		"cpu", "/sys/fs/cgroup/cpu", processors_of_v1, NONE);
	double least = v1 < v2 ? v1 : v2;

	return least < NONE ? least : 0;
}
