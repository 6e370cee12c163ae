/*
 * Cached dispatch where it is refused: too late, of a step that has no routing,
 * on some ranks only, with other arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/repeat.h"

/* A whole step of all, by which other steps grow older. */
static void pass_another(struct plain *plain)
{
	plain_bring(plain, 1, (const int32_t[]){0, 3});
	plain_pass(plain);
}

/* By default as many as depth: the step of three steps ago is too old. */
static void come_too_late(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct shunt_handle first, second, nonsense;
	struct plain plain;

	config.depth = 2;
	first = repeat_begin(&plain, seat, &config);
	repeat_bring_first(&plain);
	plain_pass(&plain);
	second = plain.handle;
	pass_another(&plain);
	repeat_bring_cached(&plain, first);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	seat_message_has(seat, "2 steps are kept");
	/* The refusal was a step as well; so now the second is too old. */
	repeat_bring_cached(&plain, second);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	nonsense = (struct shunt_handle){first.exchange, 1000};
	repeat_bring_cached(&plain, nonsense);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	nonsense = (struct shunt_handle){first.exchange + 1000, 1};
	repeat_bring_cached(&plain, nonsense);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	repeat_bring_first(&plain);
	plain_dispatch(&plain);
	repeat_combine(&plain);
	plain_fini(&plain);
}

static void a_routing_that_is_not_kept_any_more_is_a_state_error(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, come_too_late, NULL);
}

/* The last moment at which a step can be repeated, by option. */
static void come_just_in_time(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct shunt_handle first;
	struct plain plain;

	config.kept_routes = 5;
	first = repeat_begin(&plain, seat, &config);
	for (int i = 0; i < 4; i++)
		pass_another(&plain);
	repeat_step(&plain, first);
	repeat_bring_cached(&plain, first);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	seat_message_has(seat, "5 steps are kept");
	plain_fini(&plain);
}

static void kept_routes_says_for_how_many_steps_a_routing_is_kept(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, come_just_in_time, NULL);
}

/* A step that all refused, and one that one rank did. */
static void repeat_a_refused_step(struct seat *seat)
{
	static const int32_t bad[] = {0, 99};
	struct shunt_exchange_config config = repeat_config();
	struct shunt_handle refused;
	struct plain plain;

	refused = repeat_begin(&plain, seat, &config);
	refused.epoch++;
	plain_bring(&plain, 1, seat->rank == 0 ? bad : repeat_ids[1]);
	SEAT_STATUS(seat, seat->rank == 0 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
		plain_try(&plain));
	repeat_bring_cached(&plain, refused);
	SEAT_STATUS(seat, SHUNT_STATE, plain_try(&plain));
	plain_fini(&plain);
}

static void a_refused_step_has_no_routing_to_repeat(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat_a_refused_step, NULL);
}

static void repeat_on_some(struct seat *seat)
{
	struct shunt_exchange_config config = repeat_config();
	struct shunt_handle first, second;
	struct plain plain;

	config.kept_routes = 9;
	first = repeat_begin(&plain, seat, &config);
	repeat_bring_first(&plain);
	plain_pass(&plain);
	second = plain.handle;
	repeat_bring_first(&plain);
	if (seat->rank == 1)
		repeat_bring_cached(&plain, first);
	SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
	seat_message_has(seat, "cached");
	repeat_bring_cached(&plain, seat->rank == 1 ? first : second);
	SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
	seat_message_has(seat, "step 2");
	repeat_step(&plain, first);
	plain_fini(&plain);
}

static void cached_on_some_ranks_or_of_other_steps_is_a_mismatch_on_all(
	void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat_on_some, NULL);
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
	args->expert_ids = repeat_ids;
	args->ids_type = SHUNT_INDEX_I32;
}

static void give_weights(struct shunt_dispatch_args *args)
{
	args->weights = repeat_weights[0];
}

static void give_mask(struct shunt_dispatch_args *args)
{
	args->mask = SHUNT_MASK_TOKENS;
	args->active_mask = (const uint8_t *)repeat_weights;
}

static void spoil(struct seat *seat)
{
	static const struct spoiler spoilers[] = {
		{"num_tokens is 1, must be 2", one_token},
		{"expert_ids is given", give_ids},
		{"weights is given", give_weights},
		{"mask is given", give_mask},
	};
	struct shunt_exchange_config config = repeat_config();
	struct shunt_handle first;
	struct plain plain;

	config.kept_routes = 9;
	first = repeat_begin(&plain, seat, &config);
	for (size_t i = 0; i < sizeof(spoilers) / sizeof(*spoilers); i++) {
		repeat_bring_cached(&plain, first);
		if (seat->rank == 0)
			spoilers[i].spoil(&plain.args);
		SEAT_STATUS(seat,
			seat->rank == 0 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
			plain_try(&plain));
		seat_message_has(seat, spoilers[i].words);
	}
	repeat_step(&plain, first);
	plain_fini(&plain);
}

static void ids_mask_weights_or_other_num_tokens_with_cached_are_invalid(
	void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, spoil, NULL);
}

/* The routing of all ranks is not that of those who are left. */
static void repeat_after_a_loss(struct seat *seat)
{
	static const int32_t table[] = {1, 1, 0, 2, 0, -1, 0, -1};
	struct shunt_exchange_config config = repeat_config();
	struct shunt_handle before;
	struct plain plain;

	config.elastic = true;
	config.kept_routes = 9;
	before = repeat_begin(&plain, seat, &config);
	seat_barrier(seat);
	if (seat->rank == 0) {
		plain_bring(&plain, 2, (const int32_t[]){0, 1, 1, 1});
		plain.args.elastic_info = table;
		plain_pass(&plain);
		for (int i = 0; i < 2; i++) {
			repeat_bring_cached(&plain, before);
			plain.args.elastic_info = table;
			SEAT_STATUS(seat, SHUNT_INVALID, plain_try(&plain));
			seat_message_has(seat, "elastic_info");
			repeat_bring_cached(&plain, plain.handle);
			plain.args.elastic_info = table;
			plain_dispatch(&plain);
			SEAT_OK(seat,
				plain_try_combine(&plain, repeat_factors[0]));
			plain_expect_sums(&plain, (const float[]){3, 4});
		}
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_routing_is_repeated_under_its_own_table_only(void **state)
{
	(void)state;
	ranks_run_both(REPEAT_RANKS, repeat_after_a_loss, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
