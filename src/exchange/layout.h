/*
 * The layout of an exchange's window: this file owns every offset in it. All
 * ranks compute the layout of all ranks from the config, so offsets never
 * travel.
 *
 * A window, `M` members, `depth` slots (step n uses slot n mod depth):
 *
 *	lines    [phase][slot][M]  line s: what member s has signalled here
 *	closed   [M]               line s: member s will not come here again
 *	lost     [M]               line s: whom member s has lost (loss.h)
 *	revoked  [M]               elastic: line s: member s has left this rank
 *	                           out by a table
 *	done     [slot][units]     no TP: the step whose rows of the unit can be
 *	                           read; on lines of the rank that has it
 *	head     [slot]            this rank's part of the step, for the others
 *	counts   [slot][units]     rows that this rank sends to each unit
 *	note     [slot]            this rank's part of the combine
 *	-- page --
 *	scales   [slot][A][n]      written by the senders; or [n][A] ...
 *	row_scales [slot][A]
 *	weights  [slot][A]
 *	source   [slot][A][3]
 *	rows     [slot][A][H]      ... = expand_x; none with INDEXED
 *	results  [slot][A][H]      written by the experts, read by the senders
 *	travel   [slot][A][..]     what is read instead, where results are
 *	                           quantized or reduced over TP first
 *	share    [share slot]      rows that this rank offers to others: INDEXED
 *	                           all, else those of a small step:
 *	           kept  [T_max * sends][H]
 *	           offer           what goes with rows to be fetched
 *
 * Only lines, done words, scales, row_scales, weights, source and rows are written by
 * peers; each row of the latter has exactly one writer in a step.
 *
 * Where ranks are on several hosts, all rows are offered, and this is written by
 * ranks of other hosts only, by RDMA (docs/protocol.md):
 *
 *	far_head [slot][M]         head and counts of member s
 *	far_note [slot][M]         note of member s
 *	landed   [landing][share slot]  shares of members of other hosts
 *	back     [slot][T_max * sends][..]  experts' rows of own tokens, by place;
 *	                           sums of a host at its first place
 *	tp_back  [slot][P][A][H]   results of TP ranks on other hosts
 *	told     [slot][T_max * K] with sums by host: weights in force, for
 *	told_landed [landing][slot] .. those who sum; and theirs
 *	partial  [PARTIAL_ROWS][H] sums on their way
 */
#ifndef EXCHANGE_LAYOUT_H
#define EXCHANGE_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "exchange/shape.h"

enum phase {
	PHASE_COUNTS, /* head and counts of the step can be read */
	PHASE_LANDED, /* rows by host: what landed here can be read */
	PHASE_ROWS,   /* the rows to this rank are written, or it has fetched */
	PHASE_RESULTS, /* note and results of the step can be read */
	PHASE_TRAVEL,  /* with TP: the reduced rows can be read */
	PHASE_SUMS, /* sums by host: those of this rank's tokens are written */
	PHASE_READ, /* y that lies in the caller's memory has been read */
	NUM_PHASES
};

#define STEP_REASON_BYTES 512

/* What head and note have in common: they may say why a step is refused. */
struct step_head {
	uint64_t epoch;
	uint64_t table;  /* hash of the elastic_info table; 0: none */
	uint64_t cached; /* dispatch: the epoch whose routing is repeated */
	int64_t num_tokens;
	uint32_t given; /* dispatch: enum given */
	/* dispatch, elastic: the epoch while rows are written, else 0. */
	_Atomic uint64_t writing;
	/* combine: where y lies, if not in `results`; 0: it does. */
	uint64_t y_offset;              /* in the segment */
	uint64_t y_pitch;               /* bytes from row to row */
	char reason[STEP_REASON_BYTES]; /* why it was refused, else "" */
	/* combine: the epoch, once y may change: what was read there is
	 * nothing. Last, since it is not sent to other hosts: it may change
	 * while the rest is on its way. */
	_Atomic uint64_t withdrawn;
};

struct layout {
	int64_t num_local;  /* experts of the rank, L */
	int64_t worst_rows; /* A in the worst case */
	int64_t recv_rows;  /* A in force */
	uint64_t lines_off[NUM_PHASES];
	uint64_t closed_off;
	uint64_t lost_off;
	uint64_t revoked_off;
	uint64_t done_off;
	uint64_t done_stride; /* from slot to slot */
	uint64_t head_off;
	uint64_t head_stride; /* from slot to slot, head and counts */
	uint64_t note_off;
	uint64_t scales_off; /* of slot 0; the others at slot_stride */
	uint64_t row_scales_off;
	uint64_t weights_off;
	uint64_t source_off;
	uint64_t rows_off;
	uint64_t results_off;
	uint64_t travel_off;
	uint64_t slot_stride;
	uint64_t share_off;
	uint64_t share_stride; /* from share slot to share slot */
	uint64_t share_slots;  /* step n uses n mod share_slots */
	uint64_t far_head_off;
	uint64_t far_note_off;
	int32_t num_landings;
	uint64_t landed_off;
	uint64_t back_off;    /* of slot 0; at slot_stride */
	uint64_t tp_back_off; /* likewise */
	uint64_t told_off;
	uint64_t told_landed_off;
	uint64_t told_stride; /* from slot to slot */
	uint64_t partial_off;
	uint64_t total_bytes;
};

/* Rows in `partial`. */
#define PARTIAL_ROWS 256

/* Where in a share its arrays begin. The rows come first: one per token, or one
 * per place (token * sends + k) where each may have scales of its own. Then by
 * token: places (int32_t, num_sends) and weights (float, topk). Then by row:
 * row_scales (float) and scales. */
struct layout_share {
	uint64_t num_rows;
	uint64_t places, weights, row_scales, scales, bytes;
};

struct layout_share layout_share(const struct shape *shape);

/* The number of member `from`'s landing at member `at`; -1: it has none. */
int32_t layout_landing(const struct shape *shape, int32_t at, int32_t from);

/*
 * The layout of `member` with num_local experts. Errors: INVALID where
 * rows or bytes leave their range (names both).
 */
enum shunt_status layout_init(struct layout *layout, const struct shape *shape,
	int64_t num_local, int32_t member);

static inline uint64_t layout_line(const struct layout *layout,
	const struct shape *shape, enum phase phase, int64_t slot, int32_t from)
{
	return layout->lines_off[phase] +
	       ((uint64_t)slot * (uint64_t)shape->num_members +
		       (uint64_t)from) *
		       128;
}

/*
 * The done word of local expert `local` of rank `from`, whose units are numbered
 * from `first` on in the exchange's own placement; the others of that rank
 * follow it. No rank shares a line of 128 bytes with another.
 */
static inline uint64_t layout_done(const struct layout *layout, int64_t slot,
	int32_t from, int64_t first, int64_t local)
{
	uint64_t before = ((uint64_t)first * sizeof(uint64_t) + 127) / 128 +
			  (uint64_t)from;

	return layout->done_off + (uint64_t)slot * layout->done_stride +
	       before * 128 + (uint64_t)local * sizeof(uint64_t);
}

static inline uint64_t layout_head(const struct layout *layout, int64_t slot)
{
	return layout->head_off + (uint64_t)slot * layout->head_stride;
}

static inline uint64_t layout_note(const struct layout *layout, int64_t slot)
{
	return layout->note_off + (uint64_t)slot * sizeof(struct step_head);
}

/* Of member `from` of another host. */
static inline uint64_t layout_far_head(const struct layout *layout,
	const struct shape *shape, int64_t slot, int32_t from)
{
	return layout->far_head_off +
	       ((uint64_t)slot * (uint64_t)shape->num_members +
		       (uint64_t)from) *
		       layout->head_stride;
}

static inline uint64_t layout_far_note(const struct layout *layout,
	const struct shape *shape, int64_t slot, int32_t from)
{
	return layout->far_note_off +
	       ((uint64_t)slot * (uint64_t)shape->num_members +
		       (uint64_t)from) *
		       sizeof(struct step_head);
}

/* The share of step `epoch`; of a landing. */
static inline uint64_t layout_own_share(
	const struct layout *layout, uint64_t epoch)
{
	return layout->share_off +
	       epoch % layout->share_slots * layout->share_stride;
}

static inline uint64_t layout_landed_share(
	const struct layout *layout, int32_t landing, uint64_t epoch)
{
	return layout->landed_off + ((uint64_t)landing * layout->share_slots +
					    epoch % layout->share_slots) *
					    layout->share_stride;
}

static inline uint64_t layout_told(const struct layout *layout, int64_t slot)
{
	return layout->told_off + (uint64_t)slot * layout->told_stride;
}

static inline uint64_t layout_told_landed(const struct layout *layout,
	const struct shape *shape, int32_t landing, int64_t slot)
{
	return layout->told_landed_off +
	       ((uint64_t)landing * (uint64_t)shape->depth + (uint64_t)slot) *
		       layout->told_stride;
}

static inline uint64_t layout_slot(
	const struct layout *layout, uint64_t array_off, int64_t slot)
{
	return array_off + (uint64_t)slot * layout->slot_stride;
}

#endif
