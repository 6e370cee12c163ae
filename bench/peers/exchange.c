/* Three ways to bring each rank its bytes. */
#include <mpi.h>

#include "exchange.h"

#define TAG 1

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

void exchange_bytes(
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
