/*
 * What combine refuses of its arguments, how it says so, and that the step
 * after works; and what becomes of a combine that is fed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <shunt/shunt.h>

#include "support/round.h"

/* ---- refusals ----------------------------------------------------------- */

/* One way of spoiling good arguments, and what is said of it. */
struct mistake {
	enum shunt_status status;
	const char *words;
	void (*make)(struct round *round);
};

static void no_y(struct round *round)
{
	round->args.y = NULL;
}

static void two_ys(struct round *round)
{
	static const void *rows[ROUND_TOKENS * ROUND_RANKS];

	round->args.y_rows = rows;
}

static void hollow_y_rows(struct round *round)
{
	static const void *rows[ROUND_TOKENS * ROUND_RANKS];

	round->args.y = NULL;
	round->args.y_rows = rows;
}

static void y_and_feed(struct round *round)
{
	round->args.feed = true;
}

static void no_out(struct round *round)
{
	round->args.out = NULL;
}

static void bad_out_dtype(struct round *round)
{
	round->args.out_dtype = SHUNT_DTYPE_I8;
}

static void short_y_stride(struct round *round)
{
	round->args.y_stride = ROUND_HIDDEN - 1;
}

static void short_out_stride(struct round *round)
{
	round->args.out_stride = 1;
}

static void short_ori_x_stride(struct round *round)
{
	round->args.ori_x_stride = -1;
}

static void huge_shared_stride(struct round *round)
{
	round->args.shared_expert_x_stride = INT64_MAX;
}

static void short_residual_stride(struct round *round)
{
	round->args.residual_stride = ROUND_HIDDEN - 1;
}

static void short_norm_out_stride(struct round *round)
{
	round->args.norm_out_stride = ROUND_HIDDEN - 1;
}

static void negative_deadline(struct round *round)
{
	round->args.deadline_ns = -5;
}

static void no_ori_x(struct round *round)
{
	round->args.ori_x = NULL;
}

static void no_alpha1(struct round *round)
{
	round->args.constant_alpha1 = NULL;
}

static void no_alpha2(struct round *round)
{
	round->args.constant_alpha2 = NULL;
}

static void no_v(struct round *round)
{
	round->args.constant_v = NULL;
}

static void no_norm_out(struct round *round)
{
	round->args.gamma = round->gamma;
}

static void norm_out_alone(struct round *round)
{
	round->args.norm_out = round->norm_out;
}

static void rstd_alone(struct round *round)
{
	round->args.rstd = round->rstd;
}

static void bad_gamma_dtype(struct round *round)
{
	round->args.gamma = round->gamma;
	round->args.norm_out = round->norm_out;
	round->args.gamma_dtype = SHUNT_DTYPE_F16;
}

static void negative_eps(struct round *round)
{
	round->args.gamma = round->gamma;
	round->args.norm_out = round->norm_out;
	round->args.norm_eps = -1.0f;
}

static void nan_eps(struct round *round)
{
	negative_eps(round);
	round->args.norm_eps = NAN;
}

static const struct mistake mistakes[] = {
	{SHUNT_NULL_ARGUMENT, "y is NULL with rows received 6", no_y},
	{SHUNT_INVALID, "y is given, but so is y_rows", two_ys},
	{SHUNT_NULL_ARGUMENT, "y_rows[0] is NULL", hollow_y_rows},
	{SHUNT_INVALID, "feed is given, but goes with shunt_combine_start()",
		y_and_feed},
	{SHUNT_NULL_ARGUMENT, "out is NULL with num_tokens 3", no_out},
	{SHUNT_INVALID, "out_dtype is 4, must be 0, F32, F16 or BF16",
		bad_out_dtype},
	{SHUNT_INVALID, "y_stride is 15, must be 0 or hidden .. 2^40",
		short_y_stride},
	{SHUNT_INVALID, "out_stride is 1,", short_out_stride},
	{SHUNT_INVALID, "ori_x_stride is -1,", short_ori_x_stride},
	{SHUNT_INVALID, "shared_expert_x_stride is 9223372036854775807,",
		huge_shared_stride},
	{SHUNT_INVALID, "residual_stride is 15,", short_residual_stride},
	{SHUNT_INVALID, "norm_out_stride is 15,", short_norm_out_stride},
	{SHUNT_INVALID, "deadline_ns is -5, must be 0 or more",
		negative_deadline},
	{SHUNT_NULL_ARGUMENT, "ori_x is NULL with num_copy_experts 1",
		no_ori_x},
	{SHUNT_NULL_ARGUMENT,
		"constant_alpha1 is NULL with num_constant_experts 1",
		no_alpha1},
	{SHUNT_NULL_ARGUMENT, "constant_alpha2 is NULL", no_alpha2},
	{SHUNT_NULL_ARGUMENT, "constant_v is NULL", no_v},
	{SHUNT_NULL_ARGUMENT,
		"norm_out is NULL with gamma given and num_tokens 3",
		no_norm_out},
	{SHUNT_INVALID, "norm_out is given, but gamma is NULL", norm_out_alone},
	{SHUNT_INVALID, "rstd is given, but gamma is NULL", rstd_alone},
	{SHUNT_INVALID, "gamma_dtype is 2, must be 0, out_dtype = 1 or F32",
		bad_gamma_dtype},
	{SHUNT_INVALID, "norm_eps is -1, must be 0 or more", negative_eps},
	{SHUNT_INVALID, "norm_eps is ", nan_eps},
};

/* Rank 1 makes it; rank 0 is told by rank 1's words. */
static void make_mistakes(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_SPECIAL);
	static _Thread_local struct round round;

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(*mistakes); i++) {
		seat_label(seat, "%s: ", mistakes[i].words);
		round_begin(seat, exchange, &round);
		if (seat->rank == 1)
			mistakes[i].make(&round);
		SEAT_STATUS(seat,
			seat->rank == 1 ? mistakes[i].status
					: SHUNT_PEER_REFUSED,
			shunt_combine(round.handle, &round.args));
		seat_message_has(seat, mistakes[i].words);
		seat_message_has(seat, "rank 1");
		round_good(seat, exchange);
	}
	shunt_exchange_destroy(exchange);
}

static void a_mistake_is_named_on_all_ranks_and_costs_one_step(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, make_mistakes, NULL);
}

/* A table on a rank of an exchange that has none: no rank can go on. */
static void give_a_table(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	static _Thread_local struct round round;
	int32_t table[4 + 2 * ROUND_RANKS] = {
		1, ROUND_RANKS, 0, ROUND_RANKS, 0, 1, 0, 1};

	round_begin(seat, exchange, &round);
	if (seat->rank == 1)
		round.args.elastic_info = table;
	SEAT_STATUS(
		seat, SHUNT_MISMATCH, shunt_combine(round.handle, &round.args));
	seat_message_has(seat, "elastic_info");
	round_good(seat, exchange);
	/* One that says that it is none is none. */
	table[0] = 0;
	round_begin(seat, exchange, &round);
	round.args.elastic_info = table;
	SEAT_OK(seat, shunt_combine(round.handle, &round.args));
	round_check(seat, &round);
	shunt_exchange_destroy(exchange);
}

static void another_table_than_at_dispatch_is_a_mismatch_on_all(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, give_a_table, NULL);
}

/* ---- feeding ------------------------------------------------------------ */

static void feed_in_all_wrong_ways(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	static _Thread_local struct round round;
	float own[ROUND_TOKENS * ROUND_RANKS * ROUND_HIDDEN];

	round_begin(seat, exchange, &round);
	SEAT_STATUS(seat, SHUNT_STATE,
		shunt_combine_feed(round.handle, 0, NULL, 0));
	seat_message_has(seat, "has no combine that was started with feed");
	round.args.y = NULL;
	round.args.feed = true;
	SEAT_OK(seat, shunt_combine_start(round.handle, &round.args));
	SEAT_STATUS(seat, SHUNT_STATE,
		shunt_combine_start(round.handle, &round.args));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_combine_finish(round.handle, 0));
	seat_message_has(seat, "1 experts are still to be fed");
	SEAT_STATUS(seat, SHUNT_INVALID,
		shunt_combine_feed(round.handle, 1, NULL, 0));
	seat_message_has(seat, "local_expert is 1, must be 0 .. 0");
	SEAT_STATUS(seat, SHUNT_INVALID,
		shunt_combine_feed(round.handle, -1, NULL, 0));
	SEAT_STATUS(seat, SHUNT_INVALID,
		shunt_combine_feed(round.handle, 0, own, ROUND_HIDDEN - 1));
	seat_message_has(seat, "y_stride is 15");
	memcpy(own, round.dispatched.expert_rows, sizeof(own));
	memset(round.dispatched.expert_rows, 0xff, sizeof(own));
	SEAT_OK(seat, shunt_combine_feed(round.handle, 0, own, 0));
	memset(own, 0xff, sizeof(own));
	SEAT_STATUS(
		seat, SHUNT_STATE, shunt_combine_feed(round.handle, 0, own, 0));
	seat_message_has(seat, "local expert 0 was fed before");
	SEAT_OK(seat, shunt_combine_finish(round.handle, 0));
	round_check(seat, &round);
	round_good(seat, exchange);
	shunt_exchange_destroy(exchange);
}

static void feeding_goes_on_after_wrong_calls(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, feed_in_all_wrong_ways, NULL);
}

static void feed_from_expert_rows(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	static _Thread_local struct round round;

	round_begin(seat, exchange, &round);
	round.args.y = NULL;
	round.args.feed = true;
	SEAT_OK(seat, shunt_combine_start(round.handle, &round.args));
	SEAT_OK(seat, shunt_combine_feed(round.handle, 0, NULL, 0));
	SEAT_OK(seat, shunt_combine_finish(round.handle, 0));
	round_check(seat, &round);
	shunt_exchange_destroy(exchange);
}

static void a_feed_without_y_takes_expert_rows(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, feed_from_expert_rows, NULL);
}

/* Rank 1 gives up half-way; rank 0 is told, and the next step works. */
static void give_up_feeding(struct seat *seat)
{
	struct shunt_exchange *exchange = round_exchange(seat, ROUND_PLAIN);
	static _Thread_local struct round round;

	round_begin(seat, exchange, &round);
	if (seat->rank == 1) {
		round.args.y = NULL;
		round.args.feed = true;
		SEAT_OK(seat, shunt_combine_start(round.handle, &round.args));
		shunt_handle_destroy(round.handle);
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_combine(round.handle, &round.args));
	}
	round_good(seat, exchange);
	shunt_exchange_destroy(exchange);
}

static void a_feed_that_is_given_up_is_told(void **state)
{
	(void)state;
	ranks_run_both(ROUND_RANKS, give_up_feeding, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_mistake_is_named_on_all_ranks_and_costs_one_step),
		cmocka_unit_test(
			another_table_than_at_dispatch_is_a_mismatch_on_all),
		cmocka_unit_test(feeding_goes_on_after_wrong_calls),
		cmocka_unit_test(a_feed_without_y_takes_expert_rows),
		cmocka_unit_test(a_feed_that_is_given_up_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
