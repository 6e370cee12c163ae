/*
 * elastic_info tables that cannot be: wrong ones, ones that ranks do not agree
 * on, and ones that elastic_bring ranks back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/elastic.h"

#define RANKS ELASTIC_RANKS

/* ---- tables that are wrong -------------------------------------------- */

struct wrong_table {
	const char *words[2];
	int32_t table[16];
};

/* Of four ranks without shared experts; rank 2 gives them. */
static const struct wrong_table wrong[] = {
	{{"elastic_info[1] is 0", "1 .."},
		{1, 0, 0, 6, 0, -1, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[1] is 5", "1 .."},
		{1, 5, 0, 6, 0, -1, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[1] is -3", "1 .."},
		{1, -3, 0, 6, 0, -1, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[2] is 1", "num_shared_ranks"},
		{1, 3, 1, 4, 0, -1, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[2] is -1", "num_shared_ranks"},
		{1, 3, -1, 8, 0, -1, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[3] is 8", "experts"},
		{1, 3, 0, 8, 0, -1, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[3] is 5", "experts"},
		{1, 3, 0, 5, 0, -1, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[7] is 3", "new rank"},
		{1, 3, 0, 6, 0, -1, 1, 3, 0, 2, 3, -1}},
	{{"elastic_info[5] is -2", "new rank"},
		{1, 3, 0, 6, 0, -2, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[5] is 0", "new rank"},
		{1, 3, 0, 6, 0, 0, 1, 2, 0, 2, 3, -1}},
	{{"elastic_info[7] is 1", "new rank"},
		{1, 3, 0, 6, 0, -1, 1, 1, 0, 2, 3, -1}},
	{{"elastic_info[6] is 1", "table 2"},
		{1, 3, 0, 6, 0, -1, 1, 2, 0, 1, 3, -1}},
	{{"elastic_info[4] is 0", "table 2"},
		{1, 3, 0, 6, 0, -1, 1, 2, 1000000, 2, 3, -1}},
	{{"elastic_info[1] is 3", "table 1"},
		{1, 3, 0, 6, 0, -1, 1, -1, 0, 2, 3, -1}},
	{{"elastic_info[11] is 1", "-1"},
		{1, 3, 0, 6, 0, -1, 1, 2, 0, 2, 3, 1}},
	{{"elastic_info[6] is -1", "removed"},
		{1, 3, 0, 6, 0, 1, -1, 2, 0, 1, 3, -1}},
};

/* Of six ranks with elastic_shared_config(); rank 3 gives them. */
static const struct wrong_table wrong_shared[] = {
	{{"elastic_info[2] is 3", "same number"},
		{1, 5, 3, 2, 0, 1, -1, 2, 3, 4, 0, 1, 3, 4, 5, -1}},
	{{"elastic_info[2] is 1", "same number"},
		{1, 3, 1, 2, -1, -1, -1, 0, 1, 2, 3, 4, 5, -1, -1, -1}},
	{{"elastic_info[2] is 0", "same number"},
		{1, 3, 0, 3, -1, -1, -1, 0, 1, 2, 3, 4, 5, -1, -1, -1}},
	{{"elastic_info[2] is 4", "must remain"},
		{1, 4, 4, 0, 0, 1, 2, 3, -1, -1, 0, 1, 2, 3, -1, -1}},
	/* Ranks 2 and 3 both held expert 1. */
	{{"elastic_info[10] is 2", "same shared expert"},
		{1, 4, 2, 2, -1, -1, 0, 1, 2, 3, 2, 3, 4, 5, -1, -1}},
	/* Experts in turned order. */
	{{"elastic_info[10] is 3", "same shared expert"},
		{1, 4, 2, 2, 1, -1, -1, 0, 2, 3, 3, 0, 4, 5, -1, -1}},
	/* A rank of the other kind. */
	{{"elastic_info[11] is 4", "same kind"},
		{1, 4, 2, 2, 0, -1, -1, 2, 1, 3, 0, 4, 3, 5, -1, -1}},
};

static void give_wrong_table(
	struct plain *plain, int32_t culprit, const struct wrong_table *table)
{
	static const int32_t first[] = {0, -1};
	struct seat *seat = plain->seat;

	seat_label(seat, "%s: ", table->words[0]);
	elastic_bring(
		plain, 1, first, seat->rank == culprit ? table->table : NULL);
	SEAT_STATUS(seat,
		seat->rank == culprit ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
		plain_try(plain));
	seat_message_has(seat, table->words[0]);
	seat_message_has(seat, table->words[1]);
	if (seat->rank != culprit)
		seat_error_ranks(seat, UINT64_C(1) << culprit);
}

static void give_wrong_tables(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		give_wrong_table(&plain, 2, &wrong[i]);
	seat_label(seat, "afterwards: ");
	elastic_bring(&plain, 1, (const int32_t[]){0, 1}, NULL);
	plain_pass(&plain);
	plain_fini(&plain);
}

static void give_wrong_shared_tables(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_shared_config();
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	for (size_t i = 0; i < sizeof(wrong_shared) / sizeof(*wrong_shared);
		i++)
		give_wrong_table(&plain, 3, &wrong_shared[i]);
	seat_label(seat, "afterwards: ");
	elastic_bring(&plain, 1, (const int32_t[]){0}, NULL);
	plain_pass(&plain);
	plain_fini(&plain);
}

static void a_wrong_table_is_invalid_naming_the_entry_and_refused_elsewhere(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, give_wrong_tables, NULL);
	ranks_run_both(6, give_wrong_shared_tables, NULL);
}

static void give_table_to_plain_exchange(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	config.elastic = false;
	plain_init(&plain, seat, NULL, &config);
	elastic_bring(&plain, 1, (const int32_t[]){0, 1}, elastic_without_1);
	SEAT_STATUS(seat, SHUNT_INVALID, plain_try(&plain));
	seat_message_has(seat, "elastic_info");
	seat_message_has(seat, "without elastic");
	elastic_bring(&plain, 1, (const int32_t[]){0, 1}, NULL);
	plain_pass(&plain);
	plain_fini(&plain);
}

static void a_table_without_elastic_is_invalid(void **state)
{
	(void)state;
	ranks_run_both(RANKS, give_table_to_plain_exchange, NULL);
}

/* ---- tables that differ ----------------------------------------------- */

static const int32_t without_3[] = {1, 3, 0, 6, 0, 1, 2, -1, 0, 1, 2, -1};
static const int32_t without_1_turned[] = {
	1, 3, 0, 6, 0, -1, 2, 1, 0, 3, 2, -1};

/* What each of the four ranks gives. */
struct disagreement {
	const char *what;
	const int32_t *tables[RANKS];
	uint32_t present; /* bit r: rank r calls */
	int times;        /* in a row */
};

static void disagree(struct seat *seat)
{
	const struct disagreement *how = seat->context;
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	seat_label(seat, "%s: ", how->what);
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < how->times; i++) {
		seat_barrier(seat);
		if (!(how->present >> seat->rank & 1))
			continue;
		elastic_bring(&plain, 1, (const int32_t[]){0, 1},
			how->tables[seat->rank]);
		SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
		seat_message_has(seat, "elastic_info");
	}
	if (how->present >> seat->rank & 1) {
		elastic_bring(&plain, 1, (const int32_t[]){0, 1},
			how->present == 15 ? NULL : elastic_without_1);
		plain_dispatch(&plain);
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1, 2}));
		plain_expect_sums(&plain, (const float[]){3});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void tables_that_differ_are_a_mismatch_on_all(void **state)
{
	static const struct disagreement all[] = {
		{"some have none",
			{NULL, NULL, elastic_without_1, elastic_without_1}, 15,
			3},
		{"two pairs",
			{without_3, without_3, elastic_without_1,
				elastic_without_1},
			15, 3},
		{"another order",
			{elastic_without_1, NULL, elastic_without_1,
				without_1_turned},
			13, 3},
		/* Ranks 0 or 3 wait for rank 1, which does not come. */
		{"the first has none",
			{NULL, NULL, elastic_without_1, elastic_without_1}, 13,
			1},
		{"the last has none",
			{elastic_without_1, NULL, elastic_without_1, NULL}, 13,
			1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		ranks_run_both(RANKS, disagree, &all[i]);
}

static void disagree_at_combine(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	if (seat->rank != 1) {
		for (int i = 0; i < 4; i++) {
			elastic_bring(&plain, 1, (const int32_t[]){0, 3},
				elastic_without_1);
			plain_dispatch(&plain);
			/* None stands for that of dispatch. */
			plain.combine.elastic_info =
				i % 2 == 0 ? NULL : elastic_without_1;
			if (i % 2 == 1 && seat->rank == 2)
				plain.combine.elastic_info = without_1_turned;
			SEAT_STATUS(seat,
				i % 2 == 0 ? SHUNT_OK : SHUNT_MISMATCH,
				plain_try_combine(
					&plain, (const float[]){1, 2}));
			if (i % 2 == 0)
				plain_expect_sums(&plain, (const float[]){3});
			else
				seat_message_has(seat, "elastic_info");
		}
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void another_table_at_combine_is_a_mismatch_on_all(void **state)
{
	(void)state;
	ranks_run_both(RANKS, disagree_at_combine, NULL);
}

/* ---- no way back ------------------------------------------------------ */

static void go_back(struct seat *seat)
{
	static const int32_t all[] = {1, 4, 0, 8, 0, 1, 2, 3, 0, 1, 2, 3};
	static const int32_t *const backs[] = {NULL, all, without_3};
	static const char *const words[] = {
		"elastic_info is missing", "brings back", "brings back"};
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	if (seat->rank == 0 || seat->rank == 2) {
		elastic_bring(&plain, 1, (const int32_t[]){0, 1},
			elastic_only_0_and_2);
		plain_pass(&plain);
		for (int i = 0; i < 3; i++) {
			elastic_bring(
				&plain, 1, (const int32_t[]){0, 1}, backs[i]);
			SEAT_STATUS(seat, SHUNT_INVALID, plain_try(&plain));
			seat_message_has(seat, words[i]);
			elastic_bring(&plain, 1, (const int32_t[]){0, 3},
				elastic_only_0_and_2);
			plain_dispatch(&plain);
			SEAT_OK(seat, plain_try_combine(
					      &plain, (const float[]){1, 2}));
			plain_expect_sums(&plain, (const float[]){3});
		}
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_rank_that_was_left_out_cannot_come_back(void **state)
{
	(void)state;
	ranks_run_both(RANKS, go_back, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_wrong_table_is_invalid_naming_the_entry_and_refused_elsewhere),
		cmocka_unit_test(a_table_without_elastic_is_invalid),
		cmocka_unit_test(tables_that_differ_are_a_mismatch_on_all),
		cmocka_unit_test(another_table_at_combine_is_a_mismatch_on_all),
		cmocka_unit_test(a_rank_that_was_left_out_cannot_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
