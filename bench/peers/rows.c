/* The loops over elements; all of them vectorise with -O3. */
#include <math.h>
#include <string.h>

#include "rows.h"

/* Elements of a sum that are held at a time: they stay in the L1 cache. */
#define CHUNK 1024

static inline float from_bf16(uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Nearest, ties to even; our values are finite. */
static inline uint16_t to_bf16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float rows_quantize(const uint16_t *x, int64_t hidden, int8_t *q)
{
	uint16_t most = 0;
	float factor;

	/* Without their sign, finite floats are ordered as integers are. */
	for (int64_t i = 0; i < hidden; i++) {
		uint16_t magnitude = x[i] & 0x7fff;

		most = magnitude > most ? magnitude : most;
	}
	if (most == 0) {
		memset(q, 0, (size_t)hidden);
		return 0;
	}
	factor = 127.0f / from_bf16(most);
	for (int64_t i = 0; i < hidden; i++)
		q[i] = (int8_t)(int32_t)rintf(from_bf16(x[i]) * factor);
	return 1.0f / factor;
}

void rows_expert_i8(const int8_t *row, float scale, float factor,
	int64_t hidden, uint16_t *y)
{
	for (int64_t i = 0; i < hidden; i++)
		y[i] = to_bf16((float)row[i] * scale * factor);
}

void rows_expert_bf16(
	const uint16_t *row, float factor, int64_t hidden, uint16_t *y)
{
	for (int64_t i = 0; i < hidden; i++)
		y[i] = to_bf16(from_bf16(row[i]) * factor);
}

static void sum_chunk(const uint16_t *const *rows, const float *weights,
	int64_t topk, int64_t first, int64_t count, uint16_t *out)
{
	float sum[CHUNK] = {0};

	for (int64_t k = 0; k < topk; k++) {
		const uint16_t *row = rows[k] + first;
		float weight = weights[k];

		for (int64_t i = 0; i < count; i++)
			sum[i] += weight * from_bf16(row[i]);
	}
	for (int64_t i = 0; i < count; i++)
		out[first + i] = to_bf16(sum[i]);
}

void rows_sum(const uint16_t *const *rows, const float *weights, int64_t topk,
	int64_t hidden, uint16_t *out)
{
	for (int64_t first = 0; first < hidden; first += CHUNK) {
		int64_t left = hidden - first;

		sum_chunk(rows, weights, topk, first,
			left < CHUNK ? left : CHUNK, out);
	}
}
