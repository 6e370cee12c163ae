/*
 * The shape of an exchange: what all ranks have in common, worked out from the
 * config once.
 *
 * Words: a **member** is a rank of the exchange's own group: EP rank r of EP
 * group p is member p * W + r (without TP: r). A **unit** is what rows are
 * counted for: MoE expert e is unit e, and the shared expert on shared rank i
 * is unit E + i. A token has `num_sends` places to go: its K choices, then its
 * s shared experts.
 */
#ifndef EXCHANGE_SHAPE_H
#define EXCHANGE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "exchange/hosts.h"
#include "quant/format.h"

/* Row numbers are int32. */
#define SHAPE_MAX_ROWS INT64_C(0x7fffffff)

struct shape {
	int32_t num_ranks;   /* W, of one EP group */
	int32_t tp_size;     /* P, 1 without TP */
	int32_t num_members; /* P * W */
	int32_t depth;
	int32_t num_routes;
	int64_t max_tokens;
	int64_t hidden;
	int64_t topk;
	int64_t num_experts;        /* E */
	int64_t num_shared;         /* s; 0 where there are no shared ranks */
	int32_t num_shared_ranks;   /* S */
	int64_t num_special;        /* zero, copy and constant experts */
	int64_t num_units;          /* E + S */
	int64_t num_sends;          /* K + s */
	struct quant_format format; /* of expand_x; with x_scales, of those */
	enum shunt_layout layout;
	bool column_major;
	bool distinct;
	bool elastic;
	int64_t max_recv_rows;   /* 0: no limit below the worst case */
	int64_t rows_per_expert; /* PADDED: M */
	int64_t alignment;       /* >= 1 */
	int64_t x_row_bytes;     /* of a dense row of x */
	int64_t result_bytes;    /* of an expert's row */
	/* Steps in which no rank has more tokens are fetched by the receivers,
	 * which spares them a phase; 0: none is. See dispatch/fetch.h. */
	int64_t fetch_tokens;
	/* Most tokens of a step whose rows a rank offers to others: as many, or
	 * all where ranks are on several hosts. */
	int64_t offer_tokens;
	/* Of a row in `travel`; 0: results are read in place. */
	int64_t travel_bytes;
	/* Of an expert's row on its way home, as it travels. */
	int64_t home_bytes;

	/* NULL: all ranks are on one host, and the rest means nothing. */
	const struct hosts *hosts;
	bool rows_by_host; /* a row goes to a host once, else to each rank */
	bool sums_by_host; /* combine adds up a host's rows there */
	bool tp_spans;     /* a TP group is on several hosts */
	int64_t partial_bytes; /* of what a host's rows add up to, as it travels */
	int64_t back_bytes;    /* from row to row of what comes back */
};

/* The shape of a config that has been checked. */
struct shape shape_of(const struct shunt_exchange_config *config,
	int32_t num_ranks, int32_t tp_size);

/* Fits the shape to the hosts of its members, which outlive it. */
void shape_spread(struct shape *shape,
	const struct shunt_exchange_config *config, const struct hosts *hosts);

/* Bytes of scales of one row. */
static inline int64_t shape_scale_bytes(const struct shape *shape)
{
	return shape->format.num_scales * shape->format.scale_bytes;
}

/* True if a row may be quantized differently for each of its experts. */
static inline bool shape_varies_by_expert(const struct shape *shape)
{
	return shape->format.takes_smooth;
}

/* True if rows can be read before all of their rank can: they are not summed
 * over a TP group or a host first. */
static inline bool shape_signals_done(const struct shape *shape)
{
	return shape->tp_size == 1 && !shape->sums_by_host;
}

/* `rows` with padding. Asked for each expert in each step: usually without a
 * division. */
static inline int64_t shape_align(const struct shape *shape, int64_t rows)
{
	if (shape->alignment == 1)
		return rows;
	return (rows + shape->alignment - 1) / shape->alignment *
	       shape->alignment;
}

#endif
