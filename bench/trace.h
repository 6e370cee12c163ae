/*
 * Measured expert loads from a file (JSON):
 *	{"sets": [{"model", "domain", "kind": text, "topk", "num_experts":
 *	number, "counts": [per layer: [per expert: number]]}, ...]}
 * A set is named MODEL-DOMAIN-KIND-LAYER. LAYER is the model's layer where we
 * know which layers were recorded (OLMoE: 0, 7, 15), else the position in the
 * file.
 */
#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace {
	int64_t num_experts, topk;
	double *counts; /* (num_experts) */
	char name[128];
};

/* Reads set `name` of the file, or the first if NULL. On failure `error` says
 * why, and lists the sets if it is the name. On success the caller owes
 * free(counts). */
bool trace_read(struct trace *trace, const char *path, const char *name,
	char *error, size_t error_bytes);

#endif
