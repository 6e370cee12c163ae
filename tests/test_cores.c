/* Whether ranks spin: by the cores of all, not by those of one. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/ranks.h"
#include "world/cores.h"

/* Which of the cores that this process may use a rank is bound to. */
struct binding {
	int nth[2];
	bool spins;
};

static int nth_core(const cpu_set_t *allowed, int n)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, allowed) && n-- == 0)
			return cpu;
	return -1;
}

static void bind_and_join(struct seat *seat)
{
	const struct binding *binding = seat->context;
	cpu_set_t allowed, one;
	struct shunt_world *world;

	SEAT_CHECK(seat, !sched_getaffinity(0, sizeof(allowed), &allowed),
		"no affinity");
	CPU_ZERO(&one);
	CPU_SET(nth_core(&allowed, binding->nth[seat->rank]), &one);
	SEAT_CHECK(seat, !sched_setaffinity(0, sizeof(one), &one), "not bound");
	SEAT_OK(seat, shunt_world_create(&seat->config, &world));
	SEAT_CHECK(seat, (world->spin_ns > 0) == binding->spins,
		"spins for %lld ns with %d cores of all",
		(long long)world->spin_ns, cores_of_all(world));
	shunt_world_destroy(world);
}

static void run(const struct binding *binding)
{
	struct ranks_plan plan = {
		.num_ranks = 2,
		.context = binding,
		.no_world = true,
	};

	for (int launch = 0; launch < RANKS_NUM_LAUNCHES; launch++) {
		plan.launch = (enum ranks_launch)launch;
		ranks_run(&plan, bind_and_join);
	}
}

static void ranks_bound_to_a_core_each_spin(void **state)
{
	const struct binding apart = {{0, 1}, true};
	cpu_set_t allowed;

	(void)state;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) ||
		CPU_COUNT(&allowed) < 2)
		skip();
	run(&apart);
}

static void ranks_bound_to_the_same_core_do_not_spin(void **state)
{
	const struct binding together = {{0, 0}, false};

	(void)state;
	run(&together);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_bound_to_a_core_each_spin),
		cmocka_unit_test(ranks_bound_to_the_same_core_do_not_spin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
