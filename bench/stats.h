/* Best, median and p99 of a series of times. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stdint.h>

struct stats {
	double best, p50, p99; /* microseconds */
};

/* Sorts `ns` (num >= 1 times) and takes the nearest ranks: p50 is the
 * ceil(num / 2)-th smallest. */
struct stats stats_of(int64_t *ns, int64_t num);

#endif
