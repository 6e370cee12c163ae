/* Worlds over several hosts, one after another; see ways.h. */
#include "support/ways.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/hosts.h"

const struct way *way_of(const struct seat *seat)
{
	return seat->context;
}

static void go(struct seat *seat)
{
	const struct way *way = way_of(seat);

	seat_label(seat, "hosts %s, algorithm %d, wire %d: ", way->hosts,
		way->algorithm, way->wire);
	way->function(seat);
}

/* False if these ranks cannot be on these hosts here. */
static bool run_launch(enum ranks_launch launch, const struct way *way)
{
	int32_t hosts[sizeof(way->hosts)];
	struct ranks_plan plan = {
		.launch = launch,
		.num_ranks = (int32_t)strlen(way->hosts),
		.context = way,
		.hosts = hosts,
		.wire = way->wire,
	};

	assert_true(hosts_parse(way->hosts, plan.num_ranks, hosts));
	if (!hosts_can(launch, hosts_count(hosts, plan.num_ranks)))
		return false;
	ranks_run(&plan, go);
	return true;
}

void ways_run(
	const char *host_lists, ranks_function function, const void *context)
{
	static int next_wire;
	struct way way = {.function = function, .context = context};
	int used = 0, runs = 0;

	for (; sscanf(host_lists, "%15s%n", way.hosts, &used) == 1;
		host_lists += used)
		for (int a = SHUNT_ALGORITHM_FULLMESH;
			a <= SHUNT_ALGORITHM_HIERARCHY; a++) {
			way.algorithm = (enum shunt_algorithm)a;
			way.wire = (enum ranks_wire)(
				next_wire++ % RANKS_NUM_WIRES);
			for (int l = 0; l < RANKS_NUM_LAUNCHES; l++)
				runs += run_launch((enum ranks_launch)l, &way);
		}
	if (runs == 0)
		skip();
}
