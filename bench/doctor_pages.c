/*
 * What `shunt doctor` says about huge pages: it takes memory as segments do and
 * looks whether the kernel put it into huge pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "doctor.h"
#include "doctor_files.h"

#define SETTINGS    "/sys/kernel/mm/transparent_hugepage/"
#define HUGE_BYTES  ((size_t)2 << 20)
#define PROBE_BYTES (4 * HUGE_BYTES)

/* KiB of the mapping at `at` that lie in huge pages; -1 if not told. */
static int64_t huge_kib(const void *at)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end;
	char line[512];
	bool here = false;
	int64_t sum = -1;
	long kib;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start <= (unsigned long)at &&
			       (unsigned long)at < end;
		else if (here &&
			 (sscanf(line, "AnonHugePages: %ld", &kib) ||
				 sscanf(line, "ShmemPmdMapped: %ld", &kib)))
			sum = (sum < 0 ? 0 : sum) + kib;
	}
	if (file)
		fclose(file);
	return sum;
}

/* Maps PROBE_BYTES, aligned to huge pages, of the memfd `fd`, or private ones
 * with advice; touches them. Returns huge_kib(), -1 when it cannot be had. */
static int64_t probe(int fd)
{
	size_t bytes = PROBE_BYTES + HUGE_BYTES;
	uint8_t *room = mmap(NULL, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int flags = MAP_FIXED | MAP_NORESERVE |
		    (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	int64_t kib = -1;
	uint8_t *at;

	if (room == MAP_FAILED)
		return -1;
	at = room + (HUGE_BYTES - (uintptr_t)room % HUGE_BYTES) % HUGE_BYTES;
	if (mmap(at, PROBE_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0) !=
		MAP_FAILED) {
		if (fd < 0)
			madvise(at, PROBE_BYTES, MADV_HUGEPAGE);
		memset(at, 1, PROBE_BYTES);
		kib = huge_kib(at);
	}
	munmap(room, bytes);
	return kib;
}

static int64_t probe_shared(void)
{
	int fd = memfd_create("shunt-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int64_t kib = -1;

	if (fd < 0)
		return -1;
	/* In pieces of 2 MiB, as segments take their memory. */
	if (!ftruncate(fd, (off_t)PROBE_BYTES)) {
		bool taken = true;

		for (size_t at = 0; at < PROBE_BYTES; at += HUGE_BYTES)
			taken = taken &&
				!fallocate(fd, 0, (off_t)at, (off_t)HUGE_BYTES);
		if (taken)
			kib = probe(fd);
	}
	close(fd);
	return kib;
}

/* What is set for pages of 2 MiB: their own word, unless that is "inherit". */
static void read_setting(char choice[FILES_LINE_BYTES], const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), SETTINGS "hugepages-2048kB/%s", name);
	if (files_choice(choice, path) && strcmp(choice, "inherit"))
		return;
	snprintf(path, sizeof(path), SETTINGS "%s", name);
	if (!files_choice(choice, path))
		snprintf(choice, FILES_LINE_BYTES, "not in this kernel");
}

static void say(struct doctor *doctor, const char *name, const char *who,
	const char *setting, const char *wanted, int64_t kib)
{
	bool all = kib * 1024 >= (int64_t)PROBE_BYTES;
	char choice[FILES_LINE_BYTES];
	cJSON *finding;

	read_setting(choice, setting);
	finding = doctor_say(doctor, name, all ? DOCTOR_OK : DOCTOR_NOTE,
		"%s is %s: of %zu MiB as a %s rank takes them, %.4g MiB came "
		"in huge pages%s",
		setting, choice, PROBE_BYTES >> 20, who,
		kib < 0 ? 0 : (double)kib / 1024,
		all ? ""
		    : ", and rows spread over large windows cost walks "
		      "of the page tables");
	if (!all)
		doctor_remedy(finding,
			"echo %s > " SETTINGS "%s, as root; if it is set, "
			"memory is too fragmented (vm.compact_memory)",
			wanted, setting);
	doctor_text(finding, "setting", choice);
	doctor_number(finding, "probed_kib", (double)(PROBE_BYTES >> 10));
	doctor_number(finding, "huge_kib", (double)(kib < 0 ? 0 : kib));
}

void doctor_look_at_huge_pages(struct doctor *doctor)
{
	say(doctor, "huge_pages_threads", "thread", "enabled", "madvise",
		probe(-1));
	say(doctor, "huge_pages_processes", "process", "shmem_enabled",
		"within_size", probe_shared());
}
