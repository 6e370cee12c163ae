/* Count, pack, exchange, unpack; step.h draws what travels. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "rows.h"
#include "step.h"

/* ---- memory ----------------------------------------------------------- */

static int64_t aligned(int64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

void *step_memory(int64_t bytes)
{
	void *memory = aligned_alloc(64, (size_t)aligned(bytes + 1));

	if (!memory) {
		fprintf(stderr, "peers: no memory for %lld bytes\n",
			(long long)bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
		exit(1);
	}
	memset(memory, 0, (size_t)bytes);
	return memory;
}

/* Room for a block of each rank, as sent or as answered. */
static struct side make_side(const struct shape *shape, int64_t most_rows)
{
	int64_t row_bytes = 2 * shape->hidden + (int64_t)sizeof(float) +
			    (int64_t)sizeof(struct source);
	int64_t bytes = most_rows * row_bytes + shape->num_ranks * 3 * 64;
	int64_t list_bytes = shape->num_ranks * (int64_t)sizeof(int);

	if (bytes > INT_MAX) {
		fprintf(stderr,
			"peers: %lld bytes of a rank are more than MPI's int "
			"counts can say; fewer tokens need less\n",
			(long long)bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return (struct side){
		.memory = step_memory(bytes),
		.bytes = step_memory(list_bytes),
		.at = step_memory(list_bytes),
	};
}

void step_init(struct step *step, const struct shape *shape, int64_t most_rows)
{
	int64_t num_choices = shape->tokens * shape->topk;
	int64_t num_counts = shape->experts + shape->num_ranks;

	*step = (struct step){
		.shape = *shape,
		.local_experts = shape->experts / shape->num_ranks,
		.row_bytes = shape->hidden * (shape->int8 ? 1 : 2),
		.send_counts = step_memory(num_counts * 4),
		.recv_counts = step_memory(num_counts * 4),
		.send_tokens = step_memory(shape->num_ranks * 8),
		.recv_tokens = step_memory(shape->num_ranks * 8),
		.send_choices = step_memory(shape->num_ranks * 8),
		.recv_choices = step_memory(shape->num_ranks * 8),
		.next = step_memory(shape->experts * 8),
		.places = step_memory(num_choices * 8),
		.sent = make_side(shape, num_choices),
		.received = make_side(shape, most_rows),
		.quantized = step_memory(shape->hidden),
		.chosen = step_memory(shape->topk * 8),
		.blocks = step_memory(
			shape->num_ranks * (int64_t)sizeof(struct block)),
		.cursor = step_memory(shape->num_ranks * 8),
		.requests = step_memory(
			2 * shape->num_ranks * (int64_t)sizeof(MPI_Request)),
		.statuses = step_memory(
			2 * shape->num_ranks * (int64_t)sizeof(MPI_Status)),
		.scales = step_memory(most_rows * 4),
		.sources =
			step_memory(most_rows * (int64_t)sizeof(struct source)),
		.y = step_memory(most_rows * shape->hidden * 2),
	};
	step->rows = step_memory(most_rows * step->row_bytes);
}

static void free_side(struct side *side)
{
	free(side->memory);
	free(side->bytes);
	free(side->at);
}

void step_fini(struct step *step)
{
	free_side(&step->sent);
	free_side(&step->received);
	free(step->send_counts);
	free(step->recv_counts);
	free(step->send_tokens);
	free(step->recv_tokens);
	free(step->send_choices);
	free(step->recv_choices);
	free(step->next);
	free(step->places);
	free(step->quantized);
	free(step->chosen);
	free(step->blocks);
	free(step->cursor);
	free(step->requests);
	free(step->statuses);
	free(step->rows);
	free(step->scales);
	free(step->sources);
	free(step->y);
}

/* ---- where things lie in a block -------------------------------------- */

static struct block block_at(const struct step *step, uint8_t *start,
	int64_t num_tokens, int64_t num_choices)
{
	int64_t scales = aligned(num_tokens * step->row_bytes);
	int64_t sources =
		scales + (step->shape.int8 ? aligned(num_tokens * 4) : 0);
	int64_t bytes = aligned(num_choices * (int64_t)sizeof(struct source));

	return (struct block){
		.rows = start,
		.scales = (float *)(void *)(start + scales),
		.sources = (struct source *)(void *)(start + sources),
		.bytes = sources + bytes,
	};
}

/* Blocks with rows, scales and sources; nothing is sent to ourselves. */
static void lay_out_blocks(const struct step *step, struct side *side,
	const int64_t *tokens, const int64_t *choices)
{
	int64_t at = 0;

	for (int r = 0; r < step->shape.num_ranks; r++) {
		int64_t bytes =
			block_at(step, side->memory, tokens[r], choices[r])
				.bytes;

		side->at[r] = (int)at;
		side->bytes[r] = r == step->shape.rank ? 0 : (int)bytes;
		at += bytes;
	}
}

/* Blocks with nothing but the experts' rows. */
static void lay_out_answers(
	const struct step *step, struct side *side, const int64_t *choices)
{
	int64_t at = 0;

	for (int r = 0; r < step->shape.num_ranks; r++) {
		int64_t bytes = choices[r] * step->shape.hidden * 2;

		side->at[r] = (int)at;
		side->bytes[r] = r == step->shape.rank ? 0 : (int)bytes;
		at += bytes;
	}
}

/* Block of a rank; the own one lies where it was packed. */
static uint8_t *find_block(const struct step *step, const struct side *packed,
	const struct side *arrived, int rank)
{
	const struct side *side = rank == step->shape.rank ? packed : arrived;

	return side->memory + side->at[rank];
}

/* ---- dispatch --------------------------------------------------------- */

/* Own choices of each expert, and own tokens with any expert of a rank. */
static void count_own(struct step *step, const int32_t *ids)
{
	const struct shape *shape = &step->shape;
	int64_t num_counts = shape->num_ranks * (step->local_experts + 1);
	int64_t *last = step->cursor;

	memset(step->send_counts, 0, (size_t)num_counts * 4);
	for (int r = 0; r < shape->num_ranks; r++)
		last[r] = -1;
	for (int64_t i = 0; i < shape->tokens * shape->topk; i++) {
		int r = (int)(ids[i] / step->local_experts);
		int32_t *counts =
			step->send_counts + r * (step->local_experts + 1);

		counts[ids[i] % step->local_experts]++;
		counts[step->local_experts] += last[r] != i / shape->topk;
		last[r] = i / shape->topk;
	}
}

static void count(struct step *step, const int32_t *ids)
{
	int64_t local = step->local_experts;
	int num_counts = (int)local + 1;

	count_own(step, ids);
	MPI_Alltoall(step->send_counts, num_counts, MPI_INT32_T,
		step->recv_counts, num_counts, MPI_INT32_T, MPI_COMM_WORLD);
	for (int r = 0; r < step->shape.num_ranks; r++) {
		const int32_t *sent = step->send_counts + r * num_counts;
		const int32_t *received = step->recv_counts + r * num_counts;

		step->send_choices[r] = 0;
		step->recv_choices[r] = 0;
		for (int64_t l = 0; l < local; l++) {
			step->next[r * local + l] = step->send_choices[r];
			step->send_choices[r] += sent[l];
			step->recv_choices[r] += received[l];
		}
		step->send_tokens[r] = sent[local];
		step->recv_tokens[r] = received[local];
	}
}

/* Sets step->blocks to what is packed, empty yet. */
static void open_blocks(struct step *step)
{
	int64_t first = 0;

	for (int r = 0; r < step->shape.num_ranks; r++) {
		struct block *block = &step->blocks[r];

		*block = block_at(step, step->sent.memory + step->sent.at[r],
			step->send_tokens[r], step->send_choices[r]);
		block->first = first;
		block->last_token = -1;
		first += step->send_choices[r];
	}
}

/* A token's row, once for each rank that has experts of its. */
static void pack_token(struct step *step, const int32_t *ids, int64_t token,
	const void *row, float scale)
{
	int64_t topk = step->shape.topk;

	for (int64_t k = 0; k < topk; k++) {
		int64_t place = step->next[ids[k]]++;
		struct block *block =
			&step->blocks[ids[k] / step->local_experts];

		if (block->last_token != token) {
			memcpy(block->rows +
					block->num_tokens * step->row_bytes,
				row, (size_t)step->row_bytes);
			if (step->shape.int8)
				block->scales[block->num_tokens] = scale;
			block->num_tokens++;
			block->last_token = token;
		}
		block->sources[place] = (struct source){(int32_t)token,
			(int32_t)k, (int32_t)block->num_tokens - 1};
		step->places[token * topk + k] = block->first + place;
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

/* Copies `count` rows of a block to the experts' rows from `row` on. */
static void unpack_run(struct step *step, const struct block *block,
	const struct source *sources, int64_t count, int64_t row)
{
	for (int64_t i = 0; i < count; i++) {
		int32_t from = sources[i].row;

		memcpy(step->rows + (row + i) * step->row_bytes,
			block->rows + from * step->row_bytes,
			(size_t)step->row_bytes);
		if (step->shape.int8)
			step->scales[row + i] = block->scales[from];
		step->sources[row + i] = sources[i];
	}
}

static void unpack(struct step *step)
{
	const struct shape *shape = &step->shape;
	struct block *blocks = step->blocks;
	int64_t row = 0;

	for (int r = 0; r < shape->num_ranks; r++)
		blocks[r] = block_at(step,
			find_block(step, &step->sent, &step->received, r),
			step->recv_tokens[r], step->recv_choices[r]);
	for (int64_t l = 0; l < step->local_experts; l++)
		for (int r = 0; r < shape->num_ranks; r++) {
			int64_t run = step_run(step, r, l);

			unpack_run(
				step, &blocks[r], blocks[r].sources, run, row);
			blocks[r].sources += run;
			row += run;
		}
	step->num_rows = row;
}

void step_dispatch(struct step *step, const struct input *input)
{
	count(step, input->ids);
	lay_out_blocks(
		step, &step->sent, step->send_tokens, step->send_choices);
	lay_out_blocks(
		step, &step->received, step->recv_tokens, step->recv_choices);
	pack(step, input);
	exchange_bytes(step, &step->sent, &step->received);
	unpack(step);
}

/* ---- combine ---------------------------------------------------------- */

/* Brings the experts' rows into the order in which they came. */
static void pack_answers(struct step *step)
{
	int64_t answer_bytes = step->shape.hidden * 2;
	const uint8_t *y = (const uint8_t *)step->y;

	for (int r = 0; r < step->shape.num_ranks; r++)
		step->cursor[r] = step->received.at[r];
	for (int64_t l = 0; l < step->local_experts; l++)
		for (int r = 0; r < step->shape.num_ranks; r++) {
			int64_t bytes = step_run(step, r, l) * answer_bytes;

			memcpy(step->received.memory + step->cursor[r], y,
				(size_t)bytes);
			step->cursor[r] += bytes;
			y += bytes;
		}
}

/* The answer to a choice; the own rank's answers lie where they were packed. */
static const uint16_t *find_answer(
	const struct step *step, int64_t rank, int64_t place)
{
	const uint8_t *block =
		find_block(step, &step->received, &step->sent, (int)rank);

	/* places[] counts from the first rank's block. */
	return (const uint16_t *)(const void *)(block - step->sent.at[rank]) +
	       place * step->shape.hidden;
}

static void sum_answers(
	struct step *step, const struct input *input, uint16_t *out)
{
	const struct shape *shape = &step->shape;

	for (int64_t t = 0; t < shape->tokens; t++) {
		for (int64_t k = 0; k < shape->topk; k++) {
			int64_t choice = t * shape->topk + k;

			step->chosen[k] = find_answer(step,
				input->ids[choice] / step->local_experts,
				step->places[choice]);
		}
		rows_sum(step->chosen, input->weights + t * shape->topk,
			shape->topk, shape->hidden, out + t * shape->hidden);
	}
}

void step_combine(struct step *step, const struct input *input, uint16_t *out)
{
	lay_out_answers(step, &step->received, step->recv_choices);
	lay_out_answers(step, &step->sent, step->send_choices);
	pack_answers(step);
	exchange_bytes(step, &step->received, &step->sent);
	sum_answers(step, input, out);
}
