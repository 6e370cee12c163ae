/*
 * Which members of an exchange share a host. Hosts are numbered by their lowest
 * members.
 */
#ifndef EXCHANGE_HOSTS_H
#define EXCHANGE_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/status.h>

struct shunt_group;

struct hosts {
	int32_t num_hosts;
	int32_t num_members;
	int32_t *host;   /* [num_members] */
	int32_t *number; /* [num_members]: among the members of its host */
	int32_t *size;   /* [num_hosts]: members of it */
};

/* Of the members of a group. Owes hosts_fini(), also on error. Errors:
 * NO_MEMORY. */
enum shunt_status hosts_of_group(
	struct hosts *hosts, const struct shunt_group *group);

/* Of ranks in blocks of `per_host` (0: all on one host), tp_size times. Errors:
 * INVALID, NO_MEMORY. */
enum shunt_status hosts_of_blocks(struct hosts *hosts, int32_t num_ranks,
	int32_t tp_size, int32_t per_host);

void hosts_fini(struct hosts *hosts);

static inline bool hosts_span(const struct hosts *hosts)
{
	return hosts->num_hosts > 1;
}

static inline bool hosts_share(const struct hosts *hosts, int32_t a, int32_t b)
{
	return hosts->host[a] == hosts->host[b];
}

#endif
