/* What the variables of launchers say about a job, by the rules of
 * shunt_world_create() in shunt/world.h. */
#ifndef BENCH_LAUNCHER_H
#define BENCH_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCHER_TEXT_BYTES 320

struct launcher_job {
	const char *family; /* whose variables count; NULL: none is there */
	char seen[128];     /* all families of which there is something */
	int32_t rank;
	int32_t num_ranks;
	/* On this host; -1 and 0 if not told. */
	int32_t local_rank;
	int32_t num_local;
	bool on_many_hosts;
	char host[256]; /* "" where none is needed */
	uint16_t port;
};

/* False with what is wrong, and its remedy, if shunt_world_create() would
 * refuse the variables. `job` has then what is known. */
bool launcher_read(struct launcher_job *job, char wrong[LAUNCHER_TEXT_BYTES],
	char remedy[LAUNCHER_TEXT_BYTES]);

#endif
