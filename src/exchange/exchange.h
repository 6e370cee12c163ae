/*
 * An exchange and its steps: the state that dispatch and combine share.
 * Neither knows the other; what dispatch learned about routing is in the step,
 * and combine takes it from there.
 *
 * A step lives in slot (epoch mod depth):
 *
 *	FREE -> COUNTING -> RECEIVING -> DISPATCHED -> COMBINING -> COMBINED
 *	        own counts   own rows    all rows      own results  sums are
 *	        announced    written     are here      announced    done
 *
 * (FEEDING before COMBINING, while results come expert by expert) and then FREE
 * again; or it becomes FAILED while it waits, when a rank refused
 * it, and keeps the error until its finish asks for it. A step that this rank
 * refused or gave up is DRAINING until all ranks have announced theirs.
 *
 * Why no slot needs a barrier before it is used again is argued in
 * docs/architecture.md, "Reuse of slots".
 */
#ifndef EXCHANGE_EXCHANGE_H
#define EXCHANGE_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <shunt/shunt.h>

#include "exchange/config.h"
#include "exchange/layout.h"
#include "exchange/route.h"
#include "exchange/stats.h"
#include "quant/kernels.h"
#include "world/group.h"
#include "world/world.h"

enum step_state {
	STEP_FREE,
	STEP_COUNTING,
	STEP_RECEIVING,
	STEP_DISPATCHED,
	STEP_FEEDING,
	STEP_COMBINING,
	STEP_COMBINED,
	STEP_FAILED,
	STEP_DRAINING
};

/* What a signal says besides its epoch. */
enum signal_code {
	SIGNAL_OK,
	SIGNAL_REFUSED, /* head or note has the reason */
	SIGNAL_GIVEN_UP /* the handle was destroyed */
};

/* An error kept for later, since a thread has only one current error. */
struct failure {
	enum shunt_status status;
	int32_t rank; /* that it is about, -1: none */
	char message[STEP_REASON_BYTES + 128];
};

/* What a rank brings besides x; one without tokens may leave it open. */
enum given {
	GIVEN_WEIGHTS = 1,
	GIVEN_NO_WEIGHTS = 2,
	GIVEN_X_SCALES = 4,
	GIVEN_NO_X_SCALES = 8,
	GIVEN_ALL = 15,   /* of the above */
	ROWS_VARY = 16,   /* INDEXED: a row is kept for each place of a token */
	ROWS_OFFERED = 32 /* rows are kept to be fetched, places are told */
};

/* Longest row stride that callers may give, in elements. */
#define MAX_STRIDE (INT64_C(1) << 40)

/* Whether an expert of a combine with `feed` was fed, and what other hosts have of
 * its rows. */
enum fed { FED_NOT, FED, FED_NOT_SENT };

/* Rows in memory: row i at base + i * pitch. */
struct row_place {
	const uint8_t *base;
	int64_t pitch;
};

/* A combine with `feed`: what its tokens still wait for; see combine/early.h. */
struct early {
	bool is_on;
	int64_t bytes_read; /* of experts' rows, so far */
	uint32_t *first;    /* [units + 1]: of each unit's part of `tokens` */
	int32_t *tokens;    /* [T_max * sends]: who goes there, by unit */
	int32_t *missing;   /* [T_max]: its rows that are not here yet */
	int32_t *awaited;   /* [units]: at placement.first[r], local experts */
	int32_t *num_awaited; /* [W]: so many of rank r of the view */
	int32_t *ready;       /* [T_max]: tokens whose rows are all here, ... */
	int64_t num_ready;
	int64_t num_summed; /* ... of which so many are summed */
};

/* A step that was announced to a rank of another host as one of its own, and whether
 * the rank adds up in it what goes back to this one. */
struct met {
	uint64_t epoch; /* 0: none */
	bool adds_up;
};

struct step {
	uint64_t epoch;
	int64_t slot;
	enum step_state state;
	struct route *route;
	/* Whose signals it waits for: the route's, or for a step that has none
	 * the newest view that this rank knows. */
	const struct view *view;

	/* While it waits for others: moves it along as far as it goes, and
	 * clears itself when nothing is left to wait for. */
	void (*advance)(struct shunt_exchange *exchange, struct step *step);
	enum phase awaited; /* the phase that it waits for */
	int32_t cursor; /* members of the view before it have signalled it */
	bool flushes; /* instead: it waits until this rank's puts are flushed */

	uint64_t sent[NUM_PHASES]; /* last value of each of the slot's lines */
	/* See absent.h: the slot's last step without a table, and by member its
	 * last one with a table that keeps the member. */
	uint64_t met_all;
	struct met *met;
	struct shunt_dispatch_args dispatch;
	struct shunt_combine_args combine;
	uint32_t given_seen; /* enum given, of all ranks */
	uint8_t *vary;       /* [members] by view: its head says ROWS_VARY */
	bool is_offered;     /* this rank offers its rows to be fetched */
	bool is_fetched;     /* so far all have */
	/* [W * fetch_tokens * sends]: places of offered tokens, as checked */
	int32_t *offered;
	int64_t *told_tokens; /* [members] by view, as checked */
	bool has_x_scales;
	bool is_counted; /* in the statistics */
	struct failure failure;
	enum signal_code refusal; /* STEP_DRAINING: how the step ended */
	bool drains;              /* STEP_FAILED before all had announced it */
	struct quant_tally tally;
	int64_t dropped;

	/* [W] by EP rank, for performance_info: since when this call waits for
	 * the rank's signal (0: it does not), and how long it has waited. */
	int64_t *awaited_since;
	int64_t *waited_ns;

	/* Outputs of dispatch, in memory of the step's own. */
	int64_t *token_nums;  /* [L] */
	int64_t *padded_nums; /* [L] */
	int64_t *first_row;   /* [L] */
	int32_t *recv_counts; /* [P * L * W] */
	int32_t *tp_counts;   /* [P] */

	/* Combine. */
	struct quant_tally combine_tally;
	bool y_is_announced; /* owners read y in place: await PHASE_READ */
	bool any_announced;  /* some rank's y is read in place */
	uint8_t *fed;        /* [L]: enum fed */
	int64_t unfed;       /* experts with rows that are still to be fed */
	/* [L * members]: last value of each of the slot's done words there */
	uint64_t *sent_done;
	/* [members of the view]: where experts' rows are read */
	struct row_place *row_places;
	struct early early;
};

/* Space for the work on one token, and on one combine. */
struct scratch {
	uint32_t *counts;     /* [units]: a peer's counts, as they were read */
	uint32_t *totals;     /* [units]: rows of all EP groups */
	uint32_t *stamp;      /* [units]: last token that chose it, plus 1 */
	uint8_t *row;         /* a quantized row */
	uint8_t *row_scales;  /* its scales */
	void **places;        /* [P * sends]: its destinations */
	const void **results; /* [2][sends + 1]: rows of a token, of the next */
	float *weights;       /* [2][sends + 1] */
	float *acc;           /* [H]: a token's sum */
	uint8_t *unpacked;    /* sums by host: one, before it is quantized */
	uint8_t *partial;     /* the own host's, as it would travel */
	uint32_t *host_stamp; /* [num_hosts] */
	const void **tp_rows; /* [P]: the rows of TP ranks for one */
};

/* How far the sums by host of a step are (combine/host_sums.c): of one at a time. */
struct sums_cursor {
	uint64_t epoch; /* of the step; 0: none began yet */
	int32_t index;  /* in the view, of the member whose tokens come next */
	int64_t token;  /* of it; -1: before the first */
	uint32_t *next; /* [units]: its next row of each */
	uint32_t *end;  /* [units]: and where the rows of its EP group end */
	uint64_t num_sent; /* of all steps */
};

struct shunt_exchange {
	struct shunt_world *world;
	struct shunt_group *group; /* of the members; see shape.h */
	bool owns_group;           /* made for TP by grid.c */
	int32_t rank;              /* member */
	int32_t ep_rank;
	int32_t tp_rank;
	/* [members], -1 where there is none, NULL on one host: the landing of a
	 * member of another host at its keeper on this one, and that of this rank
	 * at the member. */
	int32_t *landing_kept, *landing_there;
	struct accepted accepted;
	struct layout *layouts; /* [members] */
	struct layout_share share;
	uint64_t *window_off; /* [members]: in each rank's segment */
	uint8_t **windows;    /* [members]: mapped; NULL on another host */
	struct view whole;    /* all ranks */
	/* elastic: the ranks that the last table has left, and by EP rank who
	 * was left out before. */
	struct view present;
	uint8_t *left_out;
	/* [members], over several hosts: when one of them was first seen to be
	 * left out and able to write (absent.h); 0: never. */
	int64_t *absent_since;
	void *tables;         /* everything below is in this one block */
	struct step *steps;   /* [depth] */
	struct route *routes; /* [num_routes]: of step n at n mod num_routes */
	struct scratch scratch;
	struct counters counters;
	struct sums_cursor sums;
	int64_t work_ns;        /* spent by advance() on rows; no waiting */
	int64_t next_look;      /* for the dead, by progress */
	uint8_t *blank_row;     /* zeros: what padding refers to with INDEXED */
	quant_row_fn *quantize; /* NULL: rows are copied */
	int64_t stream_bytes;   /* steps that send more stream their rows */
	uint64_t id;            /* in the registry */
	uint64_t epoch;         /* of the newest step */
	bool broken;            /* a rank was lost */
	uint64_t told_loss;     /* loss.h: the last word; 0: none */
	int32_t *lost_ranks;    /* [members]: that broke it */
	size_t num_lost;
	atomic_flag busy;
};

static inline const struct shape *exchange_shape(
	const struct shunt_exchange *exchange)
{
	return &exchange->accepted.shape;
}

/* The ranks that take part in a step whose own view is not known. */
static inline const struct view *exchange_present(
	const struct shunt_exchange *exchange)
{
	return exchange_shape(exchange)->elastic ? &exchange->present
						 : &exchange->whole;
}

static inline bool exchange_is_far(
	const struct shunt_exchange *exchange, int32_t member)
{
	return !exchange->windows[member];
}

/* Address of an offset in the own window. */
static inline void *exchange_own(
	const struct shunt_exchange *exchange, uint64_t offset)
{
	return exchange->windows[exchange->rank] + offset;
}

static inline const struct layout *exchange_layout(
	const struct shunt_exchange *exchange)
{
	return &exchange->layouts[exchange->rank];
}

/* Address of an array of member `rank`'s window in the slot of `step`; the member
 * is on this host. */
static inline void *exchange_array(const struct shunt_exchange *exchange,
	int32_t rank, uint64_t array_off, const struct step *step)
{
	return exchange->windows[rank] +
	       layout_slot(&exchange->layouts[rank], array_off, step->slot);
}

/* These are read in the window of `rank`, or if that is on another host where it
 * has written them in the own one. */

static inline struct step_head *exchange_head(
	const struct shunt_exchange *exchange, int32_t rank,
	const struct step *step)
{
	if (exchange_is_far(exchange, rank))
		return (struct step_head *)exchange_own(exchange,
			layout_far_head(exchange_layout(exchange),
				exchange_shape(exchange), step->slot, rank));
	return (struct step_head *)(void *)(exchange->windows[rank] +
					    layout_head(
						    &exchange->layouts[rank],
						    step->slot));
}

/* Behind the head. */
static inline uint32_t *exchange_counts(const struct shunt_exchange *exchange,
	int32_t rank, const struct step *step)
{
	return (uint32_t *)(void *)(exchange_head(exchange, rank, step) + 1);
}

static inline struct step_head *exchange_note(
	const struct shunt_exchange *exchange, int32_t rank,
	const struct step *step)
{
	if (exchange_is_far(exchange, rank))
		return (struct step_head *)exchange_own(exchange,
			layout_far_note(exchange_layout(exchange),
				exchange_shape(exchange), step->slot, rank));
	return (struct step_head *)(void *)(exchange->windows[rank] +
					    layout_note(
						    &exchange->layouts[rank],
						    step->slot));
}

/* The member of this host that takes in what `rank`, of another host, sends to it
 * by host, and adds up what goes back; -1 for one of this host. */
static inline int32_t exchange_rail(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	if (!exchange_is_far(exchange, rank))
		return -1;
	return view_rail(step->view, rank,
		exchange_shape(exchange)->hosts->host[exchange->rank]);
}

/* The member of this host in whose window what `rank` shares is read. */
static inline int32_t exchange_keeper(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	if (!exchange_is_far(exchange, rank))
		return rank;
	if (!exchange_shape(exchange)->rows_by_host)
		return exchange->rank;
	return exchange_rail(exchange, step, rank);
}

/* What `rank` shares in the step: struct layout_share. */
uint8_t *exchange_share(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank);

/*
 * Every public call on an exchange is bracketed by these. Errors: NULL_ARGUMENT
 * (no exchange), STATE (forked child; another thread is inside), PEER_LOST (a
 * rank was lost before: nothing works on this exchange any more).
 */
enum shunt_status exchange_enter(struct shunt_exchange *exchange);
/* The same for calls that a lost rank does not hinder. */
enum shunt_status exchange_enter_any(struct shunt_exchange *exchange);
void exchange_leave(struct shunt_exchange *exchange);

/*
 * The same by handle; also finds its step. Errors besides: STATE (its exchange
 * is destroyed, or its step is over or was never begun).
 */
enum shunt_status exchange_enter_handle(struct shunt_handle handle,
	struct shunt_exchange **exchange, struct step **step);

/* INVALID for an argument outside its range: "x is 3, must be ...". */
enum shunt_status exchange_refuse(const struct shunt_exchange *exchange,
	const char *name, int64_t value, const char *legal);

#endif
