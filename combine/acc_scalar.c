/* Owns acc.h's kernels in plain C: the ones that other machines run, and the ones
 * that the vector kernels are compared with. */
#include "combine/lanes_scalar.h"

#include "combine/acc_template.h"

const struct acc_kernels acc_kernels_scalar = {
	.name = "scalar",
	ACC_TABLE,
};
