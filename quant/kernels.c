/* Owns the choice among the kernel tables. */
#include "quant/kernels.h"

#include <stddef.h>

static const struct quant_kernels *const tables[SIMD_NUM_LEVELS] = {
	[SIMD_SCALAR] = &quant_kernels_scalar,
#if defined(__x86_64__)
	[SIMD_AVX2] = &quant_kernels_avx2,
	[SIMD_AVX512] = &quant_kernels_avx512,
#endif
};

const struct quant_kernels *quant_kernels(void)
{
	return tables[simd_level()];
}

const struct quant_kernels *quant_kernels_at(enum simd_level level)
{
	return level <= simd_best() ? tables[level] : NULL;
}
