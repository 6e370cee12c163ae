/* Owns acc.h's kernels with AVX2. */
#if defined(__x86_64__)

#include "combine/lanes_avx2.h"

#include "combine/acc_template.h"

const struct acc_kernels acc_kernels_avx2 = {
	.name = "avx2",
	ACC_TABLE,
};

#endif
