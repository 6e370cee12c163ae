/* Owns the choice among the kernel tables. */
#include "combine/sum.h"

#include <stddef.h>

static const struct sum_kernels *const tables[SIMD_NUM_LEVELS] = {
	[SIMD_SCALAR] = &sum_kernels_scalar,
#if defined(__x86_64__)
	[SIMD_AVX2] = &sum_kernels_avx2,
	[SIMD_AVX512] = &sum_kernels_avx2,
#endif
};

const struct sum_kernels *sum_kernels(void)
{
	return tables[simd_level()];
}

const struct sum_kernels *sum_kernels_at(enum simd_level level)
{
	return level <= simd_best() ? tables[level] : NULL;
}
