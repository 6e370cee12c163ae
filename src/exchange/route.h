/*
 * The routing of a step: what dispatch works out and what combine and later
 * cached dispatches use. It outlives its step: step n's is kept until step
 * n + num_routes begins. A cached dispatch makes a copy, its own.
 */
#ifndef EXCHANGE_ROUTE_H
#define EXCHANGE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "exchange/view.h"

/* Places of a token that lead nowhere: none at all, or special expert z (in the
 * order zero, copy, constant) as ROUTE_SPECIAL - z. */
#define ROUTE_NONE    (-1)
#define ROUTE_SPECIAL (-2)

struct route {
	uint64_t epoch; /* of the step that it belongs to; 0: it is empty */
	bool is_placed; /* offsets are known: all ranks agreed to the step */
	const struct view *view; /* the exchange's whole one, or own_view */
	struct view own_view;    /* of an elastic_info table */

	/* Own tokens. */
	int64_t num_tokens;
	bool has_weights;
	float *weights;  /* [T_max * K]: as given to dispatch */
	uint8_t *active; /* [T_max] */
	int32_t *unit; /* [T_max * sends]: unit, or ROUTE_NONE, ROUTE_SPECIAL */
	int32_t *row;  /* [T_max * sends]: row at the unit's rank, in the own
			  * TP place; see route_row() */
	/* [T_max * sends]: where combine reads it: the same, or for a unit on
	 * another host the place itself, in `back`. */
	int32_t *home_row;

	/* What this rank counted; peers could change what lies in the window. */
	uint32_t *own_counts; /* [units] */

	/* Everybody's counts. */
	uint32_t *next;  /* [units]: rows of own EP group from lower ranks */
	uint32_t *total; /* [P * units]: rows from EP group p to unit u */
	/* [P * units]: first row that this rank writes for u at TP rank q */
	uint32_t *start;
	/* With sums by host, [landings * units]: rows from lower ranks of the EP
	 * group of the member that lands there. */
	uint32_t *before;

	/* What this rank receives. */
	int64_t num_rows;          /* N */
	int64_t extent_rows;       /* with padding */
	int64_t *expert_rows;      /* [L] */
	int64_t *expert_first_row; /* [L] */
	/* [P * L * W]: rows of EP group p for local expert l from rank r, at
	 * (p * L + l) * W' + r. */
	int32_t *blocks;
};

/* The row of place `at` (token * sends + k) with unit u at TP rank q. */
static inline int64_t route_row(const struct route *route, int64_t num_units,
	int64_t at, int32_t own_tp, int32_t tp)
{
	int32_t unit = route->unit[at];

	if (tp == own_tp)
		return route->row[at];
	return (int64_t)route->row[at] +
	       (int64_t)route->start[tp * num_units + unit] -
	       (int64_t)route->start[own_tp * num_units + unit];
}

/*
 * Where, among the rows of a unit at TP rank q, those of EP group p begin:
 * own ones first, then the others in order; or all in order.
 */
static inline int64_t route_group_offset(const uint32_t *total,
	int64_t num_units, int64_t unit, bool rank_order, int32_t q, int32_t p)
{
	int64_t rows = 0;

	if (!rank_order && p == q)
		return 0;
	if (!rank_order && p < q)
		rows = total[q * num_units + unit];
	for (int32_t i = 0; i < p; i++)
		rows += total[i * num_units + unit];
	return rows;
}

/* The EP group whose rows come `order`-th: own ones first, then the others in
 * order; or all in order. */
static inline int32_t route_group_at(
	int32_t order, int32_t own_tp, bool rank_order)
{
	if (rank_order)
		return order;
	return order == 0 ? own_tp : order - (order <= own_tp);
}

/* Copies everybody's counts, and what follows from them. */
struct layout;
void route_copy_counts(struct route *to, const struct route *from,
	const struct shape *shape, const struct layout *layout);

/*
 * Walks the blocks of received rows in the order in which they lie. Begin with
 * all zero, or with `expert` and its first row for `next`.
 */
struct row_cursor {
	/* The block: `rows` rows from `row` on, for local expert `local`, from
	 * rank `rank` (of the view) of EP group `tp`. */
	int64_t row, rows, local;
	int32_t tp, rank;

	/* The next one. */
	int64_t expert, next;
	int32_t order, source;
};

/* The next block, empty ones too; false: there is none. */
bool route_next_block(const struct route *route, const struct shape *shape,
	bool rank_order, int32_t own_tp, struct row_cursor *cursor);

#endif
