/*
 * How received rows lie: compact, padded, indexed; aligned, with their tails;
 * and that combine reads the experts' rows the same way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/pair.h"

static void expect_padded_counts(
	struct plain *plain, const int64_t first[2], const int64_t padded[2])
{
	plain_expect_i64(plain->seat, "expert_first_row",
		plain->out.expert_first_row, 2, first);
	plain_expect_i64(plain->seat, "expert_padded_nums",
		plain->out.expert_padded_nums, 2, padded);
}

/* ---- compact ---------------------------------------------------------- */

static void lie_compactly(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	pair_dispatch(&plain, seat, &config);
	pair_expect_counts(&plain);
	if (seat->rank == 0) {
		plain_expect_rows(&plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_0,
						  PAIR_ROWS_OF_EXPERT_1));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights,
			F32_LIST(0.5f, 1.5f, 3, 20, 30, 40, 1, 2.5f));
		expect_padded_counts(
			&plain, (int64_t[]){0, 6}, (int64_t[]){6, 2});
	} else {
		plain_expect_rows(&plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_2));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights, F32_LIST(2, 10));
		expect_padded_counts(
			&plain, (int64_t[]){0, 2}, (int64_t[]){2, 0});
	}
	pair_combine(&plain);
}

static void compact_rows_lie_by_expert_source_rank_and_source_order(
	void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, lie_compactly, NULL);
}

static void count_by_prefix(struct seat *seat)
{
	static const int64_t nums[PAIR_RANKS][2] = {{6, 8}, {2, 2}};
	static const int64_t padded[PAIR_RANKS][2] = {{8, 12}, {4, 4}};
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	config.expert_alignment = 4;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
	plain.args.prefix_token_nums = true;
	plain_dispatch(&plain);
	plain_expect_i64(seat, "expert_token_nums", plain.out.expert_token_nums,
		2, nums[seat->rank]);
	plain_expect_i64(seat, "expert_padded_nums",
		plain.out.expert_padded_nums, 2, padded[seat->rank]);
	SEAT_CHECK(seat, !plain.out.expand_weights,
		"expand_weights without weights");
	plain_fini(&plain);
}

static void prefix_sums_apply_to_real_and_padded_counts(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, count_by_prefix, NULL);
}

/* ---- alignment -------------------------------------------------------- */

static void lie_aligned(struct seat *seat)
{
	const enum shunt_layout *layout = seat->context;
	struct shunt_exchange_config config = pair_config(*layout);
	struct plain plain;

	seat_label(seat, "layout %d: ", (int)*layout);
	config.expert_alignment = 4;
	pair_dispatch(&plain, seat, &config);
	pair_expect_counts(&plain);
	if (seat->rank == 0) {
		plain_expect_rows(
			&plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_0, PLAIN_PADDING,
					PLAIN_PADDING, PAIR_ROWS_OF_EXPERT_1,
					PLAIN_PADDING, PLAIN_PADDING));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights,
			F32_LIST(0.5f, 1.5f, 3, 20, 30, 40, 0, 0, 1, 2.5f, 0,
				0));
		expect_padded_counts(
			&plain, (int64_t[]){0, 8}, (int64_t[]){8, 4});
	} else {
		plain_expect_rows(
			&plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_2, PLAIN_PADDING,
					PLAIN_PADDING));
		expect_padded_counts(
			&plain, (int64_t[]){0, 4}, (int64_t[]){4, 0});
	}
	pair_combine(&plain);
}

static void aligned_experts_are_padded_and_those_without_rows_are_not(
	void **state)
{
	static const enum shunt_layout layouts[] = {
		SHUNT_LAYOUT_COMPACT, SHUNT_LAYOUT_INDEXED};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		ranks_run_both(PAIR_RANKS, lie_aligned, &layouts[i]);
}

/* ---- padded ----------------------------------------------------------- */

static void lie_padded(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_PADDED);
	struct plain plain;

	pair_dispatch(&plain, seat, &config);
	pair_expect_counts(&plain);
	/* M = W * T_max = 6. */
	if (seat->rank == 0) {
		plain_expect_rows(&plain,
			ROWS_LIST(PAIR_ROWS_OF_EXPERT_0, PAIR_ROWS_OF_EXPERT_1,
				PLAIN_ANYTHING, PLAIN_ANYTHING, PLAIN_ANYTHING,
				PLAIN_ANYTHING));
		expect_padded_counts(
			&plain, (int64_t[]){0, 6}, (int64_t[]){6, 2});
	} else {
		SEAT_CHECK(seat, plain.out.extent_rows == 12, "%d rows",
			(int)plain.out.extent_rows);
		expect_padded_counts(
			&plain, (int64_t[]){0, 6}, (int64_t[]){2, 0});
	}
	pair_combine(&plain);
}

static void padded_experts_begin_at_multiples_of_w_times_t_max(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, lie_padded, NULL);
}

static void lie_padded_and_aligned(struct seat *seat)
{
	const bool *zero_tail = seat->context;
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_PADDED);
	struct plain_row tail = PLAIN_ANYTHING;
	struct plain plain;

	config.expert_alignment = 4;
	config.zero_tail = *zero_tail;
	if (*zero_tail)
		tail = (struct plain_row)PLAIN_PADDING;
	pair_dispatch(&plain, seat, &config);
	pair_expect_counts(&plain);
	if (seat->rank == 0) {
		plain_expect_rows(
			&plain, ROWS_LIST(PAIR_ROWS_OF_EXPERT_0, PLAIN_PADDING,
					PLAIN_PADDING, PAIR_ROWS_OF_EXPERT_1,
					PLAIN_PADDING, PLAIN_PADDING, tail,
					tail, tail, tail));
		expect_padded_counts(
			&plain, (int64_t[]){0, 8}, (int64_t[]){8, 4});
	}
	pair_combine(&plain);
}

static void padded_rows_are_blank_to_the_alignment_or_by_option_to_the_end(
	void **state)
{
	static const bool choices[] = {false, true};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		ranks_run_both(PAIR_RANKS, lie_padded_and_aligned, &choices[i]);
}

/* Expert 0 would get six rows, and has room for five. */
static void overflow_expert(struct seat *seat)
{
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_PADDED);
	struct plain plain;

	config.rows_per_expert = 5;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		plain_bring(
			&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
		SEAT_STATUS(seat, SHUNT_CAPACITY, plain_try(&plain));
		seat_message_has(seat, "expert 0");
		seat_message_has(seat, "6 rows");
		seat_message_has(seat, "rows_per_expert gives it 5");
		seat_error_ranks(seat, 1 << 0);
		/* One token less on rank 1, and it is just enough. */
		plain_bring(
			&plain, seat->rank == 0 ? 3 : 1, pair_ids[seat->rank]);
		plain_dispatch(&plain);
		SEAT_OK(seat,
			plain_try_combine(&plain, pair_factors[seat->rank]));
		plain_expect_sums(&plain, pair_sums[seat->rank]);
	}
	plain_fini(&plain);
}

static void
more_rows_than_rows_per_expert_is_capacity_naming_expert_and_numbers(
	void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, overflow_expert, NULL);
}

/* ---- tails ------------------------------------------------------------ */

/* All of it to rank 0 first, so that something is there to be zeroed. */
static void zero_tail(struct seat *seat)
{
	static const int32_t all[6] = {0, 1, 0, 1, 0, 1};
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	config.zero_tail = true;
	config.depth = 1;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 3, all);
	plain.args.weights = pair_weights[0];
	plain_pass(&plain);
	plain_bring(&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
	plain.args.weights = pair_weights[seat->rank];
	plain_dispatch(&plain);
	/* A = 12. */
	SEAT_CHECK(seat, plain.out.extent_rows == (seat->rank == 0 ? 8 : 2),
		"extent %d", (int)plain.out.extent_rows);
	for (int64_t i = plain.out.extent_rows; i < 12; i++) {
		plain_expect_f32(seat, "expand_x",
			(float *)plain.out.expand_x + i * PLAIN_HIDDEN,
			F32_LIST(0, 0, 0, 0));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights + i, F32_LIST(0));
		plain_expect_i32(seat, "source", plain.out.source + 3 * i,
			I32_LIST(-1, -1, -1));
	}
	pair_combine(&plain);
}

static void rows_behind_the_last_are_blank_by_option(void **state)
{
	(void)state;
	ranks_run_both(PAIR_RANKS, zero_tail, NULL);
}

/* ---- scales ----------------------------------------------------------- */

struct scale_case {
	enum shunt_layout layout;
	bool column_major;
	int64_t row_stride, group_stride;
};

/* Scale i of token t of rank r: 1000 * r + 10 * t + i. */
static void scale_rows(struct seat *seat)
{
	const struct scale_case *how = seat->context;
	struct shunt_exchange_config config = pair_config(how->layout);
	const struct shunt_dispatch_out *out;
	struct plain plain;
	float scales[3][2];

	seat_label(seat, "layout %d, column major %d: ", (int)how->layout,
		how->column_major);
	config.column_major_scales = how->column_major;
	config.x_scales_per_row = 2;
	config.x_scale_dtype = SHUNT_DTYPE_F32;
	config.expert_alignment = 4;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
	for (int t = 0; t < 3; t++)
		for (int i = 0; i < 2; i++)
			scales[t][i] = (float)(1000 * seat->rank + 10 * t + i);
	plain.args.x_scales = scales;
	plain_dispatch(&plain);
	out = &plain.out;
	SEAT_CHECK(seat, out->scale_row_stride == how->row_stride, "stride %d",
		(int)out->scale_row_stride);
	SEAT_CHECK(seat, out->scale_group_stride == how->group_stride,
		"group stride %d", (int)out->scale_group_stride);
	for (int64_t row = 0; row < (seat->rank == 0 ? 12 : 4); row++)
		for (int64_t i = 0; i < 2; i++) {
			const int32_t *source = out->source + 3 * row;
			float want = source[0] < 0
					     ? 0.0f
					     : (float)(1000 * source[0] +
						       10 * source[1] + i);

			plain_expect_f32(seat, "scale",
				(float *)out->dynamic_scales +
					row * how->row_stride +
					i * how->group_stride,
				1, &want);
		}
	plain_fini(&plain);
}

static void scales_follow_their_rows_row_by_row_or_column_by_column(
	void **state)
{
	/* A = 2 * 3 * 2 + 2 * 3 = 18; PADDED: 2 * 8. */
	static const struct scale_case cases[] = {
		{SHUNT_LAYOUT_COMPACT, false, 2, 1},
		{SHUNT_LAYOUT_COMPACT, true, 1, 18},
		{SHUNT_LAYOUT_PADDED, false, 2, 1},
		{SHUNT_LAYOUT_PADDED, true, 1, 16},
		{SHUNT_LAYOUT_INDEXED, false, 2, 1},
		{SHUNT_LAYOUT_INDEXED, true, 1, 18},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ranks_run_both(PAIR_RANKS, scale_rows, &cases[i]);
}

/* What a mode makes of a row of four. */
struct packing {
	enum shunt_quant quant;
	int64_t row_bytes, num_scales, scale_bytes;
};

static bool is_blank(const void *bytes, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (((const uint8_t *)bytes)[i] != 0)
			return false;
	return true;
}

static void expect_blank(
	struct plain *plain, const struct packing *packing, int64_t row)
{
	const struct shunt_dispatch_out *out = &plain->out;
	int64_t bytes = packing->scale_bytes;

	SEAT_CHECK(plain->seat,
		is_blank((uint8_t *)out->expand_x + row * packing->row_bytes,
			packing->row_bytes),
		"row %d", (int)row);
	for (int64_t i = 0; i < packing->num_scales; i++)
		SEAT_CHECK(plain->seat,
			is_blank((uint8_t *)out->dynamic_scales +
					 (row * out->scale_row_stride +
						 i * out->scale_group_stride) *
						 bytes,
				bytes),
			"scale %d of row %d", (int)i, (int)row);
	SEAT_CHECK(plain->seat, !out->row_scales || out->row_scales[row] == 0,
		"row scale of row %d", (int)row);
}

/* All to rank 0 first, as far as rows go, so that nothing is blank by chance.
 * Then expert 0 has six rows and two of padding, and four lie behind. */
static void pad_quantized(struct seat *seat)
{
	static const int32_t all[6] = {0, 1, 0, 1, 0, 1};
	const struct packing *packing = seat->context;
	struct shunt_exchange_config config = pair_config(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	for (int column_major = 0; column_major < 2; column_major++) {
		seat_label(seat,
			"quant %d, column major %d: ", (int)packing->quant,
			column_major);
		config.quant = packing->quant;
		config.column_major_scales = column_major;
		config.expert_alignment = 4;
		config.zero_tail = true;
		config.depth = 1;
		plain_init(&plain, seat, NULL, &config);
		for (int i = 0; i < 3 * PLAIN_HIDDEN; i++)
			plain.x[i] = 50.0f + (float)i;
		plain_bring(&plain, 3, all);
		plain_pass(&plain);
		plain_bring(
			&plain, pair_tokens[seat->rank], pair_ids[seat->rank]);
		plain_dispatch(&plain);
		/* A = 2 * 3 * 2 + 2 * 3 = 18. */
		for (int64_t i = 0; i < 18; i++)
			if (plain.out.source[3 * i] < 0)
				expect_blank(&plain, packing, i);
			else
				SEAT_CHECK(seat,
					!is_blank(
						(uint8_t *)plain.out.expand_x +
							i * packing->row_bytes,
						packing->row_bytes),
					"row %d is blank", (int)i);
		plain_fini(&plain);
	}
}

static void padding_of_quantized_rows_is_blank_scales_too(void **state)
{
	static const struct packing packings[] = {
		{SHUNT_QUANT_INT8, 4, 1, 4},
		{SHUNT_QUANT_E4M3FN_GROUP, 4, 1, 4},
		{SHUNT_QUANT_MXFP8_E4M3FN, 4, 2, 1},
		{SHUNT_QUANT_MXFP4_E2M1, 2, 2, 1},
		{SHUNT_QUANT_NVFP4_E2M1, 2, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(packings) / sizeof(*packings); i++)
		ranks_run_both(PAIR_RANKS, pad_quantized, &packings[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			compact_rows_lie_by_expert_source_rank_and_source_order),
		cmocka_unit_test(prefix_sums_apply_to_real_and_padded_counts),
		cmocka_unit_test(
			aligned_experts_are_padded_and_those_without_rows_are_not),
		cmocka_unit_test(
			padded_experts_begin_at_multiples_of_w_times_t_max),
		cmocka_unit_test(
			padded_rows_are_blank_to_the_alignment_or_by_option_to_the_end),
		cmocka_unit_test(
			more_rows_than_rows_per_expert_is_capacity_naming_expert_and_numbers),
		cmocka_unit_test(rows_behind_the_last_are_blank_by_option),
		cmocka_unit_test(
			scales_follow_their_rows_row_by_row_or_column_by_column),
		cmocka_unit_test(padding_of_quantized_rows_is_blank_scales_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
