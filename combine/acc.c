/* Owns the choice among the kernel tables, and what is too little for any. */
#include "combine/acc.h"

#include <math.h>
#include <stddef.h>

static const struct acc_kernels *const tables[SIMD_NUM_LEVELS] = {
	[SIMD_SCALAR] = &acc_kernels_scalar,
#if defined(__x86_64__)
	[SIMD_AVX2] = &acc_kernels_avx2,
	[SIMD_AVX512] = &acc_kernels_avx2,
#endif
};

const struct acc_kernels *acc_kernels(void)
{
	return tables[simd_level()];
}

const struct acc_kernels *acc_kernels_at(enum simd_level level)
{
	return level <= simd_best() ? tables[level] : NULL;
}

void acc_softmax(float a1, float a2, float *p1, float *p2)
{
	float max = a1 > a2 ? a1 : a2;
	float e1 = (float)exp((double)(a1 - max));
	float e2 = (float)exp((double)(a2 - max));
	float sum = e1 + e2;

	*p1 = e1 / sum;
	*p2 = e2 / sum;
}

float acc_rstd(float squares, int64_t hidden, float eps)
{
	float mean = squares / (float)hidden;

	return 1.0f / sqrtf(mean + eps);
}
