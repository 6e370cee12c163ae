/*
 * Owns the AVX2 sums. A block of lanes stays in accumulators while the loop
 * runs over the rows, so that each row is read once and out written once.
 */
#include <stdbool.h>

#include "base/half_avx2.h"
#include "combine/sum_ahead.h"
#include "combine/sum_scalar.h"

/* 4 pairs take 8 of 16 registers, and 128 bytes of a bf16 row at a visit. */
#define PAIR_LANES  16
#define MAX_PAIRS   4
#define BLOCK_LANES (MAX_PAIRS * PAIR_LANES)

/* acc + weight * y, or acc + y; two roundings, never fused. */
HALF_INLINE __m256 add_row(__m256 acc, __m256 y, __m256 weight, bool weighted)
{
	return _mm256_add_ps(acc, weighted ? _mm256_mul_ps(weight, y) : y);
}

/* num_pairs * 16 lanes from h. */
HALF_INLINE void sum_block(enum shunt_dtype row_dtype,
	enum shunt_dtype out_dtype, void *out, const void *const *rows,
	const float *weights, int64_t num_rows, int64_t h, int num_pairs)
{
	struct half_pair acc[MAX_PAIRS];

#pragma GCC unroll 4
	for (int p = 0; p < num_pairs; p++)
		acc[p].a = acc[p].b = _mm256_setzero_ps();
	for (int64_t i = 0; i < num_rows; i++) {
		__m256 weight = weights ? _mm256_set1_ps(weights[i])
					: _mm256_setzero_ps();
#pragma GCC unroll 4
		for (int p = 0; p < num_pairs; p++) {
			struct half_pair y = half_load_pair(
				row_dtype, rows[i], h + p * PAIR_LANES);

			acc[p].a = add_row(acc[p].a, y.a, weight, weights);
			acc[p].b = add_row(acc[p].b, y.b, weight, weights);
		}
	}
#pragma GCC unroll 4
	for (int p = 0; p < num_pairs; p++)
		half_store_pair(out_dtype, out, h + p * PAIR_LANES,
			half_reorder(row_dtype, out_dtype, acc[p]));
}

HALF_INLINE void sum_span(enum shunt_dtype row_dtype,
	enum shunt_dtype out_dtype, void *out, const void *const *rows,
	const float *weights, int64_t num_rows, int64_t hidden,
	const struct sum_next *next)
{
	int64_t element_bytes = row_dtype == SHUNT_DTYPE_F32 ? 4 : 2;
	int64_t h = 0;

	for (; h + BLOCK_LANES <= hidden; h += BLOCK_LANES) {
		sum_ask_ahead(rows, num_rows, next, hidden * element_bytes,
			h * element_bytes, BLOCK_LANES * element_bytes);
		sum_block(row_dtype, out_dtype, out, rows, weights, num_rows, h,
			MAX_PAIRS);
	}
	for (; h + PAIR_LANES <= hidden; h += PAIR_LANES)
		sum_block(row_dtype, out_dtype, out, rows, weights, num_rows, h,
			1);
	sum_scalar_span(
		row_dtype, out_dtype, out, rows, weights, num_rows, h, hidden);
}

/* Two copies, so that the loop over rows does not ask for weights. */
HALF_INLINE void sum_rows(enum shunt_dtype row_dtype,
	enum shunt_dtype out_dtype, void *out, const void *const *rows,
	const float *weights, int64_t num_rows, int64_t hidden,
	const struct sum_next *next)
{
	if (weights)
		sum_span(row_dtype, out_dtype, out, rows, weights, num_rows,
			hidden, next);
	else
		sum_span(row_dtype, out_dtype, out, rows, NULL, num_rows,
			hidden, next);
}

SUM_DEFINE_ALL(sum_rows)

const struct sum_kernels sum_kernels_avx2 = {
	.name = "avx2",
	.rows = SUM_TABLE,
};
