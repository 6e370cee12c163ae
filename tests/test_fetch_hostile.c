/*
 * A peer that holds the job's key and offers what no correct rank offers, or
 * changes what was offered: by reaching into the exchange.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "dispatch/share.h"
#include "exchange/step.h"
#include "support/fetched.h"
#include "support/plain.h"

#define RANKS   3
#define HOSTILE 1
#define TOPK    2
#define TIME_NS INT64_C(20000000000)

/* ---- offers that cannot be -------------------------------------------- */

/* Four experts; with `shared`, on rank 2, and the shared expert on ranks 0 and
 * 1: the hostile rank's replica is unit 5. Of two tokens with two choices each
 * the rank tells the places. */
struct lie {
	const char *what;
	int64_t fetch_tokens, num_tokens;
	int32_t places[6]; /* of tokens, by choice and shared expert */
	bool distinct, shared;
};

static const struct lie lies[] = {
	{"a place one too far", 2, 1, {0, 4}, false, false},
	{"a place near 2^31", 2, 2, {0, 1, 2, INT32_MAX}, false, false},
	{"the first place near 2^31", 2, 1, {INT32_MAX, 0}, false, false},
	{"more tokens than are fetched", 2, 3, {0, 1, 2, 3}, false, false},
	{"more tokens than T_max", 2, 5, {0, 1, 2, 3}, false, false},
	{"negative tokens", 2, -1, {0, 1, 2, 3}, false, false},
	{"tokens near 2^63", 2, INT64_MAX, {0, 1, 2, 3}, false, false},
	{"tokens near -2^63", 2, INT64_MIN, {0, 1, 2, 3}, false, false},
	{"an offer where nothing is fetched", -1, 1, {0, 1}, false, false},
	{"an offer of no tokens there", -1, 0, {0}, false, false},
	{"an expert twice by promise", 2, 1, {3, 3}, true, false},
	{"the other replica", 2, 1, {0, 1, 4}, false, true},
	{"a replica of every choice", 2, 1, {5, 5, 5}, false, true},
	{"a choice too many beside it", 2, 1, {0, 1, 2}, false, true},
	{"a place behind the replicas", 2, 1, {0, 1, 6}, false, true},
};

static struct shunt_exchange_config config_of(const struct lie *lie)
{
	struct shunt_exchange_config config = plain_config(4, TOPK, 4);

	config.fetch_tokens = lie->fetch_tokens;
	config.distinct_experts = lie->distinct;
	if (lie->shared) {
		config.num_shared_experts = 1;
		config.num_shared_ranks = 2;
	}
	return config;
}

/* The places that a member has offered, in its window. */
static int32_t *places_of(const struct shunt_exchange *exchange, int32_t member,
	const struct step *step)
{
	return share_of(exchange, step, member).places;
}

/* Offers a step by hand, as dispatch would. */
static void offer_lie(struct seat *seat, struct shunt_exchange *exchange,
	const struct lie *lie)
{
	struct step *step;
	struct step_head *head;

	SEAT_OK(seat, step_claim(exchange, exchange_present(exchange), TIME_NS,
			      &step));
	head = exchange_head(exchange, seat->rank, step);
	head->epoch = step->epoch;
	head->num_tokens = lie->num_tokens;
	head->given = ROWS_OFFERED;
	if (lie->fetch_tokens > 0)
		memcpy(places_of(exchange, seat->rank, step), lie->places,
			sizeof(lie->places));
	step_signal(exchange, step, PHASE_COUNTS, SIGNAL_OK);
	step_signal(exchange, step, PHASE_ROWS, SIGNAL_OK);
	step_end(step);
}

static void tell_lies(struct seat *seat)
{
	static const int32_t ids[] = {0, 1, 3, 2};
	const struct lie *lie = seat->context;
	struct shunt_exchange_config config = config_of(lie);
	struct plain plain;

	seat_label(seat, "%s: ", lie->what);
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 2, ids);
	plain_pass(&plain);
	plain_bring(&plain, 2, ids);
	if (seat->rank == HOSTILE) {
		offer_lie(seat, plain.exchange, lie);
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_FAULT, plain_try(&plain));
		seat_error_ranks(seat, 1 << HOSTILE);
	}
	/* Should the peer come to its senses, all goes on. */
	plain_bring(&plain, 2, ids);
	plain_pass(&plain);
	plain_fini(&plain);
}

static void a_wild_offer_is_a_peer_fault_that_names_who_made_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		ranks_run_both(RANKS, tell_lies, &lies[i]);
}

/* ---- offers that change ----------------------------------------------- */

/* Two experts on each rank, one token of each, to two ranks. */
static const int32_t ids[RANKS][TOPK] = {{0, 5}, {2, 1}, {4, 3}};
static const float factors[2] = {1, 3};
static const float sums[RANKS] = {1 + 3, 1 + 3, 1 + 3};

static void init(struct plain *plain, struct seat *seat)
{
	struct shunt_exchange_config config = plain_config(2, TOPK, 2 * RANKS);

	plain_init(plain, seat, NULL, &config);
}

static void start(struct plain *plain)
{
	plain_bring(plain, 1, ids[plain->seat->rank]);
	SEAT_OK(plain->seat, shunt_dispatch_start(plain->exchange, &plain->args,
				     &plain->handle));
}

static struct step *step_of(const struct plain *plain)
{
	uint64_t depth = (uint64_t)exchange_shape(plain->exchange)->depth;

	return &plain->exchange->steps[plain->handle.epoch % depth];
}

static void finish(struct plain *plain)
{
	struct seat *seat = plain->seat;

	SEAT_OK(seat,
		shunt_dispatch_finish(plain->handle, TIME_NS, &plain->out));
	fetched_expect(seat, plain->exchange, plain->handle, true);
	if (seat->rank == 0)
		plain_expect_rows(plain, ROWS_LIST({0, 0, 0, 0}, {1, 1, 0, 1}));
	else if (seat->rank == 1)
		plain_expect_rows(plain, ROWS_LIST({1, 1, 0, 0}, {2, 2, 0, 1}));
	else
		plain_expect_rows(plain, ROWS_LIST({2, 2, 0, 0}, {0, 0, 0, 1}));
}

static void combine(struct plain *plain)
{
	SEAT_OK(plain->seat, plain_try_combine(plain, factors));
	plain_expect_sums(plain, &sums[plain->seat->rank]);
}

/* What a member has offered, kept while it is something else. */
struct original {
	int32_t places[TOPK];
	uint32_t counts[2 * RANKS];
	int64_t num_tokens;
};

static struct original spoil_offer(const struct plain *plain, int32_t member)
{
	const struct step *step = step_of(plain);
	struct step_head *head = exchange_head(plain->exchange, member, step);
	uint32_t *counts = exchange_counts(plain->exchange, member, step);
	int32_t *places = places_of(plain->exchange, member, step);
	struct original original = {.num_tokens = head->num_tokens};

	memcpy(original.places, places, sizeof(original.places));
	memcpy(original.counts, counts, sizeof(original.counts));
	memset(places, 0x7f, sizeof(original.places));
	memset(counts, 0x7f, sizeof(original.counts));
	head->num_tokens = INT64_MAX;
	return original;
}

static void restore_offer(const struct plain *plain, int32_t member,
	const struct original *original)
{
	const struct step *step = step_of(plain);

	memcpy(places_of(plain->exchange, member, step), original->places,
		sizeof(original->places));
	memcpy(exchange_counts(plain->exchange, member, step), original->counts,
		sizeof(original->counts));
	exchange_head(plain->exchange, member, step)->num_tokens =
		original->num_tokens;
}

/* Rank 0 has taken in what ranks 0 and 1 announced, and waits for rank 2. */
static void take_in(struct plain *plain)
{
	int32_t num_waiting;

	SEAT_OK(plain->seat,
		shunt_exchange_progress(plain->exchange, &num_waiting));
	SEAT_CHECK(plain->seat, num_waiting == 1 && step_of(plain)->cursor == 2,
		"%d steps wait, for rank %d", num_waiting,
		step_of(plain)->cursor);
}

/* Between the two times at which rank 0 looks at places, they change. */
static void change_places(struct seat *seat)
{
	struct original original;
	struct plain plain;

	init(&plain, seat);
	if (seat->rank < 2)
		start(&plain);
	seat_barrier(seat);
	if (seat->rank == 0)
		take_in(&plain);
	seat_barrier(seat);
	if (seat->rank == HOSTILE)
		original = spoil_offer(&plain, HOSTILE);
	seat_barrier(seat);
	if (seat->rank == 2)
		start(&plain);
	seat_barrier(seat);
	if (seat->rank == 0)
		finish(&plain);
	seat_barrier(seat);
	if (seat->rank == HOSTILE)
		restore_offer(&plain, HOSTILE, &original);
	seat_barrier(seat);
	if (seat->rank != 0)
		finish(&plain);
	combine(&plain);
	plain_fini(&plain);
}

static void places_that_change_after_they_were_counted_change_nothing(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, change_places, NULL);
}

/* What rank 0 announced is not what lies in its window when it looks. */
static void change_own(struct seat *seat)
{
	struct original original;
	struct plain plain;

	init(&plain, seat);
	start(&plain);
	seat_barrier(seat);
	if (seat->rank == HOSTILE)
		original = spoil_offer(&plain, 0);
	seat_barrier(seat);
	if (seat->rank == 0)
		finish(&plain);
	seat_barrier(seat);
	if (seat->rank == HOSTILE)
		restore_offer(&plain, 0, &original);
	seat_barrier(seat);
	if (seat->rank != 0)
		finish(&plain);
	combine(&plain);
	plain_fini(&plain);
}

static void what_lies_in_the_own_window_is_not_believed(void **state)
{
	(void)state;
	ranks_run_both(RANKS, change_own, NULL);
}

/* The heads of all say that the step repeats another, whose counts nobody
 * tells: rank 0 did not ask for that. */
static void claim_cached(struct seat *seat)
{
	struct plain plain;

	init(&plain, seat);
	for (int i = 0; i < 2; i++) {
		start(&plain);
		finish(&plain);
		combine(&plain);
	}
	start(&plain);
	seat_barrier(seat);
	for (int32_t r = 0; seat->rank == HOSTILE && r < RANKS; r++)
		exchange_head(plain.exchange, r, step_of(&plain))->cached = 1;
	seat_barrier(seat);
	if (seat->rank == HOSTILE) {
		shunt_handle_destroy(plain.handle);
	} else {
		SEAT_STATUS(seat, SHUNT_MISMATCH,
			shunt_dispatch_finish(
				plain.handle, TIME_NS, &plain.out));
		seat_message_has(seat, "cached differs");
	}
	start(&plain);
	finish(&plain);
	combine(&plain);
	plain_fini(&plain);
}

static void a_step_that_is_cached_by_the_windows_alone_is_a_mismatch(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, claim_cached, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_wild_offer_is_a_peer_fault_that_names_who_made_it),
		cmocka_unit_test(
			places_that_change_after_they_were_counted_change_nothing),
		cmocka_unit_test(what_lies_in_the_own_window_is_not_believed),
		cmocka_unit_test(
			a_step_that_is_cached_by_the_windows_alone_is_a_mismatch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
