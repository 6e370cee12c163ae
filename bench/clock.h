/* CLOCK_MONOTONIC, which the bench measures and waits by: ranks of a host share
 * it. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline double clock_seconds(void)
{
	return (double)clock_ns() * 1e-9;
}

#endif
