/* Room: MemAvailable, and memory.max of the control groups (version 2) that
 * this process is in. What cannot be read does not limit. */
#include "memory/room.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/* Reads the head of a small file as a string. */
static int read_text(const char *path, char *text, size_t text_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got;

	if (fd < 0)
		return -1;
	do {
		got = read(fd, text + length, text_bytes - 1 - length);
		if (got > 0)
			length += (size_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	close(fd);
	text[length] = '\0';
	return got < 0 ? -1 : 0;
}

/* The number behind `key` at the start of a line; `missing` without it. */
static uint64_t number_of(const char *text, const char *key, uint64_t missing)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0)
			return strtoull(line + length, NULL, 10);
	}
	return missing;
}

static uint64_t machine_available(void)
{
	char text[4096];
	uint64_t kib;

	if (read_text("/proc/meminfo", text, sizeof(text)) != 0)
		return UINT64_MAX;
	kib = number_of(text, "MemAvailable:", UINT64_MAX);
	return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
}

static int read_group(
	const char *group, const char *file, char *text, size_t text_bytes)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), CGROUP_ROOT "%s/%s", group, file);
	return read_text(path, text, text_bytes);
}

/* What one group still allows. Its page cache counts as available, as it is
 * in MemAvailable: it is dropped before anything fails. */
static uint64_t group_available(const char *group)
{
	char text[8192];
	uint64_t max, current, cache;

	if (read_group(group, "memory.max", text, sizeof(text)) != 0 ||
		strncmp(text, "max", 3) == 0)
		return UINT64_MAX;
	max = strtoull(text, NULL, 10);
	if (read_group(group, "memory.current", text, sizeof(text)) != 0)
		return UINT64_MAX;
	current = strtoull(text, NULL, 10);
	if (read_group(group, "memory.stat", text, sizeof(text)) != 0)
		text[0] = '\0';
	cache = number_of(text, "active_file ", 0) +
		number_of(text, "inactive_file ", 0);
	current -= cache < current ? cache : current;
	return max > current ? max - current : 0;
}

/* The least of this process's group and the groups around it. */
static uint64_t groups_available(void)
{
	uint64_t least = UINT64_MAX;
	char text[PATH_MAX];
	char *group, *end;

	if (read_text("/proc/self/cgroup", text, sizeof(text)) != 0)
		return UINT64_MAX;
	group = strstr(text, "0::/");
	if (!group)
		return UINT64_MAX;
	group += strlen("0::");
	end = strchr(group, '\n');
	if (!end)
		end = group + strlen(group);
	while (end) {
		uint64_t available;

		*end = '\0';
		available = group_available(group);
		if (available < least)
			least = available;
		end = strrchr(group, '/');
	}
	return least;
}

uint64_t room_available(const char **limit)
{
	uint64_t machine = machine_available();
	uint64_t groups = groups_available();

	*limit = groups < machine ? "memory.max of the control group"
				  : "MemAvailable of the machine";
	return groups < machine ? groups : machine;
}

enum shunt_status room_check(uint64_t bytes)
{
	const char *limit;
	uint64_t available;

	if (bytes <= ROOM_SMALL_BYTES)
		return SHUNT_OK;
	available = room_available(&limit);
	if (bytes <= available)
		return SHUNT_OK;
	return error_set(SHUNT_NO_MEMORY,
		"%llu bytes of memory needed, %llu available (%s)",
		(unsigned long long)bytes, (unsigned long long)available,
		limit);
}
