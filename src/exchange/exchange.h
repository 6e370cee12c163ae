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
 * and then FREE again; or it becomes FAILED while it waits, when a rank refused
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
#include "quant/kernels.h"
#include "world/group.h"
#include "world/world.h"

enum step_state {
	STEP_FREE,
	STEP_COUNTING,
	STEP_RECEIVING,
	STEP_DISPATCHED,
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

/* Whether a rank brings weights; one without tokens may leave it open. */
#define WEIGHTS_GIVEN  1u
#define WEIGHTS_ABSENT 2u

/* Longest row stride that callers may give, in elements. */
#define MAX_STRIDE (INT64_C(1) << 40)

struct step {
	uint64_t epoch;
	int64_t slot;
	enum step_state state;

	/* While it waits for others: moves it along as far as it goes, and
	 * clears itself when nothing is left to wait for. */
	void (*advance)(struct shunt_exchange *exchange, struct step *step);
	enum phase awaited; /* the phase that it waits for */
	int32_t cursor;     /* ranks before it have signalled that phase */

	uint64_t sent[NUM_PHASES]; /* last value of each of the slot's lines */
	struct shunt_dispatch_args dispatch;
	struct shunt_combine_args combine;
	uint32_t weights_seen; /* WEIGHTS_GIVEN, WEIGHTS_ABSENT, of all ranks */
	bool has_weights;
	struct failure failure;
	enum signal_code refusal; /* STEP_DRAINING: how the step ended */
	struct quant_tally tally;
	int64_t dropped;
	int64_t num_rows; /* received, N */

	/* Routing, [T_max * K]: where each choice went. */
	int32_t *expert; /* -1: does not travel */
	int32_t *row;    /* at the expert's rank */
	float *weights;
	uint32_t *next_row;   /* [E]: next row of this rank's to the expert */
	uint32_t *total;      /* [E]: rows from all ranks to the expert */
	int64_t *token_nums;  /* [L] */
	int32_t *recv_counts; /* [L * W] */
};

/* Space for the work on one token. */
struct scratch {
	uint32_t *counts;     /* [E]: a peer's counts, as they were read */
	uint32_t *stamp;      /* [E]: last token that chose it, plus 1 */
	uint8_t *row;         /* a quantized row */
	void **places;        /* [K]: its destinations */
	const void **results; /* [K]: experts' rows of a token */
	float *weights;       /* [K] */
};

struct shunt_exchange {
	struct shunt_world *world;
	struct shunt_group *group;
	int32_t rank;
	struct accepted accepted;
	struct layout *layouts; /* [W] */
	uint64_t *window_off;   /* [W]: in each rank's segment */
	uint8_t **windows;      /* [W]: mapped */
	void *tables;           /* everything below is in this one block */
	struct step *steps;     /* [depth] */
	struct scratch scratch;
	int64_t stream_bytes; /* steps that send more stream their rows */
	uint64_t id;          /* in the registry */
	uint64_t epoch;       /* of the newest step */
	bool broken;          /* a rank was lost */
	int32_t *lost_ranks;  /* [W]: that broke it */
	size_t num_lost;
	atomic_flag busy;
};

static inline const struct shape *exchange_shape(
	const struct shunt_exchange *exchange)
{
	return &exchange->accepted.shape;
}

/* Address of an array of `rank`'s window in the slot of `step`. */
static inline void *exchange_array(const struct shunt_exchange *exchange,
	int32_t rank, uint64_t array_off, const struct step *step)
{
	return exchange->windows[rank] +
	       layout_slot(&exchange->layouts[rank], array_off, step->slot);
}

static inline struct step_head *exchange_head(
	const struct shunt_exchange *exchange, int32_t rank,
	const struct step *step)
{
	return (struct step_head *)(void *)(exchange->windows[rank] +
					    layout_head(
						    &exchange->layouts[rank],
						    step->slot));
}

static inline uint32_t *exchange_counts(const struct shunt_exchange *exchange,
	int32_t rank, const struct step *step)
{
	return (uint32_t *)(void *)(exchange->windows[rank] +
				    layout_counts(&exchange->layouts[rank],
					    step->slot));
}

static inline struct step_head *exchange_note(
	const struct shunt_exchange *exchange, int32_t rank,
	const struct step *step)
{
	return (struct step_head *)(void *)(exchange->windows[rank] +
					    layout_note(
						    &exchange->layouts[rank],
						    step->slot));
}

/*
 * Every public call on an exchange is bracketed by these. Errors: STATE
 * (forked child; another thread is inside), PEER_LOST (a rank was lost before:
 * nothing works on this exchange any more).
 */
enum shunt_status exchange_enter(struct shunt_exchange *exchange);
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
