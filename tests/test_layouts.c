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

#include "support/plain.h"

/*
 * The step of most tests here: two ranks, experts 0 and 1 on rank 0, 2 and 3 on
 * rank 1; T_max 3, K 2. Expert 0 gets six rows, 1 two, 2 two, 3 none.
 */
#define RANKS 2

static const int32_t ids[RANKS][6] = {{0, 1, 0, 2, 1, 0}, {2, 0, 0, 0}};
static const int64_t tokens[RANKS] = {3, 2};
static const float weights[RANKS][6] = {
	{0.5f, 1, 1.5f, 2, 2.5f, 3}, {10, 20, 30, 40}};

/* Experts multiply by 1, 2, 4 and 8; the sums of tokens without weights. */
static const float factors[RANKS][2] = {{1, 2}, {4, 8}};
static const float sums[RANKS][3] = {{3, 5, 3}, {5, 2}};

#define ROWS_OF_EXPERT_0                                                      \
	{0, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 2, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}, \
	{                                                                     \
		1, 1, 1, 1                                                    \
	}
#define ROWS_OF_EXPERT_1   \
	{0, 0, 0, 1},      \
	{                  \
		0, 0, 2, 0 \
	}
#define ROWS_OF_EXPERT_2   \
	{0, 0, 1, 1},      \
	{                  \
		1, 1, 0, 0 \
	}

static struct shunt_exchange_config config_of(enum shunt_layout layout)
{
	struct shunt_exchange_config config = plain_config(3, 2, 4);

	config.layout = layout;
	return config;
}

static void dispatch(struct plain *plain, struct seat *seat,
	const struct shunt_exchange_config *config)
{
	plain_init(plain, seat, NULL, config);
	plain_bring(plain, tokens[seat->rank], ids[seat->rank]);
	plain->args.weights = weights[seat->rank];
	plain_dispatch(plain);
}

/* The rest of the step: without weights, to see factors. */
static void combine(struct plain *plain)
{
	static const float ones[6] = {1, 1, 1, 1, 1, 1};
	int32_t rank = plain->seat->rank;

	plain->combine.weights = ones;
	SEAT_OK(plain->seat, plain_try_combine(plain, factors[rank]));
	plain_expect_sums(plain, sums[rank]);
	plain_fini(plain);
}

/* Counts that are the same in every layout. */
static void expect_counts(struct plain *plain)
{
	static const int32_t blocks[RANKS][4] = {{3, 6, 8, 8}, {1, 2, 2, 2}};
	static const int64_t nums[RANKS][2] = {{6, 2}, {2, 0}};
	static const int64_t rows[RANKS] = {8, 2};
	struct seat *seat = plain->seat;
	const struct shunt_dispatch_out *out = &plain->out;

	plain_expect_i32(seat, "ep_recv_counts", out->ep_recv_counts, 4,
		blocks[seat->rank]);
	plain_expect_i64(seat, "expert_token_nums", out->expert_token_nums, 2,
		nums[seat->rank]);
	plain_expect_i64(
		seat, "num_rows", &out->num_rows, 1, rows + seat->rank);
	SEAT_CHECK(seat, out->num_local_experts == 2, "%d local experts",
		(int)out->num_local_experts);
	SEAT_CHECK(seat, !out->tp_recv_counts, "tp_recv_counts without TP");
	SEAT_CHECK(seat, !out->dynamic_scales && !out->row_scales,
		"scales without quantization");
}

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
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	dispatch(&plain, seat, &config);
	expect_counts(&plain);
	if (seat->rank == 0) {
		plain_expect_rows(
			&plain, ROWS_LIST(ROWS_OF_EXPERT_0, ROWS_OF_EXPERT_1));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights,
			F32_LIST(0.5f, 1.5f, 3, 20, 30, 40, 1, 2.5f));
		expect_padded_counts(
			&plain, (int64_t[]){0, 6}, (int64_t[]){6, 2});
	} else {
		plain_expect_rows(&plain, ROWS_LIST(ROWS_OF_EXPERT_2));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights, F32_LIST(2, 10));
		expect_padded_counts(
			&plain, (int64_t[]){0, 2}, (int64_t[]){2, 0});
	}
	combine(&plain);
}

static void compact_rows_lie_by_expert_source_rank_and_source_order(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, lie_compactly, NULL);
}

static void count_by_prefix(struct seat *seat)
{
	static const int64_t nums[RANKS][2] = {{6, 8}, {2, 2}};
	static const int64_t padded[RANKS][2] = {{8, 12}, {4, 4}};
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	config.expert_alignment = 4;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
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
	ranks_run_both(RANKS, count_by_prefix, NULL);
}

/* ---- alignment -------------------------------------------------------- */

static void lie_aligned(struct seat *seat)
{
	const enum shunt_layout *layout = seat->context;
	struct shunt_exchange_config config = config_of(*layout);
	struct plain plain;

	seat_label(seat, "layout %d: ", (int)*layout);
	config.expert_alignment = 4;
	dispatch(&plain, seat, &config);
	expect_counts(&plain);
	if (seat->rank == 0) {
		plain_expect_rows(
			&plain, ROWS_LIST(ROWS_OF_EXPERT_0, PLAIN_PADDING,
					PLAIN_PADDING, ROWS_OF_EXPERT_1,
					PLAIN_PADDING, PLAIN_PADDING));
		plain_expect_f32(seat, "expand_weights",
			plain.out.expand_weights,
			F32_LIST(0.5f, 1.5f, 3, 20, 30, 40, 0, 0, 1, 2.5f, 0,
				0));
		expect_padded_counts(
			&plain, (int64_t[]){0, 8}, (int64_t[]){8, 4});
	} else {
		plain_expect_rows(
			&plain, ROWS_LIST(ROWS_OF_EXPERT_2, PLAIN_PADDING,
					PLAIN_PADDING));
		expect_padded_counts(
			&plain, (int64_t[]){0, 4}, (int64_t[]){4, 0});
	}
	combine(&plain);
}

static void aligned_experts_are_padded_and_those_without_rows_are_not(
	void **state)
{
	static const enum shunt_layout layouts[] = {
		SHUNT_LAYOUT_COMPACT, SHUNT_LAYOUT_INDEXED};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		ranks_run_both(RANKS, lie_aligned, &layouts[i]);
}

/* ---- padded ----------------------------------------------------------- */

static void lie_padded(struct seat *seat)
{
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_PADDED);
	struct plain plain;

	dispatch(&plain, seat, &config);
	expect_counts(&plain);
	/* M = W * T_max = 6. */
	if (seat->rank == 0) {
		plain_expect_rows(
			&plain, ROWS_LIST(ROWS_OF_EXPERT_0, ROWS_OF_EXPERT_1,
					PLAIN_ANYTHING, PLAIN_ANYTHING,
					PLAIN_ANYTHING, PLAIN_ANYTHING));
		expect_padded_counts(
			&plain, (int64_t[]){0, 6}, (int64_t[]){6, 2});
	} else {
		SEAT_CHECK(seat, plain.out.extent_rows == 12, "%d rows",
			(int)plain.out.extent_rows);
		expect_padded_counts(
			&plain, (int64_t[]){0, 6}, (int64_t[]){2, 0});
	}
	combine(&plain);
}

static void padded_experts_begin_at_multiples_of_w_times_t_max(void **state)
{
	(void)state;
	ranks_run_both(RANKS, lie_padded, NULL);
}

static void lie_padded_and_aligned(struct seat *seat)
{
	const bool *zero_tail = seat->context;
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_PADDED);
	struct plain_row tail = PLAIN_ANYTHING;
	struct plain plain;

	config.expert_alignment = 4;
	config.zero_tail = *zero_tail;
	if (*zero_tail)
		tail = (struct plain_row)PLAIN_PADDING;
	dispatch(&plain, seat, &config);
	expect_counts(&plain);
	if (seat->rank == 0) {
		plain_expect_rows(&plain,
			ROWS_LIST(ROWS_OF_EXPERT_0, PLAIN_PADDING,
				PLAIN_PADDING, ROWS_OF_EXPERT_1, PLAIN_PADDING,
				PLAIN_PADDING, tail, tail, tail, tail));
		expect_padded_counts(
			&plain, (int64_t[]){0, 8}, (int64_t[]){8, 4});
	}
	combine(&plain);
}

static void padded_rows_are_blank_to_the_alignment_or_by_option_to_the_end(
	void **state)
{
	static const bool choices[] = {false, true};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		ranks_run_both(RANKS, lie_padded_and_aligned, &choices[i]);
}

/* Expert 0 would get six rows, and has room for five. */
static void overflow_expert(struct seat *seat)
{
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_PADDED);
	struct plain plain;

	config.rows_per_expert = 5;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
		SEAT_STATUS(seat, SHUNT_CAPACITY, plain_try(&plain));
		seat_message_has(seat, "expert 0");
		seat_message_has(seat, "6 rows");
		seat_message_has(seat, "rows_per_expert gives it 5");
		seat_error_ranks(seat, 1 << 0);
		/* One token less on rank 1, and it is just enough. */
		plain_bring(&plain, seat->rank == 0 ? 3 : 1, ids[seat->rank]);
		plain_dispatch(&plain);
		SEAT_OK(seat, plain_try_combine(&plain, factors[seat->rank]));
		plain_expect_sums(&plain, sums[seat->rank]);
	}
	plain_fini(&plain);
}

static void
more_rows_than_rows_per_expert_is_capacity_naming_expert_and_numbers(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, overflow_expert, NULL);
}

/* ---- tails ------------------------------------------------------------ */

/* All of it to rank 0 first, so that something is there to be zeroed. */
static void zero_tail(struct seat *seat)
{
	static const int32_t all[6] = {0, 1, 0, 1, 0, 1};
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_COMPACT);
	struct plain plain;

	config.zero_tail = true;
	config.depth = 1;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 3, all);
	plain.args.weights = weights[0];
	plain_pass(&plain);
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
	plain.args.weights = weights[seat->rank];
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
	combine(&plain);
}

static void rows_behind_the_last_are_blank_by_option(void **state)
{
	(void)state;
	ranks_run_both(RANKS, zero_tail, NULL);
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
	struct shunt_exchange_config config = config_of(how->layout);
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
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
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
		ranks_run_both(RANKS, scale_rows, &cases[i]);
}

/* ---- indexed ---------------------------------------------------------- */

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
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_INDEXED);
	struct plain plain;

	dispatch(&plain, seat, &config);
	expect_counts(&plain);
	SEAT_CHECK(seat, !plain.out.expand_x, "expand_x of INDEXED");
	if (seat->rank == 0)
		plain_expect_rows(
			&plain, ROWS_LIST(ROWS_OF_EXPERT_0, ROWS_OF_EXPERT_1));
	else
		plain_expect_rows(&plain, ROWS_LIST(ROWS_OF_EXPERT_2));
	check_references(&plain, plain.out.num_rows);
	combine(&plain);
}

static void indexed_rows_of_one_token_are_one_reference_to_the_same_memory(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, lie_indexed, NULL);
}

static void refer_to_padding(struct seat *seat)
{
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_INDEXED);
	struct shunt_reference references[12];
	struct shunt_reference padding = {-1, -1, -1};
	struct plain plain;

	config.expert_alignment = 4;
	dispatch(&plain, seat, &config);
	SEAT_OK(seat, shunt_dispatch_references(plain.handle, references));
	for (int64_t i = 0; i < plain.out.extent_rows; i++)
		SEAT_CHECK(seat,
			same(&references[i], &padding) ==
				(plain.out.source[3 * i] < 0),
			"reference %d", (int)i);
	combine(&plain);
}

static void references_of_padding_are_minus_one_throughout(void **state)
{
	(void)state;
	ranks_run_both(RANKS, refer_to_padding, NULL);
}

/* Smooth scales differ by expert, so each choice has a row of its own: int8
 * scales 1 / (127 / amax), amax = smooth * largest element. */
static void keep_rows_per_choice(struct seat *seat)
{
	static const float smooth[16] = {
		1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8};
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_INDEXED);
	struct shunt_reference references[12];
	struct plain plain;

	config.quant = SHUNT_QUANT_INT8;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
	plain.args.smooth_scales = smooth;
	plain_dispatch(&plain);
	SEAT_OK(seat, shunt_dispatch_references(plain.handle, references));
	for (int64_t i = 0; i < plain.out.num_rows; i++) {
		const int32_t *source = plain.out.source + 3 * i;
		int32_t id = ids[source[0]][2 * source[1] + source[2]];
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
	ranks_run_both(RANKS, keep_rows_per_choice, NULL);
}

/* ---- references that lead nowhere ------------------------------------- */

/* `source` lies where peers write it: as if rank 1 had written these. */
static void lie_about_a_row(struct seat *seat)
{
	static const int32_t lies[][3] = {{0, 0, 1}, {2, 0, 1}, {-1, 0, 1},
		{1, 3, 1}, {1, -1, 1}, {1, INT32_MIN, 1}, {1, INT32_MAX, 1},
		{1, 0, 2}, {1, 0, -1}, {1, 0, INT32_MAX}};
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_INDEXED);
	struct shunt_reference references[8];
	const void *rows[8];
	struct plain plain;
	int32_t *source;

	dispatch(&plain, seat, &config);
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
	combine(&plain);
}

static void a_source_that_leads_outside_is_a_peer_fault_that_names_it(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, lie_about_a_row, NULL);
}

/* ---- when rows can be asked for --------------------------------------- */

static void ask_for_rows(struct seat *seat)
{
	struct shunt_exchange_config config = config_of(SHUNT_LAYOUT_COMPACT);
	struct shunt_reference references[12];
	struct shunt_handle nothing = {0};
	const void *rows[12];
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, tokens[seat->rank], ids[seat->rank]);
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
	SEAT_OK(seat, plain_try_combine(&plain, factors[seat->rank]));
	SEAT_STATUS(seat, SHUNT_STATE, shunt_dispatch_rows(plain.handle, rows));
	plain_fini(&plain);
}

static void
rows_are_there_from_finish_to_combine_and_references_of_indexed_only(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, ask_for_rows, NULL);
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
		cmocka_unit_test(
			indexed_rows_of_one_token_are_one_reference_to_the_same_memory),
		cmocka_unit_test(
			references_of_padding_are_minus_one_throughout),
		cmocka_unit_test(
			indexed_rows_that_differ_by_expert_are_kept_one_per_choice),
		cmocka_unit_test(
			a_source_that_leads_outside_is_a_peer_fault_that_names_it),
		cmocka_unit_test(
			rows_are_there_from_finish_to_combine_and_references_of_indexed_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
