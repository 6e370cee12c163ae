/* Hosts of members; see hosts.h. */
#include "exchange/hosts.h"

#include <stdlib.h>

#include "base/error.h"
#include "world/group.h"

static enum shunt_status hosts_alloc(struct hosts *hosts, int32_t num_members)
{
	*hosts = (struct hosts){
		.num_members = num_members,
		.host = calloc((size_t)num_members, sizeof(int32_t)),
		.number = calloc((size_t)num_members, sizeof(int32_t)),
		.size = calloc((size_t)num_members, sizeof(int32_t)),
	};
	if (hosts->host && hosts->number && hosts->size)
		return SHUNT_OK;
	return error_set(SHUNT_NO_MEMORY, "no memory for the hosts of %d ranks",
		num_members);
}

void hosts_fini(struct hosts *hosts)
{
	free(hosts->host);
	free(hosts->number);
	free(hosts->size);
	*hosts = (struct hosts){0};
}

static void add_member(struct hosts *hosts, int32_t member, int32_t host)
{
	if (host == hosts->num_hosts)
		hosts->num_hosts++;
	hosts->host[member] = host;
	hosts->number[member] = hosts->size[host]++;
}

/* Members with the same name are on one host; makes numbers of names. */
static void number_hosts(struct hosts *hosts, const int32_t *name)
{
	for (int32_t i = 0; i < hosts->num_members; i++) {
		int32_t first = 0;

		while (name[first] != name[i])
			first++;
		add_member(hosts, i,
			first < i ? hosts->host[first] : hosts->num_hosts);
	}
}

enum shunt_status hosts_of_group(
	struct hosts *hosts, const struct shunt_group *group)
{
	int32_t *name = calloc((size_t)group->size, sizeof(*name));
	enum shunt_status status = hosts_alloc(hosts, group->size);

	if (!name && status == SHUNT_OK)
		status = error_set(SHUNT_NO_MEMORY,
			"no memory for the hosts of %d ranks", group->size);
	for (int32_t i = 0; i < group->size && !status; i++)
		name[i] = group->peers[i]->host;
	if (status == SHUNT_OK)
		number_hosts(hosts, name);
	free(name);
	return status;
}

enum shunt_status hosts_of_blocks(struct hosts *hosts, int32_t num_ranks,
	int32_t tp_size, int32_t per_host)
{
	enum shunt_status status;

	if (per_host < 0 || per_host > num_ranks)
		return error_set(SHUNT_INVALID,
			"ranks_per_host is %d, must be 0 .. %d, the number of "
			"ranks",
			per_host, num_ranks);
	status = hosts_alloc(hosts, num_ranks * tp_size);
	for (int32_t i = 0; i < num_ranks * tp_size && !status; i++)
		add_member(hosts, i, per_host ? i % num_ranks / per_host : 0);
	return status;
}
