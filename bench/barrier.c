/* Starts a phase on all ranks at one moment. */
#include <sched.h>
#include <time.h>

#include "barrier.h"
#include "clock.h"

/* Looks at the word before a core is given away (some 10 ms: a core that has
 * slept runs its first vector instructions at a third of their speed, and that
 * would be taken for the library's), and before sleeping. With more ranks than
 * cores nobody spins: who waits must not take the cores from those that work. */
#define SPINS  200000
#define YIELDS 2000

void barrier_init(struct barrier *barrier, int32_t num_ranks, bool crowded)
{
	barrier->num_ranks = num_ranks;
	barrier->crowded = crowded;
	barrier->channel = NULL;
	atomic_init(&barrier->num_waiting, 0);
	atomic_init(&barrier->round, 0);
	atomic_init(&barrier->opened_ns, 0);
	atomic_init(&barrier->broken, false);
}

static void relax(const struct barrier *barrier, int attempt)
{
	static const struct timespec nap = {.tv_nsec = 100000};
	int spins = barrier->crowded ? 0 : SPINS;

	if (attempt >= spins + YIELDS)
		nanosleep(&nap, NULL);
	else if (attempt >= spins)
		sched_yield();
#if defined(__x86_64__)
	else
		__builtin_ia32_pause();
#endif
}

bool barrier_wait(struct barrier *barrier)
{
	uint64_t round = atomic_load(&barrier->round);

	if (barrier->channel)
		return channel_wait(barrier->channel, NULL);
	if (atomic_fetch_add(&barrier->num_waiting, 1) + 1 ==
		barrier->num_ranks) {
		atomic_store(&barrier->num_waiting, 0);
		atomic_store(&barrier->opened_ns, clock_ns());
		atomic_store(&barrier->round, round + 1);
	}
	for (int attempt = 0; atomic_load(&barrier->round) == round;
		attempt++) {
		if (atomic_load(&barrier->broken))
			return false;
		relax(barrier, attempt);
	}
	return !atomic_load(&barrier->broken);
}

bool barrier_start(struct barrier *barrier, int64_t *opened_ns)
{
	/* The first wait may be long and end in a nap; the second is not. */
	if (!barrier_wait(barrier))
		return false;
	if (barrier->channel)
		return channel_wait(barrier->channel, opened_ns);
	if (!barrier_wait(barrier))
		return false;
	*opened_ns = atomic_load(&barrier->opened_ns);
	return true;
}

void barrier_break(struct barrier *barrier)
{
	atomic_store(&barrier->broken, true);
}
