/* Reads the Prometheus text format, as far as counters go, and is strict. */
#ifndef SUPPORT_METRICS_H
#define SUPPORT_METRICS_H

#include "support/ranks.h"

#define MAX_SAMPLES 64

/* One line of numbers. */
struct sample {
	char name[64];
	char rank[16], expert[16]; /* labels; "" where there is none */
	char exchange[24];
	char value[32];
};

struct metrics {
	struct sample samples[MAX_SAMPLES];
	int count;
};

/* Ends this rank unless `text` is nothing but counters: HELP and TYPE once for
 * each, then its samples, with names, labels and numbers as they must be. */
void metrics_parse(
	struct seat *seat, const char *text, struct metrics *metrics);

/* The value of shunt_<name>_total with this expert label ("": without). Ends
 * this rank if there is none. */
const char *metrics_value(struct seat *seat, const struct metrics *metrics,
	const char *name, const char *expert);

#endif
