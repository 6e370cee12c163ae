/*
 * Cached dispatch: the routing of an earlier step, for another x.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/plain.h"

/* Experts 0 and 1 on rank 0, 2 and 3 on rank 1. */
#define RANKS 2

static const int32_t ids[RANKS][4] = {{0, 2, 1, 0}, {3, 0}};
static const int64_t tokens[RANKS] = {2, 1};
static const float weights[RANKS][4] = {{1, 2, 3, 4}, {5, 6}};
static const float factors[RANKS][2] = {{1, 2}, {4, 8}};
static const float sums[RANKS][2] = {
	{1 * 1 + 2 * 4, 3 * 2 + 4 * 1}, {5 * 8 + 6 * 1}};
static const float plain_sums[RANKS][2] = {{1 + 4, 2 + 1}, {8 + 1}};

static struct shunt_exchange_config small_config(void)
{
	return plain_config(2, 2, 4);
}

static void expect_rows(struct plain *plain)
{
	static const int32_t blocks[RANKS][4] = {{2, 3, 4, 4}, {1, 1, 1, 2}};
	static const int64_t nums[RANKS][2] = {{3, 1}, {1, 1}};
	int32_t me = plain->seat->rank;

	if (me == 0)
		plain_expect_rows(plain, ROWS_LIST({0, 0, 0, 0}, {0, 0, 1, 1},
						 {1, 1, 0, 1}, {0, 0, 1, 0}));
	else
		plain_expect_rows(plain, ROWS_LIST({0, 0, 0, 1}, {1, 1, 0, 0}));
	plain_expect_i32(plain->seat, "ep_recv_counts",
		plain->out.ep_recv_counts, 4, blocks[me]);
	plain_expect_i64(plain->seat, "expert_token_nums",
		plain->out.expert_token_nums, 2, nums[me]);
}

static void expect_weights(struct plain *plain)
{
	if (plain->seat->rank == 0)
		plain_expect_f32(plain->seat, "expand_weights",
			plain->out.expand_weights, F32_LIST(1, 4, 6, 3));
	else
		plain_expect_f32(plain->seat, "expand_weights",
			plain->out.expand_weights, F32_LIST(2, 5));
}

/* A step whose routing is announced; with weights. */
static void bring_first(struct plain *plain)
{
	int32_t me = plain->seat->rank;

	plain_bring(plain, tokens[me], ids[me]);
	plain->args.weights = weights[me];
}

static void bring_cached(struct plain *plain, struct shunt_handle handle)
{
	plain_bring(plain, tokens[plain->seat->rank], NULL);
	plain->args.ids_type = SHUNT_INDEX_NONE;
	plain->args.cached = handle;
}

static void combine(struct plain *plain)
{
	int32_t me = plain->seat->rank;

	SEAT_OK(plain->seat, plain_try_combine(plain, factors[me]));
	plain_expect_sums(plain, sums[me]);
}

/* A whole step of all, by which other steps grow older. */
static void pass_another(struct plain *plain)
{
	plain_bring(plain, 1, (const int32_t[]){0, 3});
	plain_pass(plain);
}

/* ---- what it does ----------------------------------------------------- */

/* Another x: that of another seat. */
static void repeat(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct plain plain;
	struct shunt_handle first;

	config.kept_routes = 8;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_dispatch(&plain);
	first = plain.handle;
	expect_rows(&plain);
	expect_weights(&plain);
	combine(&plain);
	for (int i = 0; i < 4; i++) {
		bring_cached(&plain, first);
		plain_dispatch(&plain);
		SEAT_CHECK(seat, plain.handle.epoch == first.epoch + i + 1,
			"the handle is not a new one");
		expect_rows(&plain);
		expect_weights(&plain);
		combine(&plain);
	}
	SEAT_STATUS(
		seat, SHUNT_STATE, shunt_combine(plain.handle, &plain.combine));
	plain_fini(&plain);
}

static void the_routing_of_a_combined_step_serves_many_times_weights_too(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat, NULL);
}

static void change_x(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct plain plain;
	float other[2 * PLAIN_HIDDEN];
	const float *rows;

	for (int i = 0; i < 2 * PLAIN_HIDDEN; i++)
		other[i] = 7.0f + (float)seat->rank;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	bring_cached(&plain, plain.handle);
	plain.args.x = other;
	plain_dispatch(&plain);
	rows = plain.out.expand_x;
	for (int64_t i = 0; i < plain.out.num_rows; i++) {
		float x = 7.0f + (float)plain.out.source[3 * i];

		plain_expect_f32(seat, "expand_x", rows + i * PLAIN_HIDDEN,
			F32_LIST(x, x, x, x));
	}
	plain_fini(&plain);
}

static void new_x_takes_the_old_ways(void **state)
{
	(void)state;
	ranks_run_both(RANKS, change_x, NULL);
}

/* Each repeats the one before, for longer than routes are kept. */
static void repeat_in_a_chain(struct seat *seat)
{
	const enum shunt_layout *layout = seat->context;
	struct shunt_exchange_config config = small_config();
	struct plain plain;

	config.layout = *layout;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_dispatch(&plain);
	combine(&plain);
	for (int i = 0; i < 10; i++) {
		bring_cached(&plain, plain.handle);
		plain_dispatch(&plain);
		if (*layout != SHUNT_LAYOUT_PADDED)
			expect_rows(&plain);
		combine(&plain);
	}
	plain_fini(&plain);
}

static void a_cached_step_can_be_repeated_itself_in_every_layout(void **state)
{
	static const enum shunt_layout layouts[] = {SHUNT_LAYOUT_COMPACT,
		SHUNT_LAYOUT_PADDED, SHUNT_LAYOUT_INDEXED};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		ranks_run_both(RANKS, repeat_in_a_chain, &layouts[i]);
}

/* While the step that is repeated is still in flight. */
static void repeat_at_once(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct plain plain, second;

	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_dispatch(&plain);
	second = plain;
	bring_cached(&second, plain.handle);
	SEAT_OK(seat, shunt_dispatch_start(
			      second.exchange, &second.args, &second.handle));
	SEAT_OK(seat, shunt_dispatch_finish(second.handle, 0, &second.out));
	expect_rows(&second);
	expect_rows(&plain);
	combine(&second);
	combine(&plain);
	plain_fini(&plain);
}

static void a_step_in_flight_can_be_repeated(void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_at_once, NULL);
}

static void repeat_without_weights(struct seat *seat)
{
	int32_t me = seat->rank;
	struct shunt_exchange_config config = small_config();
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, tokens[me], ids[me]);
	plain_pass(&plain);
	bring_cached(&plain, plain.handle);
	plain_dispatch(&plain);
	SEAT_CHECK(seat, !plain.out.expand_weights, "weights from nowhere");
	SEAT_OK(seat, plain_try_combine(&plain, factors[me]));
	plain_expect_sums(&plain, plain_sums[me]);
	plain_fini(&plain);
}

static void a_step_without_weights_is_repeated_without(void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_without_weights, NULL);
}

/* Scales go with x, not with the routing: new ones, none, and new ones. */
static void repeat_with_scales(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_handle first;
	struct plain plain;
	float scales[2];

	config.x_scales_per_row = 1;
	config.x_scale_dtype = SHUNT_DTYPE_F32;
	config.kept_routes = 9;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	first = plain.handle;
	for (int i = 0; i < 4; i++) {
		bring_cached(&plain, first);
		for (int t = 0; t < 2; t++)
			scales[t] = (float)(1000 * i + 100 * seat->rank + t);
		if (i % 2 == 0)
			plain.args.x_scales = scales;
		plain_dispatch(&plain);
		SEAT_CHECK(seat, !plain.out.dynamic_scales == (i % 2 == 1),
			"scales in step %d", i);
		for (int64_t row = 0; i % 2 == 0 && row < plain.out.num_rows;
			row++) {
			const int32_t *source = plain.out.source + 3 * row;
			float want =
				(float)(1000 * i + 100 * source[0] + source[1]);

			plain_expect_f32(seat, "scale",
				(float *)plain.out.dynamic_scales + row, 1,
				&want);
		}
		shunt_handle_destroy(plain.handle);
	}
	bring_cached(&plain, first);
	if (seat->rank == 1)
		plain.args.x_scales = scales;
	SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
	seat_message_has(seat, "x_scales");
	plain_fini(&plain);
}

static void scales_of_x_are_new_ones_in_each_repetition(void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_with_scales, NULL);
}

/* Masked, special and shared choices are part of the routing. Rank 0 shared,
 * expert 0 on rank 1, id 1 copies. */
static void repeat_masks(struct seat *seat)
{
	static const int32_t given[] = {0, 1, 0, 0};
	static const uint8_t mask[] = {1, 1, 1, 0};
	struct shunt_exchange_config config = plain_config(2, 2, 1);
	struct plain plain;

	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.num_copy_experts = 1;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 2, given);
	plain.args.mask = SHUNT_MASK_CHOICES;
	plain.args.active_mask = mask;
	plain_pass(&plain);
	for (int i = 0; i < 5; i++) {
		plain_bring(&plain, 2, NULL);
		plain.args.cached = plain.handle;
		plain_dispatch(&plain);
		plain.combine.ori_x = plain.x;
		SEAT_OK(seat, plain_try_combine(&plain,
				      seat->rank == 0 ? (const float[]){2}
						      : (const float[]){4}));
		plain_expect_sums(&plain, (const float[]){4 + 1 + 2, 4 + 2});
	}
	plain_fini(&plain);
}

static void masked_special_and_shared_choices_are_repeated(void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_masks, NULL);
}

/* ---- what is refused -------------------------------------------------- */

/* By default as many as depth: the step of three steps ago is too old. */
static void come_too_late(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_handle first, second, nonsense;
	struct plain plain;

	config.depth = 2;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	first = plain.handle;
	bring_first(&plain);
	plain_pass(&plain);
	second = plain.handle;
	pass_another(&plain);
	bring_cached(&plain, first);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	seat_message_has(seat, "2 steps are kept");
	/* The refusal was a step as well; so now the second is too old. */
	bring_cached(&plain, second);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	nonsense = (struct shunt_handle){first.exchange, 1000};
	bring_cached(&plain, nonsense);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	nonsense = (struct shunt_handle){first.exchange + 1000, 1};
	bring_cached(&plain, nonsense);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	bring_first(&plain);
	plain_dispatch(&plain);
	combine(&plain);
	plain_fini(&plain);
}

static void a_routing_that_is_not_kept_any_more_is_a_state_error(void **state)
{
	(void)state;
	ranks_run_both(RANKS, come_too_late, NULL);
}

/* The last moment at which a step can be repeated, by option. */
static void come_just_in_time(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_handle first;
	struct plain plain;

	config.kept_routes = 5;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	first = plain.handle;
	for (int i = 0; i < 4; i++)
		pass_another(&plain);
	bring_cached(&plain, first);
	plain_dispatch(&plain);
	expect_rows(&plain);
	combine(&plain);
	bring_cached(&plain, first);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	seat_message_has(seat, "5 steps are kept");
	plain_fini(&plain);
}

static void kept_routes_says_for_how_many_steps_a_routing_is_kept(void **state)
{
	(void)state;
	ranks_run_both(RANKS, come_just_in_time, NULL);
}

/* A step that all refused, and one that one rank did. */
static void repeat_a_refused_step(struct seat *seat)
{
	static const int32_t bad[] = {0, 99};
	struct shunt_exchange_config config = small_config();
	struct shunt_handle refused;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	refused = plain.handle;
	refused.epoch++;
	plain_bring(&plain, 1, seat->rank == 0 ? bad : ids[1]);
	SEAT_STATUS(seat, seat->rank == 0 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
		plain_try(&plain));
	bring_cached(&plain, refused);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	plain_fini(&plain);
}

static void a_refused_step_has_no_routing_to_repeat(void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_a_refused_step, NULL);
}

static void repeat_on_some(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_handle first, second;
	struct plain plain;

	config.kept_routes = 9;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	first = plain.handle;
	bring_first(&plain);
	plain_pass(&plain);
	second = plain.handle;
	bring_first(&plain);
	if (seat->rank == 1)
		bring_cached(&plain, first);
	SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
	seat_message_has(seat, "cached");
	bring_cached(&plain, seat->rank == 1 ? first : second);
	SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
	seat_message_has(seat, "step 2");
	bring_cached(&plain, first);
	plain_dispatch(&plain);
	combine(&plain);
	plain_fini(&plain);
}

static void cached_on_some_ranks_or_of_other_steps_is_a_mismatch_on_all(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_on_some, NULL);
}

/* What does not go with cached; rank 0 does it. */
struct spoiler {
	const char *words;
	void (*spoil)(struct shunt_dispatch_args *args);
};

static void one_token(struct shunt_dispatch_args *args)
{
	args->num_tokens = 1;
}

static void give_ids(struct shunt_dispatch_args *args)
{
	args->expert_ids = ids;
	args->ids_type = SHUNT_INDEX_I32;
}

static void give_weights(struct shunt_dispatch_args *args)
{
	args->weights = weights[0];
}

static void give_mask(struct shunt_dispatch_args *args)
{
	args->mask = SHUNT_MASK_TOKENS;
	args->active_mask = (const uint8_t *)weights;
}

static void spoil(struct seat *seat)
{
	static const struct spoiler spoilers[] = {
		{"num_tokens is 1, must be 2", one_token},
		{"expert_ids is given", give_ids},
		{"weights is given", give_weights},
		{"mask is given", give_mask},
	};
	struct shunt_exchange_config config = small_config();
	struct shunt_handle first;
	struct plain plain;

	config.kept_routes = 9;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	first = plain.handle;
	for (size_t i = 0; i < sizeof(spoilers) / sizeof(*spoilers); i++) {
		bring_cached(&plain, first);
		if (seat->rank == 0)
			spoilers[i].spoil(&plain.args);
		SEAT_STATUS(seat,
			seat->rank == 0 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
			plain_try(&plain));
		seat_message_has(seat, spoilers[i].words);
	}
	bring_cached(&plain, first);
	plain_dispatch(&plain);
	combine(&plain);
	plain_fini(&plain);
}

static void ids_mask_weights_or_other_num_tokens_with_cached_are_invalid(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, spoil, NULL);
}

/* The routing of all ranks is not that of those who are left. */
static void repeat_after_a_loss(struct seat *seat)
{
	static const int32_t table[] = {1, 1, 0, 2, 0, -1, 0, -1};
	struct shunt_exchange_config config = small_config();
	struct shunt_handle before;
	struct plain plain;

	config.elastic = true;
	config.kept_routes = 9;
	plain_init(&plain, seat, NULL, &config);
	bring_first(&plain);
	plain_pass(&plain);
	before = plain.handle;
	seat_barrier(seat);
	if (seat->rank == 0) {
		plain_bring(&plain, 2, (const int32_t[]){0, 1, 1, 1});
		plain.args.elastic_info = table;
		plain_pass(&plain);
		for (int i = 0; i < 2; i++) {
			bring_cached(&plain, before);
			plain.args.elastic_info = table;
			SEAT_STATUS(seat, SHUNT_INVALID, plain_try(&plain));
			seat_message_has(seat, "elastic_info");
			bring_cached(&plain, plain.handle);
			plain.args.elastic_info = table;
			plain_dispatch(&plain);
			SEAT_OK(seat, plain_try_combine(&plain, factors[0]));
			plain_expect_sums(&plain, (const float[]){3, 4});
		}
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_routing_is_repeated_under_its_own_table_only(void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_after_a_loss, NULL);
}

/* Zero tokens on rank 1, NULL for everything. */
static void repeat_nothing(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, seat->rank == 0 ? 2 : 0, ids[0]);
	plain_pass(&plain);
	plain_bring(&plain, seat->rank == 0 ? 2 : 0, NULL);
	if (seat->rank == 1)
		plain.args.x = NULL;
	plain.args.cached = plain.handle;
	plain_dispatch(&plain);
	SEAT_OK(seat, plain_try_combine(&plain, factors[seat->rank]));
	plain_expect_sums(&plain, plain_sums[0]);
	plain_fini(&plain);
}

static void a_rank_without_tokens_repeats_too(void **state)
{
	(void)state;
	ranks_run_both(RANKS, repeat_nothing, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_routing_of_a_combined_step_serves_many_times_weights_too),
		cmocka_unit_test(new_x_takes_the_old_ways),
		cmocka_unit_test(
			a_cached_step_can_be_repeated_itself_in_every_layout),
		cmocka_unit_test(a_step_in_flight_can_be_repeated),
		cmocka_unit_test(a_step_without_weights_is_repeated_without),
		cmocka_unit_test(scales_of_x_are_new_ones_in_each_repetition),
		cmocka_unit_test(
			masked_special_and_shared_choices_are_repeated),
		cmocka_unit_test(
			a_routing_that_is_not_kept_any_more_is_a_state_error),
		cmocka_unit_test(
			kept_routes_says_for_how_many_steps_a_routing_is_kept),
		cmocka_unit_test(a_refused_step_has_no_routing_to_repeat),
		cmocka_unit_test(
			cached_on_some_ranks_or_of_other_steps_is_a_mismatch_on_all),
		cmocka_unit_test(
			ids_mask_weights_or_other_num_tokens_with_cached_are_invalid),
		cmocka_unit_test(
			a_routing_is_repeated_under_its_own_table_only),
		cmocka_unit_test(a_rank_without_tokens_repeats_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
