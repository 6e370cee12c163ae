/* Count, pack, exchange, unpack. */
#include <mpi.h>
#include <string.h>

#include "block.h"
#include "exchange.h"
#include "rows.h"
#include "step.h"

/* ---- counting --------------------------------------------------------- */

static void count(struct step *step, const int32_t *ids)
{
	const struct shape *shape = &step->shape;

	memset(step->send_counts, 0, (size_t)shape->experts * 4);
	for (int r = 0; r < shape->num_ranks; r++) {
		step->send_sizes[r] = (struct sizes){0};
		step->last_token[r] = -1;
	}
	for (int64_t t = 0; t < shape->tokens; t++)
		for (int64_t k = 0; k < shape->topk; k++) {
			int32_t id = ids[t * shape->topk + k];
			int r = step_rank_of(shape, id);

			step->send_counts[id]++;
			step->send_sizes[r].choices++;
			step->send_sizes[r].tokens += step->last_token[r] != t;
			step->last_token[r] = t;
		}
}

/* Answers come home by (expert, token), for each rank on its own. */
static void find_answers(struct step *step)
{
	const struct shape *shape = &step->shape;
	int64_t next = 0;

	for (int64_t e = 0; e < shape->experts; e++) {
		if (step_rank_of(shape, e) == shape->rank)
			continue;
		step->next[e] = next;
		next += step->send_counts[e];
	}
}

/* ---- packing ---------------------------------------------------------- */

static void open_blocks(struct step *step)
{
	const struct shape *shape = &step->shape;
	int64_t local = shape->local_experts;

	for (int r = 0; r < shape->num_ranks; r++) {
		const struct sizes *sizes = &step->send_sizes[r];
		struct block *block = &step->blocks[r];

		*block = block_at(shape, step->sent.memory + step->sent.at[r],
			sizes->tokens, sizes->choices);
		*block->sizes = *sizes;
		memcpy(block->counts, step->send_counts + r * local,
			(size_t)local * 4);
		step->last_token[r] = -1;
	}
}

/* The blocks' parts move on behind what is packed. */
static void pack_row(const struct shape *shape, struct block *block,
	const void *row, float scale)
{
	memcpy(block->rows, row, (size_t)shape->row_bytes);
	block->rows += shape->row_bytes;
	if (shape->int8)
		*block->scales++ = scale;
}

static void pack_token(struct step *step, const int32_t *ids, int64_t token,
	const void *row, float scale)
{
	const struct shape *shape = &step->shape;

	for (int64_t k = 0; k < shape->topk; k++) {
		int r = step_rank_of(shape, ids[k]);
		struct block *block = &step->blocks[r];

		*block->sources++ = (struct source){
			.token = (int32_t)token,
			.choice = (int32_t)k,
			.expert = (int32_t)(ids[k] - r * shape->local_experts),
		};
		if (r != shape->rank)
			step->answers[token * shape->topk + k] =
				step->next[ids[k]]++;
		if (step->last_token[r] == token)
			continue;
		step->last_token[r] = token;
		/* Our own plain rows are read where they are. */
		if (shape->int8 || r != shape->rank)
			pack_row(shape, block, row, scale);
	}
}

static void pack(struct step *step, const struct input *input)
{
	const struct shape *shape = &step->shape;

	open_blocks(step);
	for (int64_t t = 0; t < shape->tokens; t++) {
		const void *row = input->x + t * shape->hidden;
		float scale = 0;

		if (shape->int8) {
			scale = rows_quantize(
				row, shape->hidden, step->quantized);
			row = step->quantized;
		}
		pack_token(step, input->ids + t * shape->topk, t, row, scale);
	}
}

/* ---- unpacking -------------------------------------------------------- */

/* Experts' rows of more bytes than this are no use in a cache: at 235 MB a
 * dispatch takes 0.7 of the time if they are streamed, at 7 MB as long. */
#define STREAM_BYTES (INT64_C(32) << 20)

/* The blocks that we got, of which the own one lies where it was packed. */
static void open_received(struct step *step)
{
	const struct shape *shape = &step->shape;

	for (int r = 0; r < shape->num_ranks; r++) {
		const struct side *side =
			r == shape->rank ? &step->sent : &step->received;
		uint8_t *start = side->memory + side->at[r];
		const struct sizes *sizes = block_at(shape, start, 0, 0).sizes;

		step->recv_sizes[r] = *sizes;
		step->blocks[r] =
			block_at(shape, start, sizes->tokens, sizes->choices);
	}
}

/* The experts' rows lie by (local expert, source rank, token). */
static void place_runs(struct step *step)
{
	const struct shape *shape = &step->shape;
	int64_t row = 0;

	for (int64_t l = 0; l < shape->local_experts; l++)
		for (int r = 0; r < shape->num_ranks; r++) {
			int64_t run = r * shape->local_experts + l;

			step->run_first[run] = row;
			step->run_next[run] = row;
			step->run_count[run] = step->blocks[r].counts[l];
			row += step->run_count[run];
		}
	step->num_rows = row;
}

static void put_row(struct step *step, int64_t to, const uint8_t *row)
{
	int64_t bytes = step->shape.row_bytes;
	uint8_t *place = step->rows + to * bytes;

	if (bytes % 64 == 0 && step->num_rows * bytes > STREAM_BYTES)
		rows_stream(place, row, bytes);
	else
		memcpy(place, row, (size_t)bytes);
}

/* Copies each row of a rank's block to the experts that it is for. */
static void unpack_block(struct step *step, const struct input *input, int r)
{
	const struct shape *shape = &step->shape;
	bool own = r == shape->rank;
	const uint8_t *x = (const uint8_t *)input->x;
	const struct block *block = &step->blocks[r];
	int64_t *next = step->run_next + r * shape->local_experts;
	int64_t row = -1;
	int64_t last = -1;

	for (int64_t i = 0; i < step->recv_sizes[r].choices; i++) {
		struct source source = block->sources[i];
		int64_t to = next[source.expert]++;

		row += source.token != last;
		last = source.token;
		put_row(step, to,
			own && !shape->int8
				? x + source.token * shape->row_bytes
				: block->rows + row * shape->row_bytes);
		if (shape->int8)
			step->scales[to] = block->scales[row];
		step->sources[to] = source;
		if (own)
			step->answers[source.token * shape->topk +
				      source.choice] = to;
	}
}

/* ---- the whole -------------------------------------------------------- */

static void exchange(struct step *step, const struct input *input)
{
	const struct shape *shape = &step->shape;

	if (shape->variant == VARIANT_DIRECT) {
		block_lay_out_slots(step, &step->received);
		exchange_expect_blocks(step);
		pack(step, input);
		exchange_send_blocks(step);
		return;
	}
	exchange_sizes(step);
	block_lay_out(shape, &step->received, step->recv_sizes);
	pack(step, input);
	exchange_bytes(step, &step->sent, &step->received);
}

void step_dispatch(struct step *step, const struct input *input)
{
	count(step, input->ids);
	find_answers(step);
	block_lay_out(&step->shape, &step->sent, step->send_sizes);
	exchange(step, input);
	open_received(step);
	place_runs(step);
	for (int r = 0; r < step->shape.num_ranks; r++)
		unpack_block(step, input, r);
	rows_fence();
}
