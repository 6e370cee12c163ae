/* Owns the scalar kernels: the plainest form of all the others. */
#include "quant/element.h"
#include "quant/kernels.h"
#include "quant/scatter.h"
#include "quant/table.h"

/* Loops of their own, which the compiler makes one for each pair of types. */
#define PLAIN static __attribute__((noinline))

PLAIN uint32_t span_top(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t end)
{
	return element_top(dtype, source, first, end, 0);
}

PLAIN bool span_tops(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t group,
	float amax[16])
{
	(void)dtype, (void)source, (void)first, (void)group, (void)amax;
	return false;
}

PLAIN uint32_t span_finite(enum shunt_dtype dtype,
	const struct element_source *source, int64_t first, int64_t end,
	struct quant_tally *tally)
{
	return element_finite(dtype, source, first, end, tally);
}

PLAIN void span_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source,
	const struct element_target *target, int64_t first, int64_t end)
{
	element_encode_span(dtype, code, source, target, first, end);
}

PLAIN uint32_t span_groups(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct element_source *source, void *q, int64_t first,
	int64_t group, const float factors[16], const uint8_t *pow2)
{
	(void)dtype, (void)code, (void)source, (void)q, (void)first;
	(void)group, (void)factors, (void)pow2;
	return ~0u;
}

PLAIN void span_decode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes, float scale, const void *scales,
	int64_t first, int64_t end)
{
	element_decode_span(dtype, code, codes, scale, scales, first, end);
}

#include "quant/row_template.h"

#include "quant/group_template.h"

#include "quant/back_template.h"

#include "quant/instances_template.h"

const struct quant_kernels quant_kernels_scalar = {
	.name = "scalar",
	.row = ROW_KERNELS,
	.back = BACK_KERNELS,
	.scatter = scatter_copy,
	.scatter_stream = scatter_stream,
};
