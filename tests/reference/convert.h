/*
 * Conversions of the reference between f32 and the 16-bit formats, by integer
 * arithmetic alone: round to nearest even, denormals kept, and every NaN that
 * is made here is the canonical one.
 */
#ifndef REFERENCE_CONVERT_H
#define REFERENCE_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include <shunt/types.h>

/* Bytes of an element. */
size_t convert_bytes(enum shunt_dtype dtype);

float convert_from_f16(uint16_t half);
uint16_t convert_to_f16(float value);
float convert_from_bf16(uint16_t half);
uint16_t convert_to_bf16(float value);

/* values[i] = element i of `row`, for F32, F16 and BF16. */
void convert_load(
	enum shunt_dtype dtype, const void *row, int64_t count, float *values);

/* Element i of `row` = values[i], rounded once; `row` may have any
 * alignment. */
void convert_store(
	enum shunt_dtype dtype, const float *values, int64_t count, void *row);

#endif
