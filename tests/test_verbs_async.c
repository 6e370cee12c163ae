/* Transport "verbs" when a device says that something has failed, and nothing
 * else tells: by an asynchronous event, or by descriptors that break. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/child.h"
#include "support/form_rig.h"
#include "transport/verbs.h"

#define COUNTER 0

static struct rig rig, second;

static void start_form(const char *form, int num_ranks)
{
	form_rig_init(&rig, fake_form_find(form), num_ranks, 3);
	form_rig_open(&rig);
}

static void expect_state(int rank, int peer, enum peer_state state)
{
	assert_true(rig_await_state(&rig.ranks[rank], peer, state));
}

static int signal_other(struct rig_rank *rank)
{
	int32_t other = rank->rank ^ 1;

	CHILD_CHECK(rig_put(rank, other, 0, NULL, 0, COUNTER, 1) == SHUNT_OK);
	CHILD_CHECK(rig_await(rank, other, COUNTER, 1));
	return 0;
}

/* ---- what is logged ----------------------------------------------------- */

static int notes_fd, usual_stderr;

static void notes_begin(void)
{
	notes_fd = memfd_create("notes", MFD_CLOEXEC);
	assert_true(notes_fd >= 0);
	usual_stderr = dup(STDERR_FILENO);
	assert_true(dup2(notes_fd, STDERR_FILENO) >= 0);
}

/* All that was logged since; stderr is itself again. */
static const char *notes_end(void)
{
	static char notes[16384];
	ssize_t length = pread(notes_fd, notes, sizeof(notes) - 1, 0);

	dup2(usual_stderr, STDERR_FILENO);
	close(usual_stderr);
	close(notes_fd);
	notes[length > 0 ? length : 0] = '\0';
	fputs(notes, stderr);
	return notes;
}

static void await_note(const char *text)
{
	char notes[16384];

	for (int i = 0; i < 20000; i++) {
		ssize_t length = pread(notes_fd, notes, sizeof(notes) - 1, 0);

		notes[length > 0 ? length : 0] = '\0';
		if (strstr(notes, text))
			return;
		usleep(1000);
	}
	fail_msg("nobody said \"%s\"", text);
}

/* ---- events ------------------------------------------------------------- */

/* Nothing completes any more, so nothing else tells. */
static void what_completes_nothing_any_more_ends_its_links(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_DEVICE_FATAL};
	static const char *const forms[] = {"roce", "iwarp"};

	(void)state;
	for (int n = 0; n < 6; n++) {
		start_form(forms[n / 3], 2);
		notes_begin();
		fake_verbs_async("fake0", types[n % 3]);
		expect_state(0, 1, PEER_DEAD);
		expect_state(1, 0, PEER_DEAD);
		form_rig_close(&rig);
		assert_non_null(
			strstr(notes_end(), ibv_event_type_str(types[n % 3])));
	}
}

static void an_event_is_logged_with_its_device(void **state)
{
	(void)state;
	start_form("roce", 2);
	notes_begin();
	fake_verbs_async("fake0", IBV_EVENT_DEVICE_FATAL);
	expect_state(0, 1, PEER_DEAD);
	form_rig_close(&rig);
	assert_non_null(strstr(notes_end(),
		"shunt[rank 0]: device fake0: local catastrophic error"));
}

/* Others are on other devices. */
static void an_event_ends_the_links_of_its_device_only(void **state)
{
	(void)state;
	start_form("roce", 3);
	fake_verbs_async("fake0", IBV_EVENT_CQ_ERR);
	expect_state(0, 1, PEER_DEAD);
	expect_state(0, 2, PEER_DEAD);
	expect_state(1, 0, PEER_DEAD);
	expect_state(2, 0, PEER_DEAD);
	assert_int_equal(rig_state(&rig.ranks[1], 2), PEER_ALIVE);
	assert_int_equal(rig_state(&rig.ranks[2], 1), PEER_ALIVE);
	form_rig_close(&rig);
}

/* What matters of these shows in beats, or not at all. */
static void what_a_link_outlives_is_only_logged(void **state)
{
	static const enum ibv_event_type types[] = {IBV_EVENT_PORT_ERR,
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE,
		IBV_EVENT_LID_CHANGE, IBV_EVENT_CLIENT_REREGISTER};

	(void)state;
	start_form("roce", 2);
	notes_begin();
	for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
		fake_verbs_async("fake0", types[t]);
	await_note("device fake0, port 1: port error");
	assert_int_equal(rig_state(&rig.ranks[0], 1), PEER_ALIVE);
	assert_int_equal(rig_state(&rig.ranks[1], 0), PEER_ALIVE);
	assert_true(rig_run(&rig, signal_other));
	form_rig_close(&rig);
	assert_null(strstr(notes_end(), "ends"));
}

/* librdmacm opens a device once a process: each event comes to one of them. */
static void all_worlds_of_a_process_hear_of_a_device(void **state)
{
	const struct fake_form *form = fake_form_find("roce");

	(void)state;
	start_form("roce", 2);
	rig_init(&second, 2);
	for (int r = 0; r < 2; r++)
		fake_form_fill(form, r, &second.configs[r]);
	assert_true(rig_open(&second));
	fake_verbs_async("fake0", IBV_EVENT_DEVICE_FATAL);
	expect_state(0, 1, PEER_DEAD);
	assert_true(rig_await_state(&second.ranks[0], 1, PEER_DEAD));
	assert_true(rig_close(&second));
	form_rig_close(&rig);
}

/* ---- descriptors -------------------------------------------------------- */

/* poll() returns at once from a descriptor that is broken, for ever. Slow
 * machines look less often, not more. */
static void a_broken_descriptor_ends_its_links_and_is_left_alone(void **state)
{
	int64_t before;

	(void)state;
	start_form("roce", 3);
	notes_begin();
	fake_verbs_break_descriptors("fake0");
	expect_state(0, 1, PEER_DEAD);
	expect_state(0, 2, PEER_DEAD);
	expect_state(1, 0, PEER_DEAD);
	before = fake_verbs_channel_looks();
	sleep(1);
	assert_in_range(fake_verbs_channel_looks() - before, 0, 3000);
	assert_int_equal(rig_state(&rig.ranks[1], 2), PEER_ALIVE);
	form_rig_close(&rig);
	assert_non_null(
		strstr(notes_end(), "device fake0 has a broken event "));
}

/* As a program does that closes what it does not know, before it starts another. By
 * the system call itself: TSan takes close() beside a reader for the race that it is. */
static void a_descriptor_of_all_that_is_closed_ends_all_links(void **state)
{
	int kept;
	int64_t before;

	(void)state;
	start_form("two_devices", 2);
	kept = dup(rig.ranks[0].far->wake);
	assert_true(kept >= 0);
	assert_int_equal(syscall(SYS_close, rig.ranks[0].far->wake), 0);
	expect_state(0, 1, PEER_DEAD);
	before = fake_verbs_channel_looks();
	sleep(1);
	assert_in_range(fake_verbs_channel_looks() - before, 0, 3000);
	assert_int_equal(syscall(SYS_dup3, kept, rig.ranks[0].far->wake, 0),
		rig.ranks[0].far->wake);
	close(kept);
	form_rig_close(&rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_completes_nothing_any_more_ends_its_links),
		cmocka_unit_test(an_event_is_logged_with_its_device),
		cmocka_unit_test(an_event_ends_the_links_of_its_device_only),
		cmocka_unit_test(what_a_link_outlives_is_only_logged),
		cmocka_unit_test(all_worlds_of_a_process_hear_of_a_device),
		cmocka_unit_test(
			a_broken_descriptor_ends_its_links_and_is_left_alone),
		cmocka_unit_test(
			a_descriptor_of_all_that_is_closed_ends_all_links),
	};

	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
