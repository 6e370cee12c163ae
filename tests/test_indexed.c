/*
 * The INDEXED layout: rows that stay with their senders, and the references
 * that lead to them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/pair.h"

static bool same(
	const struct shunt_reference *a, const struct shunt_reference *b)
{
	return a->tp_rank == b->tp_rank && a->rank == b->rank &&
	       a->row == b->row;
}

/* Equal tokens, equal references, equal pointers: all or none. */
static void check_references(struct plain *plain, int64_t count)
{
	struct shunt_reference references[12];
	const int32_t *source = plain->out.source;
	const void *rows[12];

	SEAT_OK(plain->seat,
		shunt_dispatch_references(plain->handle, references));
	SEAT_OK(plain->seat, shunt_dispatch_rows(plain->handle, rows));
	for (int64_t i = 0; i < count; i++) {
		SEAT_CHECK(plain->seat,
			references[i].tp_rank == 0 &&
				references[i].rank == source[3 * i],
			"row %d is of rank %d", (int)i, references[i].rank);
		for (int64_t j = 0; j < i; j++) {
			bool is_one_token =
				source[3 * i] == source[3 * j] &&
				source[3 * i + 1] == source[3 * j + 1];

			SEAT_CHECK(plain->seat,
				same(&references[i], &references[j]) ==
						is_one_token &&
					(rows[i] == rows[j]) == is_one_token,
				"rows %d and %d", (int)i, (int)j);
		}
	}
}

static void lie_indexed(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_INDEXED);
	struct plain plain;

	pair_dispatch(&plain, seat, &config);
	pair_expect_counts(&plain);
	SEAT_CHECK(seat, !plain.out.expand_x, "expand_x of INDEXED");
	if (seat->rank == 0)
		plain_expect_rows(&plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_0,
						  PAIR_ROWS_OF_EXPERT_1));
	else
		plain_expect_rows(&plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_2));
	check_references(&plain, plain.out.num_rows);
	pair_combine(&plain);
}

static void indexed_rows_of_one_token_are_one_reference_to_the_same_memory(
	void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, lie_indexed, NULL);
}

static void refer_to_padding(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_INDEXED);
	struct shunt_reference references[12];
	struct shunt_reference padding = {-1, -1, -1};
	struct plain plain;

	config.expert_alignment = 4;
	pair_dispatch(&plain, seat, &config);
	SEAT_OK(seat, shunt_dispatch_references(plain.handle, references));
	for (int64_t i = 0; i < plain.out.extent_rows; i++)
		SEAT_CHECK(seat,
			same(&references[i], &padding) ==
				(plain.out.source[3 * i] < 0),
			"reference %d", (int)i);
	pair_combine(&plain);
}

static void references_of_padding_are_minus_one_throughout(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, refer_to_padding, NULL);
}

/* Smooth scales differ by expert, so each choice has a row of its own: int8
 * scales 1 / (127 / amax), amax = smooth * largest element. */
static void keep_rows_per_choice(struct seat *seat)
{
	static const float smooth[16] = {
		1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8};
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_INDEXED);
	struct shunt_reference references[12];
	struct plain plain;

	config.quant = SHUNT_QUANT_INT8;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
	plain.args.smooth_scales = smooth;
	plain_dispatch(&plain);
	SEAT_OK(seat, shunt_dispatch_references(plain.handle, references));
	for (int64_t i = 0; i < plain.out.num_rows; i++) {
		const int32_t *source = plain.out.source + 3 * i;
		int32_t id = pair_ids[source[0]][2 * source[1] + source[2]];
		float amax = plain_x(source[0], source[1], 3) * smooth[4 * id];
		float scale = 1.0f / (127.0f / amax);

		plain_expect_f32(seat, "scale",
			(float *)plain.out.dynamic_scales + i, 1, &scale);
		for (int64_t j = 0; j < i; j++)
			SEAT_CHECK(seat, !same(&references[i], &references[j]),
				"rows %d and %d are one", (int)i, (int)j);
	}
	plain_fini(&plain);
}

static void indexed_rows_that_differ_by_expert_are_kept_one_per_choice(
	void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, keep_rows_per_choice, NULL);
}

/* The first element tells tokens apart: 127 * x[0] / x[3], half to even. */
static int8_t first_code(int32_t seat, int32_t token)
{
	static const int8_t codes[PAIR_RANKS][3] = {{0, 98, 110}, {123, 124}};

	return codes[seat][token];
}

/* Rank 0 has smooth scales, rank 1 none: so only rank 0's rows vary. */
static void keep_both_ways(struct seat *seat)
{
	static const float smooth[16] = {
		1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8};
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_INDEXED);
	struct shunt_reference references[12];
	const void *rows[12];
	struct plain plain;

	config.quant = SHUNT_QUANT_INT8;
	plain_init(&plain, seat, NULL, &config);
	for (int step = 0; step < 4; step++) {
		plain_bring(
			&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
		if (seat->rank == step % 2)
			plain.args.smooth_scales = smooth;
		plain_dispatch(&plain);
		SEAT_OK(seat,
			shunt_dispatch_references(plain.handle, references));
		SEAT_OK(seat, shunt_dispatch_rows(plain.handle, rows));
		for (int64_t i = 0; i < plain.out.num_rows; i++) {
			const int32_t *source = plain.out.source + 3 * i;

			SEAT_CHECK(seat,
				*(const int8_t *)rows[i] ==
					first_code(source[0], source[1]),
				"row %d begins with %d", (int)i,
				*(const int8_t *)rows[i]);
			for (int64_t j = 0; j < i; j++)
				SEAT_CHECK(seat,
					same(&references[i], &references[j]) ==
						(rows[i] == rows[j]),
					"rows %d and %d", (int)i, (int)j);
		}
		shunt_handle_destroy(plain.handle);
	}
	plain_fini(&plain);
}

static void rows_are_found_whichever_sender_keeps_one_per_choice(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, keep_both_ways, NULL);
}

/* ---- references that lead nowhere ------------------------------------- */

/* `source` lies where peers write it: as if rank 1 had written these. */
static void lie_about_a_row(struct seat *seat)
{
	static const int32_t lies[][3] = {{0, 0, 1}, {2, 0, 1}, {-1, 0, 1},
		{1, 3, 1}, {1, -1, 1}, {1, INT32_MIN, 1}, {1, INT32_MAX, 1},
		{1, 0, 2}, {1, 0, -1}, {1, 0, INT32_MAX}};
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_INDEXED);
	struct shunt_reference references[8];
	const void *rows[8];
	struct plain plain;
	int32_t *source;

	pair_dispatch(&plain, seat, &config);
	source = plain.out.source + 3 * 3; /* the first of rank 1 */
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		if (seat->rank != 0)
			break;
		seat_label(seat, "lie %zu: ", i);
		memcpy(source, lies[i], sizeof(lies[i]));
		SEAT_STATUS(seat, SHUNT_PEER_FAULT,
			shunt_dispatch_rows(plain.handle, rows));
		seat_error_ranks(seat, 1 << 1);
		SEAT_STATUS(seat, SHUNT_PEER_FAULT,
			shunt_dispatch_references(plain.handle, references));
		seat_error_ranks(seat, 1 << 1);
		seat_message_has(seat, "row 3");
		memcpy(source, (int32_t[]){1, 0, 1}, sizeof(lies[i]));
	}
	pair_combine(&plain);
}

static void a_source_that_leads_outside_is_a_peer_fault_that_names_it(
	void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, lie_about_a_row, NULL);
}

/* ---- when rows can be asked for --------------------------------------- */

static void ask_for_rows(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct shunt_reference references[12];
	struct shunt_handle nothing = {0};
	const void *rows[12];
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
	SEAT_OK(seat, shunt_dispatch_start(
			      plain.exchange, &plain.args, &plain.handle));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_dispatch_rows(nothing, rows));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_dispatch_rows(plain.handle, rows));
	SEAT_OK(seat, shunt_dispatch_finish(plain.handle, 0, &plain.out));
	SEAT_STATUS(seat, SHUNT_NULL_ARGUMENT,
		shunt_dispatch_rows(plain.handle, NULL));
	SEAT_STATUS(seat, SHUNT_UNSUPPORTED,
		shunt_dispatch_references(plain.handle, references));
	seat_message_has(seat, "INDEXED");
	SEAT_OK(seat, shunt_dispatch_rows(plain.handle, rows));
	SEAT_OK(seat, plain_try_combine(&plain, pair_factors[seat->rank]));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_dispatch_rows(plain.handle, rows));
	plain_fini(&plain);
}

static void
rows_are_there_from_finish_to_combine_and_references_of_indexed_only(
	void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, ask_for_rows, NULL);
}

/* Experts that are fed one by one still have to see their rows. */
static void ask_while_feeding(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_INDEXED);
	static const float ones[6] = {1, 1, 1, 1, 1, 1};
	const float *factors = pair_factors[seat->rank];
	const void *rows[12];
	struct plain plain;

	pair_dispatch(&plain, seat, &config);
	plain.combine.feed = true;
	plain.combine.weights = ones;
	SEAT_OK(seat, shunt_combine_start(plain.handle, &plain.combine));
	for (int l = 1; l >= 0; l--) {
		int64_t first = plain.out.expert_first_row[l];
		int64_t count = plain.out.expert_token_nums[l];
		float y[12][PLAIN_HIDDEN];

		if (count == 0)
			continue;
		SEAT_OK(seat, shunt_dispatch_rows(plain.handle, rows));
		for (int64_t i = 0; i < count; i++)
			for (int h = 0; h < PLAIN_HIDDEN; h++)
				y[i][h] = factors[l] *
					  ((const float *)rows[first + i])[h];
		SEAT_OK(seat, shunt_combine_feed(plain.handle, l, y, 0));
	}
	SEAT_OK(seat, shunt_combine_finish(plain.handle, 0));
	plain_expect_sums(&plain, pair_sums[seat->rank]);
	plain_fini(&plain);
}

static void experts_that_are_fed_one_by_one_can_ask_for_their_rows(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, ask_while_feeding, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			indexed_rows_of_one_token_are_one_reference_to_the_same_memory),
		cmocka_unit_test(
			references_of_padding_are_minus_one_throughout),
		cmocka_unit_test(
			indexed_rows_that_differ_by_expert_are_kept_one_per_choice),
		cmocka_unit_test(
			rows_are_found_whichever_sender_keeps_one_per_choice),
		cmocka_unit_test(
			a_source_that_leads_outside_is_a_peer_fault_that_names_it),
		cmocka_unit_test(
			rows_are_there_from_finish_to_combine_and_references_of_indexed_only),
		cmocka_unit_test(
			experts_that_are_fed_one_by_one_can_ask_for_their_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
