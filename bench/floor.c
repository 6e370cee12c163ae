/* The floor: what it takes to move the bytes of a step with plain copies. */
#include "floor.h"
#include "shared.h"

static int64_t window(const struct floor *floor, int64_t step, int32_t rank)
{
	return (rank * floor->depth + step % floor->depth) * floor->most_rows;
}

uint8_t *floor_sent(const struct floor *floor, int64_t step, int32_t rank)
{
	return floor->sent + window(floor, step, rank) * floor->sent_bytes;
}

uint8_t *floor_experts(const struct floor *floor, int64_t step, int32_t rank)
{
	return floor->experts + window(floor, step, rank) * floor->expert_bytes;
}

bool floor_init(struct floor *floor)
{
	struct shared_layout layout = {.one_process = floor->one_process};
	size_t rows = (size_t)floor->load->num_ranks * (size_t)floor->depth *
		      (size_t)floor->most_rows;
	size_t sent = shared_reserve(&layout, rows, (size_t)floor->sent_bytes);
	size_t experts =
		shared_reserve(&layout, rows, (size_t)floor->expert_bytes);
	size_t scale = shared_reserve(&layout, rows, sizeof(float));

	floor->memory = shared_map(&layout);
	if (!floor->memory)
		return false;
	floor->bytes = layout.bytes;
	floor->num_copies = copies_list(floor->copies);
	floor->sent = shared_at(floor->memory, sent);
	floor->experts = shared_at(floor->memory, experts);
	floor->scale = shared_at(floor->memory, scale);
	return true;
}

void floor_fini(struct floor *floor)
{
	shared_unmap(floor->memory, floor->bytes);
	floor->memory = NULL;
}

/* Reads bytes that no copy has read. */
static void read_only(const uint8_t *from, int64_t num_bytes)
{
	uint64_t sum = 0;

	for (int64_t i = 0; i < num_bytes; i += 64)
		sum += from[i];
	__asm__ volatile("" : : "r"(sum));
}

/*
 * Writes one token's rows. A quantized row is shorter than the token: the
 * copies take turns at the pieces of the token, so that together they read
 * all of it, and what is left over is read in the end.
 */
static void send_token(const struct floor *floor, const struct copies *copies,
	const uint8_t *token, int64_t step, const struct load_target *targets)
{
	int64_t whole = floor->load->x_row_bytes;
	int64_t bytes = floor->sent_bytes;
	int64_t num_pieces = (whole + bytes - 1) / bytes;
	int64_t num_sent = 0;

	for (int64_t k = 0; k < floor->load->topk; k++) {
		int64_t from = num_sent % num_pieces * bytes;
		int64_t row;

		if (targets[k].rank < 0)
			continue;
		row = window(floor, step, targets[k].rank) + targets[k].row;
		if (from > whole - bytes)
			from = whole - bytes;
		copies->copy(
			floor->sent + row * bytes, token + from, (size_t)bytes);
		if (floor->scales)
			floor->scale[row] = 1;
		num_sent++;
	}
	if (num_sent > 0 && num_sent < num_pieces)
		read_only(token + num_sent * bytes, whole - num_sent * bytes);
}

void floor_dispatch(const struct floor *floor, int variant, int64_t step,
	int32_t rank, const struct load_target *targets)
{
	const struct load *load = floor->load;
	const struct copies *copies = &floor->copies[variant];
	const uint8_t *token = load_x(load, step, rank);

	for (int64_t t = 0; t < load->num_tokens; t++)
		send_token(floor, copies, token + t * load->x_row_bytes, step,
			targets + t * load->topk);
	copies->finish();
}

void floor_combine(const struct floor *floor, int variant, int64_t step,
	const struct load_target *targets, const uint8_t **rows, uint8_t *out)
{
	const struct load *load = floor->load;
	const struct copies *copies = &floor->copies[variant];

	for (int64_t t = 0; t < load->num_tokens; t++) {
		int64_t num_rows = 0;

		for (int64_t k = 0; k < load->topk; k++) {
			const struct load_target *to =
				&targets[t * load->topk + k];

			if (to->rank >= 0)
				rows[num_rows++] =
					floor->experts +
					(window(floor, step, to->rank) +
						to->row) *
						floor->expert_bytes;
		}
		copies->merge(out + t * floor->expert_bytes, rows, num_rows,
			(size_t)floor->expert_bytes);
	}
	copies->finish();
}
