/* Counting what a job must not leave behind. */
#include "support/leftovers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DECOY "shunt-decoy-"

const char *leftovers_decoy(char name[LEFTOVERS_DECOY_BYTES])
{
	snprintf(name, LEFTOVERS_DECOY_BYTES, DECOY "%d", getpid());
	return name;
}

/* Left by another program's test, which wants to see it told. */
static bool is_decoy_of_others(const char *name)
{
	char own[LEFTOVERS_DECOY_BYTES];

	return strncmp(name, DECOY, strlen(DECOY)) == 0 &&
	       strcmp(name, leftovers_decoy(own)) != 0;
}

/* Entries of `path` that are no folders and have `part` in their name. */
static int count_entries(const char *path, const char *part)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int count = 0;

	if (folder == NULL)
		return 0;
	while ((entry = readdir(folder)) != NULL)
		count += entry->d_type != DT_DIR &&
			 strstr(entry->d_name, part) != NULL &&
			 !is_decoy_of_others(entry->d_name);
	closedir(folder);
	return count;
}

int leftovers_descriptors(void)
{
	return count_entries("/proc/self/fd", "");
}

int leftovers_setup(void **state)
{
	static int before;

	before = leftovers_descriptors();
	*state = &before;
	return 0;
}

int leftovers_teardown(void **state)
{
	const int *before = *state;

	return leftovers_descriptors() == *before ? 0 : -1;
}

int leftovers_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int lines = 0, c;

	if (maps == NULL)
		return -1;
	while ((c = fgetc(maps)) != EOF)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

long leftovers_resident(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	long total = 0, resident = 0;

	if (statm == NULL)
		return -1;
	if (fscanf(statm, "%ld %ld", &total, &resident) != 2)
		resident = 0;
	fclose(statm);
	return resident * sysconf(_SC_PAGESIZE);
}

void leftovers_count(struct leftovers *leftovers)
{
	leftovers->descriptors = leftovers_descriptors();
	leftovers->dev_shm = count_entries("/dev/shm", "shunt");
	leftovers->tmp = count_entries("/tmp", "shunt");
}

bool leftovers_check(const struct leftovers *before, char *why, size_t bytes)
{
	struct leftovers now;

	leftovers_count(&now);
	if (now.descriptors <= before->descriptors &&
		now.dev_shm <= before->dev_shm && now.tmp <= before->tmp)
		return true;
	snprintf(why, bytes,
		"left behind: descriptors %d -> %d, files in /dev/shm "
		"%d -> %d, in /tmp %d -> %d",
		before->descriptors, now.descriptors, before->dev_shm,
		now.dev_shm, before->tmp, now.tmp);
	return false;
}
