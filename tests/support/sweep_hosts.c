/* The hosts of a case: who is on which, and what the exchange must say of it. */
#include <string.h>

#include "support/hosts.h"
#include "support/sweep.h"

/* Ranks of the world on a host. */
static int32_t count_on(
	const struct sweep_case *sweep, const int32_t *hosts, int32_t host)
{
	int32_t count = 0;

	for (int32_t i = 0; i < sweep->num_seats; i++)
		count += hosts[i] == host;
	return count;
}

/* Members anew, each TP group inside a host, host by host. */
static void keep_tp_inside(struct sweep_case *sweep, const int32_t *hosts)
{
	int32_t place = 0;

	for (int32_t h = 0; h < HOSTS_MAX; h++)
		for (int32_t i = 0; i < sweep->num_seats; i++) {
			if (hosts[i] != h)
				continue;
			sweep->members[i] =
				place % sweep->num_tp * sweep->num_ranks +
				place / sweep->num_tp;
			place++;
		}
	sweep->shuffled = true;
}

/* In half of the cases that allow it. */
static bool may_keep_tp_inside(
	const struct sweep_case *sweep, const int32_t *hosts)
{
	if (sweep->num_tp == 1 || !sweep_chance(sweep, DRAW_HOSTS, 2, 50))
		return false;
	for (int32_t h = 0; h < HOSTS_MAX; h++)
		if (count_on(sweep, hosts, h) % sweep->num_tp != 0)
			return false;
	return true;
}

void sweep_draw_hosts(struct sweep_case *sweep, const int32_t *hosts)
{
	sweep->num_hosts = 1;
	if (hosts == NULL)
		return;
	sweep->num_hosts = 0;
	for (int32_t h = 0; h < HOSTS_MAX; h++)
		sweep->num_hosts += count_on(sweep, hosts, h) > 0;
	if (may_keep_tp_inside(sweep, hosts))
		keep_tp_inside(sweep, hosts);
	for (int32_t i = 0; i < sweep->num_seats; i++)
		sweep->hosts[sweep->members[i]] = hosts[i];
}

/* ---- the exchange's info ---------------------------------------------- */

/* Numbered in the order of first members: those that begin before it. */
static int32_t number_of(const struct sweep_case *sweep, int32_t host)
{
	bool seen[HOSTS_MAX] = {false};
	int32_t number = 0;

	for (int32_t m = 0; sweep->hosts[m] != host; m++) {
		number += !seen[sweep->hosts[m]];
		seen[sweep->hosts[m]] = true;
	}
	return number;
}

static void check_algorithm(struct seat *seat, const char *name,
	enum shunt_algorithm asked, enum shunt_algorithm got)
{
	SEAT_CHECK(seat,
		got == SHUNT_ALGORITHM_FULLMESH ||
			got == SHUNT_ALGORITHM_HIERARCHY,
		"%s by algorithm %d", name, got);
	SEAT_CHECK(seat, asked == SHUNT_ALGORITHM_AUTO || got == asked,
		"%s by algorithm %d, not %d", name, got, asked);
}

void sweep_check_info(struct seat *seat, const struct sweep_case *sweep,
	const struct shunt_exchange_info *info)
{
	const struct shunt_exchange_config *config = &sweep->config;
	int32_t host =
		number_of(sweep, sweep->hosts[sweep->members[seat->rank]]);
	bool adds = info->combine == SHUNT_ALGORITHM_HIERARCHY &&
		    !config->exact_sums && sweep->num_hosts > 1;

	SEAT_CHECK(seat,
		info->num_hosts == sweep->num_hosts && info->host == host,
		"host %d of %d, not %d of %d", info->host, info->num_hosts,
		host, sweep->num_hosts);
	SEAT_CHECK(seat, info->adds_partial_sums == adds,
		"adds_partial_sums is %d", info->adds_partial_sums);
	SEAT_CHECK(seat,
		memchr(info->why, '\0', sizeof(info->why)) != info->why,
		"no words why");
	if (sweep->num_hosts == 1)
		return;
	check_algorithm(seat, "dispatch", config->algorithm, info->dispatch);
	check_algorithm(seat, "combine",
		config->exact_sums ? SHUNT_ALGORITHM_AUTO : config->algorithm,
		info->combine);
}
