/* Owns the sums in plain C: the ones that other machines run, and the ones
 * that the vector sums are compared with. */
#include "combine/sum_scalar.h"

static inline void sum_rows(enum shunt_dtype row_dtype,
	enum shunt_dtype out_dtype, void *out, const void *const *rows,
	const float *weights, int64_t num_rows, int64_t hidden,
	const struct sum_next *next)
{
	(void)next; /* nothing here is fast enough to wait for memory */
	sum_scalar_span(
		row_dtype, out_dtype, out, rows, weights, num_rows, 0, hidden);
}

SUM_DEFINE_ALL(sum_rows)

const struct sum_kernels sum_kernels_scalar = {
	.name = "scalar",
	.rows = SUM_TABLE,
};
