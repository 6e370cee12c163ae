/*
 * The reference: what dispatch and combine must give, in plain nested loops
 * straight from the specification. It sees the inputs of all ranks of a job
 * at once and works out one rank's outputs at a time. It shares no code with
 * the library, only the enums and the config of its public headers.
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
	const float *smooth;  /* (E, H) or (s + E, H), or NULL */
	const void *x_scales; /* (T, n) or NULL */
	const float *fixed;   /* static scales, or NULL */
	enum shunt_static_shape fixed_shape;
};

/* A place in the job: EP rank `rank` of EP group `tp`. With a table, `rank` is
 * the original one. */
struct reference_place {
	int32_t tp, rank;
};

/* All ranks' inputs of one step. */
struct reference_job {
	/* Read: all that is about shapes, types and rules; not the placement
	 * arrays and tp_group. */
	struct shunt_exchange_config config;
	int32_t num_ranks;          /* W */
	int32_t num_tp;             /* P; 0: 1 */
	const int32_t *expert_rank; /* (E), see reference_place_experts() */
	const int32_t *table;       /* elastic_info, or NULL */
	/* (P, W), by EP group and original rank. */
	const struct reference_input *inputs;
	/* (P, W): the host of each, any numbers; NULL: all are on one. */
	const int32_t *hosts;
	/* Combine adds up the rows of each host first. */
	bool adds_partial_sums;
};

/* Writes the rank of each expert to expert_rank[num_experts]. The config is
 * legal. */
void reference_place_experts(const struct shunt_exchange_config *config,
	int32_t num_ranks, int32_t *expert_rank);

/* Rows that `place` can receive in the worst case. */
int64_t reference_capacity(
	const struct reference_job *job, struct reference_place place);

/* Rows that it can receive by the config. */
int64_t reference_room(
	const struct reference_job *job, struct reference_place place);

/* True if what the rank receives has room; *fits is set unless memory is out. */
bool reference_fits(const struct reference_job *job,
	struct reference_place place, bool *fits);

/* What a row of expand_x is. */
enum reference_kind {
	REFERENCE_LEFT, /* nothing was written here */
	REFERENCE_REAL,
	REFERENCE_PADDING
};

/*
 * What a rank receives: arrays by row have num_places rows, of which `kind`
 * tells what they are; without kept tails extent_rows of them. The rest is as
 * in struct shunt_dispatch_out.
 */
struct reference_received {
	int64_t num_experts; /* L */
	int32_t num_ranks;   /* W; with a table those that are left */
	int64_t num_rows;    /* N */
	int64_t extent_rows;
	int64_t num_places;
	int64_t row_bytes, num_scales, scale_bytes;
	uint8_t *kind; /* (num_places), enum reference_kind */
	uint8_t *expand_x;
	uint8_t *scales; /* row-major; NULL where there are none */
	float *row_scales;
	float *weights; /* NULL where none were given */
	int32_t *source;
	/* The expert of each row: e, or E + j; in the original numbering. */
	int64_t *experts;
	int32_t *groups; /* its EP group */
	int64_t *first_row;
	int64_t *token_nums, *token_prefix;
	int64_t *padded_nums, *padded_prefix;
	int32_t *recv_counts;
	int32_t *tp_counts; /* (P) */
};

/*
 * Fills what `place` receives, which must fit. `capacity` is the rows of
 * expand_x, for the option that zeroes the tail. False if memory is out. Owes
 * reference_received_fini(), also then.
 */
bool reference_receive(const struct reference_job *job,
	struct reference_place place, int64_t capacity,
	struct reference_received *received);
void reference_received_fini(struct reference_received *received);

/* What a rank counts while it sends. */
struct reference_sent {
	int64_t dropped_choices, nan_elements, inf_elements;
};

/* Fills what `place` counts. False if memory is out. */
bool reference_send(const struct reference_job *job,
	struct reference_place place, struct reference_sent *sent);

/* A row as it was sent. */
struct reference_made {
	int64_t expert; /* e, or E + j; in the original numbering */
	int32_t tp;     /* the place in the TP group that computes */
	uint8_t *q, *scales;
	float row_scale;
};

/* An expert, for the combine: writes its row of expert_dtype. */
typedef void (*reference_expert)(
	void *context, const struct reference_made *made, void *y);

/* Inputs and outputs of one rank's combine, as in struct shunt_combine_args;
 * strides are elements from row to row. */
struct reference_combine {
	const float *weights; /* those in force, NULL for a plain sum */
	reference_expert expert;
	void *context;
	enum shunt_dtype out_dtype;
	void *out;
	int64_t out_stride;
	const void *ori_x;
	int64_t ori_x_stride;
	const void *alpha1, *alpha2, *v;
	const void *shared_x;
	int64_t shared_x_stride;
	const void *residual;
	int64_t residual_stride;
	const void *gamma;
	enum shunt_dtype gamma_dtype;
	float norm_eps;
	void *norm_out;
	int64_t norm_out_stride;
	float *rstd;
};

/* Fills the outputs. False if memory is out. */
bool reference_combine(const struct reference_job *job,
	struct reference_place place, const struct reference_combine *combine);

/* Fills combine's two counts of the rank at `place`. `weights` are those in force
 * of each rank, (P, W), by EP group and original rank; an entry is NULL for a plain
 * sum. False if memory is out. */
bool reference_combine_counts(const struct reference_job *job,
	struct reference_place place, const float *const *weights,
	reference_expert expert, void *context, int64_t *nan_elements,
	int64_t *inf_elements);

#endif
