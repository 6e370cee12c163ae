/*
 * Cached dispatch: the routing of an earlier step, for another x.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/repeat.h"

static void repeat(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct plain plain;
	struct shunt_handle first;

	config.kept_routes = 8;
	plain_init(&plain, seat, NULL, &config);
	repeat_bring_first(&plain);
	plain_dispatch(&plain);
	first = plain.handle;
	repeat_expect_rows(&plain);
	repeat_expect_weights(&plain);
	repeat_combine(&plain);
	for (int i = 0; i < 4; i++) {
		repeat_step(&plain, first);
		SEAT_CHECK(seat, plain.handle.epoch == first.epoch + i + 1,
			"the handle is not a new one");
	}
	SEAT_STATUS(
		seat, SHUNT_STATE, shunt_combine(plain.handle, &plain.combine));
	plain_fini(&plain);
}

static void the_routing_of_a_combined_step_serves_many_times_weights_too(
	void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat, NULL);
}

static void change_x(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct plain plain;
	float other[2 * PLAIN_HIDDEN];
	const float *rows;

	for (int i = 0; i < 2 * PLAIN_HIDDEN; i++)
		other[i] = 7.0f + (float)seat->rank;
	repeat_begin(&plain, seat, &config);
	repeat_bring_cached(&plain, plain.handle);
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
	ranks_run_both(REPEAT_RANKS, change_x, NULL);
}

/* Each repeats the one before, for longer than routes are kept. */
static void repeat_in_a_chain(struct seat *seat)
{
	const enum shunt_layout *layout = seat->context;
	struct shunt_exchange_config config = repeat_config();
	struct plain plain;

	config.layout = *layout;
	plain_init(&plain, seat, NULL, &config);
	repeat_bring_first(&plain);
	plain_dispatch(&plain);
	repeat_combine(&plain);
	for (int i = 0; i < 10; i++) {
		repeat_bring_cached(&plain, plain.handle);
		plain_dispatch(&plain);
		if (*layout != SHUNT_LAYOUT_PADDED)
			repeat_expect_rows(&plain);
		repeat_combine(&plain);
	}
	plain_fini(&plain);
}

static void a_cached_step_can_be_repeated_itself_in_every_layout(void **state)
{
	static const enum shunt_layout layouts[] = {SHUNT_LAYOUT_COMPACT,
		SHUNT_LAYOUT_PADDED, SHUNT_LAYOUT_INDEXED};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		ranks_run_both(REPEAT_RANKS, repeat_in_a_chain, &layouts[i]);
}

/* While the step that is repeated is still in flight. */
static void repeat_at_once(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct plain plain, second;

	plain_init(&plain, seat, NULL, &config);
	repeat_bring_first(&plain);
	plain_dispatch(&plain);
	second = plain;
	repeat_bring_cached(&second, plain.handle);
	SEAT_OK(seat, shunt_dispatch_start(
			      second.exchange, &second.args, &second.handle));
	SEAT_OK(seat, shunt_dispatch_finish(second.handle, 0, &second.out));
	repeat_expect_rows(&second);
	repeat_expect_rows(&plain);
	repeat_combine(&second);
	repeat_combine(&plain);
	plain_fini(&plain);
}

static void a_step_in_flight_can_be_repeated(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat_at_once, NULL);
}

static void repeat_without_weights(struct seat *seat)
{
	int32_t me = seat->rank;
	struct shunt_exchange_config config = repeat_config();
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, repeat_tokens[me], repeat_ids[me]);
	plain_pass(&plain);
	repeat_bring_cached(&plain, plain.handle);
	plain_dispatch(&plain);
	SEAT_CHECK(seat, !plain.out.expand_weights, "weights from nowhere");
	SEAT_OK(seat, plain_try_combine(&plain, repeat_factors[me]));
	plain_expect_sums(&plain, repeat_plain_sums[me]);
	plain_fini(&plain);
}

static void a_step_without_weights_is_repeated_without(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat_without_weights, NULL);
}

/* Scales go with x, not with the routing: new ones, none, and new ones. */
static void repeat_with_scales(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct shunt_handle first;
	struct plain plain;
	float scales[2];

	config.x_scales_per_row = 1;
	config.x_scale_dtype = SHUNT_DTYPE_F32;
	config.kept_routes = 9;
	first = repeat_begin(&plain, seat, &config);
	for (int i = 0; i < 4; i++) {
		repeat_bring_cached(&plain, first);
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
	repeat_bring_cached(&plain, first);
	if (seat->rank == 1)
		plain.args.x_scales = scales;
	SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
	seat_message_has(seat, "x_scales");
	plain_fini(&plain);
}

static void scales_of_x_are_new_ones_in_each_repetition(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat_with_scales, NULL);
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
	ranks_run_both(REPEAT_RANKS, repeat_masks, NULL);
}

/* Zero tokens on rank 1, NULL for everything. */
static void repeat_nothing(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, seat->rank == 0 ? 2 : 0, repeat_ids[0]);
	plain_pass(&plain);
	plain_bring(&plain, seat->rank == 0 ? 2 : 0, NULL);
	if (seat->rank == 1)
		plain.args.x = NULL;
	plain.args.cached = plain.handle;
	plain_dispatch(&plain);
	SEAT_OK(seat, plain_try_combine(&plain, repeat_factors[seat->rank]));
	plain_expect_sums(&plain, repeat_plain_sums[0]);
	plain_fini(&plain);
}

static void a_rank_without_tokens_repeats_too(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat_nothing, NULL);
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
		cmocka_unit_test(a_rank_without_tokens_repeats_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
