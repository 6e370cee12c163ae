/* The ranks of `shunt bench`, as threads or as forked processes. */
#ifndef BENCH_LAUNCH_H
#define BENCH_LAUNCH_H

#include <stdint.h>

enum launch_kind { LAUNCH_THREADS, LAUNCH_PROCESSES };

struct launch {
	enum launch_kind kind;
	int32_t num_ranks;
	void *context;
	/* The life of a rank; returns 0 if all went well. */
	int (*body)(void *context, int32_t rank);
	/* Called every 100 ms or so, in the launching thread. */
	void (*tick)(void *context);
	/*
	 * Called in the launching thread for each rank that is seen to have
	 * failed, with what body returned or 128 + the signal. Ranks that are
	 * processes and have not ended `grace` seconds after the first failure
	 * are killed; threads cannot be, and are waited for.
	 */
	void (*failed)(void *context, int32_t rank, int status);
	double grace;
};

/* Runs the ranks to their end. Returns 0 if all went well, else -1; errno is
 * 0 then, or says why the ranks could not be started. */
int launch_run(const struct launch *launch);

#endif
