/*
 * Dispatch and combine as a careful user of MPI writes them: count, pack,
 * exchange, unpack; the expert's rows home; the weighted sum. What travels to
 * a rank by dispatch is one block
 *
 *	sizes, counts | rows | scales (int8 only) | sources
 *
 * where | is followed by a multiple of 64. *
 * A token's row and scale are in it once, however many experts of the rank the
 * token has; the sources, one for each choice in the order of tokens, say
 * which experts get the row. So a receiver reads each row once. The own block
 * is not sent, nor are the answers of the own experts copied.
 */
#ifndef PEERS_STEP_H
#define PEERS_STEP_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* How bytes are brought to other ranks; exchange.c. */
enum variant {
	VARIANT_ALLTOALLV, /* MPI_Alltoallv of blocks, sizes first */
	VARIANT_PAIRWISE,  /* MPI_Sendrecv of blocks, sizes first */
	VARIANT_ISEND,     /* MPI_Isend and MPI_Irecv of blocks, sizes first */
	VARIANT_DIRECT     /* blocks without sizes, into room for the largest;
			    * answers from where the experts left them */
};

struct shape {
	int64_t tokens, hidden, topk, experts;
	int64_t local_experts; /* of each rank */
	int64_t row_bytes;     /* of a row to an expert */
	bool int8;
	enum variant variant;
	int rank, num_ranks;
};

/* What a rank brings to a step. */
struct input {
	uint16_t *x;        /* (T, H), bf16 */
	const int32_t *ids; /* (T, K), in 0 .. E - 1 */
	float *weights;     /* (T, K) */
};

/* A choice: of which token, and of which expert of the receiver. */
struct source {
	int32_t token, choice, expert;
};

/* What goes to ranks, or comes from them. */
struct side {
	uint8_t *memory;
	int *bytes, *at; /* by rank; 0 bytes for ourselves */
};

/* The tokens and choices that a rank sends another. */
struct sizes {
	int32_t tokens, choices;
};

/* The parts of a block. */
struct block {
	struct sizes *sizes;
	int32_t *counts; /* (local experts): choices */
	uint8_t *rows;
	float *scales;
	struct source *sources;
};

struct step {
	struct shape shape;
	struct sizes *send_sizes, *recv_sizes; /* by rank */
	int32_t *send_counts;                  /* (E): own choices */
	int64_t slot_bytes;         /* of the largest block, for DIRECT */
	struct side sent, received; /* blocks, then answers */
	struct block *blocks;       /* by rank: those sent, then received */
	int64_t *last_token;        /* by rank: the last one with a choice */
	/* (E): the place of an expert's next answer among those for us. */
	int64_t *next;
	/* (rank, local expert): its rows for the expert, which lie together,
	 * and where the next of them goes while they are unpacked. */
	int64_t *run_first, *run_count, *run_next;
	/* (T, K): where a choice's answer lies, in y if its expert is ours. */
	int64_t *answers;
	int8_t *quantized;       /* (H) */
	const uint16_t **chosen; /* (K) */
	MPI_Request *requests;
	MPI_Status *statuses;
	/* What the experts see: */
	int64_t num_rows;
	uint8_t *rows; /* by (local expert, source rank, token) */
	float *scales;
	struct source *sources;
	uint16_t *y; /* the experts' answers, in the same order */
};

static inline int step_rank_of(const struct shape *shape, int64_t expert)
{
	return (int)(expert / shape->local_experts);
}

/* Takes memory for at most `most_rows` received rows, and touches it. Ends
 * the job if there is none. */
void step_init(struct step *step, const struct shape *shape, int64_t most_rows);
void step_fini(struct step *step);

/* All ranks together. */
void step_dispatch(struct step *step, const struct input *input);
/* Reads step->y; `out` is (T, H). */
void step_combine(struct step *step, const struct input *input, uint16_t *out);

#endif
