/*
 * The formats, sign in the highest bit:
 *
 *	E4M3FN	exponent 4 (bias 7), fraction 3; all ones: NaN; no Inf
 *	E5M2	exponent 5 (bias 15), fraction 2; exponent all ones: Inf, NaN
 *	E2M1	exponent 2 (bias 1), fraction 1; neither NaN nor Inf
 *	E8M0	exponent 8 (bias 127), no sign; all ones: NaN; no zero
 */
#include "reference/codes.h"

#include <math.h>
#include <stddef.h>

/* sign, exponent, fraction; exponent 0 holds zero and the denormals. */
static double decode_fields(
	uint8_t code, int exponent_bits, int fraction_bits, int bias)
{
	int exponent = code >> fraction_bits & ((1 << exponent_bits) - 1);
	int fraction = code & ((1 << fraction_bits) - 1);
	bool negative = code >> (exponent_bits + fraction_bits) & 1;
	double value;

	if (exponent == 0)
		value = ldexp(fraction, 1 - bias - fraction_bits);
	else
		value = ldexp((1 << fraction_bits) + fraction,
			exponent - bias - fraction_bits);
	return negative ? -value : value;
}

static double decode_e5m2(uint8_t code)
{
	if ((code & 0x7c) != 0x7c)
		return decode_fields(code, 5, 2, 15);
	if ((code & 0x03) != 0)
		return (double)NAN;
	return code & 0x80 ? -HUGE_VAL : HUGE_VAL;
}

static double decode(enum shunt_dtype dtype, uint8_t code)
{
	switch (dtype) {
	case SHUNT_DTYPE_I8:
		return (int8_t)code;
	case SHUNT_DTYPE_E4M3FN:
		return (code & 0x7f) == 0x7f ? (double)NAN
					     : decode_fields(code, 4, 3, 7);
	case SHUNT_DTYPE_E5M2:
		return decode_e5m2(code);
	case SHUNT_DTYPE_E2M1:
		return decode_fields(code, 2, 1, 1);
	case SHUNT_DTYPE_E8M0:
		return code == 255 ? (double)NAN : ldexp(1, code - 127);
	default:
		return (double)NAN;
	}
}

float codes_decode(enum shunt_dtype dtype, uint8_t code)
{
	return (float)decode(dtype, code);
}

/* The codes 0 .. largest are in the order of their values. */
static uint8_t largest_finite(enum shunt_dtype dtype)
{
	if (dtype == SHUNT_DTYPE_E4M3FN)
		return 0x7e;
	return dtype == SHUNT_DTYPE_E5M2 ? 0x7b : 0x7;
}

static uint8_t nan_of(enum shunt_dtype dtype)
{
	if (dtype == SHUNT_DTYPE_E4M3FN)
		return 0x7f;
	return dtype == SHUNT_DTYPE_E5M2 ? 0x7e : 0;
}

/* All values that are not negative, decoded once, before any thread runs. */
static double values_of[SHUNT_DTYPE_E8M0 + 1][128];

__attribute__((constructor)) static void fill_values(void)
{
	for (int dtype = SHUNT_DTYPE_E4M3FN; dtype <= SHUNT_DTYPE_E2M1; dtype++)
		for (int code = 0; code < 128; code++)
			values_of[dtype][code] =
				decode((enum shunt_dtype)dtype, (uint8_t)code);
}

/* Of two neighbours the middle is exact in double, and so is comparing. */
static uint8_t encode_magnitude(enum shunt_dtype dtype, double magnitude)
{
	const double *values = values_of[dtype];
	uint8_t low = 0, high = largest_finite(dtype), between;
	double middle;

	if (magnitude >= values[high])
		return high;
	while (high - low > 1) {
		between = (uint8_t)((low + high) / 2);
		if (values[between] <= magnitude)
			low = between;
		else
			high = between;
	}
	middle = (values[low] + values[high]) / 2;
	if (magnitude == middle)
		return low & 1 ? high : low;
	return magnitude > middle ? high : low;
}

uint8_t codes_encode(enum shunt_dtype dtype, float value)
{
	uint8_t sign = dtype == SHUNT_DTYPE_E2M1 ? 0x8 : 0x80, code;

	if (isnan(value))
		return nan_of(dtype);
	code = encode_magnitude(dtype, fabs((double)value));
	return signbit(value) ? (uint8_t)(sign | code) : code;
}

int8_t codes_encode_int8(float value, int low, int high)
{
	double below, rest;
	int whole;

	if (isnan(value))
		return 0;
	if (value <= (float)low)
		return (int8_t)low;
	if (value >= (float)high)
		return (int8_t)high;
	below = floor((double)value);
	rest = (double)value - below;
	whole = (int)below;
	if (rest > 0.5 || (rest == 0.5 && whole % 2 != 0))
		whole++;
	return (int8_t)whole;
}

uint8_t codes_get(enum shunt_dtype dtype, const uint8_t *row, int64_t i)
{
	if (dtype != SHUNT_DTYPE_E2M1)
		return row[i];
	return i % 2 == 0 ? row[i / 2] & 0xf : row[i / 2] >> 4;
}

void codes_put(enum shunt_dtype dtype, uint8_t *row, int64_t i, uint8_t code)
{
	uint8_t *byte = &row[dtype == SHUNT_DTYPE_E2M1 ? i / 2 : i];

	if (dtype != SHUNT_DTYPE_E2M1)
		*byte = code;
	else if (i % 2 == 0) /* the first of a byte clears its neighbour */
		*byte = code;
	else
		*byte = (uint8_t)(*byte | code << 4);
}
