/* The toy expert; expert.h says what it does. */
#include "expert.h"

/* One byte made of element i, all of whose bits have a part in it. */
static inline uint8_t fold(enum shunt_dtype dtype, const void *row, int64_t i)
{
	uint32_t bits;

	switch (dtype) {
	case SHUNT_DTYPE_F32:
		bits = ((const uint32_t *)row)[i];
		bits ^= bits >> 16;
		break;
	case SHUNT_DTYPE_F16:
		bits = ((const uint16_t *)row)[i];
		break;
	case SHUNT_DTYPE_E2M1:
		bits = ((const uint8_t *)row)[i / 2];
		return (uint8_t)(i % 2 ? bits >> 4 : bits << 4 | bits >> 4);
	default:
		return ((const uint8_t *)row)[i];
	}
	return (uint8_t)(bits ^ (bits >> 8));
}

/* Writes the number +-(0.5 .. 1) with the sign and mantissa of `code`. */
static inline void unfold(
	enum shunt_dtype dtype, uint8_t code, void *y, int64_t i)
{
	uint32_t sign = code >> 7;
	uint32_t mantissa = code & 0x7f;

	switch (dtype) {
	case SHUNT_DTYPE_F32:
		((uint32_t *)y)[i] = sign << 31 | 0x3f000000 | mantissa << 16;
		return;
	case SHUNT_DTYPE_F16:
		((uint16_t *)y)[i] =
			(uint16_t)(sign << 15 | 0x3800 | mantissa << 3);
		return;
	default:
		((uint16_t *)y)[i] = (uint16_t)(sign << 15 | 0x3f00 | mantissa);
		return;
	}
}

static inline __attribute__((always_inline)) void map_row(enum shunt_dtype sent,
	enum shunt_dtype dtype, int64_t hidden, uint8_t mix,
	const void *restrict row, void *restrict y)
{
	for (int64_t i = 0; i < hidden; i++)
		unfold(dtype, fold(sent, row, i) ^ mix, y, i);
}

/* The loop with its types known, so that it becomes a vector loop. */
static inline __attribute__((always_inline)) void map_to(
	const struct expert *self, enum shunt_dtype dtype, uint8_t mix,
	const void *row, void *y)
{
	switch (self->sent) {
	case SHUNT_DTYPE_F32:
		map_row(SHUNT_DTYPE_F32, dtype, self->hidden, mix, row, y);
		return;
	case SHUNT_DTYPE_F16:
	case SHUNT_DTYPE_BF16:
		map_row(SHUNT_DTYPE_F16, dtype, self->hidden, mix, row, y);
		return;
	case SHUNT_DTYPE_E2M1:
		map_row(SHUNT_DTYPE_E2M1, dtype, self->hidden, mix, row, y);
		return;
	default:
		map_row(SHUNT_DTYPE_I8, dtype, self->hidden, mix, row, y);
		return;
	}
}

void expert_row(const struct expert *self, int64_t expert, int32_t tp,
	const void *row, void *y)
{
	uint8_t mix = (uint8_t)(expert * 37 + tp * 91);

	switch (self->dtype) {
	case SHUNT_DTYPE_F32:
		map_to(self, SHUNT_DTYPE_F32, mix, row, y);
		return;
	case SHUNT_DTYPE_F16:
		map_to(self, SHUNT_DTYPE_F16, mix, row, y);
		return;
	default:
		map_to(self, SHUNT_DTYPE_BF16, mix, row, y);
		return;
	}
}
