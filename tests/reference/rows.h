/* What the reference's two halves share: where a choice goes, and the row that
 * is sent there. */
#ifndef REFERENCE_ROWS_H
#define REFERENCE_ROWS_H

#include "reference/reference.h"

/* The expert that choice (t, k) of `input` travels to, or -1. */
int64_t reference_travels_to(const struct reference_job *job,
	const struct reference_input *input, int64_t t, int64_t k);

/* Writes token t as `expert` is sent it; returns the scale, 1 without quant.
 * Adds to the NaN and Inf counts of `sent`. */
float reference_make_row(const struct reference_job *job,
	const struct reference_input *input, int64_t t, int64_t expert,
	void *row, struct reference_sent *sent);

#endif
