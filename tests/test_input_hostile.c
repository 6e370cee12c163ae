/*
 * A peer that holds the job's key but sends what no correct rank sends, and
 * counters that have run for years: both by reaching into the exchange.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "exchange/step.h"
#include "support/plain.h"
#include "support/stand.h"

#define RANKS   3
#define HOSTILE 1

/* ---- counts ----------------------------------------------------------- */

/* What the hostile rank says of its part of a step. */
struct lie {
	const char *what;
	int64_t num_tokens;
	uint32_t counts[4];
	uint64_t epoch_off; /* added to the right epoch */
	bool distinct;
};

static const struct lie lies[] = {
	{"more tokens than T_max", 9, {1, 1, 1, 1}, 0, false},
	{"negative tokens", -1, {0}, 0, false},
	{"tokens near 2^63", INT64_MAX, {UINT32_MAX}, 0, false},
	{"one count near 2^32", 8, {0, UINT32_MAX, 0, 0}, 0, false},
	{"one count near 2^31", 8, {0x7fffffff, 0, 0, 0}, 0, false},
	{"counts whose sum wraps", 8, {1u << 31, 1u << 31, 0, 0}, 0, false},
	{"one choice too many", 8, {4, 4, 4, 5}, 0, false},
	{"choices of no tokens", 0, {0, 0, 1, 0}, 0, false},
	{"an expert twice by promise", 4, {5, 0, 0, 0}, 0, true},
	{"the head of another step", 8, {1, 1, 1, 1}, 1000, false},
};

/* Begins a step by hand, as dispatch would; what it says of itself is still to
 * be written to the head. */
static struct step_head *begin(
	struct seat *seat, struct shunt_exchange *exchange, struct step **step)
{
	struct step_head *head;

	SEAT_OK(seat, step_claim(exchange, exchange_present(exchange),
			      1000000000, step));
	head = exchange_head(exchange, seat->rank, *step);
	head->epoch = (*step)->epoch;
	return head;
}

/* Announces it, and ends it here. */
static void announce(struct shunt_exchange *exchange, struct step *step,
	const uint32_t *counts, size_t bytes)
{
	memcpy(exchange_counts(exchange, exchange->rank, step), counts, bytes);
	step_signal(exchange, step, PHASE_COUNTS, SIGNAL_OK);
	step_signal(exchange, step, PHASE_ROWS, SIGNAL_OK);
	step_end(step);
}

static void announce_lie(struct seat *seat, struct shunt_exchange *exchange,
	const struct lie *lie)
{
	struct step *step;
	struct step_head *head = begin(seat, exchange, &step);

	head->epoch += lie->epoch_off;
	head->num_tokens = lie->num_tokens;
	announce(exchange, step, lie->counts, sizeof(lie->counts));
}

static void tell_lies(struct seat *seat)
{
	const struct lie *lie = seat->context;
	struct shunt_exchange_config config = trial_config(8, 33, 2, 4);
	struct stand stand;
	struct trial_rule rule;
	struct trial *step;

	seat_label(seat, "%s: ", lie->what);
	config.distinct_experts = lie->distinct;
	stand_init(&stand, seat, &config);
	stand_step(&stand);
	rule = stand_rule(&stand);
	rule.weights_at_dispatch = false;
	step = stand_prepare_rule(&stand, &rule);
	if (seat->rank == HOSTILE) {
		announce_lie(seat, stand.exchange, lie);
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_FAULT,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		seat_error_ranks(seat, 1 << HOSTILE);
	}
	stand_drop(step);
	/* Should the peer come to its senses, all goes on. */
	stand_step(&stand);
	stand_fini(&stand);
}

static void peer_with_wild_counts_is_a_peer_fault_that_names_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		ranks_run_both(RANKS, tell_lies, &lies[i]);
}

/* ---- shared experts, tables, cached steps ------------------------------ */

/* Four experts on rank 2, one shared expert on ranks 0 and 1: the hostile rank
 * sends its tokens to the replica on rank 1, unit 5. Two tokens, K 2. */
struct claim {
	const char *what;
	enum shunt_status status;
	uint32_t counts[6];
	uint64_t table, cached;
};

static const struct claim claims[] = {
	{"tokens for the other replica", SHUNT_PEER_FAULT, {0, 0, 0, 0, 1, 0},
		0, 0},
	{"more tokens for a replica than there are", SHUNT_PEER_FAULT,
		{0, 0, 0, 0, 0, 3}, 0, 0},
	{"tokens for a replica near 2^32", SHUNT_PEER_FAULT,
		{0, 0, 0, 0, 0, UINT32_MAX}, 0, 0},
	{"a choice too many beside them", SHUNT_PEER_FAULT, {2, 1, 1, 1, 0, 2},
		0, 0},
	{"a table", SHUNT_MISMATCH, {2, 2, 0, 0, 0, 2}, 12345, 0},
	{"a cached step that never was", SHUNT_MISMATCH, {0}, 0, 1000},
	{"the step itself as cached", SHUNT_MISMATCH, {0}, 0, 2},
};

static void announce_claim(struct seat *seat, struct shunt_exchange *exchange,
	const struct claim *claim)
{
	struct step *step;
	struct step_head *head = begin(seat, exchange, &step);

	head->num_tokens = 2;
	head->table = claim->table;
	head->cached = claim->cached;
	announce(exchange, step, claim->counts, sizeof(claim->counts));
}

static void make_claims(struct seat *seat)
{
	static const int32_t ids[] = {0, 1, 2, 3};
	const struct claim *claim = seat->context;
	struct shunt_exchange_config config = plain_config(2, 2, 4);
	struct plain plain;

	seat_label(seat, "%s: ", claim->what);
	config.num_shared_experts = 1;
	config.num_shared_ranks = 2;
	config.elastic = true;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 2, ids);
	plain_pass(&plain);
	plain_bring(&plain, 2, ids);
	if (seat->rank == HOSTILE) {
		announce_claim(seat, plain.exchange, claim);
	} else {
		SEAT_STATUS(seat, claim->status, plain_try(&plain));
		seat_error_ranks(seat, 1 << HOSTILE);
	}
	plain_bring(&plain, 2, ids);
	plain_pass(&plain);
	plain_fini(&plain);
}

static void peer_with_wild_claims_of_replicas_tables_or_cached_steps_is_named(
	void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++)
		ranks_run_both(RANKS, make_claims, &claims[i]);
}

/* ---- a reason that is no text ----------------------------------------- */

static void refuse_with_garbage(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(8, 33, 2, 4);
	struct stand stand;
	struct step *step;
	struct step_head *head;
	struct trial *mine;

	stand_init(&stand, seat, &config);
	if (seat->rank == HOSTILE) {
		SEAT_OK(seat, step_claim(stand.exchange,
				      exchange_present(stand.exchange),
				      1000000000, &step));
		head = exchange_head(stand.exchange, seat->rank, step);
		head->epoch = step->epoch;
		memset(head->reason, 0x9b, sizeof(head->reason));
		step_signal(stand.exchange, step, PHASE_COUNTS, SIGNAL_REFUSED);
		step_signal(stand.exchange, step, PHASE_ROWS, SIGNAL_REFUSED);
		step_end(step);
		stand.next_step++;
	} else {
		mine = stand_prepare(&stand);
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_dispatch(stand.exchange, &mine->args, &mine->out,
				&mine->handle));
		for (const char *c = shunt_error_message(); *c != '\0'; c++)
			SEAT_CHECK(seat, *c >= ' ' && *c <= '~',
				"byte 0x%02x in a message", (uint8_t)*c);
		stand_drop(mine);
	}
	stand_step(&stand);
	stand_fini(&stand);
}

static void a_reason_that_is_no_text_is_made_printable(void **state)
{
	(void)state;
	ranks_run_both(RANKS, refuse_with_garbage, NULL);
}

/* ---- counters --------------------------------------------------------- */

static void run_from(struct seat *seat)
{
	const uint64_t *start = seat->context;
	struct shunt_exchange_config config = trial_config(8, 33, 2, 4);
	struct stand stand;

	seat_label(seat, "from step 0x%llx: ", (unsigned long long)*start);
	config.depth = 3;
	stand_init(&stand, seat, &config);
	stand.exchange->epoch = *start;
	for (int i = 0; i < 20; i++)
		stand_step(&stand);
	stand_fini(&stand);
}

static void step_counters_near_2_to_31_and_32_and_beyond_do_not_hang(
	void **state)
{
	/* A line holds the step times 256: that is where 2^23 and 2^24 count.
	 */
	static const uint64_t starts[] = {(UINT64_C(1) << 31) - 7,
		(UINT64_C(1) << 32) - 7, (UINT64_C(1) << 23) - 7,
		(UINT64_C(1) << 24) - 7, (UINT64_C(1) << 48) - 7};

	(void)state;
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		ranks_run_both(RANKS, run_from, &starts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			peer_with_wild_counts_is_a_peer_fault_that_names_it),
		cmocka_unit_test(
			peer_with_wild_claims_of_replicas_tables_or_cached_steps_is_named),
		cmocka_unit_test(a_reason_that_is_no_text_is_made_printable),
		cmocka_unit_test(
			step_counters_near_2_to_31_and_32_and_beyond_do_not_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
