/*
 * Placement: which rank holds which expert, and under which local index. A
 * rank numbers its experts by ascending id.
 */
#ifndef EXCHANGE_PLACEMENT_H
#define EXCHANGE_PLACEMENT_H

#include <shunt/shunt.h>

struct placement {
	int32_t num_ranks;
	int64_t num_experts;
	int32_t *rank; /* [E] */
	int64_t *
		first; /* [W + 1]: rank r holds order[first[r] .. first[r+1]) */
	int32_t *order; /* [E]: experts by rank, then id */
};

/*
 * Builds the tables from a config whose num_experts is sound. `rank` is for
 * messages. Errors: INVALID (names the field), NO_MEMORY.
 */
enum shunt_status placement_init(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks);

void placement_fini(struct placement *placement);

static inline int64_t placement_num_local(
	const struct placement *placement, int32_t rank)
{
	return placement->first[rank + 1] - placement->first[rank];
}

#endif
