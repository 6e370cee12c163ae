/*
 * Cases of the sweep (support/sweep.h) by a rank that a launcher has started,
 * over whatever hosts the ranks are on:
 *
 *	vm_sweep SEED FIRST COUNT
 *
 * Cases with a table are passed over: their ranks wait for each other in memory
 * that hosts do not have in common.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/launched.h"
#include "support/sweep.h"

struct range {
	uint64_t seed;
	int64_t first, count;
};

static void run_range(struct seat *seat)
{
	const struct range *range = seat->context;
	struct sweep_case sweep;
	int64_t num = 0;

	for (int64_t n = range->first; n < range->first + range->count; n++) {
		seat_label(seat,
			"vm_sweep %" PRIu64 " %" PRId64 " 1: ", range->seed, n);
		SEAT_CHECK(seat,
			sweep_case_init(&sweep, range->seed, seat->num_ranks,
				seat->hosts, n),
			"no memory");
		if (sweep.num_tables == 0) {
			printf("case %" PRId64 "\n", n);
			sweep_run(seat, &sweep);
			num++;
		}
		sweep_case_fini(&sweep);
	}
	printf("%" PRId64 " cases equal the reference\n", num);
}

int main(int argc, char **argv)
{
	struct range range;

	/* So that a hang shows where. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4) {
		fprintf(stderr, "vm_sweep SEED FIRST COUNT\n");
		return 2;
	}
	range.seed = strtoull(argv[1], NULL, 0);
	range.first = strtoll(argv[2], NULL, 0);
	range.count = strtoll(argv[3], NULL, 0);
	return launched_run(run_range, &range);
}
