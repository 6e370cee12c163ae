/*
 * Shunt: Mixture-of-Experts tokens to their experts and back, in host memory.
 *
 * Read it in this order: a `world` is this rank's membership of a job, a
 * `group` an ordered list of ranks, an `exchange` one model shape with its
 * windows, a `handle` the routing of one step. Then dispatch and combine.
 *
 *	shunt_world_create(NULL, &world);		who am I, who else is there
 *	shunt_exchange_create(world, NULL, &config, &exchange);
 *	for each step:
 *		shunt_dispatch(exchange, &args, &out, &handle);
 *		... the experts turn out.expand_x into out.expert_rows ...
 *		shunt_combine(handle, &combine_args);
 *	shunt_exchange_destroy(exchange);
 *	shunt_world_destroy(world);
 *
 * Ranks may be processes, threads of one process, or a mixture. Each rank has
 * a world of its own, also among threads.
 *
 * Structs that are passed in begin with their size; start from the
 * initialiser macro. Zero means "default" in every field that has one.
 *
 * Thread safety: functions on different worlds, groups and exchanges may run
 * at the same time; two calls on one exchange (its handles included) may not.
 * Exchanges of one group are made in the same order on all its ranks.
 *
 * After fork() the child may not use what the parent made: each function
 * answers SHUNT_STATE there, and the destroy functions do nothing.
 */
#ifndef SHUNT_SHUNT_H
#define SHUNT_SHUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#define SHUNT_INIT(type)     \
	{                    \
		sizeof(type) \
	}
#else
#define SHUNT_INIT(type)                    \
	{                                   \
		.struct_size = sizeof(type) \
	}
#endif

/* ---- version ---------------------------------------------------------- */

#define SHUNT_VERSION_MAJOR 0
#define SHUNT_VERSION_MINOR 1
#define SHUNT_VERSION_PATCH 0

/* The version of the library that runs, such as "0.1.0". */
SHUNT_EXPORT const char *shunt_version(void);

/* ---- world ------------------------------------------------------------ */

struct shunt_world;

/* No deadline: wait as long as it takes (a lost rank still ends the wait). */
#define SHUNT_FOREVER INT64_MAX

/*
 * How this rank joins its job. All zero (or a NULL config) takes everything
 * from the environment; see shunt_world_create().
 */
struct shunt_world_config {
	size_t struct_size;
	/*
	 * Where the ranks meet. NULL: from the environment.
	 * "tcp://HOST:PORT": rank 0 listens there, the others connect; HOST is
	 * a name, an IPv4 address or [IPv6]. A HOST off loopback demands `key`.
	 * "threads://NAME": all ranks are threads of this process; NAME is
	 * any text that only the threads of one job use at a time.
	 * With a rendezvous, rank and num_ranks must be given here too.
	 */
	const char *rendezvous;
	int32_t rank;      /* this rank, 0 .. num_ranks - 1 */
	int32_t num_ranks; /* ranks in the job, 1 .. 4096 */
	/* Secret of the job, any text; NULL: from SHUNT_KEY, else none. */
	const char *key;
	/* Name of the job, at most 127 bytes; ranks of another job at the same
	 * address are turned away. NULL: from SHUNT_JOB, else "". */
	const char *job;
	/* How long to wait for the other ranks, in ns; 0: 60 s. */
	int64_t deadline_ns;
	/*
	 * Address space for this rank's windows and heap, in bytes; 0: from
	 * SHUNT_SEGMENT_BYTES, else the machine's memory. Address space only:
	 * memory is taken as exchanges and allocations need it.
	 */
	uint64_t segment_bytes;
};
#define SHUNT_WORLD_CONFIG_INIT SHUNT_INIT(struct shunt_world_config)

/*
 * Joins the job; returns once every rank has joined. Collective.
 *
 * Without a rendezvous the environment decides. One family is taken whole,
 * in this order: SHUNT_RANK, SHUNT_NUM_RANKS, SHUNT_ADDRESS (set by `shunt
 * run`); torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; Open MPI's
 * OMPI_COMM_WORLD_RANK/SIZE, Hydra's PMI_RANK/SIZE or Slurm's
 * SLURM_PROCID/NTASKS, each with SHUNT_ADDRESS. Two families that disagree
 * on rank or size are INVALID. With no family at all: a world of one rank.
 *
 * `config` may be NULL. On success the caller owns *world and owes
 * shunt_world_destroy(). Blocks, up to the deadline.
 * Errors: INVALID, NULL_ARGUMENT; TIMEOUT (the message and
 * shunt_error_ranks() name the ranks that did not come); VERSION and
 * MISMATCH (ranks of another version or with other num_ranks);
 * NO_MEMORY; SYSTEM; UNSUPPORTED (a rank on another host: that needs RDMA,
 * which this version has not).
 */
SHUNT_EXPORT enum shunt_status shunt_world_create(
	const struct shunt_world_config *config, struct shunt_world **world);

/*
 * Leaves the job and frees everything of this rank. Local: never waits for
 * another rank. Groups, exchanges and memory of this world must be destroyed
 * and freed before. NULL is allowed.
 */
SHUNT_EXPORT void shunt_world_destroy(struct shunt_world *world);

/* This rank's number in the job; -1 if `world` is NULL. */
SHUNT_EXPORT int32_t shunt_world_rank(const struct shunt_world *world);

/* Number of ranks in the job; -1 if `world` is NULL. */
SHUNT_EXPORT int32_t shunt_world_size(const struct shunt_world *world);

/*
 * Which ranks are known to be lost, looked up now: lost[r] (num_ranks
 * bytes, may be NULL) becomes 1 for a lost rank and 0 for others. Returns
 * how many are lost. A rank that left by shunt_world_destroy() counts as
 * lost too.
 */
SHUNT_EXPORT int32_t shunt_world_lost(
	const struct shunt_world *world, uint8_t *lost);

/*
 * Allocates `bytes` of this rank's registered memory, which peers can reach,
 * aligned to 64 bytes, not initialised. NULL when there is none (the message
 * tells needed and available) or after fork. Thread-safe.
 */
SHUNT_EXPORT void *shunt_alloc(struct shunt_world *world, size_t bytes);

/* Frees what shunt_alloc() of the same world gave. NULL is allowed. */
SHUNT_EXPORT void shunt_free(struct shunt_world *world, void *memory);

/* ---- group ------------------------------------------------------------ */

struct shunt_group;

/*
 * Makes a group of the world's ranks `ranks` (num_ranks of them, distinct;
 * NULL with num_ranks 0 means all, in order); group rank i is world rank
 * ranks[i]. Collective over the members, which give the same list and name.
 * Groups alive at once with the same list need different names. `name` is at
 * most 127 bytes; NULL means "".
 *
 * On success the caller owns *group and owes shunt_group_destroy(). Blocks,
 * up to deadline_ns (0: 60 s).
 * Errors: NULL_ARGUMENT, INVALID (a rank outside the world, twice, or a list
 * without this rank), TIMEOUT (names the missing; the same call again waits
 * on), PEER_LOST, NO_MEMORY, STATE.
 */
SHUNT_EXPORT enum shunt_status shunt_group_create(struct shunt_world *world,
	const int32_t *ranks, int32_t num_ranks, const char *name,
	int64_t deadline_ns, struct shunt_group **group);

/* Frees the group. Local. Its exchanges must be destroyed before. */
SHUNT_EXPORT void shunt_group_destroy(struct shunt_group *group);

/* This rank's number in the group; -1 if `group` is NULL. */
SHUNT_EXPORT int32_t shunt_group_rank(const struct shunt_group *group);

/* Number of ranks in the group; -1 if `group` is NULL. */
SHUNT_EXPORT int32_t shunt_group_size(const struct shunt_group *group);

/* ---- exchange --------------------------------------------------------- */

struct shunt_exchange;

/* How received rows lie in expand_x. */
enum shunt_layout {
	SHUNT_LAYOUT_COMPACT = 0, /* dense, by local expert, then source rank */
	SHUNT_LAYOUT_PADDED,      /* not in this version: UNSUPPORTED */
	SHUNT_LAYOUT_INDEXED      /* not in this version: UNSUPPORTED */
};

/* How bytes travel. */
enum shunt_algorithm {
	SHUNT_ALGORITHM_AUTO = 0, /* on one host: fullmesh */
	SHUNT_ALGORITHM_FULLMESH, /* every rank writes to every rank */
	SHUNT_ALGORITHM_HIERARCHY /* not in this version: UNSUPPORTED */
};

/* What an expert id outside [-1, num_experts) does. */
enum shunt_bad_id {
	SHUNT_BAD_ID_REFUSE = 0, /* INVALID here, PEER_REFUSED elsewhere */
	SHUNT_BAD_ID_DROP        /* counts as -1, and in dropped_choices */
};

/*
 * The shape of an exchange. Every field but deadline_ns must be the same on
 * all ranks of the group; creation compares them.
 */
struct shunt_exchange_config {
	size_t struct_size;
	int64_t max_tokens;     /* T_max: most tokens a rank brings, >= 0 */
	int64_t hidden;         /* H: elements of a token, >= 1 */
	int64_t topk;           /* K: expert choices of a token, >= 1 */
	int64_t num_experts;    /* E: experts over all ranks, >= 1 */
	enum shunt_dtype dtype; /* type of x: F16, BF16 or F32 */
	enum shunt_dtype expert_dtype; /* type of the experts' rows */
	enum shunt_quant quant;        /* what dispatch does to rows */
	enum shunt_layout layout;
	enum shunt_algorithm algorithm;
	enum shunt_bad_id bad_id;
	/*
	 * Promise that the ids within a token are distinct. Saves memory where
	 * a rank has fewer than K experts. A broken promise is INVALID.
	 */
	bool distinct_experts;
	/* Steps in flight at once, 1 .. 64; 0: 2. A step begins only when the
	 * one `depth` steps before it is over. */
	int32_t depth;
	/*
	 * Rows that a rank can receive in a step; 0: the worst case A (see
	 * shunt_exchange_query). Less saves memory; a step that needs more
	 * answers CAPACITY on all ranks.
	 */
	int64_t max_recv_rows;
	/*
	 * Placement. All NULL: experts spread evenly in order, the first
	 * E mod W ranks holding one more. Either expert_rank[E], the rank of
	 * each expert; or first_expert[W] and expert_count[W], the range of
	 * each rank, the ranges covering 0 .. E-1 exactly once. Read during
	 * creation only.
	 */
	const int32_t *expert_rank;
	const int64_t *first_expert;
	const int64_t *expert_count;
	/* Deadline of the calls on this exchange, creation included, in ns;
	 * 0: 30 s. A call may give its own. */
	int64_t deadline_ns;
};
#define SHUNT_EXCHANGE_CONFIG_INIT SHUNT_INIT(struct shunt_exchange_config)

/* What an exchange needs on one rank. */
struct shunt_exchange_sizes {
	size_t struct_size;
	int64_t num_local_experts; /* L */
	int64_t worst_rows;        /* A in the worst case */
	int64_t recv_rows;         /* A in force: row capacity of expand_x */
	uint64_t window_bytes;     /* reachable by peers, all steps in flight */
	uint64_t private_bytes;    /* tables of this rank */
};
#define SHUNT_EXCHANGE_SIZES_INIT SHUNT_INIT(struct shunt_exchange_sizes)

/*
 * What shunt_exchange_create() of `config` would take on `rank` of a group of
 * num_ranks. Local, allocates nothing of that size.
 * A = num_ranks * T_max * K, with distinct_experts min(L, K) instead of K,
 * and 0 where L = 0.
 * Errors: NULL_ARGUMENT, INVALID, UNSUPPORTED.
 */
SHUNT_EXPORT enum shunt_status shunt_exchange_query(
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks, struct shunt_exchange_sizes *sizes);

/*
 * Makes an exchange over `group`, or over the whole world if NULL. Collective.
 * Allocates everything that its steps will use.
 *
 * On success the caller owns *exchange and owes shunt_exchange_destroy().
 * Blocks, up to the deadline of the config.
 * Errors: NULL_ARGUMENT, INVALID and UNSUPPORTED (own config; the others get
 * PEER_REFUSED); MISMATCH on every rank, naming field, ranks and values;
 * NO_MEMORY (names needed and available; the others get PEER_REFUSED);
 * TIMEOUT and PEER_LOST (the group can make no further exchanges: STATE from
 * then on; make another group, under another name); STATE.
 */
SHUNT_EXPORT enum shunt_status shunt_exchange_create(struct shunt_world *world,
	struct shunt_group *group, const struct shunt_exchange_config *config,
	struct shunt_exchange **exchange);

/*
 * Frees the exchange and everything that its outputs point to. Steps in
 * flight are given up: peers that still wait for this rank's part get
 * PEER_REFUSED or PEER_LOST. Local: never waits for another rank. NULL is
 * allowed.
 */
SHUNT_EXPORT void shunt_exchange_destroy(struct shunt_exchange *exchange);

/* ---- dispatch --------------------------------------------------------- */

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

struct shunt_dispatch_args {
	size_t struct_size;
	/* (T, H) in the exchange's dtype; any alignment. NULL if T = 0. */
	const void *x;
	int64_t num_tokens; /* T, 0 .. T_max */
	int64_t x_stride;   /* elements from row to row, >= H; 0: H */
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
	/* (E, H) or NULL; with a dynamic quant only. Multiplies a token for
	 * the expert it goes to, before quantization. */
	const float *smooth_scales;
	/* Write expert_token_nums as inclusive prefix sums. */
	bool prefix_token_nums;
	/* Deadline of the call, in ns; 0: the exchange's. */
	int64_t deadline_ns;
};
#define SHUNT_DISPATCH_ARGS_INIT SHUNT_INIT(struct shunt_dispatch_args)

/*
 * What this rank received. The arrays belong to the exchange; they are valid
 * until the combine of this step has finished or its handle is destroyed.
 * Rows past num_rows hold nothing of meaning.
 *
 * Row order: by local expert l, then source rank r, then the order of
 * t * K + k at the source.
 */
struct shunt_dispatch_out {
	size_t struct_size;
	int64_t num_rows; /* N */
	/* (N, H) in the dtype of x, or int8 by quant. Dense. */
	void *expand_x;
	/* (N) f32 with a dynamic quant, else NULL. */
	float *dynamic_scales;
	/* (L): rows per local expert, or their inclusive prefix sums. */
	int64_t *expert_token_nums;
	/* (L * W): rows up to and with block l * W + r. */
	int32_t *ep_recv_counts;
	/* (N): weight of each row; NULL where no weights were given. */
	float *expand_weights;
	/* (N, 3): source rank, token, k of each row. */
	int32_t *source;
	/*
	 * (N, H) in expert_dtype, for the experts to write their rows to: a
	 * combine whose y is this pointer copies nothing.
	 */
	void *expert_rows;
	/* Of this rank's own tokens: */
	int64_t dropped_choices; /* bad ids, with SHUNT_BAD_ID_DROP */
	int64_t nan_elements;    /* NaN met, once per quantization of a row */
	int64_t inf_elements;    /* Inf met, once per quantization of a row */
};
#define SHUNT_DISPATCH_OUT_INIT SHUNT_INIT(struct shunt_dispatch_out)

/*
 * Sends every active token to the ranks of its experts, and receives the rows
 * of this rank's experts. Collective: every rank calls it for every step,
 * also with T = 0. Up to `depth` steps may be in flight: step n begins once
 * step n - depth was ended, by combine or shunt_handle_destroy().
 *
 * Blocks, up to the deadline. The inputs must stay unchanged until it
 * returns, smooth_scales too; weights are kept.
 * On success *handle and *out are set. On TIMEOUT *handle is set too: call
 * shunt_dispatch_finish() to wait again (the inputs still in place), or
 * destroy the handle; it is all zero if the step has not begun, because others
 * have not ended a refused one: then call this again. On other errors the step
 * is over on this rank.
 * Errors: NULL_ARGUMENT, INVALID (the step is refused: the others get
 * PEER_REFUSED, and the next step works); PEER_REFUSED; CAPACITY and MISMATCH
 * (on all ranks; the next step works); STATE (depth steps are in flight);
 * TIMEOUT; PEER_LOST; PEER_FAULT.
 */
SHUNT_EXPORT enum shunt_status shunt_dispatch(struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args, struct shunt_dispatch_out *out,
	struct shunt_handle *handle);

/*
 * Begins a dispatch and returns at once (only behind a step that was refused or
 * given up may it wait, up to the deadline, for the others to end that one: on
 * TIMEOUT call it again); the inputs must stay unchanged until
 * its finish has returned something other than TIMEOUT. Errors as above; on
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

/* ---- combine ---------------------------------------------------------- */

struct shunt_combine_args {
	size_t struct_size;
	/*
	 * (N, H) in expert_dtype, in the order of expand_x. The dispatch's
	 * expert_rows: used in place. Anything else: copied once. NULL if N
	 * is 0.
	 */
	const void *y;
	int64_t y_stride; /* elements from row to row, >= H; 0: H */
	/*
	 * (T, K) or NULL: then those given to dispatch, and if there were none,
	 * a plain sum. Weights of masked and -1 choices are never read.
	 */
	const float *weights;
	void *out;                  /* (T, H) in out_dtype; NULL if T = 0 */
	enum shunt_dtype out_dtype; /* 0: expert_dtype */
	int64_t out_stride;         /* elements from row to row, >= H; 0: H */
	int64_t deadline_ns;        /* in ns; 0: the exchange's */
};
#define SHUNT_COMBINE_ARGS_INIT SHUNT_INIT(struct shunt_combine_args)

/*
 * Brings the experts' rows home: out[t] = sum over k in order of
 * weight[t, k] * row, in f32, multiply and add rounded separately, then once
 * to out_dtype (nearest even). Rows of tokens without an active choice are
 * zero. Collective, once per dispatch. Ends the step, except on TIMEOUT: then
 * call shunt_combine_finish() to wait again.
 *
 * Blocks, up to the deadline. weights and out must stay in place until it
 * returns. Errors: NULL_ARGUMENT, INVALID (refused: the others get
 * PEER_REFUSED); PEER_REFUSED; STATE (the handle was combined or destroyed
 * before, or its dispatch is not finished); TIMEOUT; PEER_LOST; PEER_FAULT.
 */
SHUNT_EXPORT enum shunt_status shunt_combine(
	struct shunt_handle handle, const struct shunt_combine_args *args);

/*
 * Begins a combine and returns at once: announces this rank's rows.
 * shunt_combine_finish() is owed; weights and out stay in place until then,
 * y only until this returns unless it is expert_rows.
 */
SHUNT_EXPORT enum shunt_status shunt_combine_start(
	struct shunt_handle handle, const struct shunt_combine_args *args);

/* Ends a combine: blocks until `out` is complete, at most deadline_ns (0: the
 * one given at start). Needs every rank's combine start of this step: with
 * several steps in flight, start all combines before finishing any, or keep
 * one order on all ranks. */
SHUNT_EXPORT enum shunt_status shunt_combine_finish(
	struct shunt_handle handle, int64_t deadline_ns);

/*
 * Ends a step without combine. Peers that do call combine for it get
 * PEER_REFUSED. Local: never waits. A handle whose step is over is allowed
 * and ignored.
 */
SHUNT_EXPORT void shunt_handle_destroy(struct shunt_handle handle);

#ifdef __cplusplus
}
#endif
#endif
