/*
 * The doorbell on a futex. The word lies in memory that processes share, so
 * the futex is not a private one. Errors of futex() need no answer: a sleep
 * may end early for any reason, and a wake that finds nobody is good.
 */
#include "memory/doorbell.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ONE_SLEEPER (UINT64_C(1) << 48)
#define TOKEN_MASK  (ONE_SLEEPER - 1)

void doorbell_ring(struct doorbell *doorbell, uint64_t token)
{
	uint64_t sleepers = atomic_load(&doorbell->sleepers);
	uint64_t wanted = sleepers & TOKEN_MASK;

	if (sleepers < ONE_SLEEPER)
		return;
	if (token != DOORBELL_ANY && wanted != DOORBELL_ANY && wanted != token)
		return;
	atomic_fetch_add(&doorbell->bell, 1);
	syscall(SYS_futex, &doorbell->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t doorbell_arm(struct doorbell *doorbell, uint64_t token)
{
	uint64_t before = atomic_load(&doorbell->sleepers);
	uint64_t after;

	do {
		/* Not alone: any ring wakes all. */
		if (before >= ONE_SLEEPER)
			after = (before & ~TOKEN_MASK) + ONE_SLEEPER;
		else
			after = ONE_SLEEPER + token;
	} while (!atomic_compare_exchange_weak(
		&doorbell->sleepers, &before, after));
	return atomic_load(&doorbell->bell);
}

void doorbell_sleep(struct doorbell *doorbell, uint32_t ticket, int64_t span_ns)
{
	struct timespec span = {
		.tv_sec = span_ns / 1000000000,
		.tv_nsec = span_ns % 1000000000,
	};

	if (span_ns > 0)
		syscall(SYS_futex, &doorbell->bell, FUTEX_WAIT, ticket, &span,
			NULL, 0);
}

void doorbell_disarm(struct doorbell *doorbell)
{
	uint64_t before = atomic_load(&doorbell->sleepers);
	uint64_t after;

	do {
		after = before - ONE_SLEEPER;
		if (after < ONE_SLEEPER)
			after = 0;
	} while (!atomic_compare_exchange_weak(
		&doorbell->sleepers, &before, after));
}
