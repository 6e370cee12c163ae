/*
 * How rows travel between hosts: the choice between fullmesh and hierarchy, for
 * dispatch and for combine.
 */
#ifndef EXCHANGE_ALGORITHM_H
#define EXCHANGE_ALGORITHM_H

#include <stddef.h>

#include "exchange/shape.h"

/* Sets rows_by_host and sums_by_host of a shape whose hosts are known. All ranks
 * come to the same, since all know the same. */
void algorithm_choose(
	struct shape *shape, const struct shunt_exchange_config *config);

/* The choice and its reason, in words. */
void algorithm_explain(const struct shape *shape,
	const struct shunt_exchange_config *config, char *text, size_t bytes);

#endif
