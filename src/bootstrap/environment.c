/*
 * From the config and the environment to a struct bootstrap.
 *
 * Launchers come as families of variables. A family is present if its rank
 * variable is set, and is then taken whole. Ours wins over the others: inside
 * Slurm or mpirun their variables may speak of another level of the job. Among
 * the others a disagreement is an error, because nobody could say which one is
 * meant.
 */
#include "bootstrap/bootstrap.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MAX_PORT 65535

/* ---- text to values ---------------------------------------------------- */

/* Reads all of `text` as a decimal number: no sign, no space, no rest. */
static bool parse_number(const char *text, long least, long most, long *value)
{
	char *end;
	long number;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	number = strtol(text, &end, 10);
	if (errno != 0 || *end != '\0' || number < least || number > most)
		return false;
	*value = number;
	return true;
}

/* As above, from an environment variable that must be set. */
static enum shunt_status read_number(
	const char *variable, long least, long most, long *value)
{
	const char *text = getenv(variable);

	if (!text)
		return error_set(SHUNT_INVALID,
			"%s is not set, must be a whole number %ld .. %ld",
			variable, least, most);
	if (!parse_number(text, least, most, value))
		return error_set(SHUNT_INVALID,
			"%s is \"%s\", must be a whole number %ld .. %ld",
			variable, text, least, most);
	return SHUNT_OK;
}

/* Copies `text`, called `name`, if it is min_bytes .. size - 1 long. Does not
 * show the text: it may be secret. */
static enum shunt_status copy_text(char *copy, size_t size, const char *text,
	size_t min_bytes, const char *name)
{
	size_t length = strlen(text);

	if (length < min_bytes || length >= size)
		return error_set(SHUNT_INVALID,
			"%s has %zu bytes, must have %zu .. %zu", name, length,
			min_bytes, size - 1);
	memset(copy, 0, size);
	memcpy(copy, text, length);
	return SHUNT_OK;
}

static bool is_ipv6(const char *text)
{
	struct in6_addr address;
	char bare[INET6_ADDRSTRLEN];
	size_t length = strcspn(text, "%"); /* before a scope, as in %eth0 */

	if (length >= sizeof(bare))
		return false;
	memcpy(bare, text, length);
	bare[length] = '\0';
	return inet_pton(AF_INET6, bare, &address) == 1;
}

/* Letters, digits, '.', '-', '_': what names and IPv4 addresses are made of. */
static bool is_host_name(const char *text)
{
	if (*text == '\0')
		return false;
	for (; *text; text++) {
		if (!isalnum((unsigned char)*text) && !strchr(".-_", *text))
			return false;
	}
	return true;
}

/* Takes HOST:PORT or [IPv6]:PORT apart. */
static bool parse_address(const char *text, struct bootstrap *bootstrap)
{
	const char *colon = strrchr(text, ':');
	char *host = bootstrap->address;
	size_t length;
	long port;

	if (!colon || !parse_number(colon + 1, 1, MAX_PORT, &port))
		return false;
	bootstrap->port = (uint16_t)port;
	length = (size_t)(colon - text);
	if (length >= sizeof(bootstrap->address))
		return false;
	memset(host, 0, sizeof(bootstrap->address));
	memcpy(host, text, length);
	if (host[0] != '[')
		return is_host_name(host);
	if (host[length - 1] != ']')
		return false;
	memmove(host, host + 1, length - 1);
	host[length - 2] = '\0';
	return is_ipv6(host);
}

/* ---- an explicit rendezvous -------------------------------------------- */

static enum shunt_status take_rendezvous(
	const char *text, struct bootstrap *bootstrap)
{
	static const char tcp[] = "tcp://";
	static const char threads[] = "threads://";

	if (strncmp(text, threads, strlen(threads)) == 0) {
		bootstrap->kind = BOOTSTRAP_THREADS;
		return copy_text(bootstrap->address, sizeof(bootstrap->address),
			text + strlen(threads), 1,
			"the name behind threads:// in rendezvous");
	}
	bootstrap->kind = BOOTSTRAP_TCP;
	if (strncmp(text, tcp, strlen(tcp)) == 0 &&
		parse_address(text + strlen(tcp), bootstrap))
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"rendezvous is \"%s\", must be tcp://HOST:PORT (with PORT 1 .. "
		"%d, an IPv6 address in brackets) or threads://NAME",
		text, MAX_PORT);
}

static enum shunt_status resolve_config(
	const struct shunt_world_config *config, struct bootstrap *bootstrap)
{
	if (config->num_ranks < 1 || config->num_ranks > BOOTSTRAP_MAX_RANKS)
		return error_set(SHUNT_INVALID,
			"num_ranks is %d, must be 1 .. %d with a rendezvous",
			config->num_ranks, BOOTSTRAP_MAX_RANKS);
	if (config->rank < 0 || config->rank >= config->num_ranks)
		return error_set(SHUNT_INVALID, "rank is %d, must be 0 .. %d",
			config->rank, config->num_ranks - 1);
	bootstrap->rank = config->rank;
	bootstrap->num_ranks = config->num_ranks;
	snprintf(bootstrap->origin, sizeof(bootstrap->origin), "the config");
	return take_rendezvous(config->rendezvous, bootstrap);
}

/* ---- families ---------------------------------------------------------- */

struct family {
	const char *name;
	const char *rank;
	const char *size;
	/* Fills address and port, for more than one rank. */
	enum shunt_status (*locate)(
		const struct family *family, struct bootstrap *bootstrap);
	bool always_locate; /* its address is part of it even for one rank */
};

/* The address that ours has always, and launchers without one need. */
static enum shunt_status locate_by_address(
	const struct family *family, struct bootstrap *bootstrap)
{
	const char *text = getenv("SHUNT_ADDRESS");

	if (!text)
		return error_set(SHUNT_INVALID,
			"SHUNT_ADDRESS is not set; with %s it must be: set it "
			"to HOST:PORT of rank 0, the same on all ranks",
			family->rank);
	if (!parse_address(text, bootstrap))
		return error_set(SHUNT_INVALID,
			"SHUNT_ADDRESS is \"%s\", must be HOST:PORT or "
			"[IPv6]:PORT with PORT 1 .. %d",
			text, MAX_PORT);
	return SHUNT_OK;
}

/*
 * MASTER_PORT itself is mostly taken: torch's own store listens there on rank
 * 0. So we meet one above it, unless SHUNT_PORT says where.
 */
static enum shunt_status read_torch_port(struct bootstrap *bootstrap)
{
	bool is_given = getenv("SHUNT_PORT") != NULL;
	enum shunt_status status;
	long port = 0;

	status = read_number(
		is_given ? "SHUNT_PORT" : "MASTER_PORT", 1, MAX_PORT, &port);
	if (status != SHUNT_OK)
		return status;
	if (!is_given && port == MAX_PORT)
		return error_set(SHUNT_INVALID,
			"MASTER_PORT is %d, and we would meet one above it: "
			"set SHUNT_PORT",
			MAX_PORT);
	bootstrap->port = (uint16_t)(is_given ? port : port + 1);
	return SHUNT_OK;
}

static enum shunt_status locate_by_torch(
	const struct family *family, struct bootstrap *bootstrap)
{
	const char *host = getenv("MASTER_ADDR");
	enum shunt_status status;

	if (!host || !getenv("MASTER_PORT"))
		return error_set(SHUNT_INVALID,
			"%s is not set, but %s is: set all of RANK, "
			"WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or none",
			host ? "MASTER_PORT" : "MASTER_ADDR", family->rank);
	if (!is_host_name(host) && !is_ipv6(host))
		return error_set(SHUNT_INVALID,
			"MASTER_ADDR is \"%s\", must be a host name or "
			"address",
			host);
	status = copy_text(bootstrap->address, sizeof(bootstrap->address), host,
		1, "MASTER_ADDR");
	if (status != SHUNT_OK)
		return status;
	return read_torch_port(bootstrap);
}

/* In the order in which they count. */
static const struct family families[] = {
	{
		.name = "Shunt",
		.rank = "SHUNT_RANK",
		.size = "SHUNT_NUM_RANKS",
		.locate = locate_by_address,
		.always_locate = true,
	},
	{
		.name = "torchrun",
		.rank = "RANK",
		.size = "WORLD_SIZE",
		.locate = locate_by_torch,
		.always_locate = true,
	},
	{
		.name = "Open MPI",
		.rank = "OMPI_COMM_WORLD_RANK",
		.size = "OMPI_COMM_WORLD_SIZE",
		.locate = locate_by_address,
	},
	{
		.name = "Hydra",
		.rank = "PMI_RANK",
		.size = "PMI_SIZE",
		.locate = locate_by_address,
	},
	{
		.name = "Slurm",
		.rank = "SLURM_PROCID",
		.size = "SLURM_NTASKS",
		.locate = locate_by_address,
	},
};
#define NUM_FAMILIES (sizeof(families) / sizeof(families[0]))
#define OWN_FAMILY   (&families[0])

static bool is_present(const struct family *family)
{
	return getenv(family->rank) != NULL;
}

static enum shunt_status read_place(
	const struct family *family, int32_t *rank, int32_t *num_ranks)
{
	enum shunt_status status;
	long value;

	if (!getenv(family->size))
		return error_set(SHUNT_INVALID,
			"%s is not set, but %s is: set both or none",
			family->size, family->rank);
	status = read_number(family->size, 1, BOOTSTRAP_MAX_RANKS, &value);
	if (status != SHUNT_OK)
		return status;
	*num_ranks = (int32_t)value;
	status = read_number(family->rank, 0, value - 1, &value);
	*rank = (int32_t)value;
	return status;
}

/* Checks that a later family says the same as the one that was taken. */
static enum shunt_status compare(const struct family *taken,
	const struct bootstrap *bootstrap, const struct family *other)
{
	int32_t rank;
	int32_t num_ranks;
	enum shunt_status status = read_place(other, &rank, &num_ranks);

	if (status != SHUNT_OK)
		return status;
	if (rank == bootstrap->rank && num_ranks == bootstrap->num_ranks)
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"%s=%d, %s=%d and %s=%d, %s=%d disagree: unset one pair, or "
		"set SHUNT_RANK, SHUNT_NUM_RANKS and SHUNT_ADDRESS",
		taken->rank, bootstrap->rank, taken->size, bootstrap->num_ranks,
		other->rank, rank, other->size, num_ranks);
}

static enum shunt_status take_family(
	const struct family *family, struct bootstrap *bootstrap)
{
	enum shunt_status status =
		read_place(family, &bootstrap->rank, &bootstrap->num_ranks);

	if (status != SHUNT_OK)
		return status;
	bootstrap->kind = BOOTSTRAP_TCP;
	snprintf(bootstrap->origin, sizeof(bootstrap->origin), "%s's variables",
		family->name);
	if (bootstrap->num_ranks == 1 && !family->always_locate)
		return SHUNT_OK;
	return family->locate(family, bootstrap);
}

static enum shunt_status resolve_environment(struct bootstrap *bootstrap)
{
	const struct family *taken = NULL;
	enum shunt_status status = SHUNT_OK;

	for (size_t i = 0; i < NUM_FAMILIES && status == SHUNT_OK; i++) {
		if (!is_present(&families[i]) || taken == OWN_FAMILY)
			continue;
		if (taken) {
			status = compare(taken, bootstrap, &families[i]);
		} else {
			taken = &families[i];
			status = take_family(taken, bootstrap);
		}
	}
	if (!taken) {
		bootstrap->num_ranks = 1;
		snprintf(bootstrap->origin, sizeof(bootstrap->origin),
			"no launcher");
	}
	return status;
}

/* ---- key and job ------------------------------------------------------- */

static enum shunt_status take_key(
	const struct shunt_world_config *config, struct bootstrap *bootstrap)
{
	const char *variable = getenv("SHUNT_KEY");

	if (config->key)
		return copy_text(bootstrap->key, sizeof(bootstrap->key),
			config->key, 0, "key");
	return copy_text(bootstrap->key, sizeof(bootstrap->key),
		variable ? variable : "", 0, "SHUNT_KEY");
}

/* torchrun numbers its jobs itself; the number counts where it was taken. */
static bool is_torchrun(const struct shunt_world_config *config)
{
	return !config->rendezvous && !is_present(OWN_FAMILY) &&
	       is_present(&families[1]);
}

static enum shunt_status take_job(
	const struct shunt_world_config *config, struct bootstrap *bootstrap)
{
	const char *name = "job";
	const char *text = config->job;

	if (!text) {
		name = "SHUNT_JOB";
		text = getenv(name);
	}
	if (!text && is_torchrun(config)) {
		name = "TORCHELASTIC_RUN_ID";
		text = getenv(name);
	}
	return copy_text(bootstrap->job, sizeof(bootstrap->job),
		text ? text : "", 0, name);
}

enum shunt_status bootstrap_resolve(
	const struct shunt_world_config *config, struct bootstrap *bootstrap)
{
	struct bootstrap found = {.kind = BOOTSTRAP_SINGLE};
	enum shunt_status status;

	if (config->rendezvous)
		status = resolve_config(config, &found);
	else if (config->rank != 0 || config->num_ranks != 0)
		status = error_set(SHUNT_INVALID,
			"rank is %d and num_ranks is %d without a rendezvous, "
			"must be 0: give a rendezvous too, or leave all to the "
			"environment",
			config->rank, config->num_ranks);
	else
		status = resolve_environment(&found);
	if (status == SHUNT_OK)
		status = take_key(config, &found);
	if (status == SHUNT_OK)
		status = take_job(config, &found);
	if (status != SHUNT_OK)
		return status;
	if (found.num_ranks == 1)
		found.kind = BOOTSTRAP_SINGLE;
	*bootstrap = found;
	return SHUNT_OK;
}
