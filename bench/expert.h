/*
 * The toy expert: turns a row that it was sent into a row of its own, by a
 * fixed pattern of bits that depends on the expert. Cheap, finite, and made of
 * integer operations only, so that it has the same bits everywhere.
 */
#ifndef BENCH_EXPERT_H
#define BENCH_EXPERT_H

#include <stdint.h>

#include <shunt/types.h>

struct expert {
	int64_t hidden;
	enum shunt_dtype sent;  /* of the rows that come: dtype of x, or I8 */
	enum shunt_dtype dtype; /* of the rows that go */
};

/* Bytes of an element. */
int64_t expert_element_bytes(enum shunt_dtype dtype);

/* Writes the row y of `expert` for `row`. `context` is a struct expert; the
 * form is that of the reference's experts. The scale has no part in it. */
void expert_row(
	void *context, int64_t expert, const void *row, float scale, void *y);

#endif
