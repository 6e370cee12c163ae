/*
 * The toy expert: turns a row that it was sent into a row of its own, by a
 * fixed pattern of bits that depends on the expert and on its place in the TP
 * group. Cheap, finite, and made of integer operations only, so that it has
 * the same bits everywhere. Scales have no part in it.
 */
#ifndef BENCH_EXPERT_H
#define BENCH_EXPERT_H

#include <stdint.h>

#include <shunt/types.h>

struct expert {
	int64_t hidden;
	enum shunt_dtype sent;  /* of the rows that come */
	enum shunt_dtype dtype; /* of the rows that go: F32, F16, BF16 */
};

/* Writes the row y of `expert` for `row`; `tp` is the EP group. */
void expert_row(const struct expert *self, int64_t expert, int32_t tp,
	const void *row, void *y);

#endif
