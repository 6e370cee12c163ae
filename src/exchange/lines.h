/*
 * Lines of the own window: what the members of an exchange have signalled to this
 * rank. A line's value is epoch * 256 + code (step.h).
 */
#ifndef EXCHANGE_LINES_H
#define EXCHANGE_LINES_H

#include "base/order.h"
#include "exchange/exchange.h"

#define LINE_CODE_BITS 8

/* What member `rank` has said last of a phase, in the step's slot. */
static inline uint64_t line_of(const struct shunt_exchange *exchange,
	const struct step *step, enum phase phase, int32_t rank)
{
	const struct line *line = exchange_own(exchange,
		layout_line(exchange_layout(exchange), exchange_shape(exchange),
			phase, step->slot, rank));

	return order_acquire(&line->value);
}

static inline uint64_t line_epoch(uint64_t value)
{
	return value >> LINE_CODE_BITS;
}

static inline enum signal_code line_code(uint64_t value)
{
	return (enum signal_code)(value & ((1u << LINE_CODE_BITS) - 1));
}

#endif
