/* Owns the avx512 kernels. */
#include "quant/element.h"
#include "quant/kernels.h"
#include "quant/scatter.h"
#include "quant/table.h"

QUANT_INLINE uint32_t span_top(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end)
{
	uint32_t top = 0;

	for (; i < end; i++) {
		uint32_t magnitude =
			element_magnitude(element_load(dtype, source, i));

		top = magnitude > top ? magnitude : top;
	}
	return top;
}

QUANT_INLINE uint32_t span_finite(enum shunt_dtype dtype,
	const struct element_source *source, int64_t i, int64_t end,
	struct quant_tally *tally)
{
	uint32_t top = 0;

	for (; i < end; i++) {
		float y = element_load(dtype, source, i);
		uint32_t magnitude = element_magnitude(y);

		if (magnitude >= HALF_F32_INF)
			element_count(y, tally);
		else if (magnitude > top)
			top = magnitude;
	}
	return top;
}

QUANT_INLINE void span_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source,
	const struct element_target *target, int64_t first, int64_t end)
{
	element_encode_span(dtype, code, source, target, first, end);
}

QUANT_INLINE void span_decode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes, float scale, const void *scales,
	int64_t first, int64_t end)
{
	element_decode_span(dtype, code, codes, scale, scales, first, end);
}

#include "quant/row_template.h"

#include "quant/back_template.h"

#include "quant/instances_template.h"

const struct quant_kernels quant_kernels_avx512 = {
	.name = "avx512",
	.int8_row = QUANT_TABLE(int8_row),
	.row = ROW_KERNELS,
	.back = BACK_KERNELS,
	.scatter = scatter_copy,
	.scatter_stream = scatter_stream,
};
