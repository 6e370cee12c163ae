/* Owns the scalar kernels: the reference of all the others. */
#include "quant/element.h"
#include "quant/scatter.h"
#include "quant/table.h"

QUANT_INLINE void int8_row(enum shunt_dtype dtype, int8_t *q, float *scale,
	const void *x, const float *smooth, int64_t hidden,
	struct quant_tally *tally)
{
	uint32_t amax = 0;
	float factor;

	for (int64_t i = 0; i < hidden; i++) {
		float y = element_load(dtype, x, smooth, i);
		uint32_t magnitude = element_magnitude(y);

		if (magnitude >= HALF_F32_INF)
			element_count(y, tally);
		else if (magnitude > amax)
			amax = magnitude;
	}
	factor = element_int8_factor(half_float(amax), scale);
	for (int64_t i = 0; i < hidden; i++)
		q[i] = element_int8(element_load(dtype, x, smooth, i), factor);
}

QUANT_INLINE void int8_dequantize(enum shunt_dtype dtype, void *x,
	const int8_t *q, float scale, int64_t hidden)
{
	for (int64_t i = 0; i < hidden; i++)
		half_store(dtype, x, i, (float)q[i] * scale);
}

QUANT_DEFINE_ALL

const struct quant_kernels quant_kernels_scalar = {
	.name = "scalar",
	.int8_row = QUANT_TABLE(int8_row),
	.int8_dequantize_row = QUANT_TABLE(int8_dequantize),
	.scatter = scatter_copy,
	.scatter_stream = scatter_stream,
};
