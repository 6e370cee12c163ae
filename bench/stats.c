/* Best, median and p99 of a series of times. */
#include <stdlib.h>

#include "stats.h"

static int by_value(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left;
	int64_t b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

static double percentile(const int64_t *sorted, int64_t num, int64_t percent)
{
	int64_t rank = (num * percent + 99) / 100;

	return (double)sorted[rank > 0 ? rank - 1 : 0] / 1000;
}

struct stats stats_of(int64_t *ns, int64_t num)
{
	qsort(ns, (size_t)num, sizeof(ns[0]), by_value);
	return (struct stats){
		.best = percentile(ns, num, 0),
		.p50 = percentile(ns, num, 50),
		.p99 = percentile(ns, num, 99),
	};
}
