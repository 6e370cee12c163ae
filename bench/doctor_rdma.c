/*
 * What `shunt doctor` says about RDMA, which brings bytes to other hosts:
 * devices as sysfs has them, what of them is used, and modules that make a
 * device of any network card. Where the launcher tells of other hosts a lack is
 * a problem; on one host nothing of it is needed.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "doctor.h"
#include "doctor_files.h"

#define MAX_DEVICES 64

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
	look_at_devices(doctor);
	doctor_look_at_use(doctor);
	doctor_look_at_access(doctor);
	doctor_look_at_memlock(doctor);
	look_at_module(doctor, "soft_roce", "rdma_rxe", "rxe");
	look_at_module(doctor, "soft_iwarp", "siw", "siw");
}
