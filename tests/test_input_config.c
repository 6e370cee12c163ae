/*
 * Every config of an exchange has an answer: fields that differ between ranks,
 * values that are not legal, placements, and what a config costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "support/stand.h"

#define RANKS 3

static struct shunt_exchange_config small_config(void)
{
	return trial_config(8, 33, 3, 10);
}

/* A change to a good config, with what the message has to name. */
struct change {
	const char *field;
	enum shunt_status status;
	const char *values[2];
	void (*apply)(struct shunt_exchange_config *config);
};

/* ---- fields that differ ----------------------------------------------- */

static void other_max_tokens(struct shunt_exchange_config *config)
{
	config->max_tokens = 77;
}

static void other_hidden(struct shunt_exchange_config *config)
{
	config->hidden = 777;
}

static void other_topk(struct shunt_exchange_config *config)
{
	config->topk = 7;
}

static void other_num_experts(struct shunt_exchange_config *config)
{
	config->num_experts = 77;
}

static void other_dtype(struct shunt_exchange_config *config)
{
	config->dtype = SHUNT_DTYPE_F32;
}

static void other_expert_dtype(struct shunt_exchange_config *config)
{
	config->expert_dtype = SHUNT_DTYPE_F16;
}

static void other_quant(struct shunt_exchange_config *config)
{
	config->quant = SHUNT_QUANT_INT8;
}

static void other_algorithm(struct shunt_exchange_config *config)
{
	config->algorithm = SHUNT_ALGORITHM_FULLMESH;
}

static void other_bad_id(struct shunt_exchange_config *config)
{
	config->bad_id = SHUNT_BAD_ID_DROP;
}

static void other_promise(struct shunt_exchange_config *config)
{
	config->distinct_experts = true;
}

static void other_depth(struct shunt_exchange_config *config)
{
	config->depth = 7;
}

static void other_max_recv_rows(struct shunt_exchange_config *config)
{
	config->max_recv_rows = 7;
}

static void other_placement(struct shunt_exchange_config *config)
{
	static const int32_t map[10] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};

	config->expert_rank = map;
}

static const struct change differences[] = {
	{"max_tokens", SHUNT_MISMATCH, {"8", "77"}, other_max_tokens},
	{"hidden", SHUNT_MISMATCH, {"33", "777"}, other_hidden},
	{"topk", SHUNT_MISMATCH, {"3", "7"}, other_topk},
	{"num_experts", SHUNT_MISMATCH, {"10", "77"}, other_num_experts},
	{"dtype", SHUNT_MISMATCH, {"", ""}, other_dtype},
	{"expert_dtype", SHUNT_MISMATCH, {"", ""}, other_expert_dtype},
	{"quant", SHUNT_MISMATCH, {"", ""}, other_quant},
	{"algorithm", SHUNT_MISMATCH, {"", ""}, other_algorithm},
	{"bad_id", SHUNT_MISMATCH, {"", ""}, other_bad_id},
	{"distinct_experts", SHUNT_MISMATCH, {"", ""}, other_promise},
	{"depth", SHUNT_MISMATCH, {"2", "7"}, other_depth},
	{"max_recv_rows", SHUNT_MISMATCH, {"", "7"}, other_max_recv_rows},
	{"placement", SHUNT_MISMATCH, {"", ""}, other_placement},
};

#define NUM_DIFFERENCES (sizeof(differences) / sizeof(differences[0]))

/* The rank that differs must be among those that the error is about. */
static void check_named(struct seat *seat, int32_t rank)
{
	int32_t ranks[RANKS];
	size_t count = shunt_error_ranks(ranks, RANKS);
	bool named = false;

	for (size_t i = 0; i < count && i < RANKS; i++)
		named = named || ranks[i] == rank;
	SEAT_CHECK(seat, named, "rank %d is not named: %s", rank,
		shunt_error_message());
}

static void differ(struct seat *seat)
{
	const struct change *change = seat->context;
	struct shunt_exchange_config config = small_config();
	struct shunt_exchange *exchange;
	struct stand stand;

	seat_label(seat, "%s: ", change->field);
	if (seat->rank == 1)
		change->apply(&config);
	SEAT_STATUS(seat, SHUNT_MISMATCH,
		shunt_exchange_create(seat->world, NULL, &config, &exchange));
	seat_message_has(seat, change->field);
	seat_message_has(seat, change->values[0]);
	seat_message_has(seat, change->values[1]);
	check_named(seat, 1);
	config = small_config();
	stand_init(&stand, seat, &config);
	stand_step(&stand);
	stand_fini(&stand);
}

static void
config_differences_are_mismatch_on_every_rank_with_field_ranks_values(
	void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_DIFFERENCES; i++)
		ranks_run_both(RANKS, differ, &differences[i]);
}

/* ---- fields that are wrong -------------------------------------------- */

static void negative_max_tokens(struct shunt_exchange_config *config)
{
	config->max_tokens = -1;
}

static void zero_hidden(struct shunt_exchange_config *config)
{
	config->hidden = 0;
}

static void zero_topk(struct shunt_exchange_config *config)
{
	config->topk = 0;
}

static void zero_experts(struct shunt_exchange_config *config)
{
	config->num_experts = 0;
}

static void no_dtype(struct shunt_exchange_config *config)
{
	config->dtype = SHUNT_DTYPE_NONE;
}

static void int8_experts(struct shunt_exchange_config *config)
{
	config->expert_dtype = SHUNT_DTYPE_I8;
}

static void wild_quant(struct shunt_exchange_config *config)
{
	config->quant = (enum shunt_quant)77;
}

static void wild_algorithm(struct shunt_exchange_config *config)
{
	config->algorithm = (enum shunt_algorithm)77;
}

static void wild_bad_id(struct shunt_exchange_config *config)
{
	config->bad_id = (enum shunt_bad_id)77;
}

static void too_deep(struct shunt_exchange_config *config)
{
	config->depth = 65;
}

static void negative_rows(struct shunt_exchange_config *config)
{
	config->max_recv_rows = -1;
}

/* Row totals stay below 2^31. */
static void too_many_rows(struct shunt_exchange_config *config)
{
	config->max_tokens = INT64_C(1) << 28;
}

static void overflowing(struct shunt_exchange_config *config)
{
	config->max_tokens = INT64_MAX / 2;
	config->hidden = INT64_MAX / 2;
}

static void map_out_of_range(struct shunt_exchange_config *config)
{
	static const int32_t map[10] = {0, 1, 2, 0, 1, 3, 0, 1, 2, 0};

	config->expert_rank = map;
}

static void ranges_with_a_gap(struct shunt_exchange_config *config)
{
	static const int64_t first[RANKS] = {0, 4, 7};
	static const int64_t count[RANKS] = {3, 3, 3};

	config->first_expert = first;
	config->expert_count = count;
}

static void ranges_that_overlap(struct shunt_exchange_config *config)
{
	static const int64_t first[RANKS] = {0, 3, 6};
	static const int64_t count[RANKS] = {4, 4, 4};

	config->first_expert = first;
	config->expert_count = count;
}

static void ranges_without_counts(struct shunt_exchange_config *config)
{
	static const int64_t first[RANKS] = {0, 3, 6};

	config->first_expert = first;
}

static void two_placements(struct shunt_exchange_config *config)
{
	static const int64_t first[RANKS] = {0, 4, 7};
	static const int64_t count[RANKS] = {4, 3, 3};

	other_placement(config);
	config->first_expert = first;
	config->expert_count = count;
}

static const struct change faults[] = {
	{"max_tokens", SHUNT_INVALID, {"-1", ""}, negative_max_tokens},
	{"hidden", SHUNT_INVALID, {"0", ""}, zero_hidden},
	{"topk", SHUNT_INVALID, {"0", ""}, zero_topk},
	{"num_experts", SHUNT_INVALID, {"0", ""}, zero_experts},
	{"dtype", SHUNT_INVALID, {"", ""}, no_dtype},
	{"expert_dtype", SHUNT_INVALID, {"", ""}, int8_experts},
	{"quant", SHUNT_INVALID, {"77", ""}, wild_quant},
	{"algorithm", SHUNT_INVALID, {"77", ""}, wild_algorithm},
	{"bad_id", SHUNT_INVALID, {"77", ""}, wild_bad_id},
	{"depth", SHUNT_INVALID, {"65", "64"}, too_deep},
	{"max_recv_rows", SHUNT_INVALID, {"-1", ""}, negative_rows},
	{"max_tokens", SHUNT_INVALID, {"", ""}, too_many_rows},
	{"", SHUNT_INVALID, {"", ""}, overflowing},
	{"expert_rank", SHUNT_INVALID, {"5", "3"}, map_out_of_range},
	{"expert", SHUNT_INVALID, {"", ""}, ranges_with_a_gap},
	{"expert", SHUNT_INVALID, {"", ""}, ranges_that_overlap},
	{"expert_count", SHUNT_NULL_ARGUMENT, {"", ""}, ranges_without_counts},
	{"expert_rank", SHUNT_INVALID, {"", ""}, two_placements},
};

#define NUM_FAULTS (sizeof(faults) / sizeof(faults[0]))

/* The same world sees every fault, then works. */
static void err(struct seat *seat)
{
	struct shunt_exchange_config config;
	struct shunt_exchange *exchange;
	struct stand stand;

	for (size_t i = 0; i < NUM_FAULTS; i++) {
		seat_label(seat, "%s, fault %zu: ", faults[i].field, i);
		config = small_config();
		if (seat->rank == 1)
			faults[i].apply(&config);
		SEAT_STATUS(seat,
			seat->rank == 1 ? faults[i].status : SHUNT_PEER_REFUSED,
			shunt_exchange_create(
				seat->world, NULL, &config, &exchange));
		if (seat->rank != 1) {
			seat_error_ranks(seat, 1 << 1);
			continue;
		}
		seat_message_has(seat, faults[i].field);
		seat_message_has(seat, faults[i].values[0]);
		seat_message_has(seat, faults[i].values[1]);
	}
	config = small_config();
	stand_init(&stand, seat, &config);
	stand_step(&stand);
	stand_fini(&stand);
}

static void wrong_configs_are_named_here_and_refused_elsewhere(void **state)
{
	(void)state;
	ranks_run_both(RANKS, err, NULL);
}

/* ---- structs of other versions ---------------------------------------- */

/* A caller that was compiled with an older header, and one with a newer. */
struct newer_config {
	struct shunt_exchange_config config;
	int64_t unknown[4];
};

static void size_oddly(struct seat *seat)
{
	struct newer_config newer = {.config = small_config()};
	struct shunt_exchange *exchange;

	newer.config.struct_size = sizeof(newer);
	SEAT_OK(seat, shunt_exchange_create(
			      seat->world, NULL, &newer.config, &exchange));
	shunt_exchange_destroy(exchange);
	newer.unknown[2] = 1;
	SEAT_STATUS(seat, SHUNT_VERSION,
		shunt_exchange_create(
			seat->world, NULL, &newer.config, &exchange));
	newer.config.struct_size =
		offsetof(struct shunt_exchange_config, layout);
	SEAT_OK(seat, shunt_exchange_create(
			      seat->world, NULL, &newer.config, &exchange));
	shunt_exchange_destroy(exchange);
	newer.config.struct_size = 3;
	SEAT_STATUS(seat, SHUNT_INVALID,
		shunt_exchange_create(
			seat->world, NULL, &newer.config, &exchange));
}

static void struct_sizes_of_other_versions_are_read_or_refused(void **state)
{
	(void)state;
	ranks_run_both(1, size_oddly, NULL);
}

/* ---- what a config costs ---------------------------------------------- */

static void query_tells_the_worst_case(void **state)
{
	struct shunt_exchange_config config = small_config();
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	(void)state;
	/* 10 experts on 4 ranks: 3, 3, 2, 2. */
	assert_int_equal(shunt_exchange_query(&config, 3, 4, &sizes), SHUNT_OK);
	assert_int_equal(sizes.num_local_experts, 2);
	assert_int_equal(sizes.worst_rows, 4 * 8 * 3);
	assert_int_equal(sizes.recv_rows, 4 * 8 * 3);
	assert_true(sizes.window_bytes >= 4 * 8 * 3 * 33 * 2);
	config.distinct_experts = true;
	config.max_recv_rows = 10;
	assert_int_equal(shunt_exchange_query(&config, 3, 4, &sizes), SHUNT_OK);
	assert_int_equal(sizes.worst_rows, 4 * 8 * 2);
	assert_int_equal(sizes.recv_rows, 10);
	/* 10 experts on 12 ranks: the last has none, and no room for rows. */
	config.max_recv_rows = 0;
	assert_int_equal(
		shunt_exchange_query(&config, 11, 12, &sizes), SHUNT_OK);
	assert_int_equal(sizes.num_local_experts, 0);
	assert_int_equal(sizes.worst_rows, 0);
	assert_int_equal(
		shunt_exchange_query(&config, 4, 4, &sizes), SHUNT_INVALID);
	assert_int_equal(
		shunt_exchange_query(&config, -1, 4, &sizes), SHUNT_INVALID);
	assert_int_equal(
		shunt_exchange_query(&config, 0, 0, &sizes), SHUNT_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			config_differences_are_mismatch_on_every_rank_with_field_ranks_values),
		cmocka_unit_test(
			wrong_configs_are_named_here_and_refused_elsewhere),
		cmocka_unit_test(
			struct_sizes_of_other_versions_are_read_or_refused),
		cmocka_unit_test(query_tells_the_worst_case),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
