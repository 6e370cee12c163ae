/*
 * The row kernels of quantization, one table per instruction set. All tables
 * give the same bits; docs/numerics.md defines them.
 *
 * Tables are indexed by enum shunt_quant, shunt_scale_form (0 where it does not
 * matter) and shunt_dtype; format.h is the door to them. The caller has called
 * fpenv_enter(). No kernel reads or writes outside the ranges it is given, and
 * none needs any alignment.
 */
#ifndef QUANT_KERNELS_H
#define QUANT_KERNELS_H

#include <stdint.h>

#include <shunt/types.h>

#include "base/simd.h"
#include "quant/row.h"
#include "quant/scatter.h"

struct quant_kernels {
	const char *name;
	quant_row_fn *row[QUANT_NUM_MODES][QUANT_NUM_FORMS][QUANT_NUM_DTYPES];
	quant_codes_fn
		*back[QUANT_NUM_MODES][QUANT_NUM_FORMS][QUANT_NUM_DTYPES];
	/*
	 * Copies `bytes` from src, hot in cache, to each of num_dst places, and
	 * asks for `ahead` meanwhile. No two ranges overlap.
	 */
	scatter_fn *scatter;
	/*
	 * The same past the caches, for what nobody reads soon. Whoever signals
	 * that the bytes are there calls scatter_fence() before.
	 */
	scatter_fn *scatter_stream;
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
