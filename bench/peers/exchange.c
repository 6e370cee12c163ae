/* The ways to bring each rank its bytes. */
#include <mpi.h>

#include "exchange.h"

#define TAG 1

void exchange_sizes(struct step *step)
{
	MPI_Alltoall(step->send_sizes, 2, MPI_INT32_T, step->recv_sizes, 2,
		MPI_INT32_T, MPI_COMM_WORLD);
}

/* The `i`-th rank after ours, so that all ranks begin elsewhere. */
static int rank_after(const struct shape *shape, int i)
{
	return (shape->rank + i + shape->num_ranks) % shape->num_ranks;
}

/* ---- blocks of known size --------------------------------------------- */

static void exchange_pairwise(const struct shape *shape,
	const struct side *from, const struct side *to)
{
	for (int i = 1; i < shape->num_ranks; i++) {
		int next = rank_after(shape, i);
		int last = rank_after(shape, -i);

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
	MPI_Request *requests = step->requests;
	int num = 0;

	for (int i = 1; i < shape->num_ranks; i++) {
		int last = rank_after(shape, -i);

		MPI_Irecv(to->memory + to->at[last], to->bytes[last], MPI_BYTE,
			last, TAG, MPI_COMM_WORLD, &requests[num++]);
	}
	for (int i = 1; i < shape->num_ranks; i++) {
		int next = rank_after(shape, i);

		MPI_Isend(from->memory + from->at[next], from->bytes[next],
			MPI_BYTE, next, TAG, MPI_COMM_WORLD, &requests[num++]);
	}
	MPI_Waitall(num, requests, step->statuses);
}

void exchange_bytes(
	const struct step *step, const struct side *from, const struct side *to)
{
	switch (step->shape.variant) {
	case VARIANT_ALLTOALLV:
		MPI_Alltoallv(from->memory, from->bytes, from->at, MPI_BYTE,
			to->memory, to->bytes, to->at, MPI_BYTE,
			MPI_COMM_WORLD);
		return;
	case VARIANT_PAIRWISE:
		exchange_pairwise(&step->shape, from, to);
		return;
	case VARIANT_ISEND:
		exchange_isend(step, from, to);
		return;
	case VARIANT_DIRECT:
		return;
	}
}

/* ---- direct ----------------------------------------------------------- */

void exchange_expect_blocks(struct step *step)
{
	const struct shape *shape = &step->shape;
	const struct side *to = &step->received;

	for (int i = 1; i < shape->num_ranks; i++) {
		int last = rank_after(shape, -i);

		MPI_Irecv(to->memory + to->at[last], to->bytes[last], MPI_BYTE,
			last, TAG, MPI_COMM_WORLD, &step->requests[i - 1]);
	}
}

void exchange_send_blocks(struct step *step)
{
	const struct shape *shape = &step->shape;
	const struct side *from = &step->sent;
	int num = shape->num_ranks - 1;

	for (int i = 1; i < shape->num_ranks; i++) {
		int next = rank_after(shape, i);

		MPI_Isend(from->memory + from->at[next], from->bytes[next],
			MPI_BYTE, next, TAG, MPI_COMM_WORLD,
			&step->requests[num++]);
	}
	MPI_Waitall(num, step->requests, step->statuses);
}

/* The messages of two ranks match in their order, that of experts. */
static int expect_answers(struct step *step, int rank, MPI_Request *requests)
{
	const struct shape *shape = &step->shape;
	const int32_t *counts = step->send_counts + rank * shape->local_experts;
	uint8_t *at = step->sent.memory + step->sent.at[rank];
	int num = 0;

	for (int64_t l = 0; l < shape->local_experts; l++) {
		int64_t bytes = counts[l] * shape->hidden * 2;

		if (bytes > 0)
			MPI_Irecv(at, (int)bytes, MPI_BYTE, rank, TAG,
				MPI_COMM_WORLD, &requests[num++]);
		at += bytes;
	}
	return num;
}

static int send_answers(struct step *step, int rank, MPI_Request *requests)
{
	const struct shape *shape = &step->shape;
	int64_t first = rank * shape->local_experts;
	int num = 0;

	for (int64_t l = 0; l < shape->local_experts; l++) {
		int64_t count = step->run_count[first + l];
		uint16_t *y =
			step->y + step->run_first[first + l] * shape->hidden;

		if (count > 0)
			MPI_Isend(y, (int)(count * shape->hidden * 2), MPI_BYTE,
				rank, TAG, MPI_COMM_WORLD, &requests[num++]);
	}
	return num;
}

void exchange_answers(struct step *step)
{
	const struct shape *shape = &step->shape;
	MPI_Request *requests = step->requests;
	int num = 0;

	for (int i = 1; i < shape->num_ranks; i++)
		num += expect_answers(
			step, rank_after(shape, -i), requests + num);
	for (int i = 1; i < shape->num_ranks; i++)
		num += send_answers(step, rank_after(shape, i), requests + num);
	MPI_Waitall(num, requests, step->statuses);
}
