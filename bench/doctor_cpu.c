/* What `shunt doctor` says about library, processors and caches. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "doctor.h"
#include "doctor_cgroup.h"
#include "machine.h"

#define TEXT(number)    TEXT_OF(number)
#define TEXT_OF(number) #number
#define VERSION_OF_HEADERS        \
	TEXT(SHUNT_VERSION_MAJOR) \
	"." TEXT(SHUNT_VERSION_MINOR) "." TEXT(SHUNT_VERSION_PATCH)

static void look_at_version(struct doctor *doctor)
{
	bool same = !strcmp(shunt_version(), VERSION_OF_HEADERS);
	cJSON *finding =
		doctor_say(doctor, "version", same ? DOCTOR_OK : DOCTOR_PROBLEM,
			"libshunt %s, program built for %s", shunt_version(),
			VERSION_OF_HEADERS);

	if (!same)
		doctor_remedy(finding,
			"install both from one build, and look whether "
			"LD_LIBRARY_PATH leads to another libshunt");
	doctor_text(finding, "library", shunt_version());
}

static void look_at_simd(struct doctor *doctor)
{
	const char *wish = getenv("SHUNT_SIMD");
	const char *used = shunt_simd();
	cJSON *finding;

	if (wish && *wish && strcmp(wish, used)) {
		finding = doctor_say(doctor, "simd", DOCTOR_PROBLEM,
			"SHUNT_SIMD is \"%.64s\", which is no level of this "
			"machine: shunt_world_create() refuses it",
			wish);
		doctor_remedy(finding,
			"unset SHUNT_SIMD; the best level here is %s", used);
	} else if (wish && *wish) {
		finding = doctor_say(doctor, "simd", DOCTOR_NOTE,
			"%s, as SHUNT_SIMD says", used);
		doctor_remedy(finding,
			"unset SHUNT_SIMD for the best level; results are the "
			"same");
	} else if (!strcmp(used, "scalar")) {
		finding = doctor_say(doctor, "simd", DOCTOR_NOTE,
			"scalar: no AVX2, FMA and F16C here, and this version "
			"has vector kernels for no other instructions");
		doctor_remedy(finding,
			"in a virtual machine, let it see the host's CPU "
			"(QEMU: -cpu host)");
	} else {
		finding = doctor_say(doctor, "simd", DOCTOR_OK,
			"%s, the best that library and CPU have", used);
	}
	doctor_text(finding, "level", used);
}

/* Ranks spin while each has a core; how many that are. */
static void look_at_cores(struct doctor *doctor)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t allowed;
	cJSON *finding;
	int cores = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed)) {
		finding = doctor_say(doctor, "cores", DOCTOR_NOTE,
			"the kernel has more processors than the %d of a "
			"cpu_set_t: ranks yield instead of spinning",
			CPU_SETSIZE);
		doctor_remedy(finding, "boot with nr_cpus=%d", CPU_SETSIZE);
		return;
	}
	cores = CPU_COUNT(&allowed);
	finding = doctor_say(doctor, "cores",
		cores < online ? DOCTOR_NOTE : DOCTOR_OK,
		"%d of %ld allowed to this process: up to %d rank%s of them "
		"spin while they wait, more take turns (they yield and sleep)",
		cores, online, cores, cores == 1 ? "" : "s");
	if (cores < online)
		doctor_remedy(finding,
			"taskset, cpuset or the launcher's binding says so; "
			"more cores for more ranks (mpirun --bind-to none, "
			"srun "
			"--cpu-bind=none). Ranks of one host add theirs up");
	doctor_number(finding, "allowed", cores);
	doctor_number(finding, "online", (double)online);
}

static void look_at_quota(struct doctor *doctor)
{
	double quota = cgroup_processors();
	cpu_set_t allowed;
	bool tight = false;
	cJSON *finding;

	if (quota <= 0) {
		doctor_say(doctor, "cpu_quota", DOCTOR_OK,
			"none by control groups");
		return;
	}
	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		tight = quota < CPU_COUNT(&allowed);
	finding = doctor_say(doctor, "cpu_quota",
		tight ? DOCTOR_NOTE : DOCTOR_OK,
		"control groups give %.4g processors' time%s", quota,
		tight ? ": ranks that spin on more cores than that use it up, "
			"and all of them stop until the period ends"
		      : "");
	if (tight)
		doctor_remedy(finding,
			"raise the quota, or bind the job to %d core%s by "
			"taskset (docker: --cpuset-cpus instead of --cpus)",
			quota < 2 ? 1 : (int)quota, quota < 2 ? "" : "s");
	doctor_number(finding, "processors", quota);
}

static void look_at_cache(struct doctor *doctor)
{
	long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
	char size[DOCTOR_SIZE_BYTES];
	cJSON *finding;

	if (bytes > 0)
		finding = doctor_say(doctor, "l2", DOCTOR_OK,
			"%s per core; steps of more bytes write past the "
			"cache where that pays",
			doctor_size(size, (uint64_t)bytes));
	else
		finding = doctor_say(doctor, "l2", DOCTOR_NOTE,
			"the system does not tell the size of the second-level "
			"cache: 1 MiB is assumed");
	doctor_number(finding, "bytes", bytes > 0 ? (double)bytes : 0);
}

void doctor_look_at_cpu(struct doctor *doctor)
{
	struct machine machine;

	machine_read(&machine);
	doctor->section = "library";
	look_at_version(doctor);
	look_at_simd(doctor);
	doctor->section = "cpu";
	doctor_text(doctor_say(doctor, "model", DOCTOR_OK, "%s", machine.cpu),
		"name", machine.cpu);
	look_at_cores(doctor);
	look_at_quota(doctor);
	look_at_cache(doctor);
}
