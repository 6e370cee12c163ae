/* Kernel tables for tests; see levels.h. */
#include "support/levels.h"

void levels_init(struct levels *levels)
{
	*levels = (struct levels){0};
	for (int level = 0; level < SIMD_NUM_LEVELS; level++) {
		const struct acc_kernels *table =
			acc_kernels_at((enum simd_level)level);

		if (table)
			levels->tables[levels->num++] = table;
	}
}
