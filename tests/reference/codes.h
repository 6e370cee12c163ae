/*
 * Conversions of the reference for formats of a byte or less: int8, fp8, fp4
 * and E8M0. Decoding is the formats' definition, encoding a search among all
 * decoded values.
 */
#ifndef REFERENCE_CODES_H
#define REFERENCE_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/types.h>

/* The value of a code of I8, E4M3FN, E5M2, E2M1 (0 .. 15) or E8M0. */
float codes_decode(enum shunt_dtype dtype, uint8_t code);

/*
 * The code of E4M3FN, E5M2 or E2M1 nearest to `value`; of two, the even one.
 * What is larger than the largest finite value becomes that one, Inf too. NaN
 * is 0x7f, 0x7e and 0.
 */
uint8_t codes_encode(enum shunt_dtype dtype, float value);

/* The whole number nearest to `value`, of two the even one, held in low ..
 * high; NaN is 0. */
int8_t codes_encode_int8(float value, int low, int high);

/* Element i of a row of codes; E2M1 has element 0 in the low nibble. */
uint8_t codes_get(enum shunt_dtype dtype, const uint8_t *row, int64_t i);
void codes_put(enum shunt_dtype dtype, uint8_t *row, int64_t i, uint8_t code);

#endif
