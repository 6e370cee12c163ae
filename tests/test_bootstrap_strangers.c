/* The meeting over TCP among strangers and impostors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/net.h"
#include "support/leftovers.h"
#include "support/meet.h"

#define MAX_STRANGERS 1000
#define WAIT_NS       (1000 * MEET_MS) /* the deadline of who must fail */

static struct meet_call calls[MEET_MAX_RANKS];
static int strangers[MAX_STRANGERS];
static const int32_t only_root[] = {0, -1};

static void find_door(struct net_addresses *addresses)
{
	assert_null(net_resolve(
		meet_address(), calls[0].bootstrap.port, addresses));
}

/* A stranger at the root's door; waits until there is one. */
static int knock(void)
{
	struct net_addresses door;
	int fd;

	find_door(&door);
	do {
		fd = net_connect(&door.list[0], clock_deadline(MEET_LONG_NS));
		if (fd < 0)
			net_sleep(clock_deadline(MEET_MS));
	} while (fd < 0);
	return fd;
}

static void say(int fd, const void *bytes, size_t num_bytes)
{
	/* The root may have hung up already. */
	(void)send(fd, bytes, num_bytes, MSG_NOSIGNAL);
}

/* Lets the other ranks in now that strangers are, and checks the outcome. */
static void meet_among_strangers(int32_t num_ranks)
{
	for (int32_t rank = 1; rank < num_ranks; rank++)
		meet_start(&calls[rank]);
	meet_finish_all(calls, num_ranks);
}

/* ---- strangers --------------------------------------------------------- */

static void send_garbage(int fd)
{
	uint8_t garbage[1000];

	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = (uint8_t)(i * 37 + 11);
	say(fd, garbage, sizeof(garbage));
}

static void send_http(int fd)
{
	say(fd, "GET / HTTP/1.0\r\n\r\n", 18);
}

static void send_magic_and_stop(int fd)
{
	say(fd, "\r\nShunt\n\1\0", 10);
}

static void send_nothing(int fd)
{
	(void)fd;
}

static void half_close(int fd)
{
	shutdown(fd, SHUT_WR);
}

/* A hello that was good on another connection. */
static void replay(int fd)
{
	uint8_t key[WIRE_KEY_BYTES];
	uint8_t old_root[WIRE_ROOT_HELLO_BYTES];
	uint8_t hello[WIRE_CLIENT_HELLO_BYTES];
	struct wire_client client = {.version = calls[0].version,
		.rank = 1,
		.num_ranks = 4,
		.blob_bytes = MEET_BLOB_BYTES};

	wire_derive_key(key, calls[0].bootstrap.key, calls[0].bootstrap.job);
	wire_write_root_hello(old_root, &calls[0].version);
	wire_write_client_hello(hello, &client, key, old_root);
	say(fd, hello, sizeof(hello));
}

static void strangers_of_every_kind_are_ignored(void **state)
{
	static void (*const kinds[])(int) = {send_garbage, send_http,
		send_magic_and_stop, send_nothing, half_close, replay};
	int num_kinds = (int)(sizeof(kinds) / sizeof(kinds[0]));

	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	meet_start(&calls[0]);
	for (int i = 0; i < num_kinds; i++) {
		strangers[i] = knock();
		kinds[i](strangers[i]);
	}
	meet_among_strangers(4);
	for (int i = 0; i < num_kinds; i++)
		close(strangers[i]);
}

static void a_thousand_that_come_and_go_are_ignored(void **state)
{
	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	meet_start(&calls[0]);
	for (int i = 0; i < MAX_STRANGERS; i++)
		close(knock());
	meet_among_strangers(4);
}

static void hundreds_that_stay_and_say_nothing_are_ignored(void **state)
{
	int num_strangers = 300; /* far more than the root has places for */

	(void)state;
	meet_prepare_all(calls, 4, MEET_LONG_NS);
	meet_start(&calls[0]);
	for (int i = 0; i < num_strangers; i++)
		strangers[i] = knock();
	meet_among_strangers(4);
	for (int i = 0; i < num_strangers; i++)
		close(strangers[i]);
}

/* 0 bytes: the root hung up. */
static ssize_t drain(int fd)
{
	uint8_t bytes[256];
	ssize_t got;

	do {
		assert_int_equal(
			net_wait_readable(fd, clock_deadline(MEET_LONG_NS)), 0);
		got = recv(fd, bytes, sizeof(bytes), 0);
	} while (got > 0);
	return got;
}

static void who_says_too_little_is_shown_out(void **state)
{
	int fd;

	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	meet_start(&calls[0]);
	fd = knock();
	send_magic_and_stop(fd);
	assert_int_equal(drain(fd), 0);
	close(fd);
	meet_among_strangers(2);
}

static void who_has_another_key_or_job_is_told_at_its_deadline(void **state)
{
	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	meet_start(&calls[0]);
	close(knock());
	meet_prepare_tcp(&calls[2], calls[0].bootstrap.port, 1, 2, WAIT_NS);
	calls[3] = calls[2];
	strcpy(calls[2].bootstrap.key, "wrong");
	strcpy(calls[3].bootstrap.job, "wrong");
	meet_run_all(&calls[2], 2);
	meet_check_error(&calls[2], SHUNT_TIMEOUT, only_root,
		"another SHUNT_KEY or SHUNT_JOB");
	meet_check_error(&calls[3], SHUNT_TIMEOUT, only_root,
		"another SHUNT_KEY or SHUNT_JOB");
	meet_among_strangers(2);
}

/* ---- impostors: something else where rank 0 should be ------------------ */

struct impostor {
	pthread_t thread;
	int listener;
	int num_served; /* connections before it leaves; 0: until stopped */
	const void *greeting;
	size_t greeting_bytes;
	size_t num_read; /* bytes taken before the answer */
	size_t answer_bytes;
};

static void serve(const struct impostor *impostor, int fd)
{
	uint8_t bytes[1024] = {0};
	int64_t until = clock_deadline(MEET_LONG_NS);

	say(fd, impostor->greeting, impostor->greeting_bytes);
	if (impostor->num_read > 0 &&
		net_read(fd, bytes, impostor->num_read, until) == 0)
		say(fd, bytes, impostor->answer_bytes);
	drain(fd);
}

static void *run_impostor(void *argument)
{
	struct impostor *impostor = argument;

	for (int i = 0; i == 0 || i != impostor->num_served; i++) {
		int64_t until = clock_deadline(MEET_LONG_NS);
		int fd;

		if (net_wait_readable(impostor->listener, until) != 0)
			break;
		fd = net_accept(impostor->listener);
		if (fd < 0)
			break; /* stopped */
		serve(impostor, fd);
		close(fd);
	}
	return NULL;
}

static void start_impostor(struct impostor *impostor)
{
	struct net_addresses door;

	find_door(&door);
	impostor->listener = net_listen(&door.list[0]);
	assert_true(impostor->listener >= 0);
	assert_int_equal(
		pthread_create(&impostor->thread, NULL, run_impostor, impostor),
		0);
}

static void stop_impostor(struct impostor *impostor)
{
	shutdown(impostor->listener, SHUT_RDWR);
	pthread_join(impostor->thread, NULL);
	close(impostor->listener);
}

/* Meets an impostor alone until the deadline; its words must be told. */
static void check_told(struct impostor *impostor, const char *words)
{
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	start_impostor(impostor);
	calls[1].span_ns = WAIT_NS;
	meet_run(&calls[1]);
	stop_impostor(impostor);
	meet_check_error(&calls[1], SHUNT_TIMEOUT, only_root, words);
}

static void one_that_is_not_shunt_is_told(void **state)
{
	struct impostor impostor = {
		.greeting = "220 mail.example.org ESMTP ready, and a lot of "
			    "other words to fill a hello",
		.greeting_bytes = 74,
	};

	(void)state;
	check_told(&impostor, "not Shunt answers");
}

static void one_that_is_silent_is_told(void **state)
{
	struct impostor impostor = {.greeting_bytes = 0};

	(void)state;
	check_told(&impostor, "says nothing");
}

static void one_that_greets_but_has_no_key_is_not_believed(void **state)
{
	uint8_t greeting[WIRE_ROOT_HELLO_BYTES];
	struct impostor impostor = {
		.greeting = greeting,
		.greeting_bytes = sizeof(greeting),
		.num_read = WIRE_CLIENT_HELLO_BYTES + MEET_BLOB_BYTES +
			    WIRE_SEAL_BYTES,
		.answer_bytes = 1000,
	};

	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	wire_write_root_hello(greeting, &calls[0].version);
	check_told(&impostor, "does not know the job's key");
}

static void after_an_impostor_the_real_root_is_found(void **state)
{
	struct impostor impostor = {
		.greeting = "hello, is it me you are looking for? it is not, "
			    "nor is it you I look for",
		.greeting_bytes = 71,
		.num_served = 1,
	};

	(void)state;
	meet_prepare_all(calls, 2, MEET_LONG_NS);
	start_impostor(&impostor);
	meet_start(&calls[1]);
	pthread_join(impostor.thread, NULL);
	close(impostor.listener);
	meet_run(&calls[0]);
	meet_finish(&calls[1]);
	meet_check(calls, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEFTOVERS_TEST(strangers_of_every_kind_are_ignored),
		LEFTOVERS_TEST(a_thousand_that_come_and_go_are_ignored),
		LEFTOVERS_TEST(hundreds_that_stay_and_say_nothing_are_ignored),
		LEFTOVERS_TEST(who_says_too_little_is_shown_out),
		LEFTOVERS_TEST(
			who_has_another_key_or_job_is_told_at_its_deadline),
		LEFTOVERS_TEST(one_that_is_not_shunt_is_told),
		LEFTOVERS_TEST(one_that_is_silent_is_told),
		LEFTOVERS_TEST(one_that_greets_but_has_no_key_is_not_believed),
		LEFTOVERS_TEST(after_an_impostor_the_real_root_is_found),
	};

	return cmocka_run_group_tests_name(
		"bootstrap_strangers", tests, NULL, NULL);
}
