#include "support/operand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"

void operand_init(struct operand *operand, int64_t max_hidden)
{
	operand->values = calloc((size_t)max_hidden, sizeof(float));
	assert_non_null(operand->values);
	fence_init(&operand->fence, (size_t)max_hidden * sizeof(float) + 1);
	operand->row = NULL;
}

void operand_fini(struct operand *operand)
{
	fence_fini(&operand->fence);
	free(operand->values);
}

float operand_plus(float a, float b)
{
	volatile float sum = a + b;

	return sum;
}

float operand_times(float a, float b)
{
	volatile float product = a * b;

	return product;
}

float operand_dot(const float *a, const float *b, int64_t hidden)
{
	float lanes[16] = {0};

	for (int64_t h = 0; h < hidden; h++)
		lanes[h % 16] =
			operand_plus(lanes[h % 16], operand_times(a[h], b[h]));
	for (int half = 8; half >= 1; half /= 2)
		for (int i = 0; i < half; i++)
			lanes[i] = operand_plus(lanes[i], lanes[i + half]);
	return lanes[0];
}

float operand_from_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

uint32_t operand_to_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

uint32_t operand_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (uint32_t)(*random >> 32);
}

float operand_value(enum operand_kind kind, uint64_t *random)
{
	uint32_t bits = operand_random(random);
	uint32_t sign = bits & 0x80000000;
	float plain = (float)(int32_t)bits * 0x1p-29f;

	switch (kind) {
	case OPERAND_BITS:
		return operand_from_bits(bits);
	case OPERAND_DENORMAL:
		return bits & 1 ? operand_from_bits(bits & 0x80ffffff)
				: plain * 0x1p-24f;
	case OPERAND_HUGE:
		return bits & 1 ? plain * 32768.0f
				: operand_from_bits(sign | 0x7f000000 |
						    (bits & 0x7fffff));
	case OPERAND_ZEROS:
		return bits & 15 ? operand_from_bits(sign) : plain;
	default:
		return plain;
	}
}

float operand_special(uint32_t random)
{
	static const uint32_t bits[] = {0x7fc00000, 0xffc00001, 0x7f800001,
		0x7f800000, 0xff800000, 0xff812345};

	return operand_from_bits(bits[random % 6]);
}

void operand_put(struct operand *operand, enum shunt_dtype dtype,
	int64_t hidden, size_t gap)
{
	size_t bytes = (size_t)hidden * convert_bytes(dtype);
	void *codes = malloc(bytes);

	assert_non_null(codes);
	convert_store(dtype, operand->values, hidden, codes);
	convert_load(dtype, codes, hidden, operand->values);
	operand->row = fence_put(&operand->fence, codes, bytes, gap);
	free(codes);
}

void operand_draw(struct operand *operand, enum shunt_dtype dtype,
	enum operand_kind kind, int64_t hidden, uint64_t *random)
{
	for (int64_t h = 0; h < hidden; h++)
		operand->values[h] = operand_value(kind, random);
	operand_put(operand, dtype, hidden, operand_random(random) & 1);
}
