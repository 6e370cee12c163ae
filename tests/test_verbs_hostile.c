/* Transport "verbs" with a peer that says nonsense: it is dead from then on,
 * nothing of what it said is done, and the others are not touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/child.h"
#include "support/form_rig.h"
#include "transport/verbs_image.h"
#include "transport/verbs_lane.h"

#define VICTIM 0
#define PEER   1
#define OTHER  2

static struct rig rig;

static void start(const char *form)
{
	form_rig_init(&rig, fake_form_find(form), 3, 5);
	form_rig_open(&rig);
}

static struct verbs_link *link_of(int rank, int peer)
{
	return (void *)rig.ranks[rank].peers[peer];
}

/* The victim has given the peer up, and it alone. */
static void expect_fault(const char *what)
{
	if (!rig_await_state(&rig.ranks[VICTIM], PEER, PEER_DEAD))
		fail_msg("%s", what);
	assert_int_equal(rig_state(&rig.ranks[VICTIM], OTHER), PEER_ALIVE);
	assert_int_equal(rig_put(&rig.ranks[OTHER], VICTIM, 0, NULL, 0, 256, 1),
		SHUNT_OK);
	assert_true(rig_await(&rig.ranks[VICTIM], OTHER, 256, 1));
	form_rig_close(&rig);
}

/* ---- records ------------------------------------------------------------ */

/* Sends a record as it is, whatever it says. */
static void say(int lane_number, const struct record *record)
{
	struct verbs_link *link = link_of(PEER, VICTIM);
	struct lane_batch batch;

	far_lock(link->far);
	assert_true(lane_takes_record(&link->lanes[lane_number], 0));
	lane_batch_begin(&batch, &link->lanes[lane_number]);
	lane_add_record(&batch, record);
	lane_post_signalled(&batch);
	far_unlock(link->far);
}

/* Offsets are of what `base' names, in the victim's segment, or the peer's
 * where a record is about its own. */
enum base { FROM_START, FROM_AREA, FROM_IMAGE, FROM_OTHERS_IMAGE };

static const struct nonsense {
	const char *name;
	int lane;
	enum base base;
	struct record record;
} nonsenses[] = {
	{.name = "no record", .record = {.kind = 0}},
	{.name = "unknown record", .record = {.kind = 99}},
	{.name = "greets again", .record = {.kind = RECORD_HELLO}},
	{.name = "counts inside of a word",
		.base = FROM_AREA,
		.record = {.kind = RECORD_COUNT, .offset = 4, .value = 1}},
	{.name = "counts in the control page",
		.record = {.kind = RECORD_COUNT, .offset = 256, .value = 1}},
	{.name = "counts where nothing is",
		.base = FROM_AREA,
		.record = {.kind = RECORD_COUNT,
			.offset = 16 * RIG_AREA_BYTES,
			.value = 1}},
	{.name = "counts before its area",
		.base = FROM_AREA,
		.record = {.kind = RECORD_COUNT,
			.offset = (uint64_t)-8,
			.value = 1}},
	{.name = "counts at the end of all",
		.record = {.kind = RECORD_COUNT,
			.offset = UINT64_MAX - 7,
			.value = 1}},
	{.name = "counts behind its image",
		.base = FROM_IMAGE,
		.record = {.kind = RECORD_COUNT,
			.offset = CONTROL_BYTES,
			.value = 1}},
	{.name = "counts in another's image",
		.base = FROM_OTHERS_IMAGE,
		.record = {.kind = RECORD_COUNT, .offset = 512, .value = 1}},
	{.name = "counts behind a fence of no lane",
		.base = FROM_AREA,
		.record = {.kind = RECORD_COUNT,
			.fences = 1 << 9,
			.offset = 0,
			.value = 1}},
	{.name = "counts behind a fence of the first lane",
		.base = FROM_AREA,
		.record = {.kind = RECORD_COUNT,
			.fences = 1,
			.offset = 0,
			.value = 1}},
	{.name = "counts on another lane",
		.lane = 1,
		.base = FROM_AREA,
		.record = {.kind = RECORD_COUNT, .offset = 0, .value = 1}},
	{.name = "fences the first lane", .record = {.kind = RECORD_FENCE}},
	{.name = "leaves on another lane",
		.lane = 1,
		.record = {.kind = RECORD_LEAVE}},
	{.name = "exposes nothing",
		.record = {.kind = RECORD_EXPOSE, .offset = 8192}},
	{.name = "exposes more than its segment",
		.record = {.kind = RECORD_EXPOSE,
			.offset = 8192,
			.value = UINT64_C(1) << 40}},
	{.name = "exposes around the end",
		.record = {.kind = RECORD_EXPOSE,
			.offset = UINT64_MAX - 4095,
			.value = 8192}},
	{.name = "exposes by no device",
		.record = {.kind = RECORD_EXPOSE,
			.device = 7,
			.offset = 8192,
			.value = 4096}},
	{.name = "exposes its area again",
		.base = FROM_AREA,
		.record = {.kind = RECORD_EXPOSE,
			.offset = 0,
			.value = RIG_AREA_BYTES}},
	{.name = "exposes a part of its area",
		.base = FROM_AREA,
		.record = {.kind = RECORD_EXPOSE,
			.offset = 4096,
			.value = 4096}},
	{.name = "hides what it did not expose",
		.record = {.kind = RECORD_HIDE, .offset = 12288}},
};

static uint64_t base_off(enum base base)
{
	switch (base) {
	case FROM_AREA:
		return rig.ranks[VICTIM].area_off;
	case FROM_IMAGE:
		return link_of(VICTIM, PEER)->image_off;
	case FROM_OTHERS_IMAGE:
		return link_of(VICTIM, OTHER)->image_off;
	default:
		return 0;
	}
}

static void a_record_of_nonsense_is_a_fault(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof(nonsenses) / sizeof(*nonsenses); n++) {
		const struct nonsense *nonsense = &nonsenses[n];
		struct record record = nonsense->record;
		const uint64_t *word;
		uint64_t before = 0;

		start("relaxed_lanes");
		record.offset += base_off(nonsense->base);
		word = (const void *)(segment_base(rig.ranks[VICTIM].segment) +
				      (record.offset & ~UINT64_C(7)));
		if (record.kind == RECORD_COUNT && record.offset < 1u << 29)
			before = *word;
		say(nonsense->lane, &record);
		if (!rig_await_state(&rig.ranks[VICTIM], PEER, PEER_DEAD))
			fail_msg("%s", nonsense->name);
		if (record.kind == RECORD_COUNT && record.offset < 1u << 29)
			assert_int_equal(*word, before);
		expect_fault(nonsense->name);
	}
}

/* ---- messages ----------------------------------------------------------- */

enum { WRONG_NUMBER, WRONG_IMMEDIATE, BARE_SEND, SHORT_SEND };

static void post(struct lane_batch *batch, int what)
{
	struct ibv_send_wr *request = &batch->requests[0];

	switch (what) {
	case WRONG_NUMBER:
		batch->records[0].sequence++;
		break;
	case WRONG_IMMEDIATE:
		request->imm_data++;
		break;
	case BARE_SEND:
		request->opcode = IBV_WR_SEND;
		break;
	default:
		batch->pieces[0].length = 8;
	}
	lane_post_signalled(batch);
}

static void a_message_that_is_no_record_is_a_fault(void **state)
{
	static const char *const forms[] = {"roce", "roce", "roce", "iwarp"};
	const struct record count = {.kind = RECORD_COUNT, .value = 1};

	(void)state;
	for (int what = WRONG_NUMBER; what <= SHORT_SEND; what++) {
		struct verbs_link *link;
		struct lane_batch batch;

		start(forms[what]);
		link = link_of(PEER, VICTIM);
		far_lock(link->far);
		lane_batch_begin(&batch, &link->lanes[0]);
		lane_add_record(&batch, &count);
		post(&batch, what);
		far_unlock(link->far);
		expect_fault(forms[what]);
	}
}

/* ---- credits ------------------------------------------------------------ */

/* The peer says that it took more records than it was sent. */
static void a_credit_for_what_was_not_sent_is_a_fault(void **state)
{
	struct verbs_link *link;
	struct image_credit *credit;

	(void)state;
	start("short");
	link = link_of(VICTIM, PEER);
	credit = (void *)(segment_base(rig.ranks[VICTIM].segment) +
			  link->image_off + image_credit_off(0));
	for (int i = 0;
		i < 1000 && rig_state(&rig.ranks[VICTIM], PEER) == PEER_ALIVE;
		i++) {
		atomic_store(&credit->total, 1u << 30);
		atomic_store(&credit->complement, ~(uint64_t)(1u << 30));
		assert_int_equal(
			rig_put(&rig.ranks[VICTIM], PEER, 0, NULL, 0, 0, 1),
			SHUNT_OK);
	}
	expect_fault("credit");
}

static void a_torn_credit_is_no_credit(void **state)
{
	struct verbs_link *link;
	struct image_credit *credit;
	uint64_t total;

	(void)state;
	start("roce");
	link = link_of(VICTIM, PEER);
	credit = (void *)(segment_base(rig.ranks[VICTIM].segment) +
			  link->image_off + image_credit_off(0));
	atomic_store(&credit->total, 5);
	assert_false(image_credit_read(&link->lanes[0], &total));
	atomic_store(&credit->total, 0);
	form_rig_close(&rig);
}

/* ---- writes ------------------------------------------------------------- */

/* A write with a key for what is no longer registered ends the link; memory
 * that was given back is not touched. */
static void a_write_to_freed_memory_is_refused_by_the_device(void **state)
{
	struct rig_rank *victim = &rig.ranks[VICTIM];
	uint64_t offset;

	(void)state;
	start("roce");
	assert_int_equal(
		segment_alloc(victim->segment, 4096, 4096, &offset), SHUNT_OK);
	assert_int_equal(far_expose(victim->far, offset, 4096), SHUNT_OK);
	/* It tells its window by a signal behind. */
	assert_int_equal(rig_put(victim, PEER, 0, NULL, 0, 0, 1), SHUNT_OK);
	assert_true(rig_await(&rig.ranks[PEER], VICTIM, 0, 1));
	/* Freed without far_hide(), as if the peer had not listened. */
	segment_free(victim->segment, offset, 4096);
	(void)rig_put(&rig.ranks[PEER], VICTIM, offset - victim->area_off, "x",
		1, PUT_NO_COUNTER, 0);
	expect_fault("freed");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_of_nonsense_is_a_fault),
		cmocka_unit_test(a_message_that_is_no_record_is_a_fault),
		cmocka_unit_test(a_credit_for_what_was_not_sent_is_a_fault),
		cmocka_unit_test(a_torn_credit_is_no_credit),
		cmocka_unit_test(
			a_write_to_freed_memory_is_refused_by_the_device),
	};

	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
