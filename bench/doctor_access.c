/* What a process needs besides a device to use it, for `shunt doctor`: its
 * files in /dev/infiniband, and memory that it may lock. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "doctor.h"
#include "doctor_files.h"

#define CAP_IPC_LOCK_AT 14

/* ---- files of /dev ----------------------------------------------------- */

static void look_at_file(
	struct doctor *doctor, const char *path, const char *what)
{
	cJSON *finding;

	if (!access(path, R_OK | W_OK)) {
		doctor_say(doctor, "access", DOCTOR_OK, "%s (%s) can be opened",
			path, what);
		return;
	}
	finding = doctor_say(doctor, "access",
		doctor->on_many_hosts ? DOCTOR_PROBLEM : DOCTOR_NOTE,
		"%s (%s): %s", path, what, strerror(errno));
	doctor_remedy(finding, "%s",
		errno == ENOENT
			? "modprobe ib_uverbs rdma_ucm; a container needs "
			  "--device /dev/infiniband"
			: "give this user read and write rights (group rdma, "
			  "udev's 90-rdma-*.rules)");
}

void doctor_look_at_access(struct doctor *doctor)
{
	char folder[PATH_MAX], path[PATH_MAX], device[FILES_LINE_BYTES];
	char **names = NULL;
	int num;

	/* Of a tree copied from elsewhere there is no /dev. */
	if (strcmp(doctor->sysfs, "/sys") ||
		cJSON_GetArraySize(doctor->devices) == 0)
		return;
	snprintf(folder, sizeof(folder), "/sys/class/infiniband_verbs");
	num = files_list(folder, &names);
	for (int i = 0; i < num; i++) {
		if (!files_line(device, "%s/%s/ibdev", folder, names[i]) ||
			snprintf(path, sizeof(path), "/dev/infiniband/%s",
				names[i]) >= (int)sizeof(path))
			continue;
		look_at_file(doctor, path, device);
	}
	files_free(names, num);
	look_at_file(doctor, "/dev/infiniband/rdma_cm", "connections");
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

/* Locked memory of a rank, for an exchange of the bench's shape, 128 tokens of
 * 7168, over the ranks that the launcher tells of, each on a host of its own: a
 * measure, no limit. */
static uint64_t usual_bytes(const struct doctor *doctor)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;
	int32_t num_ranks = doctor->num_ranks > 1 ? doctor->num_ranks : 2;

	config.max_tokens = 128;
	config.hidden = 7168;
	config.topk = 8;
	config.num_experts = num_ranks > 256 ? num_ranks : 256;
	config.distinct_experts = true;
	config.dtype = SHUNT_DTYPE_BF16;
	config.expert_dtype = SHUNT_DTYPE_BF16;
	config.quant = SHUNT_QUANT_INT8;
	sizes.ranks_per_host = 1;
	if (shunt_exchange_query(&config, 0, num_ranks, &sizes))
		return 0;
	return sizes.window_bytes;
}

static cJSON *say_limited(struct doctor *doctor, uint64_t most, uint64_t usual)
{
	char size[DOCTOR_SIZE_BYTES], need[DOCTOR_SIZE_BYTES];
	bool fails = doctor->on_many_hosts && most < usual;
	cJSON *finding = doctor_say(doctor, "memlock",
		fails ? DOCTOR_PROBLEM : DOCTOR_NOTE,
		"RLIMIT_MEMLOCK %s, and no CAP_IPC_LOCK: with other hosts a "
		"rank registers its windows and allocations, which cannot be "
		"larger together; an exchange of 128 tokens of 7168, top-8, "
		"over %d ranks takes up to %s",
		doctor_size(size, most),
		(int)(doctor->num_ranks > 1 ? doctor->num_ranks : 2),
		doctor_size(need, usual));

	doctor_remedy(finding,
		"ulimit -l unlimited; for good \"* - memlock unlimited\" in "
		"/etc/security/limits.conf, LimitMEMLOCK=infinity in slurmd's "
		"or docker's unit, docker run --ulimit memlock=-1");
	return finding;
}

void doctor_look_at_memlock(struct doctor *doctor)
{
	struct rlimit limit = {0, 0};
	char size[DOCTOR_SIZE_BYTES];
	uint64_t most, usual = usual_bytes(doctor);
	bool is_free = may_lock_all();
	cJSON *finding;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	most = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	if (most == UINT64_MAX || is_free)
		finding = doctor_say(doctor, "memlock", DOCTOR_OK,
			"RLIMIT_MEMLOCK %s%s: windows of any size can be "
			"registered",
			doctor_size(size, most),
			most == UINT64_MAX ? ""
					   : ", and CAP_IPC_LOCK lifts it");
	else
		finding = say_limited(doctor, most, usual);
	doctor_number(finding, "bytes", most == UINT64_MAX ? -1 : (double)most);
	doctor_number(finding, "usual_bytes", (double)usual);
	cJSON_AddBoolToObject(cJSON_GetObjectItem(finding, "values"),
		"cap_ipc_lock", is_free);
}
