/*
 * Every input of dispatch and combine has an answer: tokens, ids, weights,
 * values. Each test is a row of the table of input rules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/stand.h"

#define RANKS 4

static struct shunt_exchange_config small_config(void)
{
	return trial_config(8, 33, 3, 10);
}

/* ---- tokens ----------------------------------------------------------- */

static void bring_few(struct seat *seat)
{
	static const int64_t lists[][RANKS] = {{0, 5, 8, 1}, {0, 0, 3, 0},
		{0, 0, 0, 0}, {8, 8, 8, 8}, {1, 1, 1, 1}, {0, 0, 0, 0},
		{0, 7, 0, 7}};
	struct shunt_exchange_config config = small_config();
	struct stand stand;

	stand_init(&stand, seat, &config);
	stand_steps_of(&stand, lists[0], sizeof(lists) / sizeof(lists[0]));
	stand_fini(&stand);
}

static void zero_tokens_on_one_some_or_all_ranks_are_legal(void **state)
{
	(void)state;
	ranks_run_both(RANKS, bring_few, NULL);
}

/* Rank 0 brings nothing and gives NULL for everything, weights too, where the
 * others have weights. It receives the weights of their rows all the same. */
static void bring_null(struct seat *seat)
{
	static const int64_t tokens[RANKS] = {0, 4, 8, 2};
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;
	struct trial *step;

	stand_init(&stand, seat, &config);
	rule = stand_rule(&stand);
	rule.token_list = tokens;
	rule.mask = SHUNT_MASK_CHOICES;
	rule.percent_masked = 30;
	step = stand_prepare_rule(&stand, &rule);
	if (seat->rank == 0) {
		step->args.x = NULL;
		step->args.expert_ids = NULL;
		step->args.active_mask = NULL;
		step->args.weights = NULL;
		step->combine.out = NULL;
	}
	stand_dispatch(&stand, step);
	stand_combine(&stand, step);
	stand_drop(step);
	stand_fini(&stand);
}

static void null_pointers_with_zero_tokens_are_legal(void **state)
{
	(void)state;
	ranks_run_both(RANKS, bring_null, NULL);
}

static void bring_too_many(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;

	stand_init(&stand, seat, &config);
	step = stand_prepare(&stand);
	if (seat->rank == 2) {
		step->args.num_tokens = 9;
		SEAT_STATUS(seat, SHUNT_INVALID,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		seat_message_has(seat, "9");
		seat_message_has(seat, "8");
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		seat_error_ranks(seat, 1 << 2);
	}
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void
too_many_tokens_is_invalid_here_and_refused_elsewhere_then_next_step_works(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, bring_too_many, NULL);
}

/* All tokens by full T, then few, then full: an old row would show. */
static void shrink_and_grow(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;

	config.quant = SHUNT_QUANT_INT8;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 12; i++) {
		rule = stand_rule(&stand);
		rule.tokens =
			i % 3 == 0 ? TRIAL_TOKENS_FULL : TRIAL_TOKENS_RANDOM;
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void no_row_of_an_earlier_step_is_seen_when_fewer_tokens_come(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, shrink_and_grow, NULL);
}

/* ---- ids -------------------------------------------------------------- */

/* Rank 1 gives two bad ids; the first in (t, k) order is named. */
static void give_bad_ids(struct seat *seat)
{
	static const int64_t tokens[RANKS] = {3, 6, 3, 3};
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;
	struct trial *step;
	int32_t ids[18] = {0};

	stand_init(&stand, seat, &config);
	rule = stand_rule(&stand);
	rule.token_list = tokens;
	step = stand_prepare_rule(&stand, &rule);
	if (seat->rank == 1) {
		ids[4 * 3 + 2] = 7654;
		ids[5 * 3] = -2;
		step->args.expert_ids = ids;
		SEAT_STATUS(seat, SHUNT_INVALID,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		seat_message_has(seat, "7654");
		seat_message_has(seat, "4");
		seat_message_has(seat, "2");
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_dispatch(stand.exchange, &step->args, &step->out,
				&step->handle));
		seat_error_ranks(seat, 1 << 1);
	}
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void ids_out_of_range_are_invalid_with_token_k_and_id_named(void **state)
{
	(void)state;
	ranks_run_both(RANKS, give_bad_ids, NULL);
}

static void give_ids_to_drop(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;

	config.bad_id = SHUNT_BAD_ID_DROP;
	stand_init(&stand, seat, &config);
	for (int percent = 10; percent <= 100; percent += 30) {
		rule = stand_rule(&stand);
		rule.tokens = TRIAL_TOKENS_FULL;
		rule.percent_bad = percent;
		rule.plain = false;
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void ids_out_of_range_are_dropped_and_counted_by_option(void **state)
{
	(void)state;
	ranks_run_both(RANKS, give_ids_to_drop, NULL);
}

/* One token, twice to expert 1, with weights 2 and 0.5, and once to nobody:
 * worked out by hand, without the reference. */
static void choose_twice(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(1, 1, 3, 2);
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	const int32_t ids[3] = {1, -1, 1};
	const float weights[3] = {2, NAN, 0.5f};
	const int32_t source[6] = {0, 0, 0, 0, 0, 2};
	struct shunt_exchange *exchange;
	struct shunt_handle handle;
	float x = 3, y = 0;

	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = SHUNT_DTYPE_F32;
	SEAT_OK(seat,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	if (seat->rank == 0) {
		args.num_tokens = 1;
		args.x = &x;
		args.expert_ids = ids;
		combine.out = &y;
	}
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = weights;
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	if (seat->rank == 1) {
		SEAT_CHECK(seat, out.num_rows == 2, "rows");
		SEAT_CHECK(seat,
			memcmp(out.source, source, sizeof(source)) == 0,
			"source");
		((float *)out.expert_rows)[0] = 10;
		((float *)out.expert_rows)[1] = 100;
	} else {
		SEAT_CHECK(seat, out.num_rows == 0, "rows");
	}
	combine.y = out.expert_rows;
	SEAT_OK(seat, shunt_combine(handle, &combine));
	SEAT_CHECK(seat, seat->rank != 0 || y == 2 * 10 + 0.5f * 100,
		"sum is %f", (double)y);
	shunt_exchange_destroy(exchange);
}

static void same_expert_twice_is_two_choices_with_two_weights(void **state)
{
	(void)state;
	ranks_run_both(2, choose_twice, NULL);
}

static void break_promise(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;
	struct trial *step;
	int32_t ids[24];

	config.distinct_experts = true;
	stand_init(&stand, seat, &config);
	rule = stand_rule(&stand);
	rule.tokens = TRIAL_TOKENS_FULL;
	step = stand_prepare_rule(&stand, &rule);
	for (int i = 0; i < 24; i++)
		ids[i] = i % 3 == 2 ? 0 : i % 3;
	step->args.num_tokens = seat->rank == 3 ? 8 : 0;
	step->args.expert_ids = ids;
	SEAT_STATUS(seat, seat->rank == 3 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
		shunt_dispatch(stand.exchange, &step->args, &step->out,
			&step->handle));
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void broken_promise_of_distinct_experts_is_invalid(void **state)
{
	(void)state;
	ranks_run_both(RANKS, break_promise, NULL);
}

/* ---- skew ------------------------------------------------------------- */

static void crowd(struct seat *seat)
{
	static const struct {
		enum input_routing routing;
		enum trial_tokens tokens;
	} skews[] = {
		{INPUT_HOT, TRIAL_TOKENS_FULL},
		{INPUT_LOCAL, TRIAL_TOKENS_FULL},
		{INPUT_UNIFORM, TRIAL_TOKENS_ONE},
		{INPUT_HOT, TRIAL_TOKENS_ONE},
		{INPUT_LOCAL, TRIAL_TOKENS_ONE},
	};
	const int64_t *max_tokens = seat->context;
	struct shunt_exchange_config config =
		trial_config(*max_tokens, 16, 4, 8);
	struct stand stand;
	struct trial_rule rule;

	stand_init(&stand, seat, &config);
	for (size_t i = 0; i < sizeof(skews) / sizeof(skews[0]); i++) {
		rule = stand_rule(&stand);
		rule.routing = skews[i].routing;
		rule.tokens = skews[i].tokens;
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void all_tokens_to_one_expert_or_own_rank_or_of_one_rank_are_exact(
	void **state)
{
	static const int64_t sizes[] = {1, 64, 3000};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		ranks_run_both(RANKS, crowd, &sizes[i]);
}

/* ---- values ----------------------------------------------------------- */

static void give_odd_values(struct seat *seat)
{
	const enum shunt_quant *quant = seat->context;
	struct shunt_exchange_config config = trial_config(32, 129, 2, 6);
	struct stand stand;
	struct trial_rule rule;

	config.quant = *quant;
	for (int dtype = SHUNT_DTYPE_F32; dtype <= SHUNT_DTYPE_BF16; dtype++) {
		config.dtype = (enum shunt_dtype)dtype;
		config.expert_dtype = (enum shunt_dtype)dtype;
		stand_init(&stand, seat, &config);
		rule = stand_rule(&stand);
		rule.tokens = TRIAL_TOKENS_FULL;
		rule.style = INPUT_ADVERSARIAL;
		rule.smooth = *quant == SHUNT_QUANT_INT8 && dtype & 1;
		rule.mask = SHUNT_MASK_CHOICES;
		rule.percent_masked = 20;
		rule.percent_none = 20;
		trial_run(seat, stand.exchange, &rule);
		stand_fini(&stand);
	}
}

static void nan_inf_denormals_and_zero_rows_touch_nothing_else(void **state)
{
	static const enum shunt_quant quants[] = {
		SHUNT_QUANT_NONE, SHUNT_QUANT_INT8};

	(void)state;
	ranks_run_both(RANKS, give_odd_values, &quants[0]);
	ranks_run_both(RANKS, give_odd_values, &quants[1]);
}

static void weigh_oddly(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;

	stand_init(&stand, seat, &config);
	for (int i = 0; i < 6; i++) {
		rule = stand_rule(&stand);
		rule.tokens = TRIAL_TOKENS_FULL;
		rule.style = INPUT_ADVERSARIAL;
		rule.mask = (enum shunt_mask)(i % 3);
		rule.percent_masked = 40;
		rule.percent_none = 30;
		rule.weights_at_dispatch = i < 4;
		rule.weights_at_combine = i >= 2;
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void odd_weights_are_used_and_never_read_for_masked_or_no_expert(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, weigh_oddly, NULL);
}

/* On some ranks int32 ids, on others int64; strides and odd addresses. */
static void lay_oddly(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(8, 127, 3, 10);
	struct stand stand;
	struct trial_rule rule;

	config.dtype = SHUNT_DTYPE_F32;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 8; i++) {
		rule = stand_rule(&stand);
		rule.plain = false;
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void strides_odd_addresses_and_both_id_types_work_at_once(void **state)
{
	(void)state;
	ranks_run_both(RANKS, lay_oddly, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			zero_tokens_on_one_some_or_all_ranks_are_legal),
		cmocka_unit_test(null_pointers_with_zero_tokens_are_legal),
		cmocka_unit_test(
			too_many_tokens_is_invalid_here_and_refused_elsewhere_then_next_step_works),
		cmocka_unit_test(
			no_row_of_an_earlier_step_is_seen_when_fewer_tokens_come),
		cmocka_unit_test(
			ids_out_of_range_are_invalid_with_token_k_and_id_named),
		cmocka_unit_test(
			ids_out_of_range_are_dropped_and_counted_by_option),
		cmocka_unit_test(
			same_expert_twice_is_two_choices_with_two_weights),
		cmocka_unit_test(broken_promise_of_distinct_experts_is_invalid),
		cmocka_unit_test(
			all_tokens_to_one_expert_or_own_rank_or_of_one_rank_are_exact),
		cmocka_unit_test(
			nan_inf_denormals_and_zero_rows_touch_nothing_else),
		cmocka_unit_test(
			odd_weights_are_used_and_never_read_for_masked_or_no_expert),
		cmocka_unit_test(
			strides_odd_addresses_and_both_id_types_work_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
