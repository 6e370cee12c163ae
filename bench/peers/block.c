/* Where things lie in a block, and blocks in a side. */
#include "block.h"

static int64_t aligned(int64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Where the parts of a block begin, and its end. */
struct offsets {
	int64_t counts, rows, scales, sources, end;
};

static struct offsets offsets_of(
	const struct shape *shape, int64_t tokens, int64_t choices)
{
	struct offsets at = {.counts = (int64_t)sizeof(struct sizes)};

	at.rows = aligned(at.counts + shape->local_experts * 4);
	at.scales = at.rows + aligned(tokens * shape->row_bytes);
	at.sources = at.scales + (shape->int8 ? aligned(tokens * 4) : 0);
	at.end = at.sources + aligned(choices * (int64_t)sizeof(struct source));
	return at;
}

int64_t block_bytes(const struct shape *shape, int64_t tokens, int64_t choices)
{
	return offsets_of(shape, tokens, choices).end;
}

struct block block_at(const struct shape *shape, uint8_t *start, int64_t tokens,
	int64_t choices)
{
	struct offsets at = offsets_of(shape, tokens, choices);

	return (struct block){
		.sizes = (struct sizes *)(void *)start,
		.counts = (int32_t *)(void *)(start + at.counts),
		.rows = start + at.rows,
		.scales = (float *)(void *)(start + at.scales),
		.sources = (struct source *)(void *)(start + at.sources),
	};
}

/* Appends a part for rank `r`; returns where the next one begins. */
static int64_t append(const struct shape *shape, struct side *side, int r,
	int64_t at, int64_t bytes)
{
	side->at[r] = (int)at;
	side->bytes[r] = r == shape->rank ? 0 : (int)bytes;
	return at + bytes;
}

void block_lay_out(
	const struct shape *shape, struct side *side, const struct sizes *sizes)
{
	int64_t at = 0;

	for (int r = 0; r < shape->num_ranks; r++)
		at = append(shape, side, r, at,
			block_bytes(shape, sizes[r].tokens, sizes[r].choices));
}

void block_lay_out_slots(const struct step *step, struct side *side)
{
	int64_t at = 0;

	for (int r = 0; r < step->shape.num_ranks; r++)
		at = append(&step->shape, side, r, at, step->slot_bytes);
}

void block_lay_out_answers(
	const struct shape *shape, struct side *side, const struct sizes *sizes)
{
	int64_t at = 0;

	for (int r = 0; r < shape->num_ranks; r++) {
		int64_t rows = r == shape->rank ? 0 : sizes[r].choices;

		at = append(shape, side, r, at, rows * shape->hidden * 2);
	}
}
