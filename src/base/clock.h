/* Time: the monotonic clock, deadlines, and the pause of a spin. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC, the same for all processes of a host. */
static inline int64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The moment `span_ns` from now; spans too long to add mean never. */
static inline int64_t clock_deadline(int64_t span_ns)
{
	int64_t now = clock_now();

	return span_ns > INT64_MAX - now ? INT64_MAX : now + span_ns;
}

/* Tells the core that this is a spin. */
static inline void clock_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
