/*
 * Making an exchange with a TP group: its room, what ranks of all EP groups
 * must agree on, and who hears of what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/quad.h"

static void ask_for_room(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 1);
	struct shunt_exchange_config config = plain_config(8, 3, 10);
	struct shunt_exchange_sizes sizes = SHUNT_EXCHANGE_SIZES_INIT;

	/* Three groups of five: experts in pairs. */
	config.tp_group = groups.tp;
	config.expert_alignment = 4;
	SEAT_OK(seat, shunt_exchange_query(&config, 1, 5, &sizes));
	SEAT_CHECK(seat, sizes.worst_rows == 3 * 5 * 8 * 3 + 2 * 3, "%d rows",
		(int)sizes.worst_rows);
	config.layout = SHUNT_LAYOUT_PADDED;
	SEAT_OK(seat, shunt_exchange_query(&config, 1, 5, &sizes));
	SEAT_CHECK(seat, sizes.worst_rows == 2 * 3 * 5 * 8, "%d rows",
		(int)sizes.worst_rows);
	quad_drop_groups(&groups);
}

static void query_adds_up_the_tp_group_and_aligns_once_per_expert(void **state)
{
	(void)state;
	ranks_run_both(3, ask_for_room, NULL);
}

/* What one rank, or one EP group, has otherwise. */
struct tp_fault {
	const char *words[2];
	enum shunt_status own, others;
	uint32_t ranks; /* bit w: world rank w has it */
	void (*apply)(struct shunt_exchange_config *config);
};

static void no_hidden(struct shunt_exchange_config *config)
{
	config->hidden = 0;
}

static void elastic_too(struct shunt_exchange_config *config)
{
	config->elastic = true;
}

static void seven_tokens(struct shunt_exchange_config *config)
{
	config->max_tokens = 7;
}

static void rank_order(struct shunt_exchange_config *config)
{
	config->tp_rank_order = true;
}

static void backwards(struct shunt_exchange_config *config)
{
	static const int32_t map[] = {1, 1, 0, 0};

	config->expert_rank = map;
}

static void no_tp(struct shunt_exchange_config *config)
{
	config->tp_group = NULL;
}

static const struct tp_fault tp_faults[] = {
	{{"hidden", "0"}, SHUNT_INVALID, SHUNT_PEER_REFUSED, 1 << 3, no_hidden},
	{{"hidden", "0"}, SHUNT_INVALID, SHUNT_PEER_REFUSED, 1 << 0, no_hidden},
	{{"elastic", "tp_group"}, SHUNT_UNSUPPORTED, SHUNT_PEER_REFUSED, 1 << 2,
		elastic_too},
	{{"max_tokens", "7"}, SHUNT_MISMATCH, SHUNT_MISMATCH, 3 << 2,
		seven_tokens},
	{{"tp_rank_order", "1"}, SHUNT_MISMATCH, SHUNT_MISMATCH, 3 << 2,
		rank_order},
	{{"tp_rank_order", "1"}, SHUNT_MISMATCH, SHUNT_MISMATCH, 5, rank_order},
	{{"placement", ""}, SHUNT_MISMATCH, SHUNT_MISMATCH, 3, backwards},
	{{"tp_group", "2"}, SHUNT_MISMATCH, SHUNT_MISMATCH, 5, no_tp},
};

static void err(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config;
	struct shunt_exchange *exchange;
	struct plain plain;

	for (size_t i = 0; i < sizeof(tp_faults) / sizeof(*tp_faults); i++) {
		const struct tp_fault *fault = &tp_faults[i];
		bool has_it = fault->ranks >> seat->rank & 1;

		seat_label(seat, "%s, fault %zu: ", fault->words[0], i);
		config = quad_config(&groups);
		if (has_it)
			fault->apply(&config);
		SEAT_STATUS(seat, has_it ? fault->own : fault->others,
			shunt_exchange_create(
				seat->world, groups.ep, &config, &exchange));
		seat_message_has(seat, fault->words[0]);
		seat_message_has(seat, fault->words[1]);
	}
	seat_label(seat, "afterwards: ");
	config = quad_config(&groups);
	quad_dispatch(&plain, seat, &groups, &config);
	quad_expect_step(&plain, false);
	plain_fini(&plain);
	quad_drop_groups(&groups);
}

static void what_is_wrong_or_differs_in_one_ep_group_is_told_to_all(
	void **state)
{
	(void)state;
	ranks_run_both(4, err, NULL);
}

/* A wrong TP group: its members in order, ended by -1. */
struct misfit {
	const char *what;
	int32_t num_ranks, tp_size;
	int32_t groups[3][4];
};

static void misfit(struct seat *seat)
{
	const struct misfit *how = seat->context;
	struct quad_groups groups = quad_make_groups(seat, how->num_ranks);
	struct shunt_exchange_config config = quad_config(&groups);
	struct shunt_group *wrong = NULL;
	struct shunt_exchange *exchange;
	struct plain plain;

	seat_label(seat, "%s: ", how->what);
	for (int g = 0; g < how->num_ranks; g++)
		for (int i = 0; i < how->tp_size; i++)
			if (how->groups[g][i] == seat->rank)
				SEAT_OK(seat,
					shunt_group_create(seat->world,
						how->groups[g], how->tp_size,
						"wrong", 0, &wrong));
	config.tp_group = wrong;
	config.deadline_ns = 5000000000;
	SEAT_STATUS(seat, SHUNT_MISMATCH,
		shunt_exchange_create(
			seat->world, groups.ep, &config, &exchange));
	seat_message_has(seat, "TP group");
	config.tp_group = groups.tp;
	plain_init(&plain, seat, groups.ep, &config);
	plain_pass(&plain);
	plain_fini(&plain);
	shunt_group_destroy(wrong);
	quad_drop_groups(&groups);
}

static void tp_groups_that_do_not_fit_together_are_a_mismatch_on_all(
	void **state)
{
	static const struct misfit misfits[] = {
		{"groups cross", 2, 2, {{0, 3}, {1, 2}}},
		{"one is upside down", 2, 2, {{0, 2}, {3, 1}}},
		{"a group inside an EP group", 2, 2, {{0, 1}, {2, 3}}},
		{"cross in two of three groups", 2, 3, {{0, 2, 4}, {1, 5, 3}}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(misfits) / sizeof(*misfits); i++)
		ranks_run_both(misfits[i].num_ranks * misfits[i].tp_size,
			misfit, &misfits[i]);
}

static void use_the_group_twice(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct shunt_exchange *exchange;

	config.tp_group = groups.ep;
	for (int i = 0; i < 2; i++) {
		SEAT_STATUS(seat, SHUNT_INVALID,
			shunt_exchange_create(
				seat->world, groups.ep, &config, &exchange));
		seat_message_has(seat, i == 0 ? "tp_group" : "hidden");
		config.hidden = 0;
	}
	quad_drop_groups(&groups);
}

static void the_exchange_s_own_group_as_tp_group_is_invalid(void **state)
{
	(void)state;
	ranks_run_both(2, use_the_group_twice, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			query_adds_up_the_tp_group_and_aligns_once_per_expert),
		cmocka_unit_test(
			what_is_wrong_or_differs_in_one_ep_group_is_told_to_all),
		cmocka_unit_test(
			tp_groups_that_do_not_fit_together_are_a_mismatch_on_all),
		cmocka_unit_test(
			the_exchange_s_own_group_as_tp_group_is_invalid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
