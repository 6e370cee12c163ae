/*
 * Asking memory for rows before they are summed. A sum reads many rows side by
 * side and does six operations a line: the loads that wait for memory fill the
 * core's window before it sees enough of them. So lines are asked for far
 * enough ahead, at the end of rows those of the next sum, into the second-level
 * cache, which has room for all that are on their way. docs/performance.md has
 * the figures.
 */
#ifndef COMBINE_SUM_AHEAD_H
#define COMBINE_SUM_AHEAD_H

#include "combine/sum.h"

#define SUM_AHEAD_BYTES 3072
#define SUM_AHEAD_LINE  64

static inline __attribute__((always_inline)) void sum_ask(
	const void *const *rows, int64_t num_rows, int64_t at, int64_t bytes)
{
	for (int64_t i = 0; i < num_rows; i++)
		for (int64_t line = at; line < at + bytes;
			line += SUM_AHEAD_LINE)
			__builtin_prefetch((const void *)((uintptr_t)rows[i] +
							  (uintptr_t)line),
				0, 2);
}

/* To be called with bytes [at, at + bytes) of the rows in work, row_bytes
 * long. */
static inline __attribute__((always_inline)) void sum_ask_ahead(
	const void *const *rows, int64_t num_rows, const struct sum_next *next,
	int64_t row_bytes, int64_t at, int64_t bytes)
{
	at += SUM_AHEAD_BYTES;
	if (at < row_bytes)
		sum_ask(rows, num_rows, at, bytes);
	else if (at - row_bytes < row_bytes)
		sum_ask(next->rows, next->num_rows, at - row_bytes, bytes);
}

#endif
