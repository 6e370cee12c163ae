/* Where things lie in a block, and blocks in a side. */
#ifndef PEERS_BLOCK_H
#define PEERS_BLOCK_H

#include "step.h"

/* Bytes of a block of that many tokens and choices. */
int64_t block_bytes(const struct shape *shape, int64_t tokens, int64_t choices);

struct block block_at(const struct shape *shape, uint8_t *start, int64_t tokens,
	int64_t choices);

/* One block behind the other; the own one has room, and 0 bytes to send. */
void block_lay_out(const struct shape *shape, struct side *side,
	const struct sizes *sizes);

/* Room for the largest block of each rank. */
void block_lay_out_slots(const struct step *step, struct side *side);

/* Nothing but answers to that many choices; none of our own. */
void block_lay_out_answers(const struct shape *shape, struct side *side,
	const struct sizes *sizes);

#endif
