/*
 * Asking memory for what is read next while something else is written: rows
 * come from memory and go to memory, and a core that does one after the other
 * leaves memory idle for half of the time.
 */
#ifndef QUANT_AHEAD_H
#define QUANT_AHEAD_H

#include <stdint.h>

#define AHEAD_LINE  64
#define AHEAD_BLOCK 256 /* bytes that are written between two askings */

/* Bytes that are read next; none of them need exist, it is only a hint. */
struct ahead {
	const char *next;
	int64_t bytes;
};

/* Lines to ask for per AHEAD_BLOCK of `written` bytes, so that all of them
 * have been asked for in the end. */
static inline int64_t ahead_pace(const struct ahead *ahead, int64_t written)
{
	int64_t lines = (ahead->bytes + AHEAD_LINE - 1) / AHEAD_LINE;
	int64_t blocks = (written + AHEAD_BLOCK - 1) / AHEAD_BLOCK;

	return blocks > 0 ? (lines + blocks - 1) / blocks : 0;
}

/* Asks for the next `lines` lines. */
static inline void ahead_ask(struct ahead *ahead, int64_t lines)
{
	for (; lines > 0 && ahead->bytes > 0; lines--) {
		__builtin_prefetch(ahead->next);
		ahead->next += AHEAD_LINE;
		ahead->bytes -= AHEAD_LINE;
	}
}

#endif
