/* Reading the variables of launchers; see launcher.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

#define MAX_RANKS 4096
#define MAX_PORT  65535

struct reading {
	struct launcher_job *job;
	char *wrong;
	char *remedy;
};

struct family {
	const char *name;
	const char *rank;
	const char *size;
	const char *local_rank;
	const char *num_local; /* ranks on this host */
	const char *hosts;     /* number of hosts */
	bool always_locate;
};

/* In the order in which they count. */
static const struct family families[] = {
	{"shunt run", "SHUNT_RANK", "SHUNT_NUM_RANKS", "SHUNT_LOCAL_RANK", NULL,
		NULL, true},
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
		NULL, true},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
		"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
		NULL, false},
	{"Hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
		NULL, false},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL,
		"SLURM_STEP_NUM_NODES", false},
};
#define NUM_FAMILIES (sizeof(families) / sizeof(families[0]))
#define OWN_FAMILY   (&families[0])
#define TORCH_FAMILY (&families[1])

/* ---- saying what is wrong ---------------------------------------------- */

#define SAY(reading, part, ...) \
	snprintf((reading)->part, LAUNCHER_TEXT_BYTES, __VA_ARGS__)

static bool parse_number(const char *text, long least, long most, long *value)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*value = strtol(text, &end, 10);
	return errno == 0 && *end == '\0' && *value >= least && *value <= most;
}

static bool read_number(const struct reading *reading, const char *variable,
	long least, long most, long *value)
{
	const char *text = getenv(variable);

	if (text && parse_number(text, least, most, value))
		return true;
	if (text)
		SAY(reading, wrong, "%s is \"%.64s\"", variable, text);
	else
		SAY(reading, wrong, "%s is not set", variable);
	SAY(reading, remedy, "set %s to a whole number %ld .. %ld", variable,
		least, most);
	return false;
}

/* ---- addresses --------------------------------------------------------- */

static bool is_ipv6(const char *text)
{
	char bare[INET6_ADDRSTRLEN];
	struct in6_addr address;
	size_t length = strcspn(text, "%");

	if (length >= sizeof(bare))
		return false;
	memcpy(bare, text, length);
	bare[length] = '\0';
	return inet_pton(AF_INET6, bare, &address) == 1;
}

static bool is_host_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 &&
	       length < sizeof(((struct launcher_job *)0)->host) &&
	       strspn(text,
		       "abcdefghijklmnopqrstuvwxyz"
		       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == length;
}

/* HOST:PORT or [IPv6]:PORT. */
static bool parse_address(const char *text, struct launcher_job *job)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	bool brackets = text[0] == '[';
	char host[sizeof(job->host)];
	long port;

	if (!colon || length >= sizeof(host) ||
		!parse_number(colon + 1, 1, MAX_PORT, &port))
		return false;
	if (brackets && (length < 2 || text[length - 1] != ']'))
		return false;
	length -= brackets ? 2 : 0;
	memcpy(host, text + brackets, length);
	host[length] = '\0';
	if (brackets ? !is_ipv6(host) : !is_host_name(host))
		return false;
	snprintf(job->host, sizeof(job->host), "%s", host);
	job->port = (uint16_t)port;
	return true;
}

static bool locate_by_address(
	const struct reading *reading, const struct family *family)
{
	const char *text = getenv("SHUNT_ADDRESS");

	if (text && parse_address(text, reading->job))
		return true;
	if (text)
		SAY(reading, wrong, "SHUNT_ADDRESS is \"%.128s\"", text);
	else
		SAY(reading, wrong,
			"%s is set, and SHUNT_ADDRESS, which it needs, is not",
			family->rank);
	SAY(reading, remedy,
		"export SHUNT_ADDRESS=HOST:PORT of rank 0's host, a free port, "
		"the same on all ranks ([IPv6]:PORT for such an address)");
	return false;
}

static bool locate_by_torch(const struct reading *reading)
{
	const char *host = getenv("MASTER_ADDR");
	bool given = getenv("SHUNT_PORT") != NULL;
	long port = 0;

	if (!host || !getenv("MASTER_PORT")) {
		SAY(reading, wrong, "RANK is set, and %s is not",
			host ? "MASTER_PORT" : "MASTER_ADDR");
		SAY(reading, remedy,
			"set all of RANK, WORLD_SIZE, MASTER_ADDR and "
			"MASTER_PORT, or none");
		return false;
	}
	if (!is_host_name(host) && !is_ipv6(host)) {
		SAY(reading, wrong, "MASTER_ADDR is \"%.128s\"", host);
		SAY(reading, remedy, "set it to a host's name or address");
		return false;
	}
	/* One above torch's own port, or where SHUNT_PORT says. */
	if (!read_number(reading, given ? "SHUNT_PORT" : "MASTER_PORT", 1,
		    given ? MAX_PORT : MAX_PORT - 1, &port))
		return false;
	snprintf(reading->job->host, sizeof(reading->job->host), "%s", host);
	reading->job->port = (uint16_t)(given ? port : port + 1);
	return true;
}

/* ---- families ---------------------------------------------------------- */

static bool read_place(const struct reading *reading,
	const struct family *family, int32_t *rank, int32_t *num_ranks)
{
	long value = 0;

	if (!read_number(reading, family->size, 1, MAX_RANKS, &value))
		return false;
	*num_ranks = (int32_t)value;
	if (!read_number(reading, family->rank, 0, value - 1, &value))
		return false;
	*rank = (int32_t)value;
	return true;
}

static void read_hosts(struct launcher_job *job, const struct family *family)
{
	const char *rank = getenv(family->local_rank);
	const char *local =
		family->num_local ? getenv(family->num_local) : NULL;
	const char *hosts = family->hosts ? getenv(family->hosts) : NULL;
	long value;

	if (rank && parse_number(rank, 0, job->num_ranks - 1, &value))
		job->local_rank = (int32_t)value;
	if (local && parse_number(local, 1, job->num_ranks, &value)) {
		job->num_local = (int32_t)value;
		job->on_many_hosts = value < job->num_ranks;
	}
	if (hosts && parse_number(hosts, 1, INT32_MAX, &value))
		job->on_many_hosts = value > 1;
}

static bool take(const struct reading *reading, const struct family *family)
{
	struct launcher_job *job = reading->job;

	job->family = family->name;
	if (!read_place(reading, family, &job->rank, &job->num_ranks))
		return false;
	read_hosts(job, family);
	if (family == TORCH_FAMILY)
		return locate_by_torch(reading);
	if (job->num_ranks == 1 && !family->always_locate)
		return true;
	return locate_by_address(reading, family);
}

static bool agree(const struct reading *reading, const struct family *taken,
	const struct family *other)
{
	const struct launcher_job *job = reading->job;
	int32_t rank, num_ranks;

	if (!read_place(reading, other, &rank, &num_ranks))
		return false;
	if (rank == job->rank && num_ranks == job->num_ranks)
		return true;
	SAY(reading, wrong, "%s=%d, %s=%d and %s=%d, %s=%d disagree",
		taken->rank, (int)job->rank, taken->size, (int)job->num_ranks,
		other->rank, (int)rank, other->size, (int)num_ranks);
	SAY(reading, remedy,
		"unset one pair, or set SHUNT_RANK, SHUNT_NUM_RANKS and "
		"SHUNT_ADDRESS, which win");
	return false;
}

static void note_seen(struct launcher_job *job, const char *name)
{
	size_t used = strlen(job->seen);

	snprintf(job->seen + used, sizeof(job->seen) - used, "%s%s",
		used ? ", " : "", name);
}

bool launcher_read(struct launcher_job *job, char wrong[LAUNCHER_TEXT_BYTES],
	char remedy[LAUNCHER_TEXT_BYTES])
{
	const struct reading reading = {job, wrong, remedy};
	const struct family *taken = NULL;
	bool good = true;

	memset(job, 0, sizeof(*job));
	job->num_ranks = 1;
	job->local_rank = -1;
	for (size_t i = 0; i < NUM_FAMILIES; i++) {
		const struct family *family = &families[i];

		if (!getenv(family->rank))
			continue;
		note_seen(job, family->name);
		if (!taken)
			good = take(&reading, family);
		else if (good && taken != OWN_FAMILY)
			good = agree(&reading, taken, family);
		taken = taken ? taken : family;
	}
	return good;
}
