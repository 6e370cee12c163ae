/* The registry of live exchanges: ids, their end, the limit, and forks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "exchange/registry.h"

#define NUM_THREADS 2
#define NUM_FORKS   200
#define LONG_NS     INT64_C(20000000000)

/* The registry never looks into an exchange; any address will do. */
static struct shunt_exchange *fake(void *address)
{
	return address;
}

static void an_id_finds_its_exchange_until_it_is_removed(void **state)
{
	uint64_t one, two;
	int a, b;

	(void)state;
	assert_int_equal(registry_add(fake(&a), &one), SHUNT_OK);
	assert_int_equal(registry_add(fake(&b), &two), SHUNT_OK);
	assert_int_not_equal(one, two);
	assert_ptr_equal(registry_find(one), &a);
	assert_ptr_equal(registry_find(two), &b);
	registry_remove(one);
	assert_null(registry_find(one));
	assert_ptr_equal(registry_find(two), &b);
	registry_remove(two);
	assert_null(registry_find(0));
	assert_null(registry_find(UINT64_MAX));
}

static void the_limit_is_told_and_places_are_used_again(void **state)
{
	enum { MOST = 16384 };
	uint64_t *ids = calloc(MOST + 1, sizeof(*ids));
	uint64_t again;
	int a;

	(void)state;
	assert_non_null(ids);
	for (int i = 0; i < MOST; i++)
		assert_int_equal(registry_add(fake(&a), &ids[i]), SHUNT_OK);
	assert_int_equal(registry_add(fake(&a), &again), SHUNT_NO_MEMORY);
	registry_remove(ids[77]);
	assert_int_equal(registry_add(fake(&a), &again), SHUNT_OK);
	assert_int_not_equal(again, ids[77]);
	assert_null(registry_find(ids[77]));
	ids[77] = again;
	for (int i = 0; i < MOST; i++)
		registry_remove(ids[i]);
	free(ids);
}

static atomic_bool stop;

static void *come_and_go(void *unused)
{
	uint64_t id;
	int a;

	while (!atomic_load(&stop))
		if (registry_add(fake(&a), &id) == SHUNT_OK)
			registry_remove(id);
	return unused;
}

static void use_in_child(void)
{
	uint64_t id;
	int a;

	if (registry_add(fake(&a), &id) != SHUNT_OK ||
		registry_find(id) != fake(&a))
		_exit(1);
	registry_remove(id);
	_exit(0);
}

/* The status of a child, or -1 if it hangs; then it is killed. */
static int child_status(pid_t child)
{
	int64_t deadline = clock_deadline(LONG_NS);
	int status = 0;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (clock_now() > deadline) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return -1;
		}
		usleep(200);
	}
	return status;
}

static void a_child_forked_at_any_moment_can_use_it(void **state)
{
	pthread_t threads[NUM_THREADS];
	int status = 0;

	(void)state;
	for (int i = 0; i < NUM_THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, come_and_go, NULL),
			0);
	for (int i = 0; i < NUM_FORKS && status == 0; i++) {
		pid_t child = fork();

		if (child == 0)
			use_in_child();
		status = child_status(child);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < NUM_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_finds_its_exchange_until_it_is_removed),
		cmocka_unit_test(the_limit_is_told_and_places_are_used_again),
		cmocka_unit_test(a_child_forked_at_any_moment_can_use_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
