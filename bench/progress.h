/* A line that says how far the work is; only on a terminal. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shown; /* stderr is a terminal, and nobody asked for quiet */
	bool dirty; /* a line stands there */
};

void progress_init(struct progress *progress, bool quiet);

/* Shows `done` of `total`. */
void progress_show(struct progress *progress, int64_t done, int64_t total);

/* Shows a text. */
void progress_say(struct progress *progress, const char *text);

/* Wipes the line. */
void progress_clear(struct progress *progress);

#endif
