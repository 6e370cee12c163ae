/*
 * The hand-over of segments, among strangers and impostors. Rank 0 is under
 * test; rank 1 is played by the test, with a hello that names another process
 * and a socket of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "memory/segment.h"
#include "support/attach.h"
#include "support/leftovers.h"
#include "transport/handover.h"
#include "transport/parcel.h"

#define RESERVE (UINT64_C(16) << 20)
#define LONG_NS INT64_C(60000000000)

struct scene {
	struct leftovers before;
	struct segment *segment; /* rank 0's */
	struct attachment *attachment;
	struct segment *other; /* rank 1's */
	int listener;          /* rank 1's */
	struct peer_hello hellos[2];
	uint8_t secret[32];
	struct peer *peers[2];
};

static void scene_open(struct scene *scene)
{
	memset(scene, 0, sizeof(*scene));
	assert_true(sodium_init() >= 0);
	leftovers_count(&scene->before);
	randombytes_buf(scene->secret, sizeof(scene->secret));
	assert_int_equal(
		segment_create(SEGMENT_SHARED, RESERVE, &scene->segment),
		SHUNT_OK);
	assert_int_equal(segment_create(SEGMENT_SHARED, RESERVE, &scene->other),
		SHUNT_OK);
	assert_int_equal(attach_here(scene->segment, 0, &scene->hellos[0],
				 &scene->attachment),
		SHUNT_OK);
	scene->hellos[1] = scene->hellos[0];
	randombytes_buf(scene->hellos[1].process, 16);
	randombytes_buf(scene->hellos[1].segment, 16);
	randombytes_buf(scene->hellos[1].socket, 16);
	assert_int_equal(
		handover_listen(scene->hellos[1].socket, &scene->listener),
		SHUNT_OK);
}

static enum shunt_status scene_finish(struct scene *scene, int64_t span_ns)
{
	return attach_all_here(scene->attachment, 2, scene->hellos,
		scene->secret, clock_deadline(span_ns), scene->peers);
}

/* Also checks that nothing stays behind. */
static void scene_close(struct scene *scene)
{
	char why[256] = "";

	for (int r = 0; r < 2; r++)
		if (scene->peers[r])
			scene->peers[r]->ops->close(scene->peers[r]);
	close(scene->listener);
	segment_put(scene->segment);
	segment_put(scene->other);
	if (!leftovers_check(&scene->before, why, sizeof(why)))
		fail_msg("left behind: %s", why);
}

/* Connects to rank 0. */
static int knock(const struct scene *scene)
{
	struct sockaddr_un address;
	socklen_t length = parcel_address(scene->hellos[0].socket, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (void *)&address, length), 0);
	return fd;
}

static struct parcel genuine(const struct scene *scene)
{
	struct parcel parcel;

	parcel_pack(&parcel, 1, 0, scene->hellos, scene->secret);
	return parcel;
}

static void deliver(const struct scene *scene, struct parcel parcel, int fd)
{
	int socket = knock(scene);

	assert_int_equal(parcel_send(socket, &parcel, fd), 0);
	close(socket);
}

/* Sends bytes that may be no parcel, without a descriptor. */
static void deliver_bytes(
	const struct scene *scene, const void *bytes, size_t num_bytes)
{
	int socket = knock(scene);

	assert_int_equal(send(socket, bytes, num_bytes, MSG_NOSIGNAL),
		(ssize_t)num_bytes);
	close(socket);
}

static void check_attached(struct scene *scene)
{
	bool again;

	assert_int_equal(scene_finish(scene, LONG_NS), SHUNT_OK);
	assert_string_equal(scene->peers[0]->ops->name, "self");
	assert_string_equal(scene->peers[1]->ops->name, "shm");
	assert_int_equal(scene->peers[1]->rank, 1);
	assert_int_equal(scene->peers[1]->ops->put(scene->peers[1], 4096, "ab",
				 2, 8000, 1, &again),
		SHUNT_OK);
	assert_memory_equal(segment_base(scene->other) + 4096, "ab", 2);
}

static void check_fault(struct scene *scene)
{
	int32_t rank = -1;

	assert_int_equal(scene_finish(scene, LONG_NS), SHUNT_PEER_FAULT);
	assert_int_equal(shunt_error_ranks(&rank, 1), 1);
	assert_int_equal(rank, 1);
	assert_null(scene->peers[0]);
	assert_null(scene->peers[1]);
}

/* ---- what works -------------------------------------------------------- */

static void a_parcel_attaches_its_sender(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	deliver(&scene, genuine(&scene), segment_fd(scene.other));
	check_attached(&scene);
	scene_close(&scene);
}

static void what_is_handed_over_is_the_own_segment(void **state)
{
	struct scene scene;
	struct parcel parcel;
	struct peer *peer;
	bool cut;
	int fd, guest;

	(void)state;
	scene_open(&scene);
	deliver(&scene, genuine(&scene), segment_fd(scene.other));
	check_attached(&scene);
	guest = accept(scene.listener, NULL, NULL);
	assert_true(guest >= 0);
	assert_int_equal(
		parcel_receive(guest, &parcel, &fd, &cut), PARCEL_CAME);
	assert_true(parcel_genuine(&parcel, 1, 2, scene.hellos, scene.secret));
	assert_int_equal(parcel.from, 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	peer = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_true((void *)peer != MAP_FAILED);
	segment_base(scene.segment)[5] = 77;
	assert_int_equal(((uint8_t *)peer)[5], 77);
	munmap(peer, 4096);
	close(fd);
	close(guest);
	scene_close(&scene);
}

static void a_parcel_that_comes_twice_does_no_harm(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	deliver(&scene, genuine(&scene), segment_fd(scene.other));
	deliver(&scene, genuine(&scene), segment_fd(scene.other));
	check_attached(&scene);
	scene_close(&scene);
}

static void who_is_there_at_the_deadline_is_let_in(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	deliver(&scene, genuine(&scene), segment_fd(scene.other));
	assert_int_equal(scene_finish(&scene, 0), SHUNT_OK);
	scene_close(&scene);
}

/* ---- strangers --------------------------------------------------------- */

static void strangers_are_dropped(void **state)
{
	static const uint8_t junk[200] = {1, 2, 3};
	struct scene scene;
	struct parcel parcel;
	int silent;

	(void)state;
	scene_open(&scene);
	silent = knock(&scene);
	close(knock(&scene));
	deliver_bytes(&scene, junk, 1);
	deliver_bytes(&scene, junk, sizeof(parcel));
	deliver_bytes(&scene, junk, sizeof(junk));
	parcel = genuine(&scene);
	deliver_bytes(&scene, &parcel, sizeof(parcel) - 1);
	parcel.code[31] ^= 1;
	deliver(&scene, parcel, segment_fd(scene.segment));
	parcel = genuine(&scene);
	parcel.from = 7;
	deliver(&scene, parcel, segment_fd(scene.segment));
	parcel.from = -1;
	deliver(&scene, parcel, segment_fd(scene.segment));
	deliver(&scene, genuine(&scene), segment_fd(scene.other));
	check_attached(&scene);
	close(silent);
	scene_close(&scene);
}

static void a_parcel_is_bound_to_its_ends_and_the_secret(void **state)
{
	struct scene scene;
	struct parcel parcel;
	uint8_t secret[32] = {0};
	struct peer_hello hellos[2];

	(void)state;
	scene_open(&scene);
	parcel = genuine(&scene);
	memcpy(hellos, scene.hellos, sizeof(hellos));
	assert_true(parcel_genuine(&parcel, 0, 2, hellos, scene.secret));
	assert_false(parcel_genuine(&parcel, 1, 2, hellos, scene.secret));
	assert_false(parcel_genuine(&parcel, 0, 1, hellos, scene.secret));
	assert_false(parcel_genuine(&parcel, 0, 2, hellos, secret));
	hellos[1].segment[0] ^= 1;
	assert_false(parcel_genuine(&parcel, 0, 2, hellos, scene.secret));
	hellos[1].segment[0] ^= 1;
	hellos[0].segment[15] ^= 1;
	assert_false(parcel_genuine(&parcel, 0, 2, hellos, scene.secret));
	attach_abandon(scene.attachment);
	scene_close(&scene);
}

struct crowd {
	const struct scene *scene;
	pthread_t thread;
	_Atomic bool stop;
	int num;
	int sockets[512];
};

/* Comes, says nothing, and stays; in the end lets the genuine parcel in. */
static void *crowd_main(void *context)
{
	struct crowd *crowd = context;

	for (int i = 0; i < crowd->num; i++)
		crowd->sockets[i] = knock(crowd->scene);
	deliver(crowd->scene, genuine(crowd->scene),
		segment_fd(crowd->scene->other));
	return NULL;
}

static void a_crowd_of_silent_strangers_stops_nobody(void **state)
{
	struct scene scene;
	struct crowd crowd = {.scene = &scene, .num = 300};

	(void)state;
	scene_open(&scene);
	assert_int_equal(
		pthread_create(&crowd.thread, NULL, crowd_main, &crowd), 0);
	check_attached(&scene);
	pthread_join(crowd.thread, NULL);
	for (int i = 0; i < crowd.num; i++)
		close(crowd.sockets[i]);
	scene_close(&scene);
}

/* Comes and goes until told to stop. */
static void *stream_main(void *context)
{
	struct crowd *crowd = context;
	struct sockaddr_un address;
	socklen_t length =
		parcel_address(crowd->scene->hellos[0].socket, &address);

	while (!atomic_load(&crowd->stop)) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

		/* Refused at last, when rank 0 has given up. */
		if (connect(fd, (void *)&address, length) == 0)
			send(fd, "?", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
	}
	return NULL;
}

static void a_stream_of_strangers_does_not_move_the_deadline(void **state)
{
	struct scene scene;
	struct crowd crowd = {.scene = &scene};

	(void)state;
	scene_open(&scene);
	assert_int_equal(
		pthread_create(&crowd.thread, NULL, stream_main, &crowd), 0);
	assert_int_equal(scene_finish(&scene, 200000000), SHUNT_TIMEOUT);
	atomic_store(&crowd.stop, true);
	pthread_join(crowd.thread, NULL);
	scene_close(&scene);
}

/* ---- what is not sound ------------------------------------------------- */

static void check_bad_descriptor(int fd)
{
	struct scene scene;

	assert_true(fd >= 0);
	scene_open(&scene);
	deliver(&scene, genuine(&scene), fd);
	check_fault(&scene);
	scene_close(&scene);
	close(fd);
}

static int memfd_of(uint64_t bytes, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void a_descriptor_of_something_else_is_a_fault(void **state)
{
	(void)state;
	check_bad_descriptor(open("/dev/null", O_RDWR | O_CLOEXEC));
	check_bad_descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static void a_memfd_that_could_shrink_is_a_fault(void **state)
{
	(void)state;
	check_bad_descriptor(memfd_of(RESERVE, F_SEAL_GROW));
}

static void a_memfd_smaller_than_announced_is_a_fault(void **state)
{
	(void)state;
	check_bad_descriptor(memfd_of(RESERVE - 4096, F_SEAL_SHRINK));
}

static void a_memfd_without_a_control_page_is_a_fault(void **state)
{
	(void)state;
	check_bad_descriptor(memfd_of(RESERVE, F_SEAL_SHRINK));
}

static void a_parcel_without_a_descriptor_is_a_fault(void **state)
{
	struct scene scene;
	struct parcel parcel;

	(void)state;
	scene_open(&scene);
	parcel = genuine(&scene);
	deliver_bytes(&scene, &parcel, sizeof(parcel));
	check_fault(&scene);
	scene_close(&scene);
}

static void a_hello_of_impossible_size_is_a_fault(void **state)
{
	static const uint64_t sizes[] = {
		0, 4096, 12345, UINT64_MAX, UINT64_C(1) << 63};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct scene scene;

		scene_open(&scene);
		scene.hellos[1].segment_bytes = sizes[i];
		check_fault(&scene);
		scene_close(&scene);
	}
}

/* ---- who does not come ------------------------------------------------- */

static void a_missing_rank_is_named_at_the_deadline(void **state)
{
	struct scene scene;
	int32_t rank = -1;

	(void)state;
	scene_open(&scene);
	assert_int_equal(scene_finish(&scene, 100000000), SHUNT_TIMEOUT);
	assert_int_equal(shunt_error_ranks(&rank, 1), 1);
	assert_int_equal(rank, 1);
	assert_non_null(strstr(shunt_error_message(), "1"));
	scene_close(&scene);
}

static void a_rank_of_this_host_that_nobody_listens_for_is_lost(void **state)
{
	struct scene scene;
	int32_t rank = -1;

	(void)state;
	scene_open(&scene);
	scene.hellos[1].socket[3] ^= 1;
	assert_int_equal(scene_finish(&scene, LONG_NS), SHUNT_PEER_LOST);
	assert_int_equal(shunt_error_ranks(&rank, 1), 1);
	assert_int_equal(rank, 1);
	scene_close(&scene);
}

static void a_rank_that_nobody_listens_for_is_on_another_host(void **state)
{
	struct scene scene;
	int32_t rank = -1;

	(void)state;
	scene_open(&scene);
	scene.hellos[1].socket[3] ^= 1;
	scene.hellos[1].host[3] ^= 1;
	assert_int_equal(scene_finish(&scene, LONG_NS), SHUNT_UNSUPPORTED);
	assert_int_equal(shunt_error_ranks(&rank, 1), 1);
	assert_int_equal(rank, 1);
	assert_non_null(strstr(shunt_error_message(), "rank 1"));
	assert_non_null(strstr(shunt_error_message(), "RDMA"));
	scene_close(&scene);
}

static void *drain_main(void *context)
{
	struct crowd *crowd = context;

	usleep(50000);
	for (int i = 0; i < crowd->num; i++)
		close(accept(crowd->scene->listener, NULL, NULL));
	return NULL;
}

static void a_full_backlog_is_waited_for(void **state)
{
	struct scene scene;
	struct crowd crowd = {.scene = &scene};
	struct sockaddr_un address;
	socklen_t length;

	(void)state;
	scene_open(&scene);
	assert_int_equal(listen(scene.listener, 1), 0);
	length = parcel_address(scene.hellos[1].socket, &address);
	for (;;) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

		if (connect(fd, (void *)&address, length) != 0) {
			close(fd);
			break;
		}
		crowd.sockets[crowd.num++] = fd;
	}
	deliver(&scene, genuine(&scene), segment_fd(scene.other));
	assert_int_equal(
		pthread_create(&crowd.thread, NULL, drain_main, &crowd), 0);
	check_attached(&scene);
	pthread_join(crowd.thread, NULL);
	for (int i = 0; i < crowd.num; i++)
		close(crowd.sockets[i]);
	scene_close(&scene);
}

static void an_attachment_can_be_abandoned(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	attach_abandon(scene.attachment);
	attach_abandon(NULL);
	scene_close(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_parcel_attaches_its_sender),
		cmocka_unit_test(what_is_handed_over_is_the_own_segment),
		cmocka_unit_test(a_parcel_that_comes_twice_does_no_harm),
		cmocka_unit_test(who_is_there_at_the_deadline_is_let_in),
		cmocka_unit_test(strangers_are_dropped),
		cmocka_unit_test(a_parcel_is_bound_to_its_ends_and_the_secret),
		cmocka_unit_test(a_crowd_of_silent_strangers_stops_nobody),
		cmocka_unit_test(
			a_stream_of_strangers_does_not_move_the_deadline),
		cmocka_unit_test(a_descriptor_of_something_else_is_a_fault),
		cmocka_unit_test(a_memfd_that_could_shrink_is_a_fault),
		cmocka_unit_test(a_memfd_smaller_than_announced_is_a_fault),
		cmocka_unit_test(a_memfd_without_a_control_page_is_a_fault),
		cmocka_unit_test(a_parcel_without_a_descriptor_is_a_fault),
		cmocka_unit_test(a_hello_of_impossible_size_is_a_fault),
		cmocka_unit_test(a_missing_rank_is_named_at_the_deadline),
		cmocka_unit_test(
			a_rank_of_this_host_that_nobody_listens_for_is_lost),
		cmocka_unit_test(
			a_rank_that_nobody_listens_for_is_on_another_host),
		cmocka_unit_test(a_full_backlog_is_waited_for),
		cmocka_unit_test(an_attachment_can_be_abandoned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
