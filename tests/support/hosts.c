/* One machine as several hosts; see hosts.h. */
#include "support/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_verbs.h"
#include "support/interfaces.h"

/* ---- which there are -------------------------------------------------- */

/* The addresses of real devices, or NULL: then it is the simulator's. */
static const char *real_addresses(void)
{
	const char *list = getenv("SHUNT_TEST_RDMA");

	return list != NULL && list[0] != '\0' ? list : NULL;
}

/* Copies item `index` of a list to item; false if there is none. */
static bool item_at(const char *list, int32_t index, char *item, size_t bytes)
{
	for (; index > 0 && list != NULL; index--) {
		list = strchr(list, ',');
		list = list == NULL ? NULL : list + 1;
	}
	if (list == NULL)
		return false;
	snprintf(item, bytes, "%.*s", (int)strcspn(list, ","), list);
	return true;
}

bool hosts_can(enum ranks_launch launch, int32_t num_hosts)
{
	char item[64];

	if (real_addresses() != NULL)
		return item_at(
			real_addresses(), num_hosts - 1, item, sizeof(item));
	return launch == RANKS_THREADS && num_hosts <= HOSTS_MAX;
}

int32_t hosts_count(const int32_t *hosts, int32_t num_ranks)
{
	int32_t most = 0;

	for (int32_t r = 0; hosts != NULL && r < num_ranks; r++)
		if (hosts[r] > most)
			most = hosts[r];
	return most + 1;
}

bool hosts_parse(const char *text, int32_t num_ranks, int32_t *hosts)
{
	if (strlen(text) != (size_t)num_ranks)
		return false;
	for (int32_t r = 0; r < num_ranks; r++) {
		hosts[r] = text[r] - '0';
		if (hosts[r] < 0 || hosts[r] >= HOSTS_MAX)
			return false;
	}
	return true;
}

/* ---- the simulator ---------------------------------------------------- */

static int devices_per_host(const struct ranks_plan *plan)
{
	return plan->wire == RANKS_STRIPED ? 2 : 1;
}

static void fill_device(const struct ranks_plan *plan, int number,
	char name[24], char address[24], struct fake_device_config *device)
{
	snprintf(name, 24, "fake%d", number);
	snprintf(address, 24, "10.0.0.%d", number + 1);
	device->name = name;
	device->address = address;
	device->host = number / devices_per_host(plan);
	device->iwarp = plan->wire == RANKS_IWARP;
	if (plan->wire == RANKS_NARROW) {
		device->max_inline = -1;
		device->max_queue = 64;
		device->max_sge = 1;
		device->relaxed = true;
	}
}

void hosts_start(const struct ranks_plan *plan)
{
	char names[FAKE_MAX_DEVICES][24], addresses[FAKE_MAX_DEVICES][24];
	const char *list[FAKE_MAX_DEVICES];
	struct fake_config config = {.policy = FAKE_RANDOM, .seed = 20250101};

	if (plan->hosts == NULL || real_addresses() != NULL)
		return;
	config.num_devices = devices_per_host(plan) *
			     hosts_count(plan->hosts, plan->num_ranks);
	for (int d = 0; d < config.num_devices; d++) {
		fill_device(
			plan, d, names[d], addresses[d], &config.devices[d]);
		list[d] = addresses[d];
	}
	interfaces_set(list, config.num_devices);
	fake_verbs_start(&config);
}

const char *hosts_finish(const struct ranks_plan *plan)
{
	static char words[96];
	int wrong;

	if (plan->hosts == NULL || real_addresses() != NULL)
		return NULL;
	wrong = fake_verbs_finish();
	snprintf(words, sizeof(words),
		"the simulator saw %d misuses and objects that are left",
		wrong);
	return wrong == 0 ? NULL : words;
}

void hosts_check(struct seat *seat)
{
	if (seat->hosts != NULL && real_addresses() == NULL)
		SEAT_CHECK(seat, fake_verbs_misuses() == 0,
			"the simulator saw %d misuses", fake_verbs_misuses());
}

/* ---- seats ------------------------------------------------------------ */

static void find_device(const struct ranks_plan *plan, struct seat *seat)
{
	int first = seat->host * devices_per_host(plan);
	size_t bytes = sizeof(seat->rdma);

	if (real_addresses() != NULL) {
		item_at(real_addresses(), seat->host, seat->rdma, bytes);
		seat->config.rdma_address = seat->rdma;
	} else {
		snprintf(seat->rdma, bytes, "fake%d", first);
		if (plan->wire == RANKS_STRIPED)
			snprintf(seat->rdma, bytes, "fake%d,fake%d", first,
				first + 1);
		seat->config.rdma_device = seat->rdma;
	}
}

void hosts_take(const struct ranks_plan *plan, struct seat *seat)
{
	if (plan->hosts == NULL)
		return;
	seat->hosts = plan->hosts;
	seat->host = plan->hosts[seat->rank];
	snprintf(seat->host_id, sizeof(seat->host_id), "host %d", seat->host);
	seat->config.host_id = seat->host_id;
	find_device(plan, seat);
	if (plan->wire == RANKS_STRIPED)
		seat->config.rdma_lanes = 3;
	if (plan->wire == RANKS_NARROW)
		seat->config.rdma_queue_depth = 4;
	if (real_addresses() == NULL)
		fake_verbs_host(seat->host);
}
