/*
 * Every option of an exchange beyond its plain shape has an answer: values out
 * of range, options that do not go together, ranks that do not agree, and what
 * room each asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/plain.h"

#define RANKS 3

/* T_max 8, K 3, E 9: three experts on each of three ranks. */
static struct shunt_exchange_config small_config(void)
{
	return plain_config(8, 3, 9);
}

/* A field that gets a value. */
struct setting {
	const char *field; /* NULL: the list ends */
	size_t offset, bytes;
	int64_t value;
};

#define CONFIG_FIELD(field)                                    \
#field, offsetof(struct shunt_exchange_config, field), \
		sizeof(((struct shunt_exchange_config *)NULL)->field)
#define SET(field, value)                    \
	{                                    \
		CONFIG_FIELD(field), (value) \
	}
#define MAX_SETTINGS 4

/* Fields that are wrong, or differ, on one rank; what all ranks set before;
 * and what the message has to say. */
struct option_case {
	const char *words[3];
	struct setting change[MAX_SETTINGS];
	struct setting base[MAX_SETTINGS];
};

static void apply(
	struct shunt_exchange_config *config, const struct setting *settings)
{
	for (int i = 0; i < MAX_SETTINGS && settings[i].field; i++)
		memcpy((char *)config + settings[i].offset, &settings[i].value,
			settings[i].bytes);
}

static struct shunt_exchange_config config_of(
	const struct option_case *option, bool changed)
{
	struct shunt_exchange_config config = small_config();

	apply(&config, option->base);
	if (changed)
		apply(&config, option->change);
	return config;
}

static void check_words(struct seat *seat, const struct option_case *option)
{
	for (int i = 0; i < 3; i++)
		seat_message_has(
			seat, option->words[i] ? option->words[i] : "");
}

/* ---- values that are wrong, options that do not go together ----------- */

static const int32_t map_with_shared[9] = {2, 2, 2, 0, 2, 2, 2, 2, 2};
static const int32_t map_without_shared[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2};
static const int64_t first_with_shared[RANKS] = {0, 3, 6};
static const int64_t count_with_shared[RANKS] = {3, 3, 3};

#define POINTER(array) ((int64_t)(intptr_t)(array))

static const struct option_case faults[] = {
	{{"quant is -1, must be 0 .."}, {SET(quant, -1)}, {}},
	{{"layout is -1, must be 0 .."}, {SET(layout, -1)}, {}},
	{{"algorithm is -1, must be 0 .."}, {SET(algorithm, -1)}, {}},
	{{"bad_id is -1, must be 0 .."}, {SET(bad_id, -1)}, {}},
	{{"scale_form is -1, must be 0 .."}, {SET(scale_form, -1)}, {}},
	{{"combine_quant is -1, must be 0 .."}, {SET(combine_quant, -1)}, {}},
	{{"dtype is -1, must be "}, {SET(dtype, -1)}, {}},
	{{"expert_dtype is -1, must be "}, {SET(expert_dtype, -1)}, {}},
	{{"x_scale_dtype is -1, but it goes"}, {SET(x_scale_dtype, -1)}, {}},
	{{"num_shared_experts", "2", "0 .. 1"}, {SET(num_shared_experts, 2)},
		{}},
	{{"num_shared_experts", "-1"}, {SET(num_shared_experts, -1)}, {}},
	{{"num_shared_experts", "0", "num_shared_ranks = 1"},
		{SET(num_shared_ranks, 1)}, {}},
	{{"num_shared_experts", "2", "num_shared_ranks = 1"},
		{SET(num_shared_ranks, 1), SET(num_shared_experts, 2)}, {}},
	{{"num_shared_ranks", "3", "0 .. 2"},
		{SET(num_shared_ranks, 3), SET(num_shared_experts, 1)}, {}},
	{{"num_shared_ranks", "-1", "0 .. 2"},
		{SET(num_shared_ranks, -1), SET(num_shared_experts, 1)}, {}},
	{{"num_zero_experts", "-1", "0 .. 1048576"},
		{SET(num_zero_experts, -1)}, {}},
	{{"num_copy_experts", "1048577", "0 .. 1048576"},
		{SET(num_copy_experts, 1048577)}, {}},
	{{"num_constant_experts", "-5", "0 .. 1048576"},
		{SET(num_constant_experts, -5)}, {}},
	{{"num_experts", "-1", "0 .. 1048576"},
		{SET(num_experts, -1), SET(num_copy_experts, 1)}, {}},
	{{"num_experts", "0", "1 .. 1048576"}, {SET(num_experts, 0)}, {}},
	{{"layout", "77", "0 .. 2"}, {SET(layout, 77)}, {}},
	{{"scale_form", "77", "0 .. 2"}, {SET(scale_form, 77)}, {}},
	{{"combine_quant", "77", "0 .. 4"}, {SET(combine_quant, 77)}, {}},
	{{"f32_partial_sums is 1", "combine_quant is 4", "NONE"},
		{SET(f32_partial_sums, 1),
			SET(combine_quant, SHUNT_COMBINE_QUANT_MXFP8)},
		{}},
	{{"scale_form", "1", "_GROUP"},
		{SET(scale_form, SHUNT_SCALE_POW2),
			SET(quant, SHUNT_QUANT_INT8)},
		{}},
	{{"scale_form", "2", "_GROUP"},
		{SET(scale_form, SHUNT_SCALE_E8M0),
			SET(quant, SHUNT_QUANT_MXFP4_E2M1)},
		{}},
	{{"column_major_scales", "scales"}, {SET(column_major_scales, 1)}, {}},
	{{"column_major_scales", "scales"},
		{SET(column_major_scales, 1),
			SET(quant, SHUNT_QUANT_INT8_STATIC)},
		{}},
	{{"x_scales_per_row", "-1", "0 .."}, {SET(x_scales_per_row, -1)}, {}},
	{{"x_scales_per_row", "4", "quant NONE"},
		{SET(x_scales_per_row, 4), SET(x_scale_dtype, SHUNT_DTYPE_F32),
			SET(quant, SHUNT_QUANT_INT8)},
		{}},
	{{"x_scale_dtype", "1", "x_scales_per_row"},
		{SET(x_scale_dtype, SHUNT_DTYPE_F32)}, {}},
	{{"x_scale_dtype", "0", "F32, E8M0 or E4M3FN"},
		{SET(x_scales_per_row, 4)}, {}},
	{{"x_scale_dtype", "2", "F32, E8M0 or E4M3FN"},
		{SET(x_scales_per_row, 4), SET(x_scale_dtype, SHUNT_DTYPE_F16)},
		{}},
	{{"rows_per_expert", "-1", "0 .."},
		{SET(rows_per_expert, -1), SET(layout, SHUNT_LAYOUT_PADDED)},
		{}},
	{{"rows_per_expert", "7", "PADDED"}, {SET(rows_per_expert, 7)}, {}},
	{{"rows_per_expert", "7", "PADDED"},
		{SET(rows_per_expert, 7), SET(layout, SHUNT_LAYOUT_INDEXED)},
		{}},
	{{"rows_per_expert", "7", "expert_alignment = 4"},
		{SET(rows_per_expert, 7), SET(layout, SHUNT_LAYOUT_PADDED),
			SET(expert_alignment, 4)},
		{}},
	{{"max_recv_rows", "5", "rows_per_expert"},
		{SET(max_recv_rows, 5), SET(layout, SHUNT_LAYOUT_PADDED)}, {}},
	{{"expert_alignment", "-1", "0 .. 1048576"},
		{SET(expert_alignment, -1)}, {}},
	{{"expert_alignment", "1048577", "0 .. 1048576"},
		{SET(expert_alignment, 1048577)}, {}},
	{{"kept_routes", "-1", "0 .. 65536"}, {SET(kept_routes, -1)}, {}},
	{{"kept_routes", "65537", "0 .. 65536"}, {SET(kept_routes, 65537)}, {}},
	{{"fetch_tokens", "-2", "-1 .. "}, {SET(fetch_tokens, -2)}, {}},
	{{"tp_rank_order", "tp_group"}, {SET(tp_rank_order, 1)}, {}},
	{{"elastic", "placement"},
		{SET(elastic, 1),
			SET(expert_rank, POINTER(map_without_shared))},
		{}},
	{{"num_experts", "10", "3"}, {SET(elastic, 1), SET(num_experts, 10)},
		{}},
	{{"num_experts", "9", "2"},
		{SET(elastic, 1), SET(num_shared_experts, 1),
			SET(num_shared_ranks, 1)},
		{}},
	{{"expert 3", "rank 0", "2 .. 2"},
		{SET(expert_rank, POINTER(map_with_shared)),
			SET(num_shared_experts, 2), SET(num_shared_ranks, 2)},
		{}},
	{{"expert 0", "rank 0", "1 .. 2"},
		{SET(first_expert, POINTER(first_with_shared)),
			SET(expert_count, POINTER(count_with_shared)),
			SET(num_shared_experts, 1), SET(num_shared_ranks, 1)},
		{}},
	{{"dtype", "8", "F32"}, {SET(dtype, SHUNT_DTYPE_E8M0)}, {}},
	{{"dtype", "4", "quant 1"},
		{SET(dtype, SHUNT_DTYPE_I8), SET(quant, SHUNT_QUANT_INT8)}, {}},
	{{"dtype", "7", "quant 9"},
		{SET(dtype, SHUNT_DTYPE_E2M1),
			SET(quant, SHUNT_QUANT_MXFP8_E4M3FN)},
		{}},
};

/* The same world sees every fault, then works. */
static void err(struct seat *seat)
{
	struct shunt_exchange *exchange;

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		struct shunt_exchange_config config =
			config_of(&faults[i], seat->rank == 1);

		seat_label(seat, "%s %s, fault %zu: ", faults[i].words[0],
			faults[i].words[1], i);
		SEAT_STATUS(seat,
			seat->rank == 1 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
			shunt_exchange_create(
				seat->world, NULL, &config, &exchange));
		if (seat->rank != 1)
			seat_error_ranks(seat, 1 << 1);
		check_words(seat, &faults[i]);
	}
}

/* A step that shows that the world still works. */
static void pass_a_step(struct seat *seat)
{
	static const int32_t ids[] = {0, 3, 6};
	struct shunt_exchange_config config = small_config();
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 1, ids);
	plain_dispatch(&plain);
	SEAT_CHECK(seat, plain.out.num_rows == RANKS, "%d rows",
		(int)plain.out.num_rows);
	SEAT_OK(seat, plain_try_combine(&plain, (float[]){1, 1, 1}));
	plain_fini(&plain);
}

static void err_and_work(struct seat *seat)
{
	err(seat);
	seat_label(seat, "afterwards: ");
	pass_a_step(seat);
}

static void wrong_options_are_named_here_and_refused_elsewhere(void **state)
{
	(void)state;
	ranks_run_both(RANKS, err_and_work, NULL);
}

/* ---- ranks that do not agree ------------------------------------------ */

static const struct option_case differences[] = {
	{{"num_shared_experts", "1", "2"}, {SET(num_shared_experts, 2)},
		{SET(num_shared_experts, 1), SET(num_shared_ranks, 2)}},
	{{"num_shared_ranks", "1", "2"}, {SET(num_shared_ranks, 2)},
		{SET(num_shared_experts, 1), SET(num_shared_ranks, 1)}},
	{{"num_zero_experts", "0", "77"}, {SET(num_zero_experts, 77)}, {}},
	{{"num_copy_experts", "2", "77"}, {SET(num_copy_experts, 77)},
		{SET(num_copy_experts, 2)}},
	{{"num_constant_experts", "0", "77"}, {SET(num_constant_experts, 77)},
		{}},
	{{"layout", "0", "1"}, {SET(layout, SHUNT_LAYOUT_PADDED)}, {}},
	{{"layout", "0", "2"}, {SET(layout, SHUNT_LAYOUT_INDEXED)}, {}},
	{{"scale_form", "0", "2"}, {SET(scale_form, SHUNT_SCALE_E8M0)},
		{SET(quant, SHUNT_QUANT_E4M3FN_GROUP)}},
	{{"column_major_scales", "0", "1"}, {SET(column_major_scales, 1)},
		{SET(quant, SHUNT_QUANT_INT8)}},
	{{"x_scales_per_row", "3", "4"}, {SET(x_scales_per_row, 4)},
		{SET(x_scales_per_row, 3),
			SET(x_scale_dtype, SHUNT_DTYPE_F32)}},
	{{"x_scale_dtype", "1", "5"}, {SET(x_scale_dtype, SHUNT_DTYPE_E4M3FN)},
		{SET(x_scales_per_row, 3),
			SET(x_scale_dtype, SHUNT_DTYPE_F32)}},
	{{"rows_per_expert", "0", "24"}, {SET(rows_per_expert, 24)},
		{SET(layout, SHUNT_LAYOUT_PADDED)}},
	{{"expert_alignment", "0", "16"}, {SET(expert_alignment, 16)}, {}},
	{{"zero_tail", "0", "1"}, {SET(zero_tail, 1)}, {}},
	{{"elastic", "0", "1"}, {SET(elastic, 1)}, {}},
	{{"combine_quant", "0", "3"},
		{SET(combine_quant, SHUNT_COMBINE_QUANT_E4M3FN_128)}, {}},
	{{"kept_routes", "0", "9"}, {SET(kept_routes, 9)}, {}},
	{{"fetch_tokens", "0", "-1"}, {SET(fetch_tokens, -1)}, {}},
	{{"f32_partial_sums", "0", "1"}, {SET(f32_partial_sums, 1)}, {}},
};

/* The same world sees every difference, then works. */
static void differ(struct seat *seat)
{
	struct shunt_exchange *exchange;

	for (size_t i = 0; i < sizeof(differences) / sizeof(*differences);
		i++) {
		struct shunt_exchange_config config =
			config_of(&differences[i], seat->rank == 1);

		seat_label(seat, "%s: ", differences[i].words[0]);
		SEAT_STATUS(seat, SHUNT_MISMATCH,
			shunt_exchange_create(
				seat->world, NULL, &config, &exchange));
		seat_error_ranks(seat, 1 << 1);
		check_words(seat, &differences[i]);
		seat_message_has(seat, "ranks 0, 2");
	}
	seat_label(seat, "afterwards: ");
	pass_a_step(seat);
}

static void
options_that_differ_are_mismatch_on_every_rank_with_field_and_values(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, differ, NULL);
}

/* ---- room ------------------------------------------------------------- */

/* A and L on `rank` of six, T_max 8, K 3. */
static void assert_room(const struct shunt_exchange_config *config,
	int32_t rank, int64_t rows, int64_t experts)
{
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	assert_int_equal(
		shunt_exchange_query(config, rank, 6, &sizes), SHUNT_OK);
	assert_int_equal(sizes.worst_rows, rows);
	assert_int_equal(sizes.recv_rows, rows);
	assert_int_equal(sizes.num_local_experts, experts);
}

/* Two shared experts with two replicas each, then five and five experts. */
static struct shunt_exchange_config shared_config(void)
{
	struct shunt_exchange_config config = plain_config(8, 3, 10);

	config.num_shared_experts = 2;
	config.num_shared_ranks = 4;
	return config;
}

static void query_gives_shared_ranks_the_tokens_of_their_share_of_ranks(
	void **state)
{
	struct shunt_exchange_config config = shared_config();

	(void)state;
	for (int32_t r = 0; r < 4; r++)
		assert_room(&config, r, 8 * 3, 1);
	assert_room(&config, 4, 6 * 8 * 3, 5);
	/* One expert with four replicas: ceil(6 / 4) = 2 ranks each. */
	config.num_shared_experts = 1;
	assert_room(&config, 3, 8 * 2, 1);
}

static void query_of_elastic_lets_one_replica_serve_all_ranks(void **state)
{
	struct shunt_exchange_config config = shared_config();

	(void)state;
	config.elastic = true;
	assert_room(&config, 0, 8 * 6, 1);
	assert_room(&config, 5, 6 * 8 * 3, 5);
}

static void query_adds_padding_for_each_expert(void **state)
{
	struct shunt_exchange_config config = shared_config();

	(void)state;
	config.expert_alignment = 16;
	assert_room(&config, 0, 8 * 3 + 15, 1);
	assert_room(&config, 4, 6 * 8 * 3 + 5 * 15, 5);
	/* Two experts on six ranks: nothing at all where there is none. */
	config = plain_config(8, 3, 2);
	config.expert_alignment = 16;
	assert_room(&config, 1, 6 * 8 * 3 + 15, 1);
	assert_room(&config, 2, 0, 0);
}

static void query_of_padded_gives_each_expert_its_rows(void **state)
{
	struct shunt_exchange_config config = shared_config();

	(void)state;
	config.layout = SHUNT_LAYOUT_PADDED;
	assert_room(&config, 4, 5 * 6 * 8, 5);
	assert_room(&config, 0, 6 * 8, 1);
	/* The default follows the alignment: 48 goes up to 64. */
	config.expert_alignment = 32;
	assert_room(&config, 4, 5 * 64, 5);
	config.rows_per_expert = 96;
	assert_room(&config, 4, 5 * 96, 5);
}

static void query_needs_shared_experts_to_divide_their_ranks(void **state)
{
	struct shunt_exchange_config config = shared_config();
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	(void)state;
	config.num_shared_experts = 3;
	assert_int_equal(
		shunt_exchange_query(&config, 0, 6, &sizes), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "num_shared_experts"));
	config.num_shared_experts = 4;
	assert_room(&config, 3, 8 * 6, 1);
	/* (1, 0) is none as well. */
	config.num_shared_experts = 1;
	config.num_shared_ranks = 0;
	assert_room(&config, 0, 6 * 8 * 3, 2);
}

static void no_experts_of_ranks_are_legal_with_special_ones_only(void **state)
{
	struct shunt_exchange_config config = plain_config(8, 3, 0);
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	(void)state;
	assert_int_equal(
		shunt_exchange_query(&config, 0, 6, &sizes), SHUNT_INVALID);
	config.num_copy_experts = 1;
	assert_room(&config, 0, 0, 0);
	config.num_copy_experts = 0;
	config.num_zero_experts = 1;
	assert_room(&config, 5, 0, 0);
	config.num_zero_experts = 0;
	config.num_constant_experts = 1;
	assert_room(&config, 5, 0, 0);
}

static void rows_beyond_2_to_31_are_invalid_in_every_layout(void **state)
{
	struct shunt_exchange_config config = plain_config(8, 3, 600);
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	(void)state;
	config.layout = SHUNT_LAYOUT_PADDED;
	config.rows_per_expert = INT64_C(1) << 25;
	assert_int_equal(
		shunt_exchange_query(&config, 0, 6, &sizes), SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "rows_per_expert"));
	config = plain_config(8, 3, 60000);
	config.expert_alignment = 1 << 20;
	assert_int_equal(
		shunt_exchange_query(&config, 0, 6, &sizes), SHUNT_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			wrong_options_are_named_here_and_refused_elsewhere),
		cmocka_unit_test(
			options_that_differ_are_mismatch_on_every_rank_with_field_and_values),
		cmocka_unit_test(
			query_gives_shared_ranks_the_tokens_of_their_share_of_ranks),
		cmocka_unit_test(
			query_of_elastic_lets_one_replica_serve_all_ranks),
		cmocka_unit_test(query_adds_padding_for_each_expert),
		cmocka_unit_test(query_of_padded_gives_each_expert_its_rows),
		cmocka_unit_test(
			query_needs_shared_experts_to_divide_their_ranks),
		cmocka_unit_test(
			no_experts_of_ranks_are_legal_with_special_ones_only),
		cmocka_unit_test(
			rows_beyond_2_to_31_are_invalid_in_every_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
