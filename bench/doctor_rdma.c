/*
 * What `shunt doctor` says about RDMA: devices as sysfs has them, memory that
 * may be locked, and modules that make a device of any network card. All of it
 * is for later: this version of Shunt uses none of it, so there are no problems
 * here, only notes.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "doctor.h"
#include "doctor_files.h"

#define MAX_DEVICES     64
#define CAP_IPC_LOCK_AT 14

/* ---- devices ----------------------------------------------------------- */

/* A file of the device into its object, if there is one. Returns the text. */
static const char *add_line(cJSON *object, const char *name,
	char line[FILES_LINE_BYTES], const char *path)
{
	if (files_line(line, "%s/%s", path, name))
		cJSON_AddStringToObject(object, name, line);
	return line[0] ? line : "unknown";
}

static void look_at_device(
	struct doctor *doctor, const char *folder, const char *name)
{
	cJSON *object = cJSON_CreateObject();
	char path[PATH_MAX], lines[3][FILES_LINE_BYTES];
	cJSON *finding;

	if (!cJSON_AddItemToArray(doctor->devices, object)) {
		cJSON_Delete(object);
		doctor->out_of_memory = true;
		return;
	}
	cJSON_AddStringToObject(object, "device", name);
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >=
		(int)sizeof(path))
		return;
	finding = doctor_say(doctor, "device", DOCTOR_OK,
		"%s: node type %s, firmware %s, GUID %s", name,
		add_line(object, "node_type", lines[0], path),
		add_line(object, "fw_ver", lines[1], path),
		add_line(object, "node_guid", lines[2], path));
	doctor_text(finding, "device", name);
	doctor_look_at_ports(doctor, name, path, object);
}

static void say_none(struct doctor *doctor, const char *folder, int error)
{
	cJSON *finding;

	if (error == 0)
		finding = doctor_say(doctor, "devices", DOCTOR_NOTE,
			"none: %s is empty", folder);
	else if (error == ENOENT)
		finding = doctor_say(doctor, "devices", DOCTOR_NOTE,
			"none: there is no %s, so no RDMA driver is loaded",
			folder);
	else
		finding = doctor_say(doctor, "devices", DOCTOR_NOTE,
			"not known: %s: %.512s", strerror(error), folder);
	doctor_remedy(finding,
		"load the card's driver (mlx5_ib, irdma, bnxt_re, ...), give "
		"the container /sys and /dev/infiniband, or make a device of "
		"any network card: see soft_roce and soft_iwarp");
	doctor_number(finding, "count", 0);
}

static void look_at_devices(struct doctor *doctor)
{
	char folder[PATH_MAX];
	char **names = NULL;
	int num, shown;

	if (snprintf(folder, sizeof(folder), "%s/class/infiniband",
		    doctor->sysfs) >= (int)sizeof(folder)) {
		say_none(doctor, doctor->sysfs, ENAMETOOLONG);
		return;
	}
	num = files_list(folder, &names);
	if (num <= 0) {
		say_none(doctor, folder, num < 0 ? errno : 0);
		files_free(names, num);
		return;
	}
	shown = num < MAX_DEVICES ? num : MAX_DEVICES;
	doctor_number(
		doctor_say(doctor, "devices", DOCTOR_OK, "%d in %s%s", num,
			folder,
			shown < num ? ", of which the first 64 follow" : ""),
		"count", num);
	for (int i = 0; i < shown; i++)
		look_at_device(doctor, folder, names[i]);
	files_free(names, num);
}

/* ---- locked memory ----------------------------------------------------- */

/* Who may do so locks memory without a limit. */
static bool may_lock_all(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long set = 0;
	char line[128];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "CapEff: %llx", &set) == 1;
	if (file)
		fclose(file);
	return set >> CAP_IPC_LOCK_AT & 1;
}

static void look_at_memlock(struct doctor *doctor)
{
	struct rlimit limit = {0, 0};
	char size[DOCTOR_SIZE_BYTES];
	bool is_free = may_lock_all();
	uint64_t most;
	cJSON *finding;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	most = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	doctor_size(size, most);
	if (most == UINT64_MAX || is_free) {
		finding = doctor_say(doctor, "memlock", DOCTOR_OK,
			"RLIMIT_MEMLOCK %s%s: windows of any size can be "
			"registered",
			size,
			most == UINT64_MAX ? ""
					   : ", and CAP_IPC_LOCK lifts it");
	} else {
		finding = doctor_say(doctor, "memlock", DOCTOR_NOTE,
			"RLIMIT_MEMLOCK %s, and no CAP_IPC_LOCK: registered "
			"windows of a process cannot be larger together",
			size);
		doctor_remedy(finding,
			"ulimit -l unlimited; for good \"* - memlock "
			"unlimited\" in /etc/security/limits.conf, "
			"LimitMEMLOCK=infinity in slurmd's or docker's unit, "
			"docker run --ulimit memlock=-1");
	}
	doctor_number(finding, "bytes", most == UINT64_MAX ? -1 : (double)most);
	cJSON_AddBoolToObject(cJSON_GetObjectItem(finding, "values"),
		"cap_ipc_lock", is_free);
}

/* ---- modules ----------------------------------------------------------- */

/* Whether the running kernel has the module as a file, or built in. */
static bool module_exists(const char *module)
{
	static const char *const lists[] = {"modules.dep", "modules.builtin"};
	char path[PATH_MAX], entry[64];
	struct utsname kernel;
	bool found = false;

	if (uname(&kernel))
		return false;
	snprintf(entry, sizeof(entry), "/%s.ko", module);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/lib/modules/%s/%s",
			kernel.release, lists[i]);
		found = found || files_has(path, entry);
	}
	return found;
}

static void look_at_module(struct doctor *doctor, const char *name,
	const char *module, const char *link)
{
	char refs[FILES_LINE_BYTES];
	bool loaded =
		files_line(refs, "%s/module/%s/refcnt", doctor->sysfs, module);
	bool exists = loaded || module_exists(module);
	cJSON *finding;

	finding = doctor_say(doctor, name, exists ? DOCTOR_OK : DOCTOR_NOTE,
		"module %s is %s", module,
		loaded   ? "loaded"
		: exists ? "there, not loaded"
			 : "not in this kernel");
	if (exists)
		doctor_remedy(finding,
			"for a device without RDMA hardware: modprobe %s; rdma "
			"link add %s0 type %s netdev NETDEV",
			module, link, link);
	else
		doctor_remedy(finding,
			"to try RDMA without hardware, use a kernel that has "
			"it, such as a distribution's (Debian: "
			"linux-image-amd64, not -cloud)");
	doctor_text(finding, "state",
		loaded   ? "loaded"
		: exists ? "present"
			 : "absent");
}

void doctor_look_at_rdma(struct doctor *doctor)
{
	doctor->section = "rdma";
	doctor_say(doctor, "use", DOCTOR_NOTE,
		"this version of Shunt does not use RDMA: it works on one "
		"host, through shared memory. What follows is what is there");
	look_at_devices(doctor);
	look_at_memlock(doctor);
	look_at_module(doctor, "soft_roce", "rdma_rxe", "rxe");
	look_at_module(doctor, "soft_iwarp", "siw", "siw");
}
