/* The loops over elements; with -O3 all of them are vector loops. */
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "rows.h"

/* A vector of the machine's widest kind, and how many a sum holds at a time:
 * in registers, where they stay for all rows. A plain loop over sums in memory
 * takes three times as long. */
#define LANES 16
#define HELD  4

typedef float floats __attribute__((vector_size(LANES * 4)));
typedef uint32_t words __attribute__((vector_size(LANES * 4)));
typedef uint16_t halves
	__attribute__((vector_size(LANES * 2), aligned(2), may_alias));

void rows_stream(uint8_t *to, const uint8_t *row, int64_t bytes)
{
#if defined(__AVX512F__)
	for (int64_t i = 0; i < bytes; i += 64)
		_mm512_stream_si512(
			(void *)(to + i), _mm512_loadu_si512(row + i));
#elif defined(__AVX__)
	for (int64_t i = 0; i < bytes; i += 32)
		_mm256_stream_si256((void *)(to + i),
			_mm256_loadu_si256((const void *)(row + i)));
#else
	memcpy(to, row, (size_t)bytes);
#endif
}

void rows_fence(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
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
	factor = 127.0f / rows_from_bf16(most);
	for (int64_t i = 0; i < hidden; i++)
		q[i] = (int8_t)(int32_t)rintf(rows_from_bf16(x[i]) * factor);
	return 1.0f / factor;
}

void rows_expert_i8(const int8_t *row, float scale, float factor,
	int64_t hidden, uint16_t *y)
{
	for (int64_t i = 0; i < hidden; i++)
		y[i] = rows_to_bf16((float)row[i] * scale * factor);
}

void rows_expert_bf16(
	const uint16_t *row, float factor, int64_t hidden, uint16_t *y)
{
	for (int64_t i = 0; i < hidden; i++)
		y[i] = rows_to_bf16(rows_from_bf16(row[i]) * factor);
}

static inline floats widen(const uint16_t *row)
{
	words bits = __builtin_convertvector(*(const halves *)row, words);

	return (floats)(bits << 16);
}

static inline void narrow(floats sum, uint16_t *out)
{
	words bits = (words)sum;

	bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	*(halves *)out = __builtin_convertvector(bits, halves);
}

/* Elements first .. first + HELD * LANES - 1 of a sum. */
static void sum_held(const uint16_t *const *rows, const float *weights,
	int64_t topk, int64_t first, uint16_t *out)
{
	floats sum[HELD] = {{0}};

	for (int64_t k = 0; k < topk; k++) {
#pragma GCC unroll 4
		for (int i = 0; i < HELD; i++)
			sum[i] +=
				weights[k] * widen(rows[k] + first + i * LANES);
	}
#pragma GCC unroll 4
	for (int i = 0; i < HELD; i++)
		narrow(sum[i], out + first + i * LANES);
}

void rows_sum(const uint16_t *const *rows, const float *weights, int64_t topk,
	int64_t hidden, uint16_t *out)
{
	int64_t first = 0;

	for (; first + HELD * LANES <= hidden; first += HELD * LANES)
		sum_held(rows, weights, topk, first, out);
	for (; first < hidden; first++) {
		float sum = 0;

		for (int64_t k = 0; k < topk; k++)
			sum += weights[k] * rows_from_bf16(rows[k][first]);
		out[first] = rows_to_bf16(sum);
	}
}
