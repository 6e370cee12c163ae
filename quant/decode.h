/*
 * From codes of a byte and less to f32, exactly, in plain C. NaN comes back as
 * some NaN; who writes floats makes it the canonical one. decode_avx2.h has the
 * same for whole vectors.
 */
#ifndef QUANT_DECODE_H
#define QUANT_DECODE_H

#include <stdint.h>

#include <shunt/types.h>

#include "base/half.h"

#define DECODE_INLINE static inline __attribute__((always_inline))

/* E5M2 is the upper byte of f16. */
DECODE_INLINE float decode_e5m2(uint8_t code)
{
	return half_from_f16((uint16_t)(code << 8));
}

/* The bits of E4M3FN, moved into f16, mean 2^-8 of the value: the exponent's
 * bias is 8 larger there. */
DECODE_INLINE float decode_e4m3fn(uint8_t code)
{
	uint32_t half = (code & 0x80u) << 8 | (code & 0x7fu) << 7;

	if ((code & 0x7f) == 0x7f)
		return half_float(HALF_NAN_F32);
	return half_from_f16((uint16_t)half) * 256.0f;
}

/* Of the low nibble: sign, two bits of exponent, one of fraction. */
DECODE_INLINE float decode_e2m1(uint8_t code)
{
	static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	float value = values[code & 7];

	return code & 8 ? -value : value;
}

/* A power of two: its exponent field is the code, but 2^-127 is denormal. */
DECODE_INLINE float decode_e8m0(uint8_t code)
{
	if (code == 0)
		return half_float(0x00400000);
	if (code == 255)
		return half_float(HALF_NAN_F32);
	return half_float((uint32_t)code << 23);
}

/* Element i of a row of I8, E4M3FN, E5M2 or E2M1. */
DECODE_INLINE float decode_element(
	enum shunt_dtype code, const void *q, int64_t i)
{
	const uint8_t *codes = q;

	switch (code) {
	case SHUNT_DTYPE_E4M3FN:
		return decode_e4m3fn(codes[i]);
	case SHUNT_DTYPE_E5M2:
		return decode_e5m2(codes[i]);
	case SHUNT_DTYPE_E2M1:
		return decode_e2m1((uint8_t)(codes[i / 2] >> (i % 2 * 4)));
	default:
		return (float)(int8_t)codes[i];
	}
}

#endif
