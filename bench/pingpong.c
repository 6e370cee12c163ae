/* What one signal costs here. */
#include <sched.h>

#include "clock.h"
#include "pingpong.h"

/* Looks at the counter before a core is given away. */
#define SPINS 20000

/* Ranks that share cores wait for turns at them, not for a line of a cache:
 * long, and not to be measured in many samples. */
void signal_init(struct signal *signal, const struct barrier *barrier)
{
	signal->barrier = barrier;
	signal->num_samples = barrier->crowded ? 20 : SIGNAL_MAX_SAMPLES;
	signal->num_trips = barrier->crowded ? 1 : 16;
	if (barrier->num_ranks < 2)
		signal->num_samples = 0;
}

int signal_end_of(int32_t rank, int32_t num_ranks)
{
	if (num_ranks < 2 || (rank > 0 && rank < num_ranks - 1))
		return -1;
	return rank > 0;
}

static void put(struct signal_end *peer)
{
	uint64_t sleepers;

	atomic_fetch_add(&peer->counter, 1);
	sleepers = atomic_load(&peer->sleepers);
	__asm__ volatile("" : : "r"(sleepers));
}

/* Lets the other rank run. False if it is not coming any more. */
static bool relax(const struct signal *signal, int64_t attempt)
{
	int64_t spins = signal->barrier->crowded ? 0 : SPINS;

	if (attempt < spins) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("yield");
#endif
		return true;
	}
	sched_yield();
	return !atomic_load(&signal->barrier->broken);
}

static bool await(const struct signal *signal, int end, uint64_t value)
{
	const struct signal_end *own = &signal->ends[end];

	for (int64_t attempt = 0; atomic_load(&own->counter) < value; attempt++)
		if (!relax(signal, attempt))
			return false;
	return true;
}

/* End 0 begins each trip; `done` were made before. */
static bool play_sample(struct signal *signal, int end, uint64_t done)
{
	uint64_t last = done + (uint64_t)signal->num_trips;

	for (uint64_t trip = done + 1; trip <= last; trip++) {
		if (end == 0)
			put(&signal->ends[1]);
		if (!await(signal, end, trip))
			return false;
		if (end == 1)
			put(&signal->ends[0]);
	}
	return true;
}

bool signal_play(
	struct signal *signal, int end, int64_t round, int64_t num_rounds)
{
	int64_t first = round * signal->num_samples / num_rounds;
	int64_t last = (round + 1) * signal->num_samples / num_rounds;

	for (int64_t i = first; i < last; i++) {
		int64_t started = clock_ns();

		if (!play_sample(
			    signal, end, (uint64_t)(i * signal->num_trips)))
			return false;
		if (end == 0)
			signal->trips_ns[i] = clock_ns() - started;
	}
	return true;
}
