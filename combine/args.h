/* The arguments of combine: what they may be, and their defaults. */
#ifndef COMBINE_ARGS_H
#define COMBINE_ARGS_H

#include "exchange/exchange.h"

/*
 * Copies `given` to step->combine with defaults filled in. `whole`: for
 * shunt_combine(), where nothing can be fed. Errors: NULL_ARGUMENT, INVALID,
 * VERSION, naming the argument, its value and what is legal.
 */
enum shunt_status combine_args_read(const struct shunt_exchange *exchange,
	struct step *step, const struct shunt_combine_args *given, bool whole);

/* INVALID if `stride`, called `name`, is neither 0 nor in hidden .. 2^40. */
enum shunt_status combine_args_check_stride(
	const struct shunt_exchange *exchange, const char *name,
	int64_t stride);

#endif
