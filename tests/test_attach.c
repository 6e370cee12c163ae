/* Attaching whole worlds: thread ranks of one process, and processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/order.h"
#include "memory/segment.h"
#include "support/attach.h"
#include "support/child.h"
#include "support/leftovers.h"
#include "transport/health.h"

#define RESERVE (UINT64_C(16) << 20)
#define LONG_NS INT64_C(60000000000)

static void a_private_segment_reaches_no_other_process(void **state)
{
	static const uint8_t secret[32];
	int before = leftovers_descriptors();
	struct attachment *attachment;
	struct peer_hello hellos[2];
	struct segment *segment;
	struct peer *peers[2];
	int32_t rank = -1;

	(void)state;
	assert_int_equal(
		segment_create(SEGMENT_PRIVATE, RESERVE, &segment), SHUNT_OK);
	assert_int_equal(
		attach_here(segment, 0, &hellos[0], &attachment), SHUNT_OK);
	assert_int_equal(leftovers_descriptors(), before);
	hellos[1] = hellos[0];
	hellos[1].process[0] ^= 1;
	assert_int_equal(attach_all_here(attachment, 2, hellos, secret,
				 clock_deadline(LONG_NS), peers),
		SHUNT_UNSUPPORTED);
	assert_non_null(strstr(shunt_error_message(), "rank 1"));
	assert_int_equal(shunt_error_ranks(&rank, 1), 1);
	assert_int_equal(rank, 1);
	segment_put(segment);
}

static void a_changed_hello_of_the_own_rank_is_a_fault(void **state)
{
	static const uint8_t secret[32];
	struct attachment *attachment;
	struct segment *segment;
	struct peer_hello hello;
	struct peer *peer;

	(void)state;
	assert_int_equal(
		segment_create(SEGMENT_PRIVATE, RESERVE, &segment), SHUNT_OK);
	assert_int_equal(
		attach_here(segment, 0, &hello, &attachment), SHUNT_OK);
	hello.pid++;
	assert_int_equal(attach_all_here(attachment, 1, &hello, secret,
				 clock_deadline(LONG_NS), &peer),
		SHUNT_PEER_FAULT);
	assert_null(peer);
	segment_put(segment);
}

#define NUM_THREADS 1024
#define NUM_ATTACH  32 /* of them attach; all would only take longer */

static void a_thousand_thread_ranks_need_no_descriptor(void **state)
{
	static struct attachment *attachments[NUM_THREADS];
	static struct segment *segments[NUM_THREADS];
	static struct peer_hello hellos[NUM_THREADS];
	static struct peer *peers[NUM_ATTACH][NUM_THREADS];
	static const uint8_t secret[32];
	int before = leftovers_descriptors();

	(void)state;
	for (int r = 0; r < NUM_THREADS; r++) {
		assert_int_equal(segment_create(SEGMENT_PRIVATE,
					 UINT64_C(1) << 20, &segments[r]),
			SHUNT_OK);
		assert_int_equal(attach_here(segments[r], r, &hellos[r],
					 &attachments[r]),
			SHUNT_OK);
	}
	for (int r = 0; r < NUM_ATTACH; r++)
		assert_int_equal(
			attach_all_here(attachments[r], NUM_THREADS, hellos,
				secret, clock_deadline(LONG_NS), peers[r]),
			SHUNT_OK);
	assert_int_equal(leftovers_descriptors(), before);
	for (int r = 0; r < NUM_ATTACH; r++)
		for (int p = 0; p < NUM_THREADS; p++) {
			assert_string_equal(peers[r][p]->ops->name,
				p == r ? "self" : "threads");
			assert_ptr_equal(peers[r][p]->control,
				segment_control(segments[p]));
			peers[r][p]->ops->close(peers[r][p]);
		}
	for (int r = 0; r < NUM_THREADS; r++) {
		if (r >= NUM_ATTACH)
			attach_abandon(attachments[r]);
		segment_put(segments[r]);
	}
}

static void a_thread_rank_that_left_is_lost(void **state)
{
	static const uint8_t secret[32];
	struct attachment *attachments[2];
	struct segment *segments[2];
	struct peer_hello hellos[2];
	struct peer *peers[2];
	int32_t rank = -1;

	(void)state;
	for (int r = 0; r < 2; r++) {
		assert_int_equal(
			segment_create(SEGMENT_PRIVATE, RESERVE, &segments[r]),
			SHUNT_OK);
		assert_int_equal(attach_here(segments[r], r, &hellos[r],
					 &attachments[r]),
			SHUNT_OK);
	}
	attach_abandon(attachments[1]);
	assert_int_equal(attach_all_here(attachments[0], 2, hellos, secret,
				 clock_deadline(LONG_NS), peers),
		SHUNT_PEER_LOST);
	assert_int_equal(shunt_error_ranks(&rank, 1), 1);
	assert_int_equal(rank, 1);
	segment_put(segments[0]);
	segment_put(segments[1]);
}

#define NUM_PROCESSES 12

/* What processes share to meet: their hellos, and who came how far. */
struct hall {
	struct peer_hello hellos[NUM_PROCESSES];
	_Atomic int num_started;
	_Atomic int num_seats;
	uint8_t secret[32];
};

static int attend(void *context)
{
	struct hall *hall = context;
	int32_t rank = atomic_fetch_add(&hall->num_seats, 1);
	struct peer *peers[NUM_PROCESSES];
	struct attachment *attachment;
	struct segment *segment;
	_Atomic uint64_t *counter;
	bool again;

	CHILD_CHECK(
		segment_create(SEGMENT_SHARED, RESERVE, &segment) == SHUNT_OK);
	CHILD_CHECK(life_begin(segment) == SHUNT_OK);
	CHILD_CHECK(attach_here(segment, rank, &hall->hellos[rank],
			    &attachment) == SHUNT_OK);
	atomic_fetch_add(&hall->num_started, 1);
	while (atomic_load(&hall->num_started) < NUM_PROCESSES)
		usleep(100);
	CHILD_CHECK(attach_all_here(attachment, NUM_PROCESSES, hall->hellos,
			    hall->secret, clock_deadline(LONG_NS),
			    peers) == SHUNT_OK);
	for (int p = 0; p < NUM_PROCESSES; p++)
		CHILD_CHECK(peers[p]->ops->put(peers[p], 0, NULL, 0, 8000, 1,
				    &again) == SHUNT_OK);
	counter = peers[rank]->ops->map(peers[rank], 8000, 8);
	while (order_acquire(counter) < NUM_PROCESSES)
		usleep(100);
	life_end(segment);
	for (int p = 0; p < NUM_PROCESSES; p++)
		peers[p]->ops->close(peers[p]);
	segment_put(segment);
	return 0;
}

static void many_processes_hand_over_to_each_other(void **state)
{
	struct hall *hall = mmap(NULL, sizeof(*hall), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[NUM_PROCESSES];

	(void)state;
	assert_true((void *)hall != MAP_FAILED);
	randombytes_buf(hall->secret, sizeof(hall->secret));
	for (int i = 0; i < NUM_PROCESSES; i++)
		pids[i] = child_start(attend, hall);
	for (int i = 0; i < NUM_PROCESSES; i++)
		assert_int_equal(child_wait(pids[i]), 0);
	munmap(hall, sizeof(*hall));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_processes_hand_over_to_each_other),
		cmocka_unit_test(a_private_segment_reaches_no_other_process),
		cmocka_unit_test(a_changed_hello_of_the_own_rank_is_a_fault),
		cmocka_unit_test(a_thousand_thread_ranks_need_no_descriptor),
		cmocka_unit_test(a_thread_rank_that_left_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
