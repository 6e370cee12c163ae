/* Shunt: combine, from the experts' rows back to tokens. */
#ifndef SHUNT_COMBINE_H
#define SHUNT_COMBINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/dispatch.h>
#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_combine_args {
	size_t struct_size;
	/*
	 * (extent_rows, H) in expert_dtype, in the order and layout of
	 * expand_x; padding is not read. The dispatch's expert_rows, or memory
	 * of shunt_alloc(): used in place. Anything else: copied once. NULL if
	 * N is 0, or with y_rows or feed.
	 */
	const void *y;
	int64_t y_stride; /* elements from row to row, >= H; 0: H */
	/*
	 * (T, K) or NULL: then those given to dispatch, and if there were none,
	 * a plain sum. Weights of masked, -1 and zero-expert choices are never
	 * read.
	 */
	const float *weights;
	void *out;                  /* (T, H) in out_dtype; NULL if T = 0 */
	enum shunt_dtype out_dtype; /* 0: expert_dtype */
	int64_t out_stride;         /* elements from row to row, >= H; 0: H */
	int64_t deadline_ns;        /* in ns; 0: the exchange's */

	/* Instead of y: a pointer to each of extent_rows rows (copied once). */
	const void *const *y_rows;
	/* y comes expert by expert, by shunt_combine_feed(), after
	 * shunt_combine_start(). */
	bool feed;

	/* (T, H) in expert_dtype: what copy and constant experts work on;
	 * required where the exchange has such. */
	const void *ori_x;
	int64_t ori_x_stride; /* elements from row to row, >= H; 0: H */
	/* (Zk, H) each, dense, in expert_dtype; required where the exchange has
	 * constant experts. */
	const void *constant_alpha1, *constant_alpha2, *constant_v;
	/* (T, H) in expert_dtype, or NULL: added to active tokens. */
	const void *shared_expert_x;
	int64_t shared_expert_x_stride;

	/*
	 * Fused tail, where residual or gamma is given:
	 *	z = acc + residual;  out = round(z);
	 *	rstd = 1 / sqrt(mean(z * z) + norm_eps);
	 *	norm_out = round(f32(round(z * rstd)) * gamma)
	 * over all tokens, the inactive ones included.
	 */
	const void *residual; /* (T, H) in out_dtype, or NULL: 0 */
	int64_t residual_stride;
	const void *gamma;            /* (H) in gamma_dtype, or NULL: no norm */
	enum shunt_dtype gamma_dtype; /* out_dtype (0) or F32 */
	float norm_eps;               /* >= 0 */
	void *norm_out;               /* (T, H) in out_dtype; with gamma */
	int64_t norm_out_stride;
	float *rstd; /* (T), or NULL; with gamma */

	const int32_t *elastic_info; /* NULL, or as given to dispatch */
	int64_t *performance_info;   /* as in dispatch */
	/* With combine_quant: how many elements of this rank's experts' rows
	 * were NaN, and infinite; where combine adds up by host those of the sums
	 * that this rank has made, and of rows of its shared expert. Written when
	 * the combine ends. May be NULL. */
	int64_t *nan_elements, *inf_elements;
};
#define SHUNT_COMBINE_ARGS_INIT SHUNT_INIT(struct shunt_combine_args)

/*
 * Brings the experts' rows home: acc = sum over k in order of
 * weight[t, k] * row, in f32, multiply and add rounded separately; then the
 * shared experts' rows and shared_expert_x with weight 1; out[t] = acc rounded
 * once to out_dtype (nearest even). A copy expert's row is ori_x[t]; constant
 * expert c's is p1 * ori_x[t] + p2 * v[c], (p1, p2) = softmax(alpha1[c] .
 * ori_x[t], alpha2[c] . ori_x[t]); a zero expert adds nothing. Rows of inactive
 * tokens are zero. With a TP group a row is the f32 sum over TP ranks in order
 * of their rows for it, rounded to expert_dtype.
 * docs/numerics.md has every bit.
 *
 * Collective, once per dispatch. Ends the step, except on TIMEOUT: then call
 * shunt_combine_finish() to wait again.
 *
 * Blocks, up to the deadline. All pointers must stay in place until it
 * returns something other than TIMEOUT, a y in shunt_alloc() memory too. `out`
 * may be ori_x, shared_expert_x or residual, if it has the same type and stride;
 * nothing else may overlap. Errors: NULL_ARGUMENT, INVALID (refused: the others get
 * PEER_REFUSED); PEER_REFUSED; MISMATCH (elastic_info is not dispatch's);
 * STATE (the handle was combined or destroyed before, or its dispatch is not
 * finished); TIMEOUT; PEER_LOST; PEER_FAULT.
 */
SHUNT_EXPORT enum shunt_status shunt_combine(
	struct shunt_handle handle, const struct shunt_combine_args *args);

/*
 * Begins a combine and returns at once: announces this rank's rows. Where ranks
 * are on several hosts rows begin to cross here, SHUNT_RDMA_QUEUE_DEPTH at once to
 * each rank; the others follow whenever this rank waits or calls
 * shunt_exchange_progress(), and else each millisecond.
 * shunt_combine_finish() is owed; all pointers stay in place until then, but
 * a y that is copied only until this returns.
 */
SHUNT_EXPORT enum shunt_status shunt_combine_start(
	struct shunt_handle handle, const struct shunt_combine_args *args);

/*
 * The rows of one local expert, for a combine started with `feed`: y is its
 * first row, NULL: they lie in expert_rows. Each expert once, in any order;
 * those without rows may be left out. Copied before it returns, unless in
 * expert_rows. The ranks whose tokens they are hear of them at once; one whose
 * combine is also fed sums each token as soon as its rows are all there, here, in
 * finish, or in shunt_exchange_progress(), into the same bits as ever (with a TP
 * group: all in finish). Feed experts in an order in which tokens become
 * complete early. So `out` changes from the start on, even if the step fails.
 * Never waits. Errors: INVALID (the expert or y_stride is out of range; the
 * combine goes on), STATE (fed before, or no such combine).
 */
SHUNT_EXPORT enum shunt_status shunt_combine_feed(struct shunt_handle handle,
	int64_t local_expert, const void *y, int64_t y_stride);

/* Ends a combine: blocks until `out` is complete, at most deadline_ns (0: the
 * one given at start). Needs every rank's combine start of this step: with
 * several steps in flight, start all combines before finishing any, or keep
 * one order on all ranks. With a TP group, or where y lies in shunt_alloc()
 * memory, it also needs the others to go on: to be in a finish of this
 * exchange. STATE if experts are still to be fed.
 * Over several hosts, with y in shunt_alloc() memory, it says PEER_LOST only when the
 * wires have taken the rows that are on their way from there, or are found dead:
 * then y may be changed, as behind any other end. */
SHUNT_EXPORT enum shunt_status shunt_combine_finish(
	struct shunt_handle handle, int64_t deadline_ns);

/*
 * Ends a step without combine, or while its combine goes on. Peers that do call
 * combine for it get PEER_REFUSED, unless this rank had announced its rows: then
 * they may get them. Local: never waits, but for the wire, as
 * shunt_exchange_destroy() does. Of a dispatch that has not ended they can
 * only be told when all have begun it, so maybe not before this rank's next call on the
 * exchange. A handle whose step is over is allowed
 * and ignored.
 */
SHUNT_EXPORT void shunt_handle_destroy(struct shunt_handle handle);

#ifdef __cplusplus
}
#endif
#endif
