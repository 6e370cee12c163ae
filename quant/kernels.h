/*
 * The row kernels of quantization, one table per instruction set. All tables
 * give the same bits; docs/numerics.md defines them.
 *
 * Tables are indexed by enum shunt_dtype: F32, F16 and BF16 are filled, the
 * rest is NULL. The caller has called fpenv_enter(). No kernel reads or
 * writes outside the ranges it is given, and none needs any alignment.
 */
#ifndef QUANT_KERNELS_H
#define QUANT_KERNELS_H

#include <stdint.h>

#include <shunt/types.h>

#include "base/simd.h"

#define QUANT_NUM_DTYPES 4 /* SHUNT_DTYPE_NONE .. SHUNT_DTYPE_BF16 */

/* Elements that were not finite; kernels add to it. */
struct quant_tally {
	uint64_t nan_elements;
	uint64_t inf_elements;
};

struct quant_kernels {
	const char *name;
	/*
	 * Dynamic int8 of one row of `hidden` >= 1 elements: fills q[hidden]
	 * and *scale. `smooth` (hidden elements) multiplies x, or is NULL.
	 * Reads x twice in a row, from memory once.
	 */
	void (*int8_row[QUANT_NUM_DTYPES])(int8_t *q, float *scale,
		const void *x, const float *smooth, int64_t hidden,
		struct quant_tally *tally);
	/* The way back: x[i] = f32(q[i]) * scale, rounded to the type of x. */
	void (*int8_dequantize_row[QUANT_NUM_DTYPES])(
		void *x, const int8_t *q, float scale, int64_t hidden);
	/*
	 * Copies `bytes` from src, hot in cache, to each of num_dst places.
	 * No two ranges overlap.
	 */
	void (*scatter)(void *const *dst, int64_t num_dst, const void *src,
		int64_t bytes);
	/*
	 * The same past the caches, for what nobody reads soon. Ends with a
	 * store fence, so that an atomic store behind it is ordered.
	 */
	void (*scatter_stream)(void *const *dst, int64_t num_dst,
		const void *src, int64_t bytes);
};

/* The table of simd_level(). Never NULL. */
const struct quant_kernels *quant_kernels(void);

/* The table of one level, for tests; NULL if this machine lacks it. */
const struct quant_kernels *quant_kernels_at(enum simd_level level);

/* The tables themselves. The vector ones exist on x86-64 only. */
extern const struct quant_kernels quant_kernels_scalar;
extern const struct quant_kernels quant_kernels_avx2;
extern const struct quant_kernels quant_kernels_avx512;

#endif
