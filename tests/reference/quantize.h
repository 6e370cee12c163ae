/* The reference's quantizations of a row. */
#ifndef REFERENCE_QUANTIZE_H
#define REFERENCE_QUANTIZE_H

#include <stdint.h>

#include <shunt/types.h>

/*
 * Dynamic int8, one scale per row: quantizes `count` elements at `x`, times
 * smooth[i] where smooth is not NULL, to q, and returns the scale. Adds the
 * NaN and Inf elements that it met to the two counts.
 */
float quantize_int8_row(enum shunt_dtype dtype, const void *x,
	const float *smooth, int64_t count, int8_t *q, int64_t *nan_elements,
	int64_t *inf_elements);

#endif
