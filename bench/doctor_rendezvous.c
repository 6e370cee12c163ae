/* What `shunt doctor` says about where the ranks of this environment meet. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"
#include "launcher.h"

#define MAX_KEY_BYTES 255
#define MAX_JOB_BYTES 127

/* ---- who this rank is -------------------------------------------------- */

static bool look_at_launcher(struct doctor *doctor, struct launcher_job *job)
{
	char wrong[LAUNCHER_TEXT_BYTES], remedy[LAUNCHER_TEXT_BYTES];
	cJSON *finding;

	if (!launcher_read(job, wrong, remedy)) {
		finding = doctor_say(
			doctor, "launcher", DOCTOR_PROBLEM, "%s", wrong);
		doctor_remedy(finding, "%s", remedy);
		doctor_text(finding, "seen", job->seen);
		return false;
	}
	doctor->num_ranks = job->num_ranks;
	if (!job->family)
		finding = doctor_say(doctor, "launcher", DOCTOR_OK,
			"no variables of a launcher: shunt_world_create(NULL) "
			"makes a world of one rank");
	else
		finding = doctor_say(doctor, "launcher", DOCTOR_OK,
			"seen: %s; taken: %s: rank %d of %d", job->seen,
			job->family, (int)job->rank, (int)job->num_ranks);
	doctor_text(finding, "seen", job->seen);
	doctor_text(finding, "taken", job->family ? job->family : "");
	doctor_number(finding, "rank", job->rank);
	doctor_number(finding, "num_ranks", job->num_ranks);
	return true;
}

static void look_at_hosts(struct doctor *doctor, const struct launcher_job *job)
{
	doctor->on_many_hosts = job->on_many_hosts;
	if (job->on_many_hosts)
		doctor_say(doctor, "hosts", DOCTOR_OK,
			"the launcher spreads the %d ranks over several hosts: "
			"RDMA brings them together, see there",
			(int)job->num_ranks);
}

/* ---- where they meet --------------------------------------------------- */

static bool is_loopback(const struct sockaddr *address)
{
	const struct in6_addr *v6;

	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)address)
				       ->sin_addr.s_addr) >>
			       24 ==
		       IN_LOOPBACKNET;
	v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(v6))
		return v6->s6_addr[12] == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(v6);
}

/* As rank 0 would bind, without listening. 0, or an errno. */
static int try_bind(const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error = 0, on = 1;

	if (fd < 0)
		return errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		bind(fd, address->ai_addr, address->ai_addrlen))
		error = errno;
	close(fd);
	return error;
}

/* Rank 0 takes the first that is this host's; so the errno of that one, or
 * EADDRNOTAVAIL if none is. */
static int try_bind_all(const struct addrinfo *list)
{
	for (; list; list = list->ai_next) {
		int error = try_bind(list);

		if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT)
			return error;
	}
	return EADDRNOTAVAIL;
}

static void look_at_port(struct doctor *doctor, const struct launcher_job *job,
	const struct addrinfo *list)
{
	enum doctor_verdict verdict =
		job->rank == 0 ? DOCTOR_PROBLEM : DOCTOR_NOTE;
	int error = try_bind_all(list);
	cJSON *finding;

	if (!error) {
		doctor_say(doctor, "port", DOCTOR_OK,
			"port %u of this host is free for rank 0", job->port);
	} else if (error == EADDRINUSE) {
		finding = doctor_say(doctor, "port", verdict,
			"port %u is in use: by rank 0, if the job runs already",
			job->port);
		doctor_remedy(finding,
			"if it is another program's (ss -ltnp), another port: "
			"SHUNT_ADDRESS, or SHUNT_PORT under torchrun");
	} else if (error == EADDRNOTAVAIL && job->rank > 0) {
		doctor_say(doctor, "port", DOCTOR_OK,
			"\"%s\" is no address of this host, so rank 0 is on "
			"another",
			job->host);
	} else if (error == EADDRNOTAVAIL) {
		finding = doctor_say(doctor, "port", DOCTOR_PROBLEM,
			"\"%s\" is no address of this host, where rank 0 is to "
			"listen",
			job->host);
		doctor_remedy(finding,
			"use an address of the host where rank 0 runs "
			"(hostname -I)");
	} else {
		finding = doctor_say(doctor, "port", verdict,
			"port %u cannot be bound: %s", job->port,
			strerror(error));
		doctor_remedy(finding, "a port from 1024 on");
	}
}

/* Which address of this host goes there: nothing is sent. */
static void find_reach(struct doctor *doctor, const struct addrinfo *address)
{
	struct sockaddr_storage own;
	socklen_t bytes = sizeof(own);
	int fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (!connect(fd, address->ai_addr, address->ai_addrlen) &&
		!getsockname(fd, (struct sockaddr *)&own, &bytes))
		getnameinfo((struct sockaddr *)&own, bytes, doctor->reach,
			sizeof(doctor->reach), NULL, 0, NI_NUMERICHOST);
	close(fd);
}

static void look_at_key(struct doctor *doctor, const struct addrinfo *list)
{
	const char *key = getenv("SHUNT_KEY");
	bool needed = false;
	cJSON *finding;

	for (; list; list = list->ai_next)
		needed = needed || !is_loopback(list->ai_addr);
	if (key && *key) {
		doctor_say(doctor, "key", DOCTOR_OK, "SHUNT_KEY is set");
	} else if (needed) {
		finding = doctor_say(doctor, "key", DOCTOR_PROBLEM,
			"SHUNT_KEY is not set, and the address is not a "
			"loopback one: shunt_world_create() refuses it");
		doctor_remedy(finding,
			"export SHUNT_KEY=$(openssl rand -hex 16), the same on "
			"all ranks");
	} else {
		doctor_say(doctor, "key", DOCTOR_OK,
			"none, and none is needed on a loopback address");
	}
}

static void look_at_address(
	struct doctor *doctor, const struct launcher_job *job)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV};
	char service[8], first[INET6_ADDRSTRLEN] = "";
	struct addrinfo *list;
	cJSON *finding;
	int result;

	snprintf(service, sizeof(service), "%u", job->port);
	result = getaddrinfo(job->host, service, &hints, &list);
	if (result) {
		finding = doctor_say(doctor, "address", DOCTOR_PROBLEM,
			"looking up \"%s\": %s", job->host,
			result == EAI_SYSTEM ? strerror(errno)
					     : gai_strerror(result));
		doctor_remedy(finding,
			"mend the name (getent hosts %s), or use an address",
			job->host);
		return;
	}
	getnameinfo(list->ai_addr, list->ai_addrlen, first, sizeof(first), NULL,
		0, NI_NUMERICHOST);
	finding = doctor_say(doctor, "address", DOCTOR_OK,
		"ranks meet at %s, port %u (%s)", job->host, job->port, first);
	doctor_text(finding, "host", job->host);
	doctor_number(finding, "port", job->port);
	find_reach(doctor, list);
	look_at_port(doctor, job, list);
	look_at_key(doctor, list);
	freeaddrinfo(list);
}

static void look_at_length(
	struct doctor *doctor, const char *name, const char *variable, int most)
{
	const char *text = getenv(variable);
	cJSON *finding;

	if (!text || strlen(text) <= (size_t)most)
		return;
	finding = doctor_say(doctor, name, DOCTOR_PROBLEM,
		"%s has %zu bytes, and %d at most are allowed", variable,
		strlen(text), most);
	doctor_remedy(finding, "set a shorter %s", variable);
}

void doctor_look_at_rendezvous(struct doctor *doctor)
{
	struct launcher_job job;

	doctor->section = "rendezvous";
	look_at_length(doctor, "key_length", "SHUNT_KEY", MAX_KEY_BYTES);
	look_at_length(doctor, "job_length", "SHUNT_JOB", MAX_JOB_BYTES);
	if (!look_at_launcher(doctor, &job))
		return;
	look_at_hosts(doctor, &job);
	if (job.num_ranks > 1)
		look_at_address(doctor, &job);
}
