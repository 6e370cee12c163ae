/*
 * Dispatch and combine as a careful user of MPI writes them: count, pack,
 * exchange, unpack. What travels to a rank is one block
 *
 *	rows | scales (int8 only) | sources     each part from a multiple of 64
 *
 * A token's row and scale are in it once, however many experts of the rank the
 * token has; the sources, one for each choice in order of (expert, token), say
 * which row each expert gets. The own block is not sent.
 */
#ifndef PEERS_STEP_H
#define PEERS_STEP_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum variant { VARIANT_ALLTOALLV, VARIANT_PAIRWISE, VARIANT_ISEND };

struct shape {
	int64_t tokens, hidden, topk, experts;
	uint64_t seed;
	bool int8;
	enum variant variant;
	int rank, num_ranks;
};

/* What a rank brings to a step. */
struct input {
	uint16_t *x;    /* (T, H), bf16 */
	int32_t *ids;   /* (T, K), distinct in a token */
	float *weights; /* (T, K) */
};

/* Where an expert's row comes from: at its rank, and in the block. */
struct source {
	int32_t token, choice, row;
};

/* One direction of an exchange, by rank. */
struct side {
	uint8_t *memory;
	int *bytes, *at;
};

/* The parts of a block, and while it is packed, how far that is. */
struct block {
	uint8_t *rows;
	float *scales;
	struct source *sources;
	int64_t bytes;
	int64_t first; /* its first choice among all that are packed */
	int64_t num_tokens, last_token;
};

struct step {
	struct shape shape;
	int64_t local_experts, row_bytes;
	/* (rank, local expert + 1): choices of each expert; and the tokens. */
	int32_t *send_counts, *recv_counts;
	/* Their sums, by rank: */
	int64_t *send_tokens, *recv_tokens, *send_choices, *recv_choices;
	int64_t *next;   /* (E): where its next choice is packed */
	int64_t *places; /* (T, K): the choice among all that are packed */
	struct side sent, received;
	/* Scratch, by rank: */
	struct block *blocks;
	int64_t *cursor;
	MPI_Request *requests;
	MPI_Status *statuses;
	int8_t *quantized;       /* (H) */
	const uint16_t **chosen; /* (K) */
	/* What the experts see: */
	int64_t num_rows;
	uint8_t *rows; /* by (local expert, source rank, token) */
	float *scales;
	struct source *sources;
	uint16_t *y; /* the experts' answers, in the same order */
};

/* Rows from rank `rank` for our expert `local`. */
static inline int64_t step_run(
	const struct step *step, int64_t rank, int64_t local)
{
	return step->recv_counts[rank * (step->local_experts + 1) + local];
}

/* Takes memory for at most `most_rows` received rows, and touches it. Ends
 * the job if there is none. */
void step_init(struct step *step, const struct shape *shape, int64_t most_rows);
void step_fini(struct step *step);

/* All ranks together. */
void step_dispatch(struct step *step, const struct input *input);
/* Reads step->y; `out` is (T, H). */
void step_combine(struct step *step, const struct input *input, uint16_t *out);

/* Memory on a cache line, touched; ends the job if there is none. */
void *step_memory(int64_t bytes);

#endif
