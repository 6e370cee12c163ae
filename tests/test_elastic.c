/*
 * elastic_info: steps of the ranks that are left, in their new numbers; what
 * tables are refused; and that whoever was left out does not matter any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "support/elastic.h"

#define RANKS ELASTIC_RANKS

/* ---- the example ------------------------------------------------------ */

/* By original rank: compacted ids. New rank 1 (2) has experts 8 .. 15. */
static const int32_t ids[RANKS][2] = {{0, 8}, {0, 0}, {8, 16}, {23, 0}};

static void expect_counts(struct plain *plain)
{
	int32_t counts[24];
	int64_t nums[8] = {0};
	int32_t me = plain->seat->rank;

	for (int b = 0; b < 24; b++)
		counts[b] = me == 3 ? 1 : 2;
	counts[0] = me != 3;
	counts[1] = me == 0 ? 1 : counts[1];
	counts[23] = 2;
	nums[0] = me == 3 ? 1 : 2;
	nums[7] = me == 3;
	plain_expect_i32(plain->seat, "ep_recv_counts",
		plain->out.ep_recv_counts, 24, counts);
	plain_expect_i64(plain->seat, "expert_token_nums",
		plain->out.expert_token_nums, 8, nums);
}

/* Expert e in the compacted numbering multiplies by e + 1. */
static void pass_example(struct plain *plain)
{
	static const struct plain_row rows[RANKS][2] = {
		{{0, 0, 0, 0}, {3, 2, 0, 1}}, {{0, 0, 0, 0}},
		{{0, 0, 0, 1}, {2, 1, 0, 0}}, {{2, 1, 0, 1}, {3, 2, 0, 0}}};
	static const float sums[RANKS][1] = {{1 + 9}, {0}, {9 + 17}, {24 + 1}};
	int32_t me = plain->seat->rank;
	float factors[8];

	for (int l = 0; l < 8; l++)
		factors[l] = (float)(8 * elastic_example[4 + me] + l + 1);
	elastic_bring(plain, 1, ids[me], elastic_example);
	plain_dispatch(plain);
	plain_expect_rows(plain, 2, rows[me]);
	expect_counts(plain);
	SEAT_OK(plain->seat, plain_try_combine(plain, factors));
	plain_expect_sums(plain, sums[me]);
}

/* A step of all, before anybody is lost: original ids. */
static void pass_whole(struct plain *plain)
{
	static const int32_t whole[] = {31, 9};
	static const float factors[8] = {1, 1, 1, 1, 1, 1, 1, 1};

	elastic_bring(plain, 1, whole, NULL);
	plain_dispatch(plain);
	SEAT_CHECK(plain->seat,
		plain->out.num_rows == (plain->seat->rank % 2 == 1 ? 4 : 0),
		"%d rows", (int)plain->out.num_rows);
	SEAT_OK(plain->seat, plain_try_combine(plain, factors));
	plain_expect_sums(plain, (const float[]){2});
}

/* How the rank that is left out ends. */
enum ending { END_IDLE, END_DESTROY, END_KILLED };

static void survive(struct seat *seat)
{
	const enum ending *ending = seat->context;
	struct shunt_exchange_config config = elastic_config(8);
	struct plain plain;

	seat_label(seat, "ending %d: ", (int)*ending);
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++)
		pass_whole(&plain);
	seat_barrier(seat); /* nobody is left out while still at work */
	if (seat->rank == 1) {
		if (*ending == END_KILLED)
			kill(getpid(), SIGKILL);
		if (*ending == END_IDLE)
			for (int r = 0; r < RANKS; r += 1 + (r == 0))
				seat_await(seat, r, 2);
		plain_fini(&plain);
		return;
	}
	if (*ending == END_DESTROY)
		usleep(100000);
	if (*ending == END_KILLED)
		while (shunt_world_lost(seat->world, NULL) == 0)
			usleep(1000);
	for (int i = 0; i < 5; i++)
		pass_example(&plain);
	seat_mark(seat, 2);
	plain_fini(&plain);
}

static void example_of_the_table_works_with_rank_1_idle_gone_or_killed(
	void **state)
{
	static const enum ending endings[] = {
		END_IDLE, END_DESTROY, END_KILLED};
	struct ranks_plan plan = {
		.launch = RANKS_PROCESSES,
		.num_ranks = RANKS,
		.may_die = 1 << 1,
	};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		ranks_run_both(RANKS, survive, &endings[i]);
	plan.context = &endings[2];
	ranks_run(&plan, survive);
}

/* Tables from the first step on; a table with [0] not 1 is none. */
static void begin_with_a_table(struct seat *seat)
{
	int32_t ignored[12];
	struct shunt_exchange_config config = elastic_config(8);
	struct plain plain;

	memcpy(ignored, elastic_example, sizeof(ignored));
	ignored[0] = 0;
	plain_init(&plain, seat, NULL, &config);
	elastic_bring(&plain, 1, (const int32_t[]){31, 9},
		seat->rank % 2 ? ignored : NULL);
	plain.combine.elastic_info = plain.args.elastic_info;
	plain_dispatch(&plain);
	SEAT_OK(seat, plain_try_combine(
			      &plain, (const float[]){1, 1, 1, 1, 1, 1, 1, 1}));
	if (seat->rank != 1)
		pass_example(&plain);
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_table_that_does_not_begin_with_1_is_ignored(void **state)
{
	(void)state;
	ranks_run_both(RANKS, begin_with_a_table, NULL);
}

/* The full table: nobody is lost, nothing changes. */
static void keep_all(struct seat *seat)
{
	static const int32_t all[] = {1, 4, 0, 32, 0, 1, 2, 3, 0, 1, 2, 3};
	static const float factors[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	struct shunt_exchange_config config = elastic_config(8);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	elastic_bring(&plain, 1, (const int32_t[]){31, 9}, all);
	plain_dispatch(&plain);
	SEAT_CHECK(seat, plain.out.num_rows == (seat->rank % 2 == 1 ? 4 : 0),
		"%d rows", (int)plain.out.num_rows);
	SEAT_OK(seat, plain_try_combine(&plain, factors));
	seat_barrier(seat);
	if (seat->rank != 1)
		pass_example(&plain);
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_table_that_keeps_all_ranks_works(void **state)
{
	(void)state;
	ranks_run_both(RANKS, keep_all, NULL);
}

/* Ranks 0 and 2 in turned order: new rank 0 is 2. */
static void turn(struct seat *seat)
{
	static const int32_t turned[] = {
		1, 2, 0, 4, 1, -1, 0, -1, 2, 0, -1, -1};
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	if (seat->rank % 2 == 0) {
		elastic_bring(&plain, 1,
			seat->rank == 0 ? (const int32_t[]){0, 1}
					: (const int32_t[]){0, 3},
			turned);
		plain_dispatch(&plain);
		if (seat->rank == 2)
			plain_expect_rows(
				&plain, ROWS_LIST({2, 0, 0, 0}, {0, 1, 0, 0},
						{0, 1, 0, 1}));
		else
			plain_expect_rows(&plain, ROWS_LIST({2, 0, 0, 1}));
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1, 2}));
		plain_expect_sums(&plain, (const float[]){3});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void new_numbers_may_come_in_any_order(void **state)
{
	(void)state;
	ranks_run_both(RANKS, turn, NULL);
}

/* ---- ids -------------------------------------------------------------- */

/* Two experts per rank and a copy expert: with rank 1 lost that is id 6. */

static void number_special_experts(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	config.num_copy_experts = 1;
	plain_init(&plain, seat, NULL, &config);
	if (seat->rank != 1) {
		elastic_bring(
			&plain, 1, (const int32_t[]){6, -1}, elastic_without_1);
		plain.args.weights = (const float[]){4, 0};
		plain_dispatch(&plain);
		plain.combine.ori_x = plain.x;
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1, 1}));
		plain_expect_sums(&plain, (const float[]){4});
		elastic_bring(&plain, 1,
			seat->rank == 2 ? (const int32_t[]){7, 0}
					: (const int32_t[]){0, 6},
			elastic_without_1);
		SEAT_STATUS(seat,
			seat->rank == 2 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
			plain_try(&plain));
		seat_message_has(
			seat, "expert_ids[0, 0] is 7, must be -1 .. 6");
		if (seat->rank != 2)
			seat_error_ranks(seat, 1 << 2);
		/* A refused step in between: the next one works. */
		elastic_bring(
			&plain, 1, (const int32_t[]){0, 5}, elastic_without_1);
		plain_dispatch(&plain);
		plain.combine.ori_x = plain.x;
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1, 1}));
		plain_expect_sums(&plain, (const float[]){2});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void special_ids_and_the_range_follow_what_is_left(void **state)
{
	(void)state;
	ranks_run_both(RANKS, number_special_experts, NULL);
}

/* Smooth scale of original expert e: e + 1. Compacted 2 is original 4. */
static void smooth(struct seat *seat)
{
	static const int32_t original[] = {0, 1, 4, 5, 6, 7};
	static const int32_t given[RANKS][2] = {{2, 5}, {0, 0}, {1, 4}, {0, 3}};
	struct shunt_exchange_config config = elastic_config(2);
	float scales[8 * PLAIN_HIDDEN];
	struct plain plain;

	for (int e = 0; e < 8; e++)
		for (int h = 0; h < PLAIN_HIDDEN; h++)
			scales[e * PLAIN_HIDDEN + h] = (float)(e + 1);
	config.quant = SHUNT_QUANT_INT8;
	plain_init(&plain, seat, NULL, &config);
	if (seat->rank != 1) {
		elastic_bring(&plain, 1, given[seat->rank], elastic_without_1);
		plain.args.smooth_scales = scales;
		plain_dispatch(&plain);
		SEAT_CHECK(seat, plain.out.num_rows == 2, "%d rows",
			(int)plain.out.num_rows);
		for (int i = 0; i < 2; i++) {
			const int32_t *source = plain.out.source + 3 * i;
			int32_t from = elastic_without_1[8 + source[0]];
			int32_t id = given[from][source[2]];
			float amax =
				plain_x(from, 0, 3) * (float)(original[id] + 1);
			float scale = 1.0f / (127.0f / amax);

			plain_expect_f32(seat, "scale",
				(float *)plain.out.dynamic_scales + i, 1,
				&scale);
		}
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void smooth_scales_stay_in_the_original_order(void **state)
{
	(void)state;
	ranks_run_both(RANKS, smooth, NULL);
}

/* ---- shared experts --------------------------------------------------- */

/* One replica of each is lost: the others serve all, of whom four are left. */
static void lose_replicas(struct seat *seat)
{
	static const int32_t table[] = {
		1, 4, 2, 2, 0, -1, -1, 1, 2, 3, 0, 3, 4, 5, -1, -1};
	static const int32_t id[] = {0};
	static const float factors[] = {2, 0, 0, 4, 1, 8};
	struct shunt_exchange_config config = elastic_shared_config();
	int32_t k = seat->rank == 0 ? 1 : seat->rank == 3 ? 2 : 0;
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	if (table[4 + seat->rank] >= 0) {
		elastic_bring(&plain, 1, id, table);
		plain_dispatch(&plain);
		if (seat->rank == 5)
			plain_expect_rows(&plain, 0, NULL);
		else
			plain_expect_rows(
				&plain, ROWS_LIST({0, 0, 0, k}, {3, 1, 0, k},
						{4, 2, 0, k}, {5, 3, 0, k}));
		SEAT_OK(seat, plain_try_combine(&plain, &factors[seat->rank]));
		plain_expect_sums(&plain, (const float[]){2 + 4 + 1});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void replicas_that_are_left_serve_all_ranks(void **state)
{
	(void)state;
	ranks_run_both(6, lose_replicas, NULL);
}

/* ---- one table after another ----------------------------------------- */

/* Rank 1 is lost, then rank 3; two steps each are in flight at once. */
static void lose_one_after_another(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain, second;
	const int32_t *tables[] = {
		NULL, elastic_without_1, elastic_only_0_and_2};

	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		seat_barrier(seat);
		if (tables[i] && tables[i][4 + seat->rank] < 0)
			continue;
		second = plain;
		elastic_bring(&plain, 1, (const int32_t[]){0, 3}, tables[i]);
		elastic_bring(&second, 1, (const int32_t[]){1, 1}, tables[i]);
		SEAT_OK(seat, shunt_dispatch_start(plain.exchange, &plain.args,
				      &plain.handle));
		SEAT_OK(seat, shunt_dispatch_start(second.exchange,
				      &second.args, &second.handle));
		SEAT_OK(seat,
			shunt_dispatch_finish(second.handle, 0, &second.out));
		SEAT_OK(seat,
			shunt_dispatch_finish(plain.handle, 0, &plain.out));
		SEAT_OK(seat,
			plain_try_combine(&second, (const float[]){1, 2}));
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1, 2}));
		plain_expect_sums(&second, (const float[]){4});
		plain_expect_sums(&plain, (const float[]){3});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void ranks_can_be_left_out_one_after_another(void **state)
{
	(void)state;
	ranks_run_both(RANKS, lose_one_after_another, NULL);
}

/* Rank 1 still owes its rows of the step before. */
static void combine_late(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_config(2);
	struct plain before, after;

	plain_init(&before, seat, NULL, &config);
	elastic_bring(&before, 1, (const int32_t[]){2, 7}, NULL);
	plain_dispatch(&before);
	seat_barrier(seat);
	after = before;
	if (seat->rank != 1) {
		elastic_bring(
			&after, 1, (const int32_t[]){5, 0}, elastic_without_1);
		plain_dispatch(&after);
	}
	SEAT_OK(seat, plain_try_combine(&before, (const float[]){1, 2}));
	plain_expect_sums(&before, (const float[]){1 + 2});
	if (seat->rank != 1) {
		SEAT_OK(seat, plain_try_combine(&after, (const float[]){1, 2}));
		plain_expect_sums(&after, (const float[]){2 + 1});
	}
	seat_barrier(seat);
	plain_fini(&before);
}

static void a_step_begun_before_a_table_is_combined_by_all_its_ranks(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, combine_late, NULL);
}

/* Rank 1 has not heard that it was left out. */
static void come_uninvited(struct seat *seat)
{
	struct shunt_exchange_config config = elastic_config(2);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		seat_barrier(seat);
		elastic_bring(&plain, 1, (const int32_t[]){0, 3},
			seat->rank == 1 ? NULL : elastic_without_1);
		if (seat->rank == 1) {
			SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
			seat_message_has(seat, "elastic_info");
			continue;
		}
		plain_dispatch(&plain);
		SEAT_OK(seat, plain_try_combine(&plain, (const float[]){1, 2}));
		plain_expect_sums(&plain, (const float[]){3});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_left_out_rank_that_still_comes_is_told_and_harms_nobody(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, come_uninvited, NULL);
}

/* ---- nothing is left ---------------------------------------------------- */

/* A shared expert on rank 0; a token whose experts are all gone. */
static void lose_all_choices(struct seat *seat)
{
	static const int32_t table[] = {1, 2, 1, 1, 0, -1, 1, 0, 2, -1};
	struct shunt_exchange_config config = plain_config(2, 1, 2);
	struct plain plain;

	config.elastic = true;
	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	plain_init(&plain, seat, NULL, &config);
	if (seat->rank != 1) {
		elastic_bring(&plain, 2, (const int32_t[]){-1, 0}, table);
		plain_dispatch(&plain);
		SEAT_CHECK(seat, plain.out.num_rows == 2, "%d rows",
			(int)plain.out.num_rows);
		SEAT_OK(seat, plain_try_combine(&plain,
				      seat->rank == 0 ? (const float[]){2}
						      : (const float[]){4}));
		plain_expect_sums(&plain, (const float[]){0, 2 + 4});
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void a_token_whose_experts_are_all_gone_comes_back_as_zeros(void **state)
{
	(void)state;
	ranks_run_both(3, lose_all_choices, NULL);
}

/* No experts of ranks at all, before and after. */
static void copy_only(struct seat *seat)
{
	static const int32_t table[] = {1, 2, 0, 0, 0, -1, 1, 0, 2, -1};
	struct shunt_exchange_config config = plain_config(1, 1, 0);
	struct plain plain;

	config.elastic = true;
	config.num_copy_experts = 1;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 4; i++) {
		if (i > 1 && seat->rank == 1)
			break;
		elastic_bring(
			&plain, 1, (const int32_t[]){0}, i > 1 ? table : NULL);
		plain_dispatch(&plain);
		plain.combine.ori_x = plain.x;
		SEAT_OK(seat, plain_try_combine(&plain, NULL));
		plain_expect_sums(&plain, (const float[]){1});
		seat_barrier(seat);
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void special_experts_alone_survive_a_table(void **state)
{
	(void)state;
	ranks_run_both(3, copy_only, NULL);
}

/* No table was ever agreed to when rank 0 goes on to bring too many tokens. */
static void refuse_with_table(struct seat *seat)
{
	static const int32_t table[] = {1, 2, 0, 0, 0, -1, 1, 0, 2, -1};
	static const int32_t copies[] = {0, 0};
	struct shunt_exchange_config config = plain_config(1, 1, 0);
	struct plain plain;

	config.elastic = true;
	config.num_copy_experts = 1;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 5 && seat->rank != 1; i++) {
		elastic_bring(&plain, seat->rank == 0 ? 2 : 1, copies, table);
		SEAT_STATUS(seat,
			seat->rank == 0 ? SHUNT_INVALID : SHUNT_PEER_REFUSED,
			plain_try(&plain));
	}
	if (seat->rank != 1) {
		elastic_bring(&plain, 1, copies, table);
		plain_pass(&plain);
	}
	seat_barrier(seat);
	plain_fini(&plain);
}

static void wrong_arguments_do_not_wait_for_who_is_left_out(void **state)
{
	(void)state;
	ranks_run_both(3, refuse_with_table, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			example_of_the_table_works_with_rank_1_idle_gone_or_killed),
		cmocka_unit_test(a_table_that_does_not_begin_with_1_is_ignored),
		cmocka_unit_test(a_table_that_keeps_all_ranks_works),
		cmocka_unit_test(new_numbers_may_come_in_any_order),
		cmocka_unit_test(special_ids_and_the_range_follow_what_is_left),
		cmocka_unit_test(smooth_scales_stay_in_the_original_order),
		cmocka_unit_test(replicas_that_are_left_serve_all_ranks),
		cmocka_unit_test(ranks_can_be_left_out_one_after_another),
		cmocka_unit_test(
			a_step_begun_before_a_table_is_combined_by_all_its_ranks),
		cmocka_unit_test(
			a_left_out_rank_that_still_comes_is_told_and_harms_nobody),
		cmocka_unit_test(
			a_token_whose_experts_are_all_gone_comes_back_as_zeros),
		cmocka_unit_test(special_experts_alone_survive_a_table),
		cmocka_unit_test(
			wrong_arguments_do_not_wait_for_who_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
