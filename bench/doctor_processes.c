/* What `shunt doctor` says about ranks that are processes: how they reach each
 * other, notice a death, and how many there can be; and a trial of it all. */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "doctor.h"
#include "doctor_trial.h"

#define MAX_RANKS 4096
/* What rank 0 has open besides a descriptor for each rank: the three that every
 * program starts with, segment, hand-over, and one that knocks. */
#define OTHER_DESCRIPTORS 6

/* Binds, listens and connects as the hand-over of segments does. */
static const char *try_sockets(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int type = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
	int listener = socket(AF_UNIX, type, 0);
	int caller = socket(AF_UNIX, type, 0);
	const char *failed = NULL;
	socklen_t length;
	int error;

	/* Abstract: the name begins with a zero byte. */
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
		"shunt-doctor-%ld", (long)getpid());
	length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			     strlen(address.sun_path + 1));
	if (listener < 0 || caller < 0)
		failed = "socket";
	else if (bind(listener, (struct sockaddr *)&address, length))
		failed = "bind";
	else if (listen(listener, 1))
		failed = "listen";
	else if (connect(caller, (struct sockaddr *)&address, length))
		failed = "connect";
	error = errno;
	if (listener >= 0)
		close(listener);
	if (caller >= 0)
		close(caller);
	errno = error;
	return failed;
}

static void look_at_sockets(struct doctor *doctor)
{
	const char *failed = try_sockets();
	const char *reason = strerror(errno);
	char space[64] = "";
	ssize_t length =
		readlink("/proc/self/ns/net", space, sizeof(space) - 1);
	cJSON *finding;

	if (length < 0)
		snprintf(space, sizeof(space), "of unknown name");
	if (failed) {
		finding = doctor_say(doctor, "sockets", DOCTOR_PROBLEM,
			"abstract sockets: %s failed: %s", failed, reason);
		doctor_remedy(finding,
			"look at seccomp, AppArmor and ulimit -n; or make the "
			"ranks threads");
	} else {
		finding = doctor_say(doctor, "sockets", DOCTOR_OK,
			"abstract sockets work among processes of network "
			"namespace %s; containers must share it",
			space);
	}
	doctor_text(finding, "network_namespace", space);
}

/* The kernel tells of a death by the robust list of a thread. */
static void look_at_robust(struct doctor *doctor)
{
	struct robust_list_head *list;
	size_t bytes;
	bool works = !syscall(SYS_get_robust_list, 0, &list, &bytes);
	const char *reason = strerror(errno);
	cJSON *finding;

	if (works) {
		doctor_say(doctor, "robust_futex", DOCTOR_OK,
			"the kernel tells when a rank dies");
		return;
	}
	finding = doctor_say(doctor, "robust_futex", DOCTOR_PROBLEM,
		"get_robust_list failed: %s", reason);
	doctor_remedy(finding,
		"a kernel with CONFIG_FUTEX, and a seccomp profile that allows "
		"get_robust_list and set_robust_list");
}

static void look_at_descriptors(struct doctor *doctor)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	enum doctor_verdict verdict = DOCTOR_OK;
	unsigned long long ranks = MAX_RANKS;
	cJSON *finding;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < MAX_RANKS + OTHER_DESCRIPTORS) {
		ranks = limit.rlim_cur > OTHER_DESCRIPTORS
				? limit.rlim_cur - OTHER_DESCRIPTORS
				: 0;
		verdict = DOCTOR_NOTE;
	}
	if (ranks < 2 || ranks < (unsigned long long)doctor->num_ranks)
		verdict = DOCTOR_PROBLEM;
	finding = doctor_say(doctor, "descriptors", verdict,
		"%llu open files: enough for rank 0 to meet %llu ranks, less "
		"what the program has open itself (up to %d are possible)",
		(unsigned long long)limit.rlim_cur, ranks, MAX_RANKS);
	if (verdict != DOCTOR_OK)
		doctor_remedy(
			finding, "ulimit -n %d", MAX_RANKS + OTHER_DESCRIPTORS);
	doctor_number(finding, "limit", (double)limit.rlim_cur);
	doctor_number(finding, "max_ranks", (double)ranks);
}

static void look_at_threads(struct doctor *doctor)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	char most[32] = "no limit on";
	bool tight;
	cJSON *finding;

	getrlimit(RLIMIT_NPROC, &limit);
	if (limit.rlim_cur != RLIM_INFINITY)
		snprintf(most, sizeof(most), "%llu",
			(unsigned long long)limit.rlim_cur);
	tight = limit.rlim_cur / 2 < (rlim_t)doctor->num_ranks;
	finding = doctor_say(doctor, "threads",
		tight ? DOCTOR_PROBLEM : DOCTOR_OK,
		"%s processes and threads of this user; a rank that is a "
		"process takes two",
		most);
	if (tight)
		doctor_remedy(finding, "ulimit -u %d",
			2 * (int)doctor->num_ranks + 64);
}

static void look_at_trial(struct doctor *doctor)
{
	char text[TRIAL_TEXT_BYTES];
	cJSON *finding;

	if (trial_run(text)) {
		doctor_say(doctor, "trial", DOCTOR_OK,
			"two ranks as processes met, and rows went to the "
			"other's expert and back");
		return;
	}
	finding = doctor_say(doctor, "trial", DOCTOR_PROBLEM,
		"two ranks as processes: %s", text);
	doctor_remedy(finding,
		"mend the problems above; docs/troubleshooting.md has the "
		"messages, SHUNT_LOG=info tells more");
}

void doctor_look_at_processes(struct doctor *doctor)
{
	doctor->section = "processes";
	look_at_sockets(doctor);
	look_at_robust(doctor);
	look_at_descriptors(doctor);
	look_at_threads(doctor);
	look_at_trial(doctor);
}
