/*
 * The 16-bit float types in plain C: to f32 exactly, from f32 to nearest even
 * with one NaN. Integer arithmetic only, so no control word matters. These are
 * the definitions; half_avx2.h gives the same bits.
 */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

#include <shunt/types.h>

/* The NaN that results are written with. */
#define HALF_NAN_F32  0x7fc00000u
#define HALF_NAN_F16  0x7e00u
#define HALF_NAN_BF16 0x7fc0u

#define HALF_F32_ABS 0x7fffffffu
#define HALF_F32_INF 0x7f800000u

static inline uint32_t half_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float half_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline float half_from_bf16(uint16_t code)
{
	return half_float((uint32_t)code << 16);
}

static inline uint16_t half_to_bf16(float value)
{
	uint32_t bits = half_bits(value);

	if ((bits & HALF_F32_ABS) > HALF_F32_INF)
		return HALF_NAN_BF16;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float half_from_f16(uint16_t code)
{
	uint32_t sign = (uint32_t)(code & 0x8000) << 16;
	uint32_t exponent = code >> 10 & 0x1f;
	uint32_t fraction = code & 0x3ff;
	int shift;

	if (exponent == 0x1f) /* Inf, NaN */
		return half_float(sign | HALF_F32_INF | fraction << 13);
	if (exponent)
		return half_float(
			sign | (exponent + 112) << 23 | fraction << 13);
	if (!fraction)
		return half_float(sign);
	/* A denormal is a normal f32: move its top bit to the hidden place. */
	shift = __builtin_clz(fraction) - 21;
	fraction = fraction << shift & 0x3ff;
	return half_float(
		sign | (uint32_t)(113 - shift) << 23 | fraction << 13);
}

/* bits >> shift, to nearest even; 1 <= shift <= 31. */
static inline uint32_t half_shift_round(uint32_t bits, int shift)
{
	uint32_t odd = bits >> shift & 1;

	return (bits + (1u << (shift - 1)) - 1 + odd) >> shift;
}

static inline uint16_t half_to_f16(float value)
{
	uint32_t bits = half_bits(value);
	uint32_t sign = bits >> 16 & 0x8000;
	uint32_t magnitude = bits & HALF_F32_ABS;
	int exponent = (int)(magnitude >> 23) - 112;
	uint32_t code;

	if (magnitude > HALF_F32_INF)
		return HALF_NAN_F16;
	if (exponent >= 0x1f) /* 65536 and more, Inf */
		return (uint16_t)(sign | 0x7c00);
	if (exponent < -10) /* below half of the least denormal */
		return (uint16_t)sign;
	/* Rounding may carry into the exponent; that is right, up to Inf. */
	if (exponent > 0)
		code = half_shift_round(magnitude - (112u << 23), 13);
	else
		code = half_shift_round(
			(magnitude & 0x7fffff) | 0x800000, 14 - exponent);
	return (uint16_t)(sign | code);
}

/* f32 of element i of x, which is of any alignment. */
static inline float half_load(enum shunt_dtype dtype, const void *x, int64_t i)
{
	const char *element = x;
	float value;
	uint16_t code;

	if (dtype == SHUNT_DTYPE_F32) {
		memcpy(&value, element + 4 * i, sizeof(value));
		return value;
	}
	memcpy(&code, element + 2 * i, sizeof(code));
	return dtype == SHUNT_DTYPE_F16 ? half_from_f16(code)
					: half_from_bf16(code);
}

/* Element i of x becomes `value`, rounded. */
static inline void half_store(
	enum shunt_dtype dtype, void *x, int64_t i, float value)
{
	char *element = x;
	uint32_t bits = half_bits(value);
	uint16_t code;

	if (dtype == SHUNT_DTYPE_F32) {
		if ((bits & HALF_F32_ABS) > HALF_F32_INF)
			bits = HALF_NAN_F32;
		memcpy(element + 4 * i, &bits, sizeof(bits));
		return;
	}
	code = dtype == SHUNT_DTYPE_F16 ? half_to_f16(value)
					: half_to_bf16(value);
	memcpy(element + 2 * i, &code, sizeof(code));
}

#endif
