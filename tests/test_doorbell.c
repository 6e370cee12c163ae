/* Doorbells: what doorbell.h promises. A wake-up that is lost shows as a sleep
 * of its whole, long span. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/order.h"
#include "memory/doorbell.h"
#include "support/child.h"

#define LONG_NS    INT64_C(60000000000)
#define NUM_ROUNDS 20000

/* Two ends that ring each other; in memory that a child shares. */
struct ends {
	struct {
		struct doorbell doorbell;
		_Atomic uint64_t counter;
	} end[2];
	_Atomic uint64_t num_lost;
};

static struct ends *ends_make(void)
{
	void *memory = mmap(NULL, sizeof(struct ends), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

static void ends_drop(struct ends *ends)
{
	munmap(ends, sizeof(*ends));
}

static void signal_end(struct ends *ends, int end)
{
	order_publish_add(&ends->end[end].counter, 1);
	doorbell_ring(&ends->end[end].doorbell, DOORBELL_ANY);
}

/* The sleeper's side of the argument in doorbell.h. */
static void await_end(struct ends *ends, int end, uint64_t value)
{
	struct doorbell *doorbell = &ends->end[end].doorbell;

	while (order_acquire(&ends->end[end].counter) < value) {
		uint32_t ticket = doorbell_arm(doorbell, DOORBELL_ANY);
		int64_t start = clock_now();

		if (order_acquire(&ends->end[end].counter) < value)
			doorbell_sleep(doorbell, ticket, LONG_NS);
		doorbell_disarm(doorbell);
		if (clock_now() - start >= LONG_NS)
			order_publish_add(&ends->num_lost, 1);
	}
}

static void a_ring_without_sleepers_changes_nothing(void **state)
{
	struct doorbell doorbell = {0};

	(void)state;
	doorbell_ring(&doorbell, DOORBELL_ANY);
	assert_int_equal(atomic_load(&doorbell.bell), 0);
	assert_int_equal(atomic_load(&doorbell.sleepers), 0);
}

static void a_ring_between_arm_and_sleep_is_not_lost(void **state)
{
	struct doorbell doorbell = {0};
	int64_t start = clock_now();
	uint32_t ticket = doorbell_arm(&doorbell, DOORBELL_ANY);

	(void)state;
	doorbell_ring(&doorbell, DOORBELL_ANY);
	doorbell_sleep(&doorbell, ticket, LONG_NS);
	doorbell_disarm(&doorbell);
	assert_true(clock_now() - start < LONG_NS);
	assert_int_equal(atomic_load(&doorbell.sleepers), 0);
}

static void a_lone_sleeper_is_woken_by_its_token_only(void **state)
{
	struct doorbell doorbell = {0};

	(void)state;
	doorbell_arm(&doorbell, 7);
	doorbell_ring(&doorbell, 8);
	assert_int_equal(atomic_load(&doorbell.bell), 0);
	doorbell_ring(&doorbell, 7);
	assert_int_equal(atomic_load(&doorbell.bell), 1);
	doorbell_ring(&doorbell, DOORBELL_ANY);
	assert_int_equal(atomic_load(&doorbell.bell), 2);
	doorbell_disarm(&doorbell);
	assert_int_equal(atomic_load(&doorbell.sleepers), 0);
}

static void two_sleepers_are_woken_by_any_token(void **state)
{
	struct doorbell doorbell = {0};

	(void)state;
	doorbell_arm(&doorbell, 7);
	doorbell_arm(&doorbell, 9);
	doorbell_ring(&doorbell, 8);
	assert_int_equal(atomic_load(&doorbell.bell), 1);
	doorbell_disarm(&doorbell);
	doorbell_ring(&doorbell, 8);
	assert_int_equal(atomic_load(&doorbell.bell), 2);
	doorbell_disarm(&doorbell);
	doorbell_ring(&doorbell, 8);
	assert_int_equal(atomic_load(&doorbell.bell), 2);
}

static void a_sleep_ends_when_its_span_is_over(void **state)
{
	struct doorbell doorbell = {0};
	const int64_t span = 20000000;
	int64_t end = clock_now() + span;
	uint32_t ticket = doorbell_arm(&doorbell, DOORBELL_ANY);

	(void)state;
	while (clock_now() < end)
		doorbell_sleep(&doorbell, ticket, end - clock_now());
	doorbell_sleep(&doorbell, ticket, 0);
	doorbell_sleep(&doorbell, ticket, -1);
	doorbell_disarm(&doorbell);
}

static int answer(void *context)
{
	struct ends *ends = context;

	for (uint64_t round = 1; round <= NUM_ROUNDS; round++) {
		await_end(ends, 1, round);
		signal_end(ends, 0);
	}
	return 0;
}

static void *answer_thread(void *context)
{
	answer(context);
	return NULL;
}

static void ask(struct ends *ends)
{
	for (uint64_t round = 1; round <= NUM_ROUNDS; round++) {
		signal_end(ends, 1);
		await_end(ends, 0, round);
	}
}

static void no_ring_is_lost_between_threads(void **state)
{
	struct ends *ends = ends_make();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, answer_thread, ends), 0);
	ask(ends);
	pthread_join(thread, NULL);
	assert_true(order_acquire(&ends->num_lost) == 0);
	ends_drop(ends);
}

static void no_ring_is_lost_between_processes(void **state)
{
	struct ends *ends = ends_make();
	pid_t pid = child_start(answer, ends);

	(void)state;
	ask(ends);
	assert_int_equal(child_wait(pid), 0);
	assert_true(order_acquire(&ends->num_lost) == 0);
	ends_drop(ends);
}

static void *sleep_once(void *context)
{
	await_end(context, 0, 1);
	return NULL;
}

static void all_sleepers_of_a_doorbell_wake(void **state)
{
	struct ends *ends = ends_make();
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, sleep_once, ends), 0);
	while (atomic_load(&ends->end[0].doorbell.sleepers) < 4)
		usleep(1000);
	signal_end(ends, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(order_acquire(&ends->num_lost) == 0);
	assert_int_equal(atomic_load(&ends->end[0].doorbell.sleepers), 0);
	ends_drop(ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_without_sleepers_changes_nothing),
		cmocka_unit_test(a_ring_between_arm_and_sleep_is_not_lost),
		cmocka_unit_test(a_lone_sleeper_is_woken_by_its_token_only),
		cmocka_unit_test(two_sleepers_are_woken_by_any_token),
		cmocka_unit_test(a_sleep_ends_when_its_span_is_over),
		cmocka_unit_test(no_ring_is_lost_between_threads),
		cmocka_unit_test(no_ring_is_lost_between_processes),
		cmocka_unit_test(all_sleepers_of_a_doorbell_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
