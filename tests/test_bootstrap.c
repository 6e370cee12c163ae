/* The meeting over TCP, among ranks that mean well and are in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/net.h"
#include "support/leftovers.h"
#include "support/meet.h"

#define FAR      "192.0.2.1" /* for documentation: no machine has it */
#define HALF_SEC (500 * MEET_MS)

static struct meet_call calls[MEET_MAX_RANKS];
static const int32_t nobody[] = {-1};
static const int32_t only_one[] = {1, -1};
static const int32_t only_two[] = {2, -1};

/* ---- meeting ----------------------------------------------------------- */

static void all_ranks_get_all_blobs_and_one_secret(void **state)
{
	(void)state;
	for (int32_t num_ranks = 1; num_ranks <= MEET_MAX_RANKS;
		num_ranks *= 2) {
		meet_prepare_all(calls, num_ranks, MEET_LONG_NS);
		meet_run_all(calls, num_ranks);
		meet_check(calls, num_ranks);
	}
}

static void each_meeting_has_a_secret_of_its_own(void **state)
{
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];

	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	meet_run_all(calls, 2);
	memcpy(secret, calls[0].secret, sizeof(secret));
	meet_run_all(calls, 2);
	meet_check(calls, 2);
	assert_memory_not_equal(secret, calls[0].secret, sizeof(secret));
}

static void one_port_serves_meeting_after_meeting(void **state)
{
	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	for (int round = 0; round < 100; round++) {
		meet_run_all(calls, 4);
		meet_check(calls, 4);
	}
}

static void ranks_may_start_before_the_root(void **state)
{
	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	for (int32_t rank = 3; rank > 0; rank--)
		meet_start(&calls[rank]);
	meet_sleep(MEET_SHORT_NS);
	meet_start(&calls[0]);
	meet_finish_all(calls, 4);
}

static void loopback_needs_no_key(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	for (int32_t rank = 0; rank < 3; rank++)
		calls[rank].bootstrap.key[0] = '\0';
	meet_run_all(calls, 3);
	meet_check(calls, 3);
}

static void ranks_meet_by_name(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	meet_set_address(calls, 3, "localhost");
	meet_run_all(calls, 3);
	meet_check(calls, 3);
}

static void ranks_meet_by_ipv6(void **state)
{
	struct net_addresses loopback;
	int fd;

	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	assert_null(net_resolve("::1", calls[0].bootstrap.port, &loopback));
	fd = net_listen(&loopback.list[0]);
	if (fd < 0)
		skip(); /* a machine without IPv6 */
	close(fd);
	meet_set_address(calls, 3, "::1");
	meet_run_all(calls, 3);
	meet_check(calls, 3);
}

static void processes_meet(void **state)
{
	int32_t num_ranks = 8;
	struct meet_call *shared = mmap(NULL, sizeof(calls),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(shared, MAP_FAILED);
	meet_prepare_all(calls, num_ranks, MEET_LONG_NS);
	memcpy(shared, calls, sizeof(calls));
	for (int32_t rank = num_ranks - 1; rank >= 0; rank--) {
		if (fork() == 0) {
			meet_run(&shared[rank]);
			_exit(0);
		}
	}
	for (int32_t rank = 0; rank < num_ranks; rank++)
		assert_true(wait(NULL) > 0);
	meet_check(shared, num_ranks);
	munmap(shared, sizeof(calls));
}

/* ---- disagreement ------------------------------------------------------ */

static void another_version_is_named_on_every_rank(void **state)
{
	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	calls[2].version.minor += 7;
	meet_run_all(calls, 4);
	meet_check_errors(calls, 4, SHUNT_VERSION, only_two, "rank 2 is 0.8");
}

static void another_protocol_is_a_version_too(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	calls[2].version.protocol = 900;
	calls[2].version.major = 5;
	meet_run_all(calls, 3);
	meet_check_errors(calls, 3, SHUNT_VERSION, only_two,
		"rank 2 is 5.1 (protocol 900");
}

static void a_root_of_another_version_is_the_odd_one_for_all(void **state)
{
	static const int32_t others[] = {1, 2, -1};

	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	calls[0].version.minor = 99;
	meet_run_all(calls, 3);
	meet_check_errors(calls, 3, SHUNT_VERSION, others, "rank 0 is 0.99");
}

static void another_blob_size_is_a_version_too(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	calls[2].blob_bytes = 9;
	meet_run_all(calls, 3);
	meet_check_errors(
		calls, 3, SHUNT_VERSION, only_two, "hello of 24 bytes");
}

static void another_size_is_a_mismatch_on_every_rank(void **state)
{
	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	for (int32_t rank = 0; rank < 4; rank++)
		calls[rank].bootstrap.num_ranks = rank == 2 ? 3 : 4;
	meet_run_all(calls, 4);
	meet_check_errors(calls, 4, SHUNT_MISMATCH, only_two,
		"rank 0 has 4, rank 2 has 3");
}

static void ranks_beyond_the_roots_size_learn_of_it_too(void **state)
{
	static const int32_t others[] = {1, 2, 3, -1};

	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	calls[0].bootstrap.num_ranks = 2;
	meet_run_all(calls, 4);
	meet_check_errors(calls, 4, SHUNT_MISMATCH, others, "rank 0 has 2");
}

static void a_mismatch_does_not_wait_for_ranks_that_never_come(void **state)
{
	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	calls[2].bootstrap.num_ranks = 9;
	meet_run_all(calls, 3);
	meet_check_errors(calls, 3, SHUNT_MISMATCH, only_two, "rank 2 has 9");
}

static void a_rank_that_comes_twice_is_a_mismatch_on_every_rank(void **state)
{
	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	calls[3].bootstrap.rank = 1;
	meet_run_all(calls, 4);
	meet_check_errors(calls, 4, SHUNT_MISMATCH, only_one,
		"rank 1 came more than once");
}

/* ---- addresses --------------------------------------------------------- */

static void off_loopback_a_key_is_demanded(void **state)
{
	static const char *const addresses[] = {
		FAR, "0.0.0.0", "::", "2001:db8::1", "::ffff:192.0.2.1"};

	(void)state;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(char *); i++) {
		meet_prepare_all(calls, 2, MEET_LONG_NS);
		meet_set_address(calls, 2, addresses[i]);
		calls[0].bootstrap.key[0] = '\0';
		calls[1].bootstrap.key[0] = '\0';
		meet_run_all(calls, 2);
		meet_check_errors(calls, 2, SHUNT_INVALID, nobody, "SHUNT_KEY");
	}
}

static void a_root_elsewhere_than_its_address_is_told(void **state)
{
	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	meet_set_address(calls, 2, FAR);
	meet_run(&calls[0]);
	meet_check_error(&calls[0], SHUNT_SYSTEM, nobody, "must run on");
}

static void a_port_in_use_is_told(void **state)
{
	struct net_addresses addresses;
	char words[64];
	int fd;

	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	assert_null(net_resolve(
		meet_address(), calls[0].bootstrap.port, &addresses));
	fd = net_listen(&addresses.list[0]);
	assert_true(fd >= 0);
	meet_run(&calls[0]);
	snprintf(words, sizeof(words), "cannot listen at %s:%u", meet_address(),
		calls[0].bootstrap.port);
	meet_check_error(&calls[0], SHUNT_SYSTEM, nobody, words);
	close(fd);
}

/* Connects to the root of `call` at another address of this machine. */
static int connect_at(const struct meet_call *call, const char *address)
{
	struct net_addresses addresses;

	assert_null(net_resolve(address, call->bootstrap.port, &addresses));
	return net_connect(&addresses.list[0], clock_deadline(MEET_LONG_NS));
}

static void await_root(const struct meet_call *call)
{
	int fd;

	while ((fd = connect_at(call, call->bootstrap.address)) < 0)
		meet_sleep(MEET_MS);
	close(fd);
}

static void the_root_listens_at_its_address_alone(void **state)
{
	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	meet_start(&calls[0]);
	await_root(&calls[0]);
	assert_int_equal(connect_at(&calls[0], "127.0.0.1"), -1);
	meet_run(&calls[1]);
	meet_finish(&calls[0]);
	meet_check(calls, 2);
}

/* ---- descriptors ------------------------------------------------------- */

static void sockets_are_closed_on_exec(void **state)
{
	int num_sockets = 0;

	(void)state;
	meet_prepare_all(calls, 3, MEET_LONG_NS);
	meet_start(&calls[0]);
	meet_start(&calls[1]);
	await_root(&calls[0]);
	meet_sleep(MEET_SHORT_NS);
	for (int fd = 3; fd < 64; fd++) {
		int type;
		socklen_t bytes = sizeof(type);

		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0)
			continue;
		num_sockets++;
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	assert_true(num_sockets > 0);
	meet_run(&calls[2]);
	meet_finish(&calls[0]);
	meet_finish(&calls[1]);
	meet_check(calls, 3);
}

static void leave_descriptors(int num_left)
{
	int fds[64];
	int num = 0;

	while (num < 64 && (fds[num] = open("/dev/null", O_RDONLY)) >= 0)
		num++;
	while (num_left-- > 0 && num > 0)
		close(fds[--num]);
}

/* One rank's call in a child with few descriptors, of which num_left are
 * free. The exit status is 0 if it is told so. */
static int run_with_few_descriptors(int32_t rank, int num_left)
{
	struct rlimit few = {.rlim_cur = 34, .rlim_max = 34};

	if (setrlimit(RLIMIT_NOFILE, &few) != 0)
		return 1;
	leave_descriptors(num_left);
	meet_run(&calls[rank]);
	if (calls[rank].status != SHUNT_SYSTEM)
		return 2;
	return strstr(calls[rank].message, "ulimit -n") ? 0 : 3;
}

static pid_t fork_with_few_descriptors(int32_t rank, int num_left)
{
	pid_t child = fork();

	if (child == 0)
		_exit(run_with_few_descriptors(rank, num_left));
	return child;
}

static void check_child(pid_t child)
{
	int child_status;

	assert_int_equal(waitpid(child, &child_status, 0), child);
	assert_true(WIFEXITED(child_status));
	assert_int_equal(WEXITSTATUS(child_status), 0);
}

static void a_limit_too_low_for_the_root_is_told_at_once(void **state)
{
	(void)state;
	meet_prepare_all(calls, MEET_MAX_RANKS, MEET_LONG_NS);
	check_child(fork_with_few_descriptors(0, 20));
}

static void a_rank_without_descriptors_is_told(void **state)
{
	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	check_child(fork_with_few_descriptors(1, 0));
}

static void a_root_that_runs_out_of_descriptors_tells_who_is_there(void **state)
{
	int num_told = 0;
	pid_t child;

	(void)state;
	meet_prepare_all(calls, 8, 4 * HALF_SEC);
	child = fork_with_few_descriptors(0, 3); /* itself and two ranks */
	for (int32_t rank = 1; rank < 8; rank++)
		meet_start(&calls[rank]);
	for (int32_t rank = 1; rank < 8; rank++) {
		meet_finish(&calls[rank]);
		num_told += calls[rank].status == SHUNT_SYSTEM;
		if (calls[rank].status != SHUNT_SYSTEM)
			assert_int_equal(calls[rank].status, SHUNT_TIMEOUT);
	}
	assert_int_equal(num_told, 2);
	check_child(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEFTOVERS_TEST(all_ranks_get_all_blobs_and_one_secret),
		LEFTOVERS_TEST(each_meeting_has_a_secret_of_its_own),
		LEFTOVERS_TEST(one_port_serves_meeting_after_meeting),
		LEFTOVERS_TEST(ranks_may_start_before_the_root),
		LEFTOVERS_TEST(loopback_needs_no_key),
		LEFTOVERS_TEST(ranks_meet_by_name),
		LEFTOVERS_TEST(ranks_meet_by_ipv6),
		LEFTOVERS_TEST(processes_meet),
		LEFTOVERS_TEST(another_version_is_named_on_every_rank),
		LEFTOVERS_TEST(another_protocol_is_a_version_too),
		LEFTOVERS_TEST(
			a_root_of_another_version_is_the_odd_one_for_all),
		LEFTOVERS_TEST(another_blob_size_is_a_version_too),
		LEFTOVERS_TEST(another_size_is_a_mismatch_on_every_rank),
		LEFTOVERS_TEST(ranks_beyond_the_roots_size_learn_of_it_too),
		LEFTOVERS_TEST(
			a_mismatch_does_not_wait_for_ranks_that_never_come),
		LEFTOVERS_TEST(
			a_rank_that_comes_twice_is_a_mismatch_on_every_rank),
		LEFTOVERS_TEST(off_loopback_a_key_is_demanded),
		LEFTOVERS_TEST(a_root_elsewhere_than_its_address_is_told),
		LEFTOVERS_TEST(a_port_in_use_is_told),
		LEFTOVERS_TEST(the_root_listens_at_its_address_alone),
		LEFTOVERS_TEST(sockets_are_closed_on_exec),
		LEFTOVERS_TEST(a_limit_too_low_for_the_root_is_told_at_once),
		LEFTOVERS_TEST(a_rank_without_descriptors_is_told),
		LEFTOVERS_TEST(
			a_root_that_runs_out_of_descriptors_tells_who_is_there),
	};

	return cmocka_run_group_tests_name("bootstrap", tests, NULL, NULL);
}
