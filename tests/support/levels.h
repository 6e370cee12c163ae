/* The tables of combine's kernels that this machine has. */
#ifndef SUPPORT_LEVELS_H
#define SUPPORT_LEVELS_H

#include "base/simd.h"
#include "combine/acc.h"

struct levels {
	const struct acc_kernels *tables[SIMD_NUM_LEVELS];
	int num;
};

void levels_init(struct levels *levels);

#endif
