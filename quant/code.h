/*
 * Codes of a byte and less, in plain C: their constants, and rounding to them.
 * quant/decode.h has the way back.
 *
 * A small float with M fraction bits and least normal exponent e is rounded by
 * one float addition. With E = the exponent of |p|, but at least e,
 *
 *	k = round_half_to_even(|p| / 2^(E - M))		0 .. 2^(M + 1)
 *	code = ((E - e) << M) + k
 *
 * holds for normal codes, for denormal ones and where rounding carries. k is
 * what 2^(E + 23 - M) + |p| has in its lowest bits.
 */
#ifndef QUANT_CODE_H
#define QUANT_CODE_H

#include <stdbool.h>

#include "base/half.h"

#define CODE_INLINE static inline __attribute__((always_inline))

#define CODE_F32_EXPONENT 0x7f800000u

/* M of E4M3FN, E5M2 and E2M1. */
CODE_INLINE int code_fraction_bits(enum shunt_dtype code)
{
	return code == SHUNT_DTYPE_E4M3FN ? 3
	       : code == SHUNT_DTYPE_E5M2 ? 2
					  : 1;
}

/* The bits of 2^e as f32. */
CODE_INLINE uint32_t code_least_normal(enum shunt_dtype code)
{
	uint32_t exponent = code == SHUNT_DTYPE_E4M3FN ? 127 - 6
			    : code == SHUNT_DTYPE_E5M2 ? 127 - 14
						       : 127;

	return exponent << 23;
}

/*
 * What is added to the bits of 2^E to make the magic number. The lowest byte
 * takes -(e + 127) << M off the code; it is even, and leaves ties alone.
 */
CODE_INLINE uint32_t code_magic(enum shunt_dtype code)
{
	int bits = code_fraction_bits(code);
	uint32_t shift = (uint32_t)(23 - bits) << 23;

	return shift + (-(code_least_normal(code) >> (23 - bits)) & 0xff);
}

/* The largest finite value, FMAX. */
CODE_INLINE float code_max(enum shunt_dtype code)
{
	switch (code) {
	case SHUNT_DTYPE_E4M3FN:
		return 448.0f;
	case SHUNT_DTYPE_E5M2:
		return 57344.0f;
	case SHUNT_DTYPE_E2M1:
		return 6.0f;
	default:
		return 127.0f;
	}
}

CODE_INLINE uint8_t code_nan(enum shunt_dtype code)
{
	return code == SHUNT_DTYPE_E4M3FN ? 0x7f
	       : code == SHUNT_DTYPE_E5M2 ? 0x7e
					  : 0;
}

/* True for the types that have a NaN. */
CODE_INLINE bool code_is_fp8(enum shunt_dtype code)
{
	return code == SHUNT_DTYPE_E4M3FN || code == SHUNT_DTYPE_E5M2;
}

/* A code without sign, and its value. */
struct code_rounded {
	uint32_t code;
	float value;
};

/* Of |p|, p not NaN; what is too large becomes the largest. */
CODE_INLINE struct code_rounded code_round_float(enum shunt_dtype code, float p)
{
	uint32_t magnitude = half_bits(p) & HALF_F32_ABS;
	uint32_t max = half_bits(code_max(code));
	uint32_t least = code_least_normal(code);
	uint32_t exponent;
	float magic, sum;

	magnitude = magnitude < max ? magnitude : max;
	exponent = magnitude & CODE_F32_EXPONENT;
	exponent = exponent < least ? least : exponent;
	magic = half_float(exponent + code_magic(code));
	sum = half_float(magnitude) + magic;
	exponent >>= 23 - code_fraction_bits(code);
	return (struct code_rounded){
		.code = (half_bits(sum) + exponent) & 0x7f,
		.value = sum - magic,
	};
}

/* The code of p, which is not NaN. */
CODE_INLINE uint8_t code_encode_float(enum shunt_dtype code, float p)
{
	uint32_t sign = half_bits(p) >> 31;
	uint32_t magnitude = code_round_float(code, p).code;

	if (code == SHUNT_DTYPE_E2M1)
		return (uint8_t)((magnitude & 0x7) | sign << 3);
	return (uint8_t)(magnitude | sign << 7);
}

/* The whole number nearest to p, which is below 2^21: 1.5 * 2^23 leaves no
 * bits for a fraction. */
CODE_INLINE uint8_t code_round(float p)
{
	const float magic = 0x1.8p23f;

	return (uint8_t)(half_bits(p + magic) - half_bits(magic));
}

/* The same of any p but NaN, held in low .. 127. */
CODE_INLINE uint8_t code_encode_int8(float p, float low)
{
	p = p < low ? low : p;
	p = p > 127.0f ? 127.0f : p;
	return code_round(p);
}

#endif
