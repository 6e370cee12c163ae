/* Owns the row kernels with AVX-512. */
#include "quant/kernels.h"

#include "quant/rows_256_template.h"

const struct quant_kernels quant_kernels_avx512 = {
	.name = "avx512",
	.row = ROW_KERNELS,
	.back = BACK_KERNELS,
	.scatter = scatter_copy,
	.scatter_stream = scatter_stream_avx512,
};
