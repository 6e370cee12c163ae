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

void doorbell_ring(struct doorbell *doorbell)
{
	if (atomic_load(&doorbell->sleepers) == 0)
		return;
	atomic_fetch_add(&doorbell->bell, 1);
	syscall(SYS_futex, &doorbell->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t doorbell_arm(struct doorbell *doorbell)
{
	atomic_fetch_add(&doorbell->sleepers, 1);
	return atomic_load(&doorbell->bell);
}

void doorbell_sleep(
	struct doorbell *doorbell, uint32_t ticket, int64_t span_ns)
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
	atomic_fetch_sub(&doorbell->sleepers, 1);
}
