/* Count, pack, exchange, unpack; step.h draws what travels. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "step.h"

#define TAG 1

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

	*step = (struct step){
		.shape = *shape,
		.local_experts = shape->experts / shape->num_ranks,
		.row_bytes = shape->hidden * (shape->int8 ? 1 : 2),
		.send_counts = step_memory(shape->experts * 4),
		.recv_counts = step_memory(shape->experts * 4),
		.send_rows = step_memory(shape->num_ranks * 8),
		.recv_rows = step_memory(shape->num_ranks * 8),
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
	free(step->send_rows);
	free(step->recv_rows);
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

/* ---- the exchange of bytes -------------------------------------------- */

static void exchange_pairwise(const struct shape *shape,
	const struct side *from, const struct side *to)
{
	for (int i = 1; i < shape->num_ranks; i++) {
		int next = (shape->rank + i) % shape->num_ranks;
		int last =
			(shape->rank + shape->num_ranks - i) % shape->num_ranks;

		MPI_Sendrecv(from->memory + from->at[next], from->bytes[next],
			MPI_BYTE, next, TAG, to->memory + to->at[last],
			to->bytes[last], MPI_BYTE, last, TAG, MPI_COMM_WORLD,
			MPI_STATUS_IGNORE);
	}
}

static void exchange_isend(
	const struct step *step, const struct side *from, const struct side *to)
{
	const struct shape *shape = &step->shape;
	int others = shape->num_ranks - 1;
	MPI_Request *requests = step->requests;

	for (int i = 0; i < others; i++) {
		int peer = (shape->rank + 1 + i) % shape->num_ranks;

		MPI_Irecv(to->memory + to->at[peer], to->bytes[peer], MPI_BYTE,
			peer, TAG, MPI_COMM_WORLD, &requests[i]);
	}
	for (int i = 0; i < others; i++) {
		int peer = (shape->rank + 1 + i) % shape->num_ranks;

		MPI_Isend(from->memory + from->at[peer], from->bytes[peer],
			MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
			&requests[others + i]);
	}
	MPI_Waitall(2 * others, requests, step->statuses);
}

static void exchange(
	const struct step *step, const struct side *from, const struct side *to)
{
	switch (step->shape.variant) {
	case VARIANT_PAIRWISE:
		exchange_pairwise(&step->shape, from, to);
		return;
	case VARIANT_ISEND:
		exchange_isend(step, from, to);
		return;
	case VARIANT_ALLTOALLV:
		MPI_Alltoallv(from->memory, from->bytes, from->at, MPI_BYTE,
			to->memory, to->bytes, to->at, MPI_BYTE,
			MPI_COMM_WORLD);
		return;
	}
}

/* ---- where things lie in a block -------------------------------------- */

static struct block block_at(
	const struct step *step, uint8_t *start, int64_t num_rows)
{
	int64_t scales = aligned(num_rows * step->row_bytes);
	int64_t sources =
		scales + (step->shape.int8 ? aligned(num_rows * 4) : 0);
	int64_t bytes = aligned(num_rows * (int64_t)sizeof(struct source));

	return (struct block){
		.rows = start,
		.scales = (float *)(void *)(start + scales),
		.sources = (struct source *)(void *)(start + sources),
		.bytes = sources + bytes,
	};
}

/* Blocks with rows, scales and sources; nothing is sent to ourselves. */
static void lay_out_blocks(
	const struct step *step, struct side *side, const int64_t *rows)
{
	int64_t at = 0;

	for (int r = 0; r < step->shape.num_ranks; r++) {
		int64_t bytes = block_at(step, side->memory, rows[r]).bytes;

		side->at[r] = (int)at;
		side->bytes[r] = r == step->shape.rank ? 0 : (int)bytes;
		at += bytes;
	}
}

/* Blocks with nothing but the experts' rows. */
static void lay_out_answers(
	const struct step *step, struct side *side, const int64_t *rows)
{
	int64_t at = 0;

	for (int r = 0; r < step->shape.num_ranks; r++) {
		int64_t bytes = rows[r] * step->shape.hidden * 2;

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

static void count(struct step *step, const int32_t *ids)
{
	const struct shape *shape = &step->shape;
	int local = (int)step->local_experts;

	memset(step->send_counts, 0, (size_t)shape->experts * 4);
	for (int64_t i = 0; i < shape->tokens * shape->topk; i++)
		step->send_counts[ids[i]]++;
	MPI_Alltoall(step->send_counts, local, MPI_INT32_T, step->recv_counts,
		local, MPI_INT32_T, MPI_COMM_WORLD);
	for (int r = 0; r < shape->num_ranks; r++) {
		step->send_rows[r] = 0;
		step->recv_rows[r] = 0;
		for (int l = 0; l < local; l++) {
			step->next[r * local + l] = step->send_rows[r];
			step->send_rows[r] += step->send_counts[r * local + l];
			step->recv_rows[r] += step->recv_counts[r * local + l];
		}
	}
}

static void pack(struct step *step, const struct input *input)
{
	const struct shape *shape = &step->shape;
	struct block *blocks = step->blocks;
	int64_t *first = step->cursor;
	int64_t total = 0;

	for (int r = 0; r < shape->num_ranks; r++) {
		blocks[r] = block_at(step, step->sent.memory + step->sent.at[r],
			step->send_rows[r]);
		first[r] = total;
		total += step->send_rows[r];
	}
	for (int64_t t = 0; t < shape->tokens; t++) {
		const void *row = input->x + t * shape->hidden;
		float scale = 0;

		if (shape->int8) {
			scale = rows_quantize(
				row, shape->hidden, step->quantized);
			row = step->quantized;
		}
		for (int64_t k = 0; k < shape->topk; k++) {
			int64_t choice = t * shape->topk + k;
			int32_t expert = input->ids[choice];
			int64_t r = expert / step->local_experts;
			int64_t place = step->next[expert]++;

			memcpy(blocks[r].rows + place * step->row_bytes, row,
				(size_t)step->row_bytes);
			if (shape->int8)
				blocks[r].scales[place] = scale;
			blocks[r].sources[place] =
				(struct source){(int32_t)t, (int32_t)k};
			step->places[choice] = first[r] + place;
		}
	}
}

static void unpack(struct step *step)
{
	const struct shape *shape = &step->shape;
	struct block *blocks = step->blocks;
	int64_t *taken = step->cursor;
	int64_t row = 0;

	for (int r = 0; r < shape->num_ranks; r++) {
		blocks[r] = block_at(step,
			find_block(step, &step->sent, &step->received, r),
			step->recv_rows[r]);
		taken[r] = 0;
	}
	for (int64_t l = 0; l < step->local_experts; l++)
		for (int r = 0; r < shape->num_ranks; r++) {
			int64_t run =
				step->recv_counts[r * step->local_experts + l];
			int64_t from = taken[r];

			memcpy(step->rows + row * step->row_bytes,
				blocks[r].rows + from * step->row_bytes,
				(size_t)(run * step->row_bytes));
			if (shape->int8)
				memcpy(step->scales + row,
					blocks[r].scales + from,
					(size_t)run * sizeof(float));
			memcpy(step->sources + row, blocks[r].sources + from,
				(size_t)run * sizeof(struct source));
			taken[r] += run;
			row += run;
		}
	step->num_rows = row;
}

void step_dispatch(struct step *step, const struct input *input)
{
	count(step, input->ids);
	lay_out_blocks(step, &step->sent, step->send_rows);
	lay_out_blocks(step, &step->received, step->recv_rows);
	pack(step, input);
	exchange(step, &step->sent, &step->received);
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
			int64_t bytes =
				step->recv_counts[r * step->local_experts + l] *
				answer_bytes;

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
	lay_out_answers(step, &step->received, step->recv_rows);
	lay_out_answers(step, &step->sent, step->send_rows);
	pack_answers(step);
	exchange(step, &step->received, &step->sent);
	sum_answers(step, input, out);
}
