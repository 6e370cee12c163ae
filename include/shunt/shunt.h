/*
 * Shunt: Mixture-of-Experts tokens to their experts and back, in host memory.
 *
 * Read it in this order: a `world` is this rank's membership of a job, a
 * `group` an ordered list of ranks, an `exchange` one model shape with its
 * windows, a `handle` the routing of one step. Then dispatch and combine.
 *
 *	shunt_world_create(NULL, &world);		who am I, who else is there
 *	shunt_exchange_create(world, NULL, &config, &exchange);
 *	for each step:
 *		shunt_dispatch(exchange, &args, &out, &handle);
 *		... the experts turn out.expand_x into out.expert_rows ...
 *		shunt_combine(handle, &combine_args);
 *	shunt_exchange_destroy(exchange);
 *	shunt_world_destroy(world);
 *
 * Ranks may be processes, threads of one process, or a mixture. Each rank has
 * a world of its own, also among threads.
 *
 * Structs that are passed in begin with their size; start from the
 * initialiser macro. Zero means "default" in every field that has one.
 *
 * Thread safety: functions on different worlds, groups and exchanges may run
 * at the same time; two calls on one exchange (its handles included) may not.
 * Exchanges of one group are made in the same order on all its ranks.
 *
 * After fork() the child may not use what the parent made: each function
 * answers SHUNT_STATE there, and the destroy functions do nothing.
 */
#ifndef SHUNT_SHUNT_H
#define SHUNT_SHUNT_H

#include <shunt/combine.h>
#include <shunt/dispatch.h>
#include <shunt/exchange.h>
#include <shunt/stats.h>
#include <shunt/status.h>
#include <shunt/types.h>
#include <shunt/world.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHUNT_VERSION_MAJOR 0
#define SHUNT_VERSION_MINOR 1
#define SHUNT_VERSION_PATCH 0

/* The version of the library that runs, such as "0.1.0". */
SHUNT_EXPORT const char *shunt_version(void);

/*
 * The vector instructions that the library's kernels use in this process:
 * "scalar", "avx2" or "avx512", the values of the variable SHUNT_SIMD, which
 * lowers it. The same on every call. With a SHUNT_SIMD that names no level of
 * this machine, which shunt_world_create() refuses, it is the machine's best.
 */
SHUNT_EXPORT const char *shunt_simd(void);

#ifdef __cplusplus
}
#endif
#endif
