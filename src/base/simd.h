/*
 * Which vector instructions the kernels use. Chosen once per process from
 * what the machine has; the variable SHUNT_SIMD lowers it, for tests and for
 * comparing results. All levels compute the same bits.
 */
#ifndef BASE_SIMD_H
#define BASE_SIMD_H

#include <shunt/status.h>

enum simd_level {
	SIMD_SCALAR, /* plain C */
	SIMD_AVX2,   /* AVX2, FMA, F16C */
	SIMD_AVX512, /* the above and AVX-512 F, BW, VL, DQ */
	SIMD_NUM_LEVELS
};

/* The level in force, the same on every call. A SHUNT_SIMD that simd_check()
 * would refuse counts as not set. Thread-safe. */
enum simd_level simd_level(void);

/* The best level of this machine, whatever SHUNT_SIMD says. */
enum simd_level simd_best(void);

/* OK if SHUNT_SIMD is unset, empty, or names a level that this machine has;
 * else INVALID, with a message of its value and the legal ones. */
enum shunt_status simd_check(void);

/* "scalar", "avx2" or "avx512": the values of SHUNT_SIMD. */
const char *simd_name(enum simd_level level);

#endif
