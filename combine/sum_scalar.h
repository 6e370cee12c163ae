/*
 * One span of the weighted sum in plain C: the scalar kernels are made of it,
 * and the AVX2 kernels use it for tails.
 */
#ifndef COMBINE_SUM_SCALAR_H
#define COMBINE_SUM_SCALAR_H

#include "base/half.h"
#include "combine/sum.h"

/* Elements begin .. end - 1 of out; see combine/sum.h. */
static inline __attribute__((always_inline)) void sum_scalar_span(
	enum shunt_dtype row_dtype, enum shunt_dtype out_dtype, void *out,
	const void *const *rows, const float *weights, int64_t num_rows,
	int64_t begin, int64_t end)
{
	for (int64_t h = begin; h < end; h++) {
		float acc = 0.0f;

		for (int64_t i = 0; i < num_rows; i++) {
			float y = half_load(row_dtype, rows[i], h);

			acc += weights ? weights[i] * y : y;
		}
		half_store(out_dtype, out, h, acc);
	}
}

/*
 * Defines sum_<row>_<out>() by the inline function `span`, for each pair of
 * types, and the table of them: nine functions that differ in two constants.
 */
#define SUM_DEFINE(span, row, ROW, out_name, OUT)                              \
	static void sum_##row##_##out_name(void *out, const void *const *rows, \
		const float *weights, int64_t num_rows, int64_t hidden,        \
		struct sum_next next)                                          \
	{                                                                      \
		span(SHUNT_DTYPE_##ROW, SHUNT_DTYPE_##OUT, out, rows, weights, \
			num_rows, hidden, &next);                              \
	}
#define SUM_DEFINE_ROW(span, row, ROW)       \
	SUM_DEFINE(span, row, ROW, f32, F32) \
	SUM_DEFINE(span, row, ROW, f16, F16) \
	SUM_DEFINE(span, row, ROW, bf16, BF16)
#define SUM_DEFINE_ALL(span)           \
	SUM_DEFINE_ROW(span, f32, F32) \
	SUM_DEFINE_ROW(span, f16, F16) \
	SUM_DEFINE_ROW(span, bf16, BF16)

#define SUM_TABLE_ROW(row)                             \
	{                                              \
		[SHUNT_DTYPE_F32] = sum_##row##_f32,   \
		[SHUNT_DTYPE_F16] = sum_##row##_f16,   \
		[SHUNT_DTYPE_BF16] = sum_##row##_bf16, \
	}
#define SUM_TABLE                                         \
	{                                                 \
		[SHUNT_DTYPE_F32] = SUM_TABLE_ROW(f32),   \
		[SHUNT_DTYPE_F16] = SUM_TABLE_ROW(f16),   \
		[SHUNT_DTYPE_BF16] = SUM_TABLE_ROW(bf16), \
	}

#endif
