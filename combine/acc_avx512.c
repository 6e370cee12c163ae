/* Owns acc.h's kernels with AVX-512. */
#if defined(__x86_64__)

#include "combine/lanes_avx512.h"

#include "combine/acc_template.h"

const struct acc_kernels acc_kernels_avx512 = {
	.name = "avx512",
	ACC_TABLE,
};

#endif
