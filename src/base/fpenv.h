/*
 * The floating-point control word. Kernels are specified to the bit, so they
 * run with the default word: round to nearest even, denormals kept, no traps.
 * Many callers set flush-to-zero; whoever calls kernels on their behalf
 * brackets the work:
 *
 *	struct fpenv caller = fpenv_enter();
 *	... kernels, by function pointer ...
 *	fpenv_leave(&caller);
 *
 * Costs one read of the word where it is the default already. The compiler
 * may move plain float arithmetic out of the bracket, but not calls.
 */
#ifndef BASE_FPENV_H
#define BASE_FPENV_H

#if defined(__x86_64__)

#include <xmmintrin.h>

#define FPENV_DEFAULT 0x1f80u /* MXCSR at process start */
#define FPENV_FLAGS   0x003fu /* sticky exception flags, not control */

struct fpenv {
	unsigned int mxcsr;
};

static inline struct fpenv fpenv_enter(void)
{
	struct fpenv caller = {_mm_getcsr()};

	if ((caller.mxcsr & ~FPENV_FLAGS) != FPENV_DEFAULT)
		_mm_setcsr(FPENV_DEFAULT);
	return caller;
}

static inline void fpenv_leave(const struct fpenv *caller)
{
	if ((caller->mxcsr & ~FPENV_FLAGS) != FPENV_DEFAULT)
		_mm_setcsr(caller->mxcsr);
}

#else

#include <fenv.h>

struct fpenv {
	fenv_t env;
};

static inline struct fpenv fpenv_enter(void)
{
	struct fpenv caller;

	fegetenv(&caller.env);
	fesetenv(FE_DFL_ENV);
	return caller;
}

static inline void fpenv_leave(const struct fpenv *caller)
{
	fesetenv(&caller->env);
}

#endif
#endif
