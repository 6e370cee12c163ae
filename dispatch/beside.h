/* What goes with a row into the window of its receiver: where it comes from,
 * its weight and its scales. */
#ifndef DISPATCH_BESIDE_H
#define DISPATCH_BESIDE_H

#include "dispatch/token.h"

struct beside {
	int32_t source; /* rank of the view */
	int32_t token, k;
	const float *weight; /* NULL: there are none in this step */
	struct token_scales scales;
};

/* Writes it for row `row` of `member`. */
void beside_write(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member, int64_t row,
	const struct beside *beside);

#endif
