/* The RDMA options of a world: from its config, else from the environment. */
#ifndef WORLD_RDMA_H
#define WORLD_RDMA_H

#include <shunt/world.h>

#include "transport/far.h"

/* What a config has not said is taken from SHUNT_RDMA_*. Texts stay those of the
 * config or the environment. Errors: INVALID (names field or variable, value
 * and range). */
enum shunt_status rdma_config_read(const struct shunt_world_config *config,
	int32_t rank, struct far_config *far);

#endif
