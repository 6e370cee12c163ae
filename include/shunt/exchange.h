/* Shunt: an exchange is one model shape with the windows that its steps use. */
#ifndef SHUNT_EXCHANGE_H
#define SHUNT_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_world;
struct shunt_group;
struct shunt_exchange;

/* How received rows lie in expand_x. */
enum shunt_layout {
	/* Dense, by local expert, then source rank. */
	SHUNT_LAYOUT_COMPACT = 0,
	/* Rows of local expert l from row l * rows_per_expert. */
	SHUNT_LAYOUT_PADDED,
	/* Not copied to expand_x at all: a row lies once with its sender, or for
	 * receivers on another host once with one of them (fullmesh: each), and
	 * shunt_dispatch_rows() gives pointers, in the order of COMPACT. */
	SHUNT_LAYOUT_INDEXED
};

/* How bytes travel between hosts; on one host all are the same. */
enum shunt_algorithm {
	/* Chosen for dispatch and for combine, by hosts, sizes and how many
	 * hosts a token is expected to go to; shunt_exchange_info_get() and the
	 * log say which and why. */
	SHUNT_ALGORITHM_AUTO = 0,
	/* A token goes to each rank that has one of its experts; the experts'
	 * rows come back one by one. */
	SHUNT_ALGORITHM_FULLMESH,
	/* A token goes to a host once, where its ranks share it; its rows are
	 * added up there, and one comes back (see exact_sums); those of shared
	 * experts come one by one. */
	SHUNT_ALGORITHM_HIERARCHY
};

/* What an expert id that nobody has does. */
enum shunt_bad_id {
	SHUNT_BAD_ID_REFUSE = 0, /* INVALID here, PEER_REFUSED elsewhere */
	SHUNT_BAD_ID_DROP /* counts as -1, and in dropped_choices; a token with
			   * nothing else is still an active one */
};

/* What combine does to the experts' rows before they travel; where it adds up by
 * host, to the sums instead (and to rows of shared experts). */
enum shunt_combine_quant {
	SHUNT_COMBINE_QUANT_NONE = 0,
	SHUNT_COMBINE_QUANT_INT8_8,     /* per 8, scales in expert_dtype */
	SHUNT_COMBINE_QUANT_INT8_128,   /* per 128, scales in f32 */
	SHUNT_COMBINE_QUANT_E4M3FN_128, /* as SHUNT_QUANT_E4M3FN_GROUP */
	SHUNT_COMBINE_QUANT_MXFP8       /* as SHUNT_QUANT_MXFP8_E4M3FN */
};

/*
 * The shape of an exchange. Every field but deadline_ns must be the same on
 * all ranks of the group, and of the TP groups; creation compares them.
 *
 * Expert ids: 0 .. E-1 are experts of ranks ("MoE experts"); then come the
 * zero, the copy and the constant experts, which need no rank. -1 is no
 * expert.
 *
 * With shared experts the first num_shared_ranks ranks hold nothing else:
 * shared expert j lies on ranks j * R .. j * R + R - 1, R = num_shared_ranks /
 * num_shared_experts, and rank r sends its tokens to replica j * R + r % R.
 */
struct shunt_exchange_config {
	size_t struct_size;
	int64_t max_tokens;  /* T_max: most tokens a rank brings, >= 0 */
	int64_t hidden;      /* H: elements of a token, >= 1 */
	int64_t topk;        /* K: expert choices of a token, >= 1 */
	int64_t num_experts; /* E: MoE experts over all ranks, >= 1; 0 where
			      * there are special ones */
	/* Type of x: F32, F16 or BF16. With quant NONE also I8, E4M3FN, E5M2
	 * or E2M1: rows that the caller has quantized. */
	enum shunt_dtype dtype;
	enum shunt_dtype
		expert_dtype;   /* of the experts' rows: F32, F16, BF16 */
	enum shunt_quant quant; /* what dispatch does to rows */
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
	 * answers CAPACITY on all ranks. Not with PADDED.
	 */
	int64_t max_recv_rows;
	/*
	 * Placement. All NULL: experts spread evenly in order over the ranks
	 * behind the shared ones, the first of them holding one more where it
	 * does not go up. Either expert_rank[E], the rank of each expert; or
	 * first_expert[W] and expert_count[W], the range of each rank, the
	 * ranges covering 0 .. E-1 exactly once. A shared rank holds no MoE
	 * expert. Read during creation only.
	 */
	const int32_t *expert_rank;
	const int64_t *first_expert;
	const int64_t *expert_count;
	/* Deadline of the calls on this exchange, creation included, in ns;
	 * 0: 30 s. A call may give its own. */
	int64_t deadline_ns;

	/* Shared experts s and shared ranks S: (0, 0) or (1, 0), none; else
	 * 1 <= s <= S < W and S % s == 0. */
	int64_t num_shared_experts;
	int32_t num_shared_ranks;
	/* Special experts; their choices do not travel, combine adds them. */
	int64_t num_zero_experts;
	int64_t num_copy_experts;
	int64_t num_constant_experts;

	/* Scales of the _GROUP modes, and where they lie: (A, n) or, column
	 * major, (n, A); of all modes that have scales. */
	enum shunt_scale_form scale_form;
	bool column_major_scales;
	/* With quant NONE: scales that come with x, n per row (0: none), of
	 * type F32, E8M0 or E4M3FN. */
	int64_t x_scales_per_row;
	enum shunt_dtype x_scale_dtype;

	/* PADDED: rows of an expert, M; 0: W * T_max (of all TP ranks),
	 * rounded up to expert_alignment. A step
	 * that needs more answers CAPACITY on all ranks. */
	int64_t rows_per_expert;
	/* Each expert's rows are padded to a multiple of it; 0: 1. An expert
	 * without rows has no padding. Padding is x 0, scale 0, weight 0,
	 * source -1. */
	int64_t expert_alignment;
	/* Rows behind the last one are written like padding too. */
	bool zero_tail;

	/*
	 * TP: P ranks that hold the same experts and bring different tokens:
	 * P groups of W ranks (the one given to shunt_exchange_create) with
	 * one placement, and a TP group across them for each place. A rank's
	 * number in its TP group is that of its EP group. NULL: no TP.
	 */
	struct shunt_group *tp_group;
	/* Rows of an expert in the order of TP ranks; else own ones first. */
	bool tp_rank_order;

	/* Steps may be given an elastic_info table: needs even placement, E
	 * divisible by the MoE ranks, and no TP group. */
	bool elastic;

	enum shunt_combine_quant combine_quant;
	/* For how many further steps the routing of a step can be used by a
	 * cached dispatch, up to 65536; 0: depth. */
	int32_t kept_routes;
	/* Steps in which no rank has more tokens are sent in one phase instead
	 * of two: rows are kept by their sender, and fetched. Faster for few
	 * tokens; same results. -1: never; 0: as many tokens as make 512 KiB
	 * of rows, at most 128, and none with more than 64 ranks; up to
	 * 2147483647. Takes memory for so many rows, and for the places of so
	 * many tokens of each rank. Not used with a TP group, elastic, INDEXED, or scales
	 * per expert; where ranks are on several hosts all steps are fetched. */
	int64_t fetch_tokens;
	/*
	 * Combine gives the bits of one host wherever ranks are: rows come back
	 * one by one, also with HIERARCHY, which is of dispatch alone then.
	 * Else the hierarchical combine adds up the rows that a token has on each
	 * host first, and rounds these sums to expert_dtype, which changes the
	 * last bits: docs/numerics.md, "Sums over hosts".
	 */
	bool exact_sums;
	/* These sums stay in f32, which takes more bytes between hosts if
	 * expert_dtype is smaller. INVALID with combine_quant. */
	bool f32_partial_sums;
};
#define SHUNT_EXCHANGE_CONFIG_INIT SHUNT_INIT(struct shunt_exchange_config)

/* What an exchange needs on one rank. */
struct shunt_exchange_sizes {
	size_t struct_size;
	int64_t num_local_experts; /* L; 1 on a shared rank */
	int64_t worst_rows;        /* A in the worst case */
	int64_t recv_rows;         /* A in force: row capacity of expand_x */
	uint64_t window_bytes;     /* reachable by peers, all steps in flight */
	uint64_t private_bytes;    /* what this rank alone has */
	/* Given: ranks 0 .. n - 1 are on one host, the next n on another, and so
	 * on, with TP each EP group alike; 0: all are on one. */
	int32_t ranks_per_host;
};
#define SHUNT_EXCHANGE_SIZES_INIT SHUNT_INIT(struct shunt_exchange_sizes)

/*
 * What shunt_exchange_create() of `config` would take on `rank` of a group of
 * num_ranks. Local, allocates nothing of that size. A is
 *	W * T_max * K on a MoE rank, with distinct_experts min(L, K) for K,
 *		and 0 where L = 0;
 *	T_max * ceil(W / R) on a shared rank, with elastic T_max * W;
 * times the size of the TP group; plus L * (expert_alignment - 1).
 * PADDED: L * rows_per_expert.
 * Errors: NULL_ARGUMENT, INVALID, UNSUPPORTED.
 */
SHUNT_EXPORT enum shunt_status shunt_exchange_query(
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks, struct shunt_exchange_sizes *sizes);

/*
 * Makes an exchange over `group`, or over the whole world if NULL. Collective,
 * with a TP group over all its EP groups. Allocates everything that its steps
 * will use.
 *
 * On success the caller owns *exchange and owes shunt_exchange_destroy().
 * Blocks, up to the deadline of the config.
 * Errors: NULL_ARGUMENT, INVALID and UNSUPPORTED (own config; the others get
 * PEER_REFUSED); MISMATCH on every rank, naming field, ranks and values;
 * NO_MEMORY (names needed and available; the others get PEER_REFUSED);
 * TIMEOUT and PEER_LOST (the group can make no further exchanges: STATE from
 * then on; make another group, under another name); STATE.
 * A rank whose config cannot be read, or lacks the tp_group that others have,
 * cannot be heard of in the other EP groups: those get TIMEOUT.
 */
SHUNT_EXPORT enum shunt_status shunt_exchange_create(struct shunt_world *world,
	struct shunt_group *group, const struct shunt_exchange_config *config,
	struct shunt_exchange **exchange);

/* How an exchange travels between hosts. */
struct shunt_exchange_info {
	size_t struct_size;
	int32_t num_hosts;
	int32_t host;                  /* of this rank, 0 .. num_hosts - 1 */
	enum shunt_algorithm dispatch; /* FULLMESH or HIERARCHY */
	enum shunt_algorithm combine;
	bool adds_partial_sums; /* combine adds up rows of a host first */
	char why[256];          /* in words */
};
#define SHUNT_EXCHANGE_INFO_INIT SHUNT_INIT(struct shunt_exchange_info)

/* Fills *info. Local. Errors: NULL_ARGUMENT, VERSION. */
SHUNT_EXPORT enum shunt_status shunt_exchange_info_get(
	const struct shunt_exchange *exchange,
	struct shunt_exchange_info *info);

/*
 * Moves all steps in flight along as far as they go now, and returns: what the
 * finish of any of them does while it waits. So an application that has something
 * else to do between start and finish lets data flow meanwhile: a dispatch sends
 * its rows once all ranks have announced theirs, and a combine sums tokens once
 * their rows are there, in whatever call comes then.
 *
 * *num_waiting (may be NULL) becomes the number of steps that still wait for
 * other ranks: with 0, every finish returns at once, but that of a combine whose
 * experts are not all fed. Steps that failed wait for the way of their y at most;
 * their finish tells.
 *
 * Local: never waits; takes as long as the copying that is due, and with PEER_LOST
 * (all steps in flight are over) as long as shunt_exchange_destroy() would. Errors:
 * NULL_ARGUMENT; STATE; PEER_LOST.
 */
SHUNT_EXPORT enum shunt_status shunt_exchange_progress(
	struct shunt_exchange *exchange, int32_t *num_waiting);

/*
 * Frees the exchange and everything that its outputs point to. Steps in
 * flight are given up: peers that still wait for this rank's part get
 * PEER_REFUSED or PEER_LOST. Local: never waits for another rank, but where one in
 * flight has its y in shunt_alloc() memory, and ranks on other hosts, for the wire to
 * take what is on its way from there. NULL is allowed.
 */
SHUNT_EXPORT void shunt_exchange_destroy(struct shunt_exchange *exchange);

#ifdef __cplusplus
}
#endif
#endif
