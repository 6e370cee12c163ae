/* Owns the plain rules for spans whose types are known at run time only. */
#include "quant/tail.h"

uint32_t tail_top(enum shunt_dtype dtype, struct element_source source,
	int64_t first, int64_t end, uint32_t top)
{
	return element_top(dtype, &source, first, end, top);
}

uint32_t tail_finite(enum shunt_dtype dtype, struct element_source source,
	int64_t first, int64_t end, struct quant_tally *tally)
{
	return element_finite(dtype, &source, first, end, tally);
}

void tail_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	struct element_source source, struct element_target target,
	int64_t first, int64_t end)
{
	element_encode_span(dtype, code, &source, &target, first, end);
}

void tail_decode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes, float scale, const void *scales,
	int64_t first, int64_t end)
{
	element_decode_span(dtype, code, codes, scale, scales, first, end);
}
