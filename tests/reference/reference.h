/*
 * The reference: what dispatch and combine must give, in plain nested loops
 * straight from the specification. It sees the inputs of all ranks of a job
 * at once and works out one rank's outputs at a time. It shares no code with
 * the library, only the enums of its public headers.
 *
 * The job's description points to memory of the caller, who keeps it.
 */
#ifndef REFERENCE_REFERENCE_H
#define REFERENCE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/shunt.h>

/* One rank's inputs of one step. */
struct reference_input {
	int64_t num_tokens;
	const void *x;      /* (T, H) in the job's dtype, any alignment */
	int64_t x_stride;   /* elements from row to row */
	const int64_t *ids; /* (T, K) */
	enum shunt_mask mask;
	const uint8_t *active_mask;
	const float *weights; /* (T, K), as given to dispatch, or NULL */
	const float *smooth;  /* (E, H) or NULL */
};

/* All ranks' inputs of one step. */
struct reference_job {
	int32_t num_ranks;
	int64_t hidden, topk, num_experts;
	enum shunt_dtype dtype, expert_dtype;
	enum shunt_quant quant;
	const int32_t *expert_rank;           /* (E), see reference_place() */
	const struct reference_input *inputs; /* (num_ranks) */
};

/*
 * What a rank receives. `token_nums` is per expert, `token_prefix` its
 * prefix sums; the rest is as in struct shunt_dispatch_out.
 */
struct reference_received {
	int64_t num_experts; /* L */
	int64_t num_rows;    /* N */
	int64_t row_bytes;
	uint8_t *expand_x;
	float *dynamic_scales;
	int64_t *token_nums, *token_prefix;
	int32_t *recv_counts;
	float *weights;
	int32_t *source;
	int64_t *experts; /* (N) global id of the expert of each row */
};

/* What a rank counts while it sends. */
struct reference_sent {
	int64_t dropped_choices, nan_elements, inf_elements;
};

/* Writes the rank of each expert to expert_rank[num_experts]. The config is
 * legal. */
void reference_place(const struct shunt_exchange_config *config,
	int32_t num_ranks, int32_t *expert_rank);

/* Experts on `rank`. */
int64_t reference_num_local(const struct reference_job *job, int32_t rank);

/* Rows that `rank` receives. */
int64_t reference_num_rows(const struct reference_job *job, int32_t rank);

/* Makes room for what `rank` receives, at most max_rows rows; false if memory
 * is out. Owes reference_received_fini(), also then. */
bool reference_received_init(struct reference_received *received,
	const struct reference_job *job, int32_t rank, int64_t max_rows);
void reference_received_fini(struct reference_received *received);

/* Fills what `rank` receives; its rows must not exceed the room made. */
void reference_receive(const struct reference_job *job, int32_t rank,
	struct reference_received *received);

/* Fills what `rank` counts. */
void reference_send(const struct reference_job *job, int32_t rank,
	struct reference_sent *sent);

/*
 * An expert, for the combine: writes its row of expert_dtype for a row that
 * it was sent (with its scale, 1 where there is none).
 */
typedef void (*reference_expert)(void *context, int64_t expert,
	const void *sent_row, float scale, void *y);

/*
 * Fills out (T, H) in out_dtype, rows out_stride elements apart, with what
 * combine gives on `rank`. `weights` are those in force, NULL for a plain sum.
 */
bool reference_combine(const struct reference_job *job, int32_t rank,
	const float *weights, reference_expert expert, void *context,
	enum shunt_dtype out_dtype, int64_t out_stride, void *out);

#endif
