/* Rows of a trial in a block of their own: with a stride, at an odd place,
 * among guard bytes. */
#ifndef SUPPORT_TRIAL_ROWS_H
#define SUPPORT_TRIAL_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/types.h>

struct trial_rows {
	uint8_t *block;
	int64_t bytes;  /* of the block */
	int64_t first;  /* where the rows begin */
	int64_t stride; /* elements, as an argument: 0 is dense */
	int64_t pitch;  /* bytes */
	int64_t row_bytes, num_rows;
};

struct trial_rows_shape {
	enum shunt_dtype dtype;
	int64_t hidden, num_rows;
	int64_t stride; /* 0, or elements */
	int64_t shift;  /* bytes, 0 .. 63 */
};

/* Makes the block, all guard bytes. False if memory is out. */
bool trial_rows_init(
	struct trial_rows *rows, const struct trial_rows_shape *shape);
void trial_rows_fini(struct trial_rows *rows);

/* Where the rows begin; row i. */
void *trial_rows_first(const struct trial_rows *rows);
void *trial_rows_at(const struct trial_rows *rows, int64_t i);

/* Copies dense rows to it. */
void trial_rows_fill(struct trial_rows *rows, const void *dense);

/* Overwrites all of the block. */
void trial_rows_spoil(struct trial_rows *rows);

#endif
