/* How much the long tests do: SHUNT_TEST_SCALE=small for slow builds such as
 * those with sanitizers, where a tenth has to do. */
#ifndef SUPPORT_SCALE_H
#define SUPPORT_SCALE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool scale_is_small(void)
{
	const char *scale = getenv("SHUNT_TEST_SCALE");

	return scale != NULL && strcmp(scale, "small") == 0;
}

/* `count`, or a tenth of it and at least one. */
static inline int scale_of(int count)
{
	return scale_is_small() ? (count + 9) / 10 : count;
}

#endif
