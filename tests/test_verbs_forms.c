/* Transport "verbs" over every form that a device may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/child.h"
#include "support/form_rig.h"
#include "support/scale.h"

#define NUM_RANKS 3
#define ROUNDS    40

/* In an area: a counter per sender, then places of its bytes. */
#define COUNTER_OF(sender) ((uint64_t)(sender)*128)
#define SMALL_OF(sender)   (4096 + (uint64_t)(sender)*4096)
#define LARGE_OF(sender)   (65536 + (uint64_t)(sender)*524288)
#define SOURCE             (UINT64_C(2) << 20)
#define LARGE_BYTES        300007

/* ---- all to all --------------------------------------------------------- */

static uint8_t value_of(int sender, int round, uint64_t at)
{
	return (uint8_t)(sender * 101 + round * 7 + (int)(at / 1000));
}

/* Small bytes from anywhere, large ones from the segment, and one addition
 * that covers both. */
static int send_round(struct rig_rank *rank, int32_t to, int round)
{
	uint8_t small[200];

	for (int b = 0; b < 200; b++)
		small[b] = value_of(rank->rank, round, (uint64_t)b);
	CHILD_CHECK(rig_put(rank, to, LARGE_OF(rank->rank), rank->area + SOURCE,
			    LARGE_BYTES, PUT_NO_COUNTER, 0) == SHUNT_OK);
	CHILD_CHECK(rig_put(rank, to, SMALL_OF(rank->rank) + 3, small, 200,
			    COUNTER_OF(rank->rank), 1) == SHUNT_OK);
	return 0;
}

static int check_round(struct rig_rank *rank, int32_t from, int round)
{
	const uint8_t *large = rank->area + LARGE_OF(from);
	const uint8_t *small = rank->area + SMALL_OF(from) + 3;

	CHILD_CHECK(rig_await(
		rank, from, COUNTER_OF(from), 2 * (uint64_t)round - 1));
	for (uint64_t b = 0; b < LARGE_BYTES; b++)
		CHILD_CHECK(large[b] == value_of(from, round, b));
	for (uint64_t b = 0; b < 200; b++)
		CHILD_CHECK(small[b] == value_of(from, round, b));
	return 0;
}

static int exchange_round(struct rig_rank *rank, int round)
{
	int line = 0;

	for (uint64_t b = 0; b < LARGE_BYTES; b++)
		rank->area[SOURCE + b] = value_of(rank->rank, round, b);
	for (int r = 0; r < NUM_RANKS && line == 0; r++)
		if (r != rank->rank)
			line = send_round(rank, r, round);
	for (int r = 0; r < NUM_RANKS && line == 0; r++)
		if (r != rank->rank)
			line = check_round(rank, r, round);
	if (line)
		return line;
	/* Pure signals: the bytes have been read. */
	for (int r = 0; r < NUM_RANKS; r++)
		if (r != rank->rank)
			CHILD_CHECK(
				rig_put(rank, r, 0, NULL, 0,
					COUNTER_OF(rank->rank), 1) == SHUNT_OK);
	for (int r = 0; r < NUM_RANKS; r++)
		if (r != rank->rank)
			CHILD_CHECK(rig_await(
				rank, r, COUNTER_OF(r), 2 * (uint64_t)round));
	CHILD_CHECK(rig_await_quiet(rank));
	return 0;
}

static int exchange(struct rig_rank *rank)
{
	int line = 0;

	for (int round = 1; round <= scale_of(ROUNDS) && line == 0; round++)
		line = exchange_round(rank, round);
	return line;
}

static void tell(const struct rig *rig)
{
	for (int r = 0; r < rig->num_ranks; r++)
		if (rig->ranks[r].line)
			print_message("rank %d: line %d: %s\n", r,
				rig->ranks[r].line, rig->ranks[r].message);
}

static void who_sees_the_count_sees_all_bytes(void **state)
{
	const struct fake_form *form = *state;
	struct rig rig;

	form_rig_init(&rig, form, NUM_RANKS, 42);
	if (!rig_open(&rig) || !rig_run(&rig, exchange)) {
		tell(&rig);
		fail_msg("%s", form->name);
	}
	form_rig_close(&rig);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[32] = {0};

	assert_true(fake_num_forms <= 32);
	for (int f = 0; f < fake_num_forms; f++)
		tests[f] = (struct CMUnitTest){
			.name = fake_forms[f].name,
			.test_func = who_sees_the_count_sees_all_bytes,
			.initial_state = (void *)(uintptr_t)&fake_forms[f],
		};
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
