/*
 * Ways: a test's function run on worlds over several hosts, by each algorithm,
 * with each kind of wire in turn, and by each launch that can be on hosts here
 * (hosts.h). Skips the running test where none can.
 */
#ifndef SUPPORT_WAYS_H
#define SUPPORT_WAYS_H

#include "support/ranks.h"

/* What the function finds as its seat's context. */
struct way {
	enum shunt_algorithm algorithm; /* FULLMESH or HIERARCHY */
	const void *context;
	ranks_function function; /* ways_run()'s */
	char hosts[16];
	enum ranks_wire wire;
};

/* `host_lists` is lists as of hosts_parse(), with blanks between them. */
void ways_run(
	const char *host_lists, ranks_function function, const void *context);

/* The way that the seat's rank runs. */
const struct way *way_of(const struct seat *seat);

#endif
