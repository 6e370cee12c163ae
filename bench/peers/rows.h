/* What the MPI version does to single rows: plain loops that a compiler
 * makes vector loops of. */
#ifndef PEERS_ROWS_H
#define PEERS_ROWS_H

#include <stdint.h>
#include <string.h>

static inline float rows_from_bf16(uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Nearest, ties to even; our values are finite. */
static inline uint16_t rows_to_bf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* memcpy() past the caches where the machine can, of whole lines to a line's
 * beginning; rows_fence() before others may read them. */
void rows_stream(uint8_t *to, const uint8_t *row, int64_t bytes);
void rows_fence(void);

/* Writes bf16 row `x` as int8, one scale for all of it; returns the scale. */
float rows_quantize(const uint16_t *x, int64_t hidden, int8_t *q);

/* The toy expert: y = row * factor, as bf16. */
void rows_expert_i8(const int8_t *row, float scale, float factor,
	int64_t hidden, uint16_t *y);
void rows_expert_bf16(
	const uint16_t *row, float factor, int64_t hidden, uint16_t *y);

/* out = sum of weights[k] * rows[k], in f32 by ascending k, as bf16. */
void rows_sum(const uint16_t *const *rows, const float *weights, int64_t topk,
	int64_t hidden, uint16_t *out);

#endif
