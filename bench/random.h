/* Random numbers for inputs: small, fast, the same everywhere. */
#ifndef BENCH_RANDOM_H
#define BENCH_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;
};

/* The next number (splitmix64). */
static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* A stream of its own for each (seed, purpose, step, rank). */
static inline struct random random_stream(
	uint64_t seed, uint64_t purpose, int64_t step, int32_t rank)
{
	struct random random = {seed};

	random.state = random_next(&random) ^ purpose;
	random.state = random_next(&random) ^ (uint64_t)step;
	random.state = random_next(&random) ^ (uint64_t)rank;
	random_next(&random);
	return random;
}

/* In (0, 1]. */
static inline double random_unit(struct random *random)
{
	return (double)((random_next(random) >> 11) + 1) * 0x1p-53;
}

/* In 0 .. bound - 1; the bias for our small bounds is below 2^-40. */
static inline int64_t random_below(struct random *random, int64_t bound)
{
	return (int64_t)(((random_next(random) >> 32) * (uint64_t)bound) >> 32);
}

#endif
