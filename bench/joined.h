/*
 * A run whose ranks a launcher has started, each with memory of its own: this
 * process is one of them. All make the same load; they meet over a channel, and
 * in the end rank 0 has everybody's pages and times, and reports.
 */
#ifndef BENCH_JOINED_H
#define BENCH_JOINED_H

#include "bench.h"

/* Meets the others. False with `error`. Owes joined_close(), also then. */
bool joined_open(struct bench *bench, char error[CHANNEL_ERROR]);
void joined_close(struct bench *bench);

/* Brings what the ranks have measured to rank 0. False with the channel
 * broken, which has why. */
bool joined_gather(struct bench *bench);

#endif
