/*
 * Every argument of dispatch and combine that is wrong is answered with a
 * status, on this rank and on the others, and the next step works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "support/stand.h"

#define RANKS 3

static struct shunt_exchange_config small_config(void)
{
	return trial_config(8, 33, 3, 10);
}

/* A change to good arguments, and what it is answered with. */
struct spoilt_dispatch {
	const char *what;
	enum shunt_status status;
	void (*spoil)(struct shunt_dispatch_args *args);
};

static void no_x(struct shunt_dispatch_args *args)
{
	args->x = NULL;
}

static void no_ids(struct shunt_dispatch_args *args)
{
	args->expert_ids = NULL;
}

static void no_mask(struct shunt_dispatch_args *args)
{
	args->mask = SHUNT_MASK_TOKENS;
	args->active_mask = NULL;
}

static void negative_tokens(struct shunt_dispatch_args *args)
{
	args->num_tokens = -1;
}

static void short_stride(struct shunt_dispatch_args *args)
{
	args->x_stride = 32;
}

static void negative_stride(struct shunt_dispatch_args *args)
{
	args->x_stride = -33;
}

static void no_ids_type(struct shunt_dispatch_args *args)
{
	args->ids_type = SHUNT_INDEX_NONE;
}

static void wild_ids_type(struct shunt_dispatch_args *args)
{
	args->ids_type = (enum shunt_index)77;
}

static void wild_mask(struct shunt_dispatch_args *args)
{
	args->mask = (enum shunt_mask)77;
}

static void unannounced_mask(struct shunt_dispatch_args *args)
{
	args->mask = SHUNT_MASK_NONE;
	args->active_mask = (const uint8_t *)args->expert_ids;
}

static void smooth_without_quant(struct shunt_dispatch_args *args)
{
	args->smooth_scales = args->weights;
}

static const struct spoilt_dispatch spoilt_dispatches[] = {
	{"x NULL", SHUNT_NULL_ARGUMENT, no_x},
	{"expert_ids NULL", SHUNT_NULL_ARGUMENT, no_ids},
	{"active_mask NULL", SHUNT_NULL_ARGUMENT, no_mask},
	{"num_tokens -1", SHUNT_INVALID, negative_tokens},
	{"x_stride 32", SHUNT_INVALID, short_stride},
	{"x_stride -33", SHUNT_INVALID, negative_stride},
	{"ids_type 0", SHUNT_INVALID, no_ids_type},
	{"ids_type 77", SHUNT_INVALID, wild_ids_type},
	{"mask 77", SHUNT_INVALID, wild_mask},
	{"a mask with kind NONE", SHUNT_INVALID, unannounced_mask},
	{"smooth without quant", SHUNT_INVALID, smooth_without_quant},
};

#define NUM_DISPATCHES \
	(sizeof(spoilt_dispatches) / sizeof(spoilt_dispatches[0]))

static void spoil_one_dispatch(struct stand *stand, size_t i)
{
	struct seat *seat = stand->seat;
	struct trial_rule rule = stand_rule(stand);
	struct trial *step;

	seat_label(seat, "%s: ", spoilt_dispatches[i].what);
	rule.tokens = TRIAL_TOKENS_FULL;
	step = stand_prepare_rule(stand, &rule);
	if (seat->rank == 1) {
		spoilt_dispatches[i].spoil(&step->args);
		SEAT_STATUS(seat, spoilt_dispatches[i].status,
			shunt_dispatch(stand->exchange, &step->args, &step->out,
				&step->handle));
	} else {
		SEAT_STATUS(seat, SHUNT_PEER_REFUSED,
			shunt_dispatch(stand->exchange, &step->args, &step->out,
				&step->handle));
		seat_error_ranks(seat, 1 << 1);
	}
	stand_drop(step);
}

static void spoil_dispatches(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;

	stand_init(&stand, seat, &config);
	for (size_t i = 0; i < NUM_DISPATCHES; i++) {
		spoil_one_dispatch(&stand, i);
		if (i % 3 == 0)
			stand_step(&stand);
	}
	stand_fini(&stand);
}

static void wrong_dispatch_arguments_are_refused_and_the_next_step_works(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, spoil_dispatches, NULL);
}

/* ---- combine ---------------------------------------------------------- */

struct spoilt_combine {
	const char *what;
	enum shunt_status status;
	void (*spoil)(struct shunt_combine_args *args);
};

static void no_out(struct shunt_combine_args *args)
{
	args->out = NULL;
}

static void no_y(struct shunt_combine_args *args)
{
	args->y = NULL;
}

static void short_y_stride(struct shunt_combine_args *args)
{
	args->y_stride = 32;
}

static void short_out_stride(struct shunt_combine_args *args)
{
	args->out_stride = 1;
}

static void int8_out(struct shunt_combine_args *args)
{
	args->out_dtype = SHUNT_DTYPE_I8;
}

static void wild_out(struct shunt_combine_args *args)
{
	args->out_dtype = (enum shunt_dtype)77;
}

static const struct spoilt_combine spoilt_combines[] = {
	{"out NULL", SHUNT_NULL_ARGUMENT, no_out},
	{"y NULL", SHUNT_NULL_ARGUMENT, no_y},
	{"y_stride 32", SHUNT_INVALID, short_y_stride},
	{"out_stride 1", SHUNT_INVALID, short_out_stride},
	{"out_dtype I8", SHUNT_INVALID, int8_out},
	{"out_dtype 77", SHUNT_INVALID, wild_out},
};

#define NUM_COMBINES (sizeof(spoilt_combines) / sizeof(spoilt_combines[0]))

/* Every rank sends to every rank, so that each needs the one that refuses. */
static struct trial *prepare_full(struct stand *stand)
{
	struct trial_rule rule = stand_rule(stand);

	rule.tokens = TRIAL_TOKENS_FULL;
	return stand_prepare_rule(stand, &rule);
}

static void spoil_combines(struct seat *seat)
{
	struct shunt_exchange_config config = trial_config(8, 33, 8, 8);
	struct stand stand;
	struct trial *step;

	config.distinct_experts = true; /* all eight, by every token */
	stand_init(&stand, seat, &config);
	for (size_t i = 0; i < NUM_COMBINES; i++) {
		seat_label(seat, "%s: ", spoilt_combines[i].what);
		step = prepare_full(&stand);
		stand_dispatch(&stand, step);
		if (seat->rank == 1)
			spoilt_combines[i].spoil(&step->combine);
		SEAT_STATUS(seat,
			seat->rank == 1 ? spoilt_combines[i].status
					: SHUNT_PEER_REFUSED,
			shunt_combine(step->handle, &step->combine));
		if (seat->rank != 1)
			seat_error_ranks(seat, 1 << 1);
		stand_drop(step);
	}
	stand_step(&stand);
	stand_fini(&stand);
}

static void wrong_combine_arguments_are_refused_and_the_next_step_works(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, spoil_combines, NULL);
}

/* ---- pointers of the calls themselves --------------------------------- */

static void call_with_null(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	stand_init(&stand, seat, &config);
	step = stand_prepare(&stand);
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_dispatch(NULL, &step->args, &step->out, &step->handle));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_dispatch(
			stand.exchange, NULL, &step->out, &step->handle));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_dispatch(
			stand.exchange, &step->args, NULL, &step->handle));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_dispatch(stand.exchange, &step->args, &step->out, NULL));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_exchange_create(NULL, NULL, &config, &stand.exchange));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_exchange_create(
			seat->world, NULL, NULL, &stand.exchange));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_exchange_create(seat->world, NULL, &config, NULL));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_exchange_query(NULL, 0, 1, &sizes));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_exchange_query(&config, 0, 1, NULL));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT, shunt_world_create(NULL, NULL));
	shunt_exchange_destroy(NULL);
	shunt_world_destroy(NULL);
	SEAT_CHECK(seat, shunt_world_rank(NULL) == -1, "rank of NULL");
	SEAT_CHECK(seat, shunt_world_size(NULL) == -1, "size of NULL");
	stand_drop(step);
	stand_fini(&stand);
}

/* In a world of one: nobody else is to be left waiting. */
static void null_where_a_pointer_is_due_is_answered(void **state)
{
	(void)state;
	ranks_run_both(1, call_with_null, NULL);
}

/* ---- weights ---------------------------------------------------------- */

static void weigh_on_some(struct seat *seat)
{
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial *step;

	stand_init(&stand, seat, &config);
	step = prepare_full(&stand);
	if (seat->rank == 2)
		step->args.weights = NULL;
	SEAT_STATUS(seat, SHUNT_MISMATCH,
		shunt_dispatch(stand.exchange, &step->args, &step->out,
			&step->handle));
	seat_message_has(seat, "weights");
	stand_drop(step);
	stand_step(&stand);
	stand_fini(&stand);
}

static void weights_on_some_ranks_only_are_a_mismatch_on_all(void **state)
{
	(void)state;
	ranks_run_both(RANKS, weigh_on_some, NULL);
}

/* ---- capacity --------------------------------------------------------- */

/* All ranks send all to expert 0, on rank 0: it gets W * T * K rows. */
static void overflow(struct seat *seat)
{
	static const int64_t most[RANKS] = {8, 8, 8};
	static const int64_t fits[RANKS] = {2, 1, 2};
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;
	struct trial *step;

	config.max_recv_rows = 15;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 6; i++) {
		rule = stand_rule(&stand);
		rule.routing = INPUT_HOT;
		rule.token_list = i % 2 == 0 ? most : fits;
		step = stand_prepare_rule(&stand, &rule);
		if (i % 2 == 0) {
			SEAT_STATUS(seat, SHUNT_CAPACITY,
				shunt_dispatch(stand.exchange, &step->args,
					&step->out, &step->handle));
			seat_message_has(seat, "72");
			seat_message_has(seat, "15");
		} else {
			stand_dispatch(&stand, step);
			stand_combine(&stand, step);
		}
		stand_drop(step);
	}
	stand_fini(&stand);
}

static void
capacity_below_need_answers_capacity_on_all_ranks_and_next_step_works(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, overflow, NULL);
}

static void fill_exactly(struct seat *seat)
{
	static const int64_t fits[RANKS] = {2, 1, 2};
	struct shunt_exchange_config config = small_config();
	struct stand stand;
	struct trial_rule rule;

	config.max_recv_rows = 15;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 4; i++) {
		rule = stand_rule(&stand);
		rule.routing = INPUT_HOT;
		rule.token_list = fits;
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void capacity_that_is_just_enough_works(void **state)
{
	(void)state;
	ranks_run_both(RANKS, fill_exactly, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			wrong_dispatch_arguments_are_refused_and_the_next_step_works),
		cmocka_unit_test(
			wrong_combine_arguments_are_refused_and_the_next_step_works),
		cmocka_unit_test(null_where_a_pointer_is_due_is_answered),
		cmocka_unit_test(
			weights_on_some_ranks_only_are_a_mismatch_on_all),
		cmocka_unit_test(
			capacity_below_need_answers_capacity_on_all_ranks_and_next_step_works),
		cmocka_unit_test(capacity_that_is_just_enough_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
