/*
 * Conversions of the reference, straight from the formats' definitions:
 *
 *	f32	sign 1, exponent 8 (bias 127), fraction 23
 *	f16	sign 1, exponent 5 (bias 15), fraction 10
 *	bf16	the upper half of f32
 */
#include "reference/convert.h"

#include <string.h>

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* bits / 2^shift, rounded to nearest, ties to even; 0 < shift < 32. */
static uint32_t shift_to_even(uint32_t bits, uint32_t shift)
{
	uint32_t quotient = bits >> shift;
	uint32_t rest = bits & ((UINT32_C(1) << shift) - 1);
	uint32_t half = UINT32_C(1) << (shift - 1);

	/* Added up and not branched on: it is as likely as not. */
	return quotient + ((rest > half) | ((rest == half) & (quotient & 1)));
}

size_t convert_bytes(enum shunt_dtype dtype)
{
	switch (dtype) {
	case SHUNT_DTYPE_F32:
		return 4;
	case SHUNT_DTYPE_F16:
	case SHUNT_DTYPE_BF16:
		return 2;
	case SHUNT_DTYPE_I8:
	case SHUNT_DTYPE_E4M3FN:
	case SHUNT_DTYPE_E5M2:
	case SHUNT_DTYPE_E8M0:
		return 1;
	case SHUNT_DTYPE_E2M1: /* half a byte */
	case SHUNT_DTYPE_NONE:
		break;
	}
	return 0;
}

float convert_from_bf16(uint16_t half)
{
	return float_of((uint32_t)half << 16);
}

uint16_t convert_to_bf16(float value)
{
	if (value != value)
		return 0x7fc0;
	/* The carry of the rounding may run into the exponent, up to
	 * infinity: that is what rounding to nearest asks for. */
	return (uint16_t)shift_to_even(bits_of(value), 16);
}

float convert_from_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t exponent = (half >> 10) & 0x1f;
	uint32_t fraction = half & 0x3ff;

	if (exponent == 0x1f)
		return float_of(sign | 0x7f800000 | fraction << 13);
	if (exponent != 0)
		return float_of(sign | (exponent + 112) << 23 | fraction << 13);
	/* Zero and denormals: fraction * 2^-24, exact in f32. */
	return float_of(sign | bits_of((float)fraction * 0x1p-24f));
}

uint16_t convert_to_f16(float value)
{
	uint32_t bits = bits_of(value);
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
	uint32_t exponent = bits >> 23 & 0xff;
	uint32_t fraction = bits & 0x7fffff;
	uint32_t half;

	if (value != value)
		return 0x7e00;
	if (exponent >= 143) /* 2^16 and more, infinity too */
		return sign | 0x7c00;
	if (exponent >= 113) /* 2^-14 and more: a normal f16 */
		half = shift_to_even((exponent - 112) << 23 | fraction, 13);
	else if (exponent >= 102) /* 2^-25 and more: a denormal */
		half = shift_to_even(fraction | 0x800000, 126 - exponent);
	else
		half = 0;
	return (uint16_t)(sign | half);
}

#define DEFINE_LOADER(format)                                       \
	static void load_##format(                                  \
		const uint8_t *bytes, int64_t count, float *values) \
	{                                                           \
		uint16_t half;                                      \
                                                                    \
		for (int64_t i = 0; i < count; i++) {               \
			memcpy(&half, bytes + 2 * i, sizeof(half)); \
			values[i] = convert_from_##format(half);    \
		}                                                   \
	}

DEFINE_LOADER(f16)
DEFINE_LOADER(bf16)

void convert_load(
	enum shunt_dtype dtype, const void *row, int64_t count, float *values)
{
	if (dtype == SHUNT_DTYPE_F32)
		memcpy(values, row, (size_t)count * sizeof(*values));
	else if (dtype == SHUNT_DTYPE_F16)
		load_f16(row, count, values);
	else
		load_bf16(row, count, values);
}

#define DEFINE_STORER(format)                                       \
	static void store_##format(                                 \
		const float *values, int64_t count, uint8_t *bytes) \
	{                                                           \
		uint16_t half;                                      \
                                                                    \
		for (int64_t i = 0; i < count; i++) {               \
			half = convert_to_##format(values[i]);      \
			memcpy(bytes + 2 * i, &half, sizeof(half)); \
		}                                                   \
	}

DEFINE_STORER(f16)
DEFINE_STORER(bf16)

static void store_floats(const float *values, int64_t count, void *row)
{
	uint8_t *bytes = row;
	uint32_t bits;

	for (int64_t i = 0; i < count; i++) {
		bits = values[i] != values[i] ? 0x7fc00000 : bits_of(values[i]);
		memcpy(bytes + 4 * i, &bits, sizeof(bits));
	}
}

void convert_store(
	enum shunt_dtype dtype, const float *values, int64_t count, void *row)
{
	if (dtype == SHUNT_DTYPE_F32)
		store_floats(values, count, row);
	else if (dtype == SHUNT_DTYPE_F16)
		store_f16(values, count, row);
	else
		store_bf16(values, count, row);
}
