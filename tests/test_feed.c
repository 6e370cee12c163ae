/*
 * Combines that are fed expert by expert: tokens are summed as soon as all of
 * their rows are there, and what came early counts for nothing if the step
 * fails. All orders of feeding, with everything else that a combine can be asked
 * for, are the sweep's.
 *
 * Two ranks act: the first has experts 0 and 1, the second 2 and 3. The tokens of
 * the first need expert 2; 2 and 0; 2 and 3. The second's need expert 3.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "support/elastic.h"
#include "support/plain.h"

#define TOKENS 3
#define STEPS  5 /* more than there are slots */

static const int32_t first_ids[TOKENS * 2] = {2, -1, 2, 0, 2, 3};
static const int32_t second_ids[2] = {3, -1};
static const float factors[2][2] = {{1, 2}, {4, 8}};
static const float first_sums[TOKENS] = {4, 5, 12};
static const float second_sums[1] = {8};

/* What is different about an exchange. */
struct kind {
	const char *name;
	enum shunt_layout layout;
	enum shunt_combine_quant combine_quant;
	const int32_t *table; /* of ELASTIC_RANKS ranks */
	int32_t second;       /* who acts as the second */
};

static const struct kind kinds[] = {
	{.name = "compact", .second = 1},
	{.name = "padded", .layout = SHUNT_LAYOUT_PADDED, .second = 1},
	{.name = "indexed", .layout = SHUNT_LAYOUT_INDEXED, .second = 1},
	{.name = "packed",
		.combine_quant = SHUNT_COMBINE_QUANT_INT8_128,
		.second = 1},
	{.name = "elastic", .table = elastic_only_0_and_2, .second = 2},
};

static void init(
	struct plain *plain, struct seat *seat, const struct kind *kind)
{
	struct shunt_exchange_config config =
		plain_config(TOKENS, 2, kind->table ? 2 * ELASTIC_RANKS : 4);

	config.layout = kind->layout;
	config.combine_quant = kind->combine_quant;
	config.elastic = kind->table != NULL;
	plain_init(plain, seat, NULL, &config);
}

static bool is_first(const struct plain *plain)
{
	return plain->seat->rank == 0;
}

/* A dispatch, and the start of its combine, of which nothing is fed. */
static void begin(struct plain *plain, const struct kind *kind)
{
	bool first = is_first(plain);

	elastic_bring(plain, first ? TOKENS : 1, first ? first_ids : second_ids,
		kind->table);
	plain_dispatch(plain);
	plain_make_rows(plain, factors[first ? 0 : 1]);
	memset(plain->sums, 0xff, sizeof(plain->sums));
	plain->combine.feed = true;
	SEAT_OK(plain->seat,
		shunt_combine_start(plain->handle, &plain->combine));
}

static void feed(struct plain *plain, int64_t local)
{
	SEAT_OK(plain->seat, shunt_combine_feed(plain->handle, local, NULL, 0));
}

/* A call sums at least one of the tokens whose rows are there. */
static void progress(struct plain *plain)
{
	for (int i = 0; i < TOKENS; i++)
		SEAT_OK(plain->seat,
			shunt_exchange_progress(plain->exchange, NULL));
}

static bool is_summed(const struct plain *plain, int64_t token)
{
	uint32_t word;

	memcpy(&word, plain->sums + token * PLAIN_HIDDEN, sizeof(word));
	return word != UINT32_MAX;
}

static void expect_summed(
	struct plain *plain, const char *when, const bool summed[TOKENS])
{
	for (int64_t t = 0; t < TOKENS; t++)
		SEAT_CHECK(plain->seat, is_summed(plain, t) == summed[t],
			"%s: token %d is%s summed", when, (int)t,
			summed[t] ? " not" : "");
}

/* ---- early sums --------------------------------------------------------- */

static void first_step(struct plain *plain, const struct kind *kind)
{
	float early[2 * PLAIN_HIDDEN];
	struct seat *seat = plain->seat;

	feed(plain, 0);
	progress(plain);
	expect_summed(plain, "nothing is fed there",
		(const bool[]){false, false, false});
	seat_barrier(seat);
	seat_barrier(seat);
	progress(plain);
	expect_summed(
		plain, "expert 2 is fed", (const bool[]){true, true, false});
	memcpy(early, plain->sums, sizeof(early));
	seat_barrier(seat);
	SEAT_OK(seat, shunt_combine_finish(plain->handle, 0));
	SEAT_CHECK(seat, memcmp(early, plain->sums, sizeof(early)) == 0,
		"early sums have changed");
	if (kind->combine_quant == SHUNT_COMBINE_QUANT_NONE)
		plain_expect_sums(plain, first_sums);
}

static void second_step(struct plain *plain, const struct kind *kind)
{
	struct seat *seat = plain->seat;

	seat_barrier(seat);
	feed(plain, 0);
	seat_barrier(seat);
	seat_barrier(seat);
	feed(plain, 1);
	SEAT_OK(seat, shunt_combine_finish(plain->handle, 0));
	if (kind->combine_quant == SHUNT_COMBINE_QUANT_NONE)
		plain_expect_sums(plain, second_sums);
}

static void sum_early(struct seat *seat)
{
	const struct kind *kind = seat->context;
	struct plain plain;

	init(&plain, seat, kind);
	seat_label(seat, "%s: ", kind->name);
	for (int i = 0; i < STEPS; i++) {
		if (!is_first(&plain) && seat->rank != kind->second) {
			for (int b = 0; b < 3; b++)
				seat_barrier(seat);
			continue;
		}
		begin(&plain, kind);
		if (is_first(&plain))
			first_step(&plain, kind);
		else
			second_step(&plain, kind);
	}
	/* Who is left out may not leave while the others need its memory. */
	seat_barrier(seat);
	plain_fini(&plain);
}

static void tokens_are_summed_before_the_last_expert_is_fed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (int l = 0; l < RANKS_NUM_LAUNCHES; l++)
			ranks_run_simple((enum ranks_launch)l,
				kinds[i].table ? ELASTIC_RANKS : 2, sum_early,
				&kinds[i]);
}

/* The second gives all rows at once, where they lie; the first has fed none. */
static void mix(struct seat *seat)
{
	struct plain plain;
	size_t bytes = 5 * PLAIN_HIDDEN * sizeof(float);
	float *y = shunt_alloc(seat->world, bytes);

	SEAT_CHECK(seat, y, "%s", shunt_error_message());
	init(&plain, seat, &kinds[0]);
	if (is_first(&plain)) {
		begin(&plain, &kinds[0]);
		seat_barrier(seat);
		progress(&plain);
		expect_summed(&plain, "all of the second rank's is there",
			(const bool[]){true, false, true});
		feed(&plain, 0);
	} else {
		plain_bring(&plain, 1, second_ids);
		plain_dispatch(&plain);
		plain_make_rows(&plain, factors[1]);
		memcpy(y, plain.out.expert_rows, bytes);
		plain.combine.y = y;
		SEAT_OK(seat,
			shunt_combine_start(plain.handle, &plain.combine));
		seat_barrier(seat);
	}
	SEAT_OK(seat, shunt_combine_finish(plain.handle, 0));
	plain_expect_sums(&plain, is_first(&plain) ? first_sums : second_sums);
	shunt_free(seat->world, y);
	plain_fini(&plain);
}

static void rows_of_a_rank_that_does_not_feed_are_taken_early_too(void **state)
{
	(void)state;
	ranks_run_both(2, mix, NULL);
}

/* ---- failing ------------------------------------------------------------ */

static void give_up(struct seat *seat)
{
	struct plain plain;

	init(&plain, seat, &kinds[0]);
	begin(&plain, &kinds[0]);
	if (!is_first(&plain)) {
		feed(&plain, 0);
		shunt_handle_destroy(plain.handle);
		seat_barrier(seat);
	} else {
		seat_barrier(seat);
		feed(&plain, 0);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_combine_finish(plain.handle, 0));
		seat_message_has(seat, "it gave the step up");
		seat_error_ranks(seat, 1 << 1);
	}
	for (int i = 0; i < STEPS; i++) {
		begin(&plain, &kinds[0]);
		feed(&plain, 0);
		if (!is_first(&plain))
			feed(&plain, 1);
		SEAT_OK(seat, shunt_combine_finish(plain.handle, 0));
		plain_expect_sums(
			&plain, is_first(&plain) ? first_sums : second_sums);
	}
	plain_fini(&plain);
}

static void a_peer_that_gives_up_between_feeds_refuses_the_step(void **state)
{
	(void)state;
	ranks_run_both(2, give_up, NULL);
}

/* The second's combine is wrong, while the first is feeding. */
static void refuse(struct seat *seat)
{
	struct plain plain;

	init(&plain, seat, &kinds[0]);
	if (is_first(&plain)) {
		begin(&plain, &kinds[0]);
		seat_barrier(seat);
		progress(&plain);
		expect_summed(&plain, "the step is refused",
			(const bool[]){false, false, false});
		feed(&plain, 0);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_combine_finish(plain.handle, 0));
		seat_error_ranks(seat, 1 << 1);
	} else {
		plain_bring(&plain, 1, second_ids);
		plain_dispatch(&plain);
		plain.combine.feed = true;
		plain.combine.out = NULL;
		SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
			shunt_combine_start(plain.handle, &plain.combine));
		seat_barrier(seat);
	}
	plain_fini(&plain);
}

static void rows_of_a_rank_that_refuses_are_not_taken(void **state)
{
	(void)state;
	ranks_run_both(2, refuse, NULL);
}

static void die(struct seat *seat)
{
	struct plain plain;

	init(&plain, seat, &kinds[0]);
	begin(&plain, &kinds[0]);
	feed(&plain, 0);
	seat_barrier(seat);
	if (!is_first(&plain))
		raise(SIGKILL);
	SEAT_STATUS(
		seat, SHUNT_PEER_LOST, shunt_combine_finish(plain.handle, 0));
	seat_error_ranks(seat, 1 << 1);
	expect_summed(&plain, "expert 2 was fed before the death",
		(const bool[]){true, true, false});
	plain_fini(&plain);
}

static void a_peer_that_dies_between_feeds_is_lost(void **state)
{
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = 2,
		.may_die = 1 << 1,
	};

	(void)state;
	ranks_run(&plan, die);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			tokens_are_summed_before_the_last_expert_is_fed),
		cmocka_unit_test(
			rows_of_a_rank_that_does_not_feed_are_taken_early_too),
		cmocka_unit_test(
			a_peer_that_gives_up_between_feeds_refuses_the_step),
		cmocka_unit_test(rows_of_a_rank_that_refuses_are_not_taken),
		cmocka_unit_test(a_peer_that_dies_between_feeds_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
