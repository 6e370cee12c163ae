/* Owns the sums with AVX-512. */
#include "combine/sum.h"

#if defined(__x86_64__)

#include <stdbool.h>

#include "base/half_avx512.h"
#include "combine/sum_ahead.h"

/* Elements of a visit to a row: 128 bytes of a 16-bit type, so that whole
 * lines are read before the next row's turn. */
#define BLOCK 64

/* acc + weight * elements h .. h + 15 of the row. */
HALF_AVX512_INLINE __m512 add_row(enum shunt_dtype dtype, bool weighted,
	__m512 acc, const void *row, __m512 weight, int64_t h, __mmask16 lanes)
{
	__m512 values = half_load_lanes(dtype, row, h, lanes);

	if (weighted)
		values = _mm512_mul_ps(weight, values);
	return _mm512_add_ps(acc, values);
}

/* Elements h .. h + BLOCK - 1 of the sum. */
HALF_AVX512_INLINE void sum_block(enum shunt_dtype dtype, enum shunt_dtype to,
	void *out, const void *const *rows, const float *weights,
	int64_t num_rows, int64_t h, bool weighted)
{
	__m512 acc0 = _mm512_setzero_ps();
	__m512 acc1 = acc0, acc2 = acc0, acc3 = acc0;
	__m512 weight = acc0;

	for (int64_t i = 0; i < num_rows; i++) {
		const void *row = rows[i];

		if (weighted)
			weight = _mm512_set1_ps(weights[i]);
		acc0 = add_row(
			dtype, weighted, acc0, row, weight, h, HALF_ALL_LANES);
		acc1 = add_row(dtype, weighted, acc1, row, weight, h + 16,
			HALF_ALL_LANES);
		acc2 = add_row(dtype, weighted, acc2, row, weight, h + 32,
			HALF_ALL_LANES);
		acc3 = add_row(dtype, weighted, acc3, row, weight, h + 48,
			HALF_ALL_LANES);
	}
	half_store_lanes(to, out, h, acc0, HALF_ALL_LANES);
	half_store_lanes(to, out, h + 16, acc1, HALF_ALL_LANES);
	half_store_lanes(to, out, h + 32, acc2, HALF_ALL_LANES);
	half_store_lanes(to, out, h + 48, acc3, HALF_ALL_LANES);
}

/* Those of elements h .. h + 15 of the sum that `lanes` selects. */
HALF_AVX512_INLINE void sum_lanes(enum shunt_dtype dtype, enum shunt_dtype to,
	void *out, const void *const *rows, const float *weights,
	int64_t num_rows, int64_t h, bool weighted, __mmask16 lanes)
{
	__m512 acc = _mm512_setzero_ps();
	__m512 weight = acc;

	for (int64_t i = 0; i < num_rows; i++) {
		if (weighted)
			weight = _mm512_set1_ps(weights[i]);
		acc = add_row(dtype, weighted, acc, rows[i], weight, h, lanes);
	}
	half_store_lanes(to, out, h, acc, lanes);
}

HALF_AVX512_INLINE void sum_rows(enum shunt_dtype dtype, enum shunt_dtype to,
	void *out, const void *const *rows, const float *weights,
	int64_t num_rows, int64_t hidden, bool weighted,
	const struct sum_next *next)
{
	int64_t element_bytes = dtype == SHUNT_DTYPE_F32 ? 4 : 2;
	int64_t h = 0;

	for (; h + BLOCK <= hidden; h += BLOCK) {
		sum_ask_ahead(rows, num_rows, next, hidden * element_bytes,
			h * element_bytes, BLOCK * element_bytes);
		sum_block(dtype, to, out, rows, weights, num_rows, h, weighted);
	}
	for (; h < hidden; h += 16)
		sum_lanes(dtype, to, out, rows, weights, num_rows, h, weighted,
			half_lanes(hidden - h));
}

/* One function per pair of types, so that the types are constants in each. */
#define SUM_ROWS(suffix, dtype, to)                                       \
	HALF_AVX512 static void rows_##suffix(void *out,                  \
		const void *const *rows, const float *weights,            \
		int64_t num_rows, int64_t hidden, struct sum_next next)   \
	{                                                                 \
		if (weights)                                              \
			sum_rows(dtype, to, out, rows, weights, num_rows, \
				hidden, true, &next);                     \
		else                                                      \
			sum_rows(dtype, to, out, rows, weights, num_rows, \
				hidden, false, &next);                    \
	}

SUM_ROWS(f32_f32, SHUNT_DTYPE_F32, SHUNT_DTYPE_F32)
SUM_ROWS(f32_f16, SHUNT_DTYPE_F32, SHUNT_DTYPE_F16)
SUM_ROWS(f32_bf16, SHUNT_DTYPE_F32, SHUNT_DTYPE_BF16)
SUM_ROWS(f16_f32, SHUNT_DTYPE_F16, SHUNT_DTYPE_F32)
SUM_ROWS(f16_f16, SHUNT_DTYPE_F16, SHUNT_DTYPE_F16)
SUM_ROWS(f16_bf16, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16)
SUM_ROWS(bf16_f32, SHUNT_DTYPE_BF16, SHUNT_DTYPE_F32)
SUM_ROWS(bf16_f16, SHUNT_DTYPE_BF16, SHUNT_DTYPE_F16)
SUM_ROWS(bf16_bf16, SHUNT_DTYPE_BF16, SHUNT_DTYPE_BF16)

const struct sum_kernels sum_kernels_avx512 = {
	.name = "avx512",
	.rows =
		{
			[SHUNT_DTYPE_F32] =
				{
					[SHUNT_DTYPE_F32] = rows_f32_f32,
					[SHUNT_DTYPE_F16] = rows_f32_f16,
					[SHUNT_DTYPE_BF16] = rows_f32_bf16,
				},
			[SHUNT_DTYPE_F16] =
				{
					[SHUNT_DTYPE_F32] = rows_f16_f32,
					[SHUNT_DTYPE_F16] = rows_f16_f16,
					[SHUNT_DTYPE_BF16] = rows_f16_bf16,
				},
			[SHUNT_DTYPE_BF16] =
				{
					[SHUNT_DTYPE_F32] = rows_bf16_f32,
					[SHUNT_DTYPE_F16] = rows_bf16_f16,
					[SHUNT_DTYPE_BF16] = rows_bf16_bf16,
				},
		},
};

#endif
