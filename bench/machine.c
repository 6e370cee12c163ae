/* What the machine is that numbers were measured on. */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "machine.h"

static void read_cpu(char *cpu, size_t cpu_bytes)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];
	char *colon;

	snprintf(cpu, cpu_bytes, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		colon = strstr(line, ": ");
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(cpu, cpu_bytes, "%s", colon + 2);
		break;
	}
	if (file)
		fclose(file);
}

void machine_read(struct machine *machine)
{
	cpu_set_t allowed;

	read_cpu(machine->cpu, sizeof(machine->cpu));
	machine->num_cores = 1;
	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		machine->num_cores = CPU_COUNT(&allowed);
	machine->simd = shunt_simd();
}

/* The value of a line "name: N kB" of a file of /proc; -1 if not there. */
static int64_t read_kib(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(name);
	char line[256];
	long long kib = -1;

	while (file && kib < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, name, length) || line[length] != ':' ||
			sscanf(line + length + 1, "%lld", &kib) != 1)
			kib = -1;
	if (file)
		fclose(file);
	return kib;
}

int64_t machine_available_bytes(void)
{
	int64_t kib = read_kib("/proc/meminfo", "MemAvailable");

	return kib < 0 ? INT64_MAX : kib * 1024;
}

static int64_t memfd_bytes(int directory, const char *name)
{
	char target[64];
	ssize_t length =
		readlinkat(directory, name, target, sizeof(target) - 1);
	struct stat file;

	if (length < 7 || memcmp(target, "/memfd:", 7) != 0 ||
		fstatat(directory, name, &file, 0))
		return 0;
	return (int64_t)file.st_blocks * 512;
}

int64_t machine_process_bytes(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int64_t kib, bytes;

#ifdef __GLIBC__
	/* What was freed is nobody's, though malloc keeps it. */
	malloc_trim(0);
#endif
	kib = read_kib("/proc/self/smaps_rollup", "Anonymous");
	bytes = kib * 1024;
	if (kib < 0 || !directory) {
		if (directory)
			closedir(directory);
		return -1;
	}
	for (const struct dirent *entry = readdir(directory); entry;
		entry = readdir(directory))
		bytes += memfd_bytes(dirfd(directory), entry->d_name);
	closedir(directory);
	return bytes;
}

void machine_pin(int index)
{
	cpu_set_t allowed, one;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	do {
		cpu++;
		if (cpu == CPU_SETSIZE)
			return;
	} while (!CPU_ISSET(cpu, &allowed) || index-- > 0);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}
