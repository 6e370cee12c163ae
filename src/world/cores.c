/* The processors that the ranks of a host share; see cores.h. */
#include "world/cores.h"

#include <sched.h>

_Static_assert(CONTROL_CORE_WORDS * 64 == CPU_SETSIZE, "all of cpu_set_t");

void cores_publish(struct control *control)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return; /* more processors than a cpu_set_t has: none known */
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			control->cores[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

int32_t cores_of_all(const struct shunt_world *world)
{
	uint64_t cores[CONTROL_CORE_WORDS] = {0};
	int32_t count = 0;

	for (int32_t r = 0; r < world->num_ranks; r++) {
		const struct peer *peer = world->peers[r];

		for (int i = 0; peer && !peer->is_far && i < CONTROL_CORE_WORDS;
			i++)
			cores[i] |= peer->control->cores[i];
	}
	for (int i = 0; i < CONTROL_CORE_WORDS; i++)
		count += __builtin_popcountll(cores[i]);
	return count;
}
