/* Shunt: what an exchange has done so far, as numbers and as text. */
#ifndef SHUNT_STATS_H
#define SHUNT_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_exchange;

/* Counted on this rank, since creation or the last shunt_stats_reset(). */
struct shunt_stats {
	size_t struct_size;
	int64_t since_ns;        /* that moment, in ns since 1970 */
	int64_t dispatches;      /* that ended well */
	int64_t combines;        /* that ended well */
	int64_t failed_steps;    /* that ended otherwise, timeouts left out */
	int64_t tokens;          /* brought to dispatches */
	int64_t sent_rows;       /* rows to experts, own ones included */
	int64_t received_rows;   /* rows for this rank's experts */
	int64_t dropped_choices; /* bad ids, with SHUNT_BAD_ID_DROP */
	int64_t dispatch_nan_elements, dispatch_inf_elements;
	int64_t combine_nan_elements, combine_inf_elements;
	int64_t dispatch_bytes;   /* of rows sent, and their scales */
	int64_t combine_bytes;    /* of experts' rows read by combine */
	int64_t dispatch_wait_ns; /* that calls waited for other ranks */
	int64_t combine_wait_ns;
	int64_t num_local_experts; /* L */
	/* (L), or NULL: filled with the rows that each expert received. Give
	 * room for `expert_capacity`; less than L is INVALID. */
	int64_t *expert_rows;
	int64_t expert_capacity;
	/* Sent to other hosts: rows with all that goes with them, experts' rows
	 * and partial sums, heads and notes of steps; and how many requests these
	 * took. Without the transport's own records. */
	int64_t dispatch_wire_bytes, dispatch_wire_requests;
	int64_t combine_wire_bytes, combine_wire_requests;
	/* What dispatch would have sent there at least: a row and its scales
	 * once for each other host that a token goes to. */
	int64_t ideal_wire_bytes;
};
#define SHUNT_STATS_INIT SHUNT_INIT(struct shunt_stats)

/* Fills *stats. Local. Errors: NULL_ARGUMENT, INVALID, VERSION, STATE (another
 * thread is inside a call on the exchange). Works on an exchange that has lost
 * a rank. */
SHUNT_EXPORT enum shunt_status shunt_stats_get(
	struct shunt_exchange *exchange, struct shunt_stats *stats);

/* Begins a new count for shunt_stats_get(). */
SHUNT_EXPORT enum shunt_status shunt_stats_reset(
	struct shunt_exchange *exchange);

/*
 * The same in the Prometheus text format, since creation (its counters never
 * go back), labelled with the rank and the expert's id. Writes at most `size`
 * bytes with the final 0 to `text` (NULL with size 0) and sets *needed to the
 * bytes of the whole, without the final 0.
 */
SHUNT_EXPORT enum shunt_status shunt_stats_text(struct shunt_exchange *exchange,
	char *text, size_t size, size_t *needed);

#ifdef __cplusplus
}
#endif
#endif
