/* What `shunt doctor` says about memory: what there is, the limits on it, and
 * what a rank's segment does with address space. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "doctor_cgroup.h"
#include "doctor_files.h"
#include "machine.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PROBE_BYTES (2 << 20)
/* Of which a process can map a segment of every rank. */
#define ADDRESS_BYTES (UINT64_C(1) << 47)
#define MAX_RANKS     4096

static uint64_t limit_of(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) ||
		limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

/* ---- memory itself ----------------------------------------------------- */

static void look_at_amount(struct doctor *doctor)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) *
		       (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t group = cgroup_memory_bytes();
	int64_t available = machine_available_bytes();
	char sizes[3][DOCTOR_SIZE_BYTES];
	bool tight = group < all;
	cJSON *finding = doctor_say(doctor, "available", DOCTOR_OK, "%s of %s",
		doctor_size(sizes[0], (uint64_t)available),
		doctor_size(sizes[1], all));

	doctor_number(finding, "available_bytes", (double)available);
	doctor_number(finding, "total_bytes", (double)all);
	finding = doctor_say(doctor, "cgroup", tight ? DOCTOR_NOTE : DOCTOR_OK,
		"limit of the control group: %s%s",
		doctor_size(sizes[2], group),
		tight ? ", less than the machine has: an exchange over it is "
			"NO_MEMORY"
		      : "");
	if (tight)
		doctor_remedy(finding,
			"raise it (memory.max, docker: --memory, Slurm: --mem) "
			"to what shunt_exchange_query() says, for all ranks "
			"in the group");
	if (group != UINT64_MAX)
		doctor_number(finding, "bytes", (double)group);
}

/* What a segment does, in small: NULL, or the call that failed with errno. */
static const char *try_memfd(int fd)
{
	struct stat file;
	void *at;

	if (ftruncate(fd, (off_t)4 * PROBE_BYTES))
		return "ftruncate";
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return "sealing";
	if (fallocate(fd, 0, 0, PROBE_BYTES))
		return "fallocate";
	at = mmap(NULL, (size_t)PROBE_BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (at == MAP_FAILED)
		return "mmap";
	memset(at, 1, PROBE_BYTES);
	munmap(at, PROBE_BYTES);
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		    PROBE_BYTES))
		return "giving memory back";
	errno = EIO;
	return fstat(fd, &file) || file.st_blocks ? "getting rid of memory"
						  : NULL;
}

static void look_at_memfd(struct doctor *doctor)
{
	int fd = memfd_create("shunt-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const char *failed = fd < 0 ? "memfd_create" : try_memfd(fd);
	const char *reason = strerror(errno);
	cJSON *finding;

	if (fd >= 0)
		close(fd);
	if (!failed) {
		doctor_say(doctor, "memfd", DOCTOR_OK,
			"made, sealed, mapped, and its memory given back");
		return;
	}
	finding = doctor_say(doctor, "memfd", DOCTOR_PROBLEM,
		"%s failed: %s; ranks that are processes need it", failed,
		reason);
	doctor_remedy(finding,
		"Linux 3.17 or newer; look at seccomp, ulimit -n, ulimit -f "
		"and the memory limit; or make the ranks threads");
}

static void look_at_populate(struct doctor *doctor)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	bool works = at != MAP_FAILED &&
		     madvise(at, bytes, MADV_POPULATE_WRITE) == 0;
	cJSON *finding;

	if (at != MAP_FAILED)
		munmap(at, bytes);
	finding = doctor_say(doctor, "populate",
		works ? DOCTOR_OK : DOCTOR_NOTE,
		works ? "MADV_POPULATE_WRITE works"
		      : "no MADV_POPULATE_WRITE: pages of thread ranks are "
			"touched one by one, and want of memory is a signal");
	if (!works)
		doctor_remedy(finding, "Linux 5.14 or newer");
}

/* ---- address space ----------------------------------------------------- */

/* The size of a rank's segment, and where it comes from; 0 if the variable
 * makes no sense. The rule is that of shunt_world_config.segment_bytes. */
static uint64_t segment_bytes(bool *is_set)
{
	const char *text = getenv("SHUNT_SEGMENT_BYTES");
	unsigned long long bytes;
	char *end;

	*is_set = text && *text;
	if (!*is_set)
		return (uint64_t)sysconf(_SC_PHYS_PAGES) *
		       (uint64_t)sysconf(_SC_PAGESIZE);
	errno = 0;
	bytes = strtoull(text, &end, 10);
	return *end || *text < '0' || *text > '9' || errno ? 0 : bytes;
}

static void look_at_segment(struct doctor *doctor)
{
	char size[DOCTOR_SIZE_BYTES];
	cJSON *finding;
	bool is_set;

	doctor->segment_bytes = segment_bytes(&is_set);
	if (!doctor->segment_bytes) {
		finding = doctor_say(doctor, "segment", DOCTOR_PROBLEM,
			"SHUNT_SEGMENT_BYTES is \"%.64s\", which is no number "
			"of bytes",
			getenv("SHUNT_SEGMENT_BYTES"));
		doctor_remedy(finding, "unset it, or give plain digits");
		return;
	}
	finding = doctor_say(doctor, "segment", DOCTOR_OK,
		"%s of address space per rank, as %s",
		doctor_size(size, doctor->segment_bytes),
		is_set ? "SHUNT_SEGMENT_BYTES says"
		       : "much as the machine has memory; less each in a large "
			 "world (SHUNT_SEGMENT_BYTES changes it)");
	doctor_number(finding, "bytes", (double)doctor->segment_bytes);
}

/* A limit that a segment, or several, must fit into. */
static void look_at_limit(struct doctor *doctor, const char *name, int resource,
	const char *option, const char *use)
{
	uint64_t limit = limit_of(resource);
	uint64_t needed = doctor->segment_bytes;
	char sizes[2][DOCTOR_SIZE_BYTES];
	cJSON *finding = doctor_say(doctor, name,
		limit < needed        ? DOCTOR_PROBLEM
		: limit == UINT64_MAX ? DOCTOR_OK
				      : DOCTOR_NOTE,
		"%s; %s, %s", doctor_size(sizes[0], limit), use,
		doctor_size(sizes[1], needed));

	if (limit != UINT64_MAX) {
		doctor_remedy(finding,
			"ulimit -%s unlimited, or a lower SHUNT_SEGMENT_BYTES",
			option);
		doctor_number(finding, "bytes", (double)limit);
	}
}

/* A process maps the segments of all ranks. */
static void look_at_world(struct doctor *doctor)
{
	uint64_t space = limit_of(RLIMIT_AS);
	uint64_t ranks = MAX_RANKS;
	const char *text = getenv("SHUNT_SEGMENT_BYTES");
	bool is_limited = space != UINT64_MAX;
	char size[DOCTOR_SIZE_BYTES];
	bool is_short;
	cJSON *finding;

	if (!doctor->segment_bytes)
		return;
	/* Where the library chooses, all segments fit the address space. */
	if (is_limited || (text && *text))
		ranks = (is_limited ? space : ADDRESS_BYTES) /
			doctor->segment_bytes;
	if (ranks > MAX_RANKS)
		ranks = MAX_RANKS;
	is_short = ranks < 2 || ranks < (uint64_t)doctor->num_ranks;
	finding = doctor_say(doctor, "address_space",
		is_short            ? DOCTOR_PROBLEM
		: ranks < MAX_RANKS ? DOCTOR_NOTE
				    : DOCTOR_OK,
		"RLIMIT_AS %s: a process can map the segments of a world of "
		"up to %llu rank%s",
		doctor_size(size, space), (unsigned long long)ranks,
		ranks == 1 ? "" : "s");
	if (ranks < MAX_RANKS)
		doctor_remedy(finding,
			"%sset SHUNT_SEGMENT_BYTES to what windows and "
			"allocations of a rank need (shunt_exchange_query())",
			is_limited ? "ulimit -v unlimited, or " : "");
	doctor_number(finding, "max_ranks", (double)ranks);
}

static void look_at_overcommit(struct doctor *doctor)
{
	int64_t mode = 0, most = 0, used = 0;
	char size[DOCTOR_SIZE_BYTES];
	uint64_t left;
	cJSON *finding;

	files_number(&mode, "/proc/sys/vm/overcommit_memory");
	if (mode != 2) {
		finding = doctor_say(doctor, "overcommit", DOCTOR_OK,
			"vm.overcommit_memory %lld: address space costs no "
			"memory",
			(long long)mode);
		doctor_number(finding, "mode", (double)mode);
		return;
	}
	files_field("/proc/meminfo", "CommitLimit", &most);
	files_field("/proc/meminfo", "Committed_AS", &used);
	left = most > used ? (uint64_t)(most - used) * 1024 : 0;
	finding = doctor_say(doctor, "overcommit",
		left < doctor->segment_bytes ? DOCTOR_PROBLEM : DOCTOR_NOTE,
		"vm.overcommit_memory 2: segments of thread ranks count whole "
		"against the %s that are left",
		doctor_size(size, left));
	doctor_remedy(finding,
		"set SHUNT_SEGMENT_BYTES to what a rank needs, or sysctl "
		"vm.overcommit_memory=0");
	doctor_number(finding, "mode", 2);
	doctor_number(finding, "left_bytes", (double)left);
}

void doctor_look_at_memory(struct doctor *doctor)
{
	doctor->section = "memory";
	look_at_amount(doctor);
	look_at_memfd(doctor);
	look_at_populate(doctor);
	look_at_segment(doctor);
	look_at_world(doctor);
	look_at_limit(doctor, "rlimit_data", RLIMIT_DATA, "d",
		"the segment of a rank that is a thread must fit");
	look_at_limit(doctor, "rlimit_fsize", RLIMIT_FSIZE, "f",
		"the segment of a rank that is a process must fit");
	look_at_overcommit(doctor);
}
