/*
 * Dispatch and combine as a careful user of MPI writes them: count, pack,
 * exchange, unpack. What travels to a rank is one block
 *
 *	rows | scales (int8 only) | sources     each part from a multiple of 64
 *
 * with rows in order of (expert, token), so that the counts per expert alone
 * tell the receiver where each run of rows belongs. The own block is not sent.
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

/* Where a row comes from. */
struct source {
	int32_t token, choice;
};

/* One direction of an exchange, by rank. */
struct side {
	uint8_t *memory;
	int *bytes, *at;
};

/* The parts of a block. */
struct block {
	uint8_t *rows;
	float *scales;
	struct source *sources;
	int64_t bytes;
};

struct step {
	struct shape shape;
	int64_t local_experts, row_bytes;
	int32_t *send_counts;           /* (E): own rows for each expert */
	int32_t *recv_counts;           /* (rank, local expert) */
	int64_t *send_rows, *recv_rows; /* by rank */
	int64_t *next;   /* (E): where the expert's next row is packed */
	int64_t *places; /* (T, K): the choice's row among those packed */
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
