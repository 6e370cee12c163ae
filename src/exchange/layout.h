/*
 * The layout of an exchange's window: this file owns every offset in it. All
 * ranks compute the layout of all ranks from the config, so offsets never
 * travel.
 *
 * A window, `M` members, `depth` slots (step n uses slot n mod depth):
 *
 *	lines    [phase][slot][M]  line s: what member s has signalled here
 *	closed   [M]               line s: member s will not come here again
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
 *	kept     [slot][T_max * sends][H]  INDEXED: own rows, read by receivers;
 *	                           else those of a small step, which they fetch
 *	offer    [slot]            what goes with rows to be fetched
 *	results  [slot][A][H]      written by the experts, read by the senders
 *	travel   [slot][A][..]     what is read instead, where results are
 *	                           quantized or reduced over TP first
 *
 * Only lines, done words, scales, row_scales, weights, source and rows are written by
 * peers; each row of the latter has exactly one writer in a step.
 */
#ifndef EXCHANGE_LAYOUT_H
#define EXCHANGE_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "exchange/shape.h"

enum phase {
	PHASE_COUNTS,  /* head and counts of the step can be read */
	PHASE_ROWS,    /* the rows to this rank are written */
	PHASE_RESULTS, /* note and results of the step can be read */
	PHASE_TRAVEL,  /* with TP: the reduced rows can be read */
	PHASE_READ,    /* y that lies in the caller's memory has been read */
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
	uint64_t y_offset; /* in the segment */
	uint64_t y_pitch;  /* bytes from row to row */
	/* The epoch, once y may change: what was read there is nothing. */
	_Atomic uint64_t withdrawn;
	char reason[STEP_REASON_BYTES]; /* why it was refused, else "" */
};

struct layout {
	int64_t num_local;  /* experts of the rank, L */
	int64_t worst_rows; /* A in the worst case */
	int64_t recv_rows;  /* A in force */
	uint64_t lines_off[NUM_PHASES];
	uint64_t closed_off;
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
	uint64_t kept_off;
	uint64_t offer_off;
	uint64_t results_off;
	uint64_t travel_off;
	uint64_t slot_stride;
	uint64_t total_bytes;
};

/* Where in an offer its arrays begin, by token: places (int32_t, num_sends),
 * weights (float, topk), row_scales (float) and scales. */
struct layout_offer {
	uint64_t weights, row_scales, scales, bytes;
};

static inline struct layout_offer layout_offer(const struct shape *shape)
{
	uint64_t tokens = (uint64_t)shape->fetch_tokens;
	struct layout_offer offer = {
		.weights = tokens * (uint64_t)shape->num_sends * 4,
	};

	offer.row_scales = offer.weights + tokens * (uint64_t)shape->topk * 4;
	offer.scales = offer.row_scales + tokens * 4;
	offer.bytes =
		offer.scales + tokens * (uint64_t)shape_scale_bytes(shape);
	return offer;
}

/*
 * The layout of EP rank `rank` with num_local experts. Errors: INVALID where
 * rows or bytes leave their range (names both).
 */
enum shunt_status layout_init(struct layout *layout, const struct shape *shape,
	int64_t num_local, int32_t rank);

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

static inline uint64_t layout_counts(const struct layout *layout, int64_t slot)
{
	return layout_head(layout, slot) + sizeof(struct step_head);
}

static inline uint64_t layout_note(const struct layout *layout, int64_t slot)
{
	return layout->note_off + (uint64_t)slot * sizeof(struct step_head);
}

static inline uint64_t layout_slot(
	const struct layout *layout, uint64_t array_off, int64_t slot)
{
	return array_off + (uint64_t)slot * layout->slot_stride;
}

#endif
