/* Owns the choice of the instruction set: the machine's best, lowered by
 * SHUNT_SIMD. */
#include "base/simd.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <shunt/shunt.h>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SIMD_VARIABLE "SHUNT_SIMD"

static const char *const simd_names[SIMD_NUM_LEVELS] = {
	[SIMD_SCALAR] = "scalar",
	[SIMD_AVX2] = "avx2",
	[SIMD_AVX512] = "avx512",
};

/* What messages say a machine of each best level has. */
static const char *const simd_lists[SIMD_NUM_LEVELS] = {
	[SIMD_SCALAR] = "scalar",
	[SIMD_AVX2] = "scalar, avx2",
	[SIMD_AVX512] = "scalar, avx2, avx512",
};

const char *simd_name(enum simd_level level)
{
	return simd_names[level];
}

#if defined(__x86_64__)

/* Asked by hand: clang's __builtin_cpu_supports does not know f16c. */
static bool simd_has_f16c(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

enum simd_level simd_best(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
		!simd_has_f16c())
		return SIMD_SCALAR;
	if (!__builtin_cpu_supports("avx512f") ||
		!__builtin_cpu_supports("avx512bw") ||
		!__builtin_cpu_supports("avx512vl") ||
		!__builtin_cpu_supports("avx512dq"))
		return SIMD_AVX2;
	return SIMD_AVX512;
}

#else

enum simd_level simd_best(void)
{
	return SIMD_SCALAR;
}

#endif

/* The level that `value` names, or SIMD_NUM_LEVELS. */
static enum simd_level simd_parse(const char *value)
{
	int level = 0;

	while (level < SIMD_NUM_LEVELS && strcmp(value, simd_names[level]))
		level++;
	return (enum simd_level)level;
}

static enum simd_level simd_choose(void)
{
	const char *value = getenv(SIMD_VARIABLE);
	enum simd_level best = simd_best();
	enum simd_level wanted = value ? simd_parse(value) : best;

	return wanted < best ? wanted : best;
}

enum simd_level simd_level(void)
{
	/* Threads that meet here at first compute the same value. */
	static _Atomic int chosen = SIMD_NUM_LEVELS;
	int level = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (level == SIMD_NUM_LEVELS) {
		level = (int)simd_choose();
		atomic_store_explicit(&chosen, level, memory_order_relaxed);
	}
	return (enum simd_level)level;
}

const char *shunt_simd(void)
{
	return simd_name(simd_level());
}

enum shunt_status simd_check(void)
{
	const char *value = getenv(SIMD_VARIABLE);
	enum simd_level best = simd_best();
	enum simd_level wanted;

	if (!value || !*value)
		return SHUNT_OK;
	wanted = simd_parse(value);
	if (wanted == SIMD_NUM_LEVELS)
		return error_set(SHUNT_INVALID,
			SIMD_VARIABLE
			" is \"%.64s\"; legal are scalar, avx2 and "
			"avx512 (this machine has: %s)",
			value, simd_lists[best]);
	if (wanted > best)
		return error_set(SHUNT_INVALID,
			SIMD_VARIABLE " is \"%s\", which this machine lacks; "
				      "legal here: %s",
			value, simd_lists[best]);
	return SHUNT_OK;
}
