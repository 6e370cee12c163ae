/* The memory of a step. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "block.h"
#include "memory.h"
#include "step.h"

/* Room for blocks, slots of the largest block, or `most_rows` answers. */
static struct side make_side(
	const struct step *step, int64_t blocks_bytes, int64_t most_rows)
{
	const struct shape *shape = &step->shape;
	int64_t answers = most_rows * shape->hidden * 2;
	int64_t bytes = blocks_bytes > answers ? blocks_bytes : answers;

	if (bytes > INT_MAX) {
		fprintf(stderr,
			"%lld bytes of a rank are more than MPI's int counts "
			"can say; fewer --tokens need less\n",
			(long long)bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return (struct side){
		.memory = memory_take(bytes),
		.bytes = memory_take(shape->num_ranks * 4),
		.at = memory_take(shape->num_ranks * 4),
	};
}

static void take_lists(struct step *step)
{
	const struct shape *shape = &step->shape;
	int64_t ranks = shape->num_ranks;
	/* An answer from each expert, and from each of ours to each rank. */
	int64_t most_requests = 2 * (shape->experts + ranks);

	step->send_sizes = memory_take(ranks * (int64_t)sizeof(struct sizes));
	step->recv_sizes = memory_take(ranks * (int64_t)sizeof(struct sizes));
	step->send_counts = memory_take(shape->experts * 4);
	step->blocks = memory_take(ranks * (int64_t)sizeof(struct block));
	step->last_token = memory_take(ranks * 8);
	step->next = memory_take(shape->experts * 8);
	step->run_first = memory_take(shape->experts * 8);
	step->run_count = memory_take(shape->experts * 8);
	step->run_next = memory_take(shape->experts * 8);
	step->answers = memory_take(shape->tokens * shape->topk * 8);
	step->quantized = memory_take(shape->hidden);
	step->chosen = memory_take(shape->topk * 8);
	step->requests =
		memory_take(most_requests * (int64_t)sizeof(MPI_Request));
	step->statuses =
		memory_take(most_requests * (int64_t)sizeof(MPI_Status));
}

void step_init(struct step *step, const struct shape *shape, int64_t most_rows)
{
	int64_t choices = shape->tokens * shape->topk;
	int64_t largest = block_bytes(shape, shape->tokens, choices);
	int64_t most_sent = shape->num_ranks * largest;

	*step = (struct step){.shape = *shape};
	take_lists(step);
	step->slot_bytes = largest;
	step->sent = make_side(step, most_sent, choices);
	step->received = make_side(step, most_sent, most_rows);
	step->rows = memory_take(most_rows * shape->row_bytes);
	step->scales = memory_take(most_rows * 4);
	step->sources = memory_take(most_rows * (int64_t)sizeof(struct source));
	step->y = memory_take(most_rows * shape->hidden * 2);
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
	free(step->send_sizes);
	free(step->recv_sizes);
	free(step->send_counts);
	free(step->blocks);
	free(step->last_token);
	free(step->next);
	free(step->run_first);
	free(step->run_count);
	free(step->run_next);
	free(step->answers);
	free(step->quantized);
	free(step->chosen);
	free(step->requests);
	free(step->statuses);
	free(step->rows);
	free(step->scales);
	free(step->sources);
	free(step->y);
}
