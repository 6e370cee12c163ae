/* Shunt: dispatch, from tokens to the rows of this rank's experts. */
#ifndef SHUNT_DISPATCH_H
#define SHUNT_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_exchange;

/* The routing of one step, passed by value. All zero is no handle. */
struct shunt_handle {
	uint64_t exchange;
	uint64_t epoch;
};

/* What active_mask covers. */
enum shunt_mask {
	SHUNT_MASK_NONE = 0, /* no mask: active_mask must be NULL */
	SHUNT_MASK_TOKENS,   /* (T): a byte per token */
	SHUNT_MASK_CHOICES   /* (T, K): a byte per choice */
};

/*
 * A token is active if one of its choices is neither masked nor was given as
 * -1. Active tokens go to the shared experts.
 */
struct shunt_dispatch_args {
	size_t struct_size;
	/* (T, H) in the exchange's dtype; any alignment. NULL if T = 0. */
	const void *x;
	int64_t num_tokens; /* T, 0 .. T_max */
	int64_t x_stride;   /* elements from row to row, >= H; 0: dense. Of
			     * E2M1 even. */
	/* (T, K), dense, of ids_type I32 or I64. -1: no expert. The same
	 * expert twice in a token is two choices. */
	const void *expert_ids;
	enum shunt_index ids_type;
	enum shunt_mask mask;
	/* Non-zero: takes part. Ids of masked choices are never read. */
	const uint8_t *active_mask;
	/* (T, K) or NULL; given on all ranks or on none. Carried to the
	 * experts, and kept for combine. */
	const float *weights;
	/* (E, H), with shared experts (s + E, H), those first; or NULL. With
	 * per-row and _GROUP dynamic modes and _STATIC ones. Multiplies a
	 * token for the expert it goes to, before quantization. */
	const float *smooth_scales;
	/* Write expert_token_nums as inclusive prefix sums. */
	bool prefix_token_nums;
	/* Deadline of the call, in ns; 0: the exchange's. */
	int64_t deadline_ns;

	/* (T, x_scales_per_row), dense, of x_scale_dtype: scales of rows that
	 * come quantized; given on all ranks or on none. */
	const void *x_scales;
	/* With _STATIC modes: the scales, else NULL. */
	const float *static_scales;
	enum shunt_static_shape static_shape;
	/*
	 * (4 + 2 W) or NULL, the same on all ranks: which ranks are left, see
	 * docs/elastic.md. Expert ids are then in the compacted numbering. A
	 * rank that a table has left out cannot come back; one of another host
	 * that was in the middle of a step is cut off, and lost.
	 */
	const int32_t *elastic_info;
	/* (W) or NULL, by original rank: adds the microseconds that this call
	 * waited for the data of each rank. With dispatch_start: in place
	 * until the finish, whose waiting it is. */
	int64_t *performance_info;
	/*
	 * A handle of an earlier step of this exchange whose dispatch has
	 * finished, also an ended one (see kept_routes), or all zero: repeats its routing for another x (with
	 * its x_scales, smooth_scales, static_scales), without exchanging
	 * counts. num_tokens must be the same; ids, mask and weights are those
	 * of then, and NULL here. On all ranks or on none.
	 */
	struct shunt_handle cached;
};
#define SHUNT_DISPATCH_ARGS_INIT SHUNT_INIT(struct shunt_dispatch_args)

/*
 * What this rank received. The arrays belong to the exchange; they are valid
 * until the combine of this step has finished or its handle is destroyed.
 *
 * Row order: by local expert l, then source rank r, then the order of
 * t * K + k at the source. With a TP group: by local expert, then EP group
 * (own first, or in order by tp_rank_order), then source rank. N rows in all;
 * rows from extent_rows on hold nothing of meaning, unless zero_tail.
 *
 * W is the number of ranks of the EP group, with a table those that are left.
 */
struct shunt_dispatch_out {
	size_t struct_size;
	int64_t num_rows; /* N, without padding */
	/* (extent_rows, H) in the quantized type. Dense. NULL with INDEXED. */
	void *expand_x;
	/* (N, n), as by the mode and column_major_scales; NULL where the mode
	 * has none. Element (row, i) is at row * scale_row_stride +
	 * i * scale_group_stride. */
	void *dynamic_scales;
	/* (L): rows per local expert, or their inclusive prefix sums. */
	int64_t *expert_token_nums;
	/* (L * W), with TP (P, L * W), own EP group first: rows of that EP
	 * group up to and with block l * W + r, padding left out. */
	int32_t *ep_recv_counts;
	/* (N): weight of each row, 1 for shared experts; NULL where no weights
	 * were given. */
	float *expand_weights;
	/* (N, 3): source rank, token, k of each row; k = K + j for shared
	 * expert j. With TP the rank is in the EP group that it came from. */
	int32_t *source;
	/*
	 * (extent_rows, H) in expert_dtype, for the experts to write their rows
	 * to: a combine whose y is this pointer copies nothing.
	 */
	void *expert_rows;
	/* Of this rank's own tokens: */
	/* Bad ids, with SHUNT_BAD_ID_DROP; 0 with `cached`. */
	int64_t dropped_choices;
	int64_t nan_elements; /* NaN met, once per quantization of a row */
	int64_t inf_elements; /* Inf met, once per quantization of a row */

	/* Rows with padding: one behind the last row that experts see. N where
	 * nothing is padded; L * rows_per_expert with PADDED. */
	int64_t extent_rows;
	int64_t num_local_experts; /* L */
	int64_t *expert_first_row; /* (L): where each expert's rows begin */
	/* (L): rows with padding, or their prefix sums, as above. */
	int64_t *expert_padded_nums;
	int64_t scale_row_stride, scale_group_stride;
	float *row_scales; /* (N) with NVFP4, else NULL */
	/* (P): rows from each EP group, by its number; NULL without TP. */
	int32_t *tp_recv_counts;
};
#define SHUNT_DISPATCH_OUT_INIT SHUNT_INIT(struct shunt_dispatch_out)

/*
 * Sends every active token to the ranks of its experts, and receives the rows
 * of this rank's experts. Collective: every rank calls it for every step,
 * also with T = 0. Up to `depth` steps may be in flight: step n begins once
 * step n - depth was ended, by combine or shunt_handle_destroy().
 *
 * Blocks, up to the deadline. The inputs must stay unchanged until it
 * returns, all scales too; weights are kept.
 * On success *handle and *out are set. On TIMEOUT *handle is set too: call
 * shunt_dispatch_finish() to wait again (the inputs still in place), or
 * destroy the handle; it is all zero if the step has not begun, because others
 * have not ended a refused one, or a wire has not taken what earlier ones have
 * sent: then call this again. On other errors the step
 * is over on this rank.
 * Errors: NULL_ARGUMENT, INVALID (the step is refused: the others get
 * PEER_REFUSED, and the next step works); PEER_REFUSED; CAPACITY and MISMATCH
 * (on all ranks; the next step works); STATE (depth steps are in flight; or
 * `cached` cannot be repeated, which refuses the step); TIMEOUT; PEER_LOST;
 * PEER_FAULT.
 */
SHUNT_EXPORT enum shunt_status shunt_dispatch(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct shunt_dispatch_out *out,
	struct shunt_handle *handle);

/*
 * Begins a dispatch and returns at once (only behind a step that was refused,
 * given up, or, with few tokens, not combined may it wait, up to the deadline,
 * for the others to end that one, and over several hosts for the wire to take what
 * earlier steps have sent: on TIMEOUT call it again); the inputs must stay unchanged
 * until its finish has returned something other than TIMEOUT. Errors as above; on
 * success *handle is set and shunt_dispatch_finish() is owed (or
 * shunt_handle_destroy(), which gives the step up).
 */
SHUNT_EXPORT enum shunt_status shunt_dispatch_start(
	struct shunt_exchange *exchange, const struct shunt_dispatch_args *args,
	struct shunt_handle *handle);

/*
 * Ends a dispatch: blocks until all rows are here, at most deadline_ns (0:
 * the one given at start). Drives every step in flight of the exchange, so
 * ranks may finish their steps in different orders, if all have started them.
 * A deadline_ns below 0 is INVALID, and the step goes on.
 */
SHUNT_EXPORT enum shunt_status shunt_dispatch_finish(struct shunt_handle handle,
	int64_t deadline_ns, struct shunt_dispatch_out *out);

/*
 * Fills rows[extent_rows] with a pointer to each received row, in any layout;
 * padding points to zeros, but the unwritten padding of PADDED without zero_tail
 * to whatever lies there. Valid as long as the outputs of the dispatch.
 * Errors: NULL_ARGUMENT, STATE (the dispatch is not finished); PEER_FAULT (a
 * peer's reference leads outside of what it sent).
 */
SHUNT_EXPORT enum shunt_status shunt_dispatch_rows(
	struct shunt_handle handle, const void **rows);

/* Where a row of the INDEXED layout lies: row `row` of what `rank` of EP group
 * `tp_rank` keeps; -1 throughout for padding. Equal references are the same
 * memory, so an expert can load a token once for several rows. */
struct shunt_reference {
	int32_t tp_rank; /* 0 without TP */
	int32_t rank;
	int64_t row;
};

/* Fills references[extent_rows]. INDEXED only: else UNSUPPORTED. Errors as of
 * shunt_dispatch_rows(). */
SHUNT_EXPORT enum shunt_status shunt_dispatch_references(
	struct shunt_handle handle, struct shunt_reference *references);

#ifdef __cplusplus
}
#endif
#endif
