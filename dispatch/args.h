/* The arguments of dispatch: what they may be. */
#ifndef DISPATCH_ARGS_H
#define DISPATCH_ARGS_H

#include "exchange/exchange.h"

/* Errors: NULL_ARGUMENT, INVALID, naming the argument, its value and what is
 * legal. */
enum shunt_status args_check(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args);

/* True if the call repeats an earlier routing. */
static inline bool args_are_cached(const struct shunt_dispatch_args *args)
{
	return args->cached.exchange || args->cached.epoch;
}

#endif
