/*
 * Placement: which rank holds which unit (MoE expert, or shared expert of a
 * shared rank; see shape.h), and under which local index. A rank numbers its
 * experts by ascending id.
 */
#ifndef EXCHANGE_PLACEMENT_H
#define EXCHANGE_PLACEMENT_H

#include <shunt/shunt.h>

struct placement {
	int32_t num_ranks;
	int64_t num_units;
	int32_t *rank; /* [units] */
	int64_t *
		first; /* [W + 1]: rank r holds order[first[r] .. first[r+1]) */
	int32_t *order; /* [units]: by rank, then number */
};

/* Makes room, for at most so much. Owes placement_fini(), also on error.
 * Errors: NO_MEMORY; `rank` is for the message. */
enum shunt_status placement_alloc(struct placement *placement,
	int32_t num_ranks, int64_t num_units, int32_t rank);
uint64_t placement_bytes(int32_t num_ranks, int64_t num_units);
void placement_fini(struct placement *placement);

/* Fills `first` and `order` from `rank`. */
void placement_order(
	struct placement *placement, int32_t num_ranks, int64_t num_units);

/* `to` has room for what is in `from`. */
void placement_copy(struct placement *to, const struct placement *from);

/*
 * Builds the placement of a config whose counts are sound: MoE experts, then
 * the shared expert of each shared rank. `rank` is for messages. On success
 * the caller owes placement_fini(). Errors: INVALID (names the field),
 * NULL_ARGUMENT, NO_MEMORY.
 */
enum shunt_status placement_init(struct placement *placement,
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks);

static inline int64_t placement_num_local(
	const struct placement *placement, int32_t rank)
{
	return placement->first[rank + 1] - placement->first[rank];
}

#endif
