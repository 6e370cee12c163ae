/*
 * The rules of element.h for whole spans, out of line: for the few elements
 * that no vector takes, where size matters more than speed. Structs come by
 * value: one whose address no function has stays in registers, whatever its
 * owner stores through q.
 */
#ifndef QUANT_TAIL_H
#define QUANT_TAIL_H

#include "quant/element.h"

/* The largest magnitude of elements [first, end), Inf and NaN included, as
 * bits; `top` if none is larger. */
uint32_t tail_top(enum shunt_dtype dtype, struct element_source source,
	int64_t first, int64_t end, uint32_t top);

/* The largest finite one; counts the others. */
uint32_t tail_finite(enum shunt_dtype dtype, struct element_source source,
	int64_t first, int64_t end, struct quant_tally *tally);

void tail_encode(enum shunt_dtype dtype, enum shunt_dtype code,
	struct element_source source, struct element_target target,
	int64_t first, int64_t end);

void tail_decode(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes, float scale, const void *scales,
	int64_t first, int64_t end);

#endif
