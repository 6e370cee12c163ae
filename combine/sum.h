/*
 * The weighted sum of rows, combine's arithmetic, one table per instruction
 * set. All tables give the same bits:
 *
 *	acc = +0.0f
 *	acc = acc + weights[i] * f32(rows[i][h])	i = 0 .. num_rows - 1
 *	out[h] = round(acc)
 *
 * in f32, multiply and add rounded separately. Without weights nothing is
 * multiplied. The result is rounded to nearest even; f16 overflow gives
 * infinity; denormals are kept; every NaN is written as the canonical one
 * (f32 0x7fc00000, f16 0x7e00, bf16 0x7fc0), because which operand's NaN
 * survives an addition is nobody's promise.
 */
#ifndef COMBINE_SUM_H
#define COMBINE_SUM_H

#include <stdint.h>

#include <shunt/types.h>

#include "base/simd.h"

#define SUM_NUM_DTYPES 4 /* SHUNT_DTYPE_NONE .. SHUNT_DTYPE_BF16 */

/* The rows that are summed next, which memory is asked for meanwhile: a hint. */
struct sum_next {
	const void *const *rows;
	int64_t num_rows; /* 0: none */
};

struct sum_kernels {
	const char *name;
	/*
	 * By type of the rows and of out: F32, F16, BF16; the rest is NULL.
	 * out[hidden] becomes the sum of num_rows >= 0 rows of `hidden`
	 * elements; zeros if there are none. `weights` (num_rows) may be NULL.
	 * Any alignment; rows may be the same, but do not overlap out. The
	 * caller has called fpenv_enter().
	 */
	void (*rows[SUM_NUM_DTYPES][SUM_NUM_DTYPES])(void *out,
		const void *const *rows, const float *weights, int64_t num_rows,
		int64_t hidden, struct sum_next next);
};

/* The table of simd_level(). Never NULL. */
const struct sum_kernels *sum_kernels(void);

/* The table of one level, for tests; NULL if this machine lacks it. */
const struct sum_kernels *sum_kernels_at(enum simd_level level);

/* The tables themselves. The vector ones exist on x86-64 only. */
extern const struct sum_kernels sum_kernels_scalar;
extern const struct sum_kernels sum_kernels_avx2;

#endif
