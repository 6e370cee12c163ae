/*
 * Arguments of dispatch that go with an option of the exchange: wrong ones are
 * named here and refused elsewhere, what some ranks give and others do not is
 * answered on all, and what may be left out may be left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/plain.h"

/* One expert on each rank; all tokens to all of them. */
#define RANKS 3

static const int32_t everywhere[] = {0, 1, 2, 2, 1, 0};
static const float ones[RANKS * PLAIN_HIDDEN] = {
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static struct shunt_exchange_config small_config(enum shunt_quant quant)
{
	struct shunt_exchange_config config = plain_config(2, 3, RANKS);

	config.quant = quant;
	return config;
}

static void bring(struct plain *plain)
{
	plain_bring(plain, 2, everywhere);
}

/* ---- wrong ones ------------------------------------------------------- */

struct wrong {
	enum shunt_quant quant;
	enum shunt_status status;
	const char *words;
	void (*spoil)(struct shunt_dispatch_args *args);
	/* What all ranks give besides. */
	bool give_static;
};

static void give_x_scales(struct shunt_dispatch_args *args)
{
	args->x_scales = ones;
}

static void give_smooth(struct shunt_dispatch_args *args)
{
	args->smooth_scales = ones;
}

static void give_static(struct shunt_dispatch_args *args)
{
	args->static_scales = ones;
}

static void give_no_static(struct shunt_dispatch_args *args)
{
	args->static_scales = NULL;
}

static void wild_static_shape(struct shunt_dispatch_args *args)
{
	args->static_shape = (enum shunt_static_shape)77;
}

static void negative_static_shape(struct shunt_dispatch_args *args)
{
	args->static_shape = (enum shunt_static_shape) - 1;
}

static void negative_mask(struct shunt_dispatch_args *args)
{
	args->mask = (enum shunt_mask) - 1;
}

static void negative_ids_type(struct shunt_dispatch_args *args)
{
	args->ids_type = (enum shunt_index) - 1;
}

static void negative_deadline(struct shunt_dispatch_args *args)
{
	args->deadline_ns = -3;
}

static void endless_stride(struct shunt_dispatch_args *args)
{
	args->x_stride = (INT64_C(1) << 40) + 1;
}

static const struct wrong wrongs[] = {
	{SHUNT_QUANT_NONE, SHUNT_INVALID,
		"x_scales is given, but x_scales_per_row is 0", give_x_scales,
		false},
	{SHUNT_QUANT_INT8, SHUNT_INVALID,
		"x_scales is given, but x_scales_per_row is 0", give_x_scales,
		false},
	{SHUNT_QUANT_NONE, SHUNT_INVALID, "smooth_scales is given with quant 0",
		give_smooth, false},
	{SHUNT_QUANT_MXFP8_E4M3FN, SHUNT_INVALID,
		"smooth_scales is given with quant 9", give_smooth, false},
	{SHUNT_QUANT_MXFP8_E5M2, SHUNT_INVALID,
		"smooth_scales is given with quant 10", give_smooth, false},
	{SHUNT_QUANT_MXFP4_E2M1, SHUNT_INVALID,
		"smooth_scales is given with quant 11", give_smooth, false},
	{SHUNT_QUANT_NVFP4_E2M1, SHUNT_INVALID,
		"smooth_scales is given with quant 12", give_smooth, false},
	{SHUNT_QUANT_NONE, SHUNT_INVALID, "static_scales is given, but quant",
		give_static, false},
	{SHUNT_QUANT_E4M3FN, SHUNT_INVALID, "static_scales is given, but quant",
		give_static, false},
	{SHUNT_QUANT_INT8_STATIC, SHUNT_NULL_ARGUMENT,
		"static_scales is NULL with num_tokens 2", give_no_static,
		true},
	{SHUNT_QUANT_INT8_STATIC, SHUNT_INVALID,
		"static_shape is 77, must be ONE, HIDDEN or EXPERTS",
		wild_static_shape, true},
	{SHUNT_QUANT_E4M3FN_STATIC, SHUNT_INVALID,
		"static_shape is -1, must be ONE", negative_static_shape, true},
	{SHUNT_QUANT_NONE, SHUNT_INVALID, "mask is -1, must be NONE",
		negative_mask, false},
	{SHUNT_QUANT_NONE, SHUNT_INVALID, "ids_type is -1, must be I32",
		negative_ids_type, false},
	{SHUNT_QUANT_NONE, SHUNT_INVALID, "deadline_ns is -3, must be 0",
		negative_deadline, false},
	{SHUNT_QUANT_NONE, SHUNT_INVALID,
		"x_stride is 1099511627777, must be 0 or hidden .. 2^40",
		endless_stride, false},
};

static void give_wrong(struct seat *seat)
{
	struct shunt_exchange_config config;
	struct plain plain;

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
		const struct wrong *wrong = &wrongs[i];

		seat_label(seat, "%s: ", wrong->words);
		config = small_config(wrong->quant);
		plain_init(&plain, seat, NULL, &config);
		for (int step = 0; step < 4; step++) {
			bool spoilt = step % 2 == 0;

			bring(&plain);
			plain.args.static_scales =
				wrong->give_static ? ones : NULL;
			if (seat->rank == 1 && spoilt)
				wrong->spoil(&plain.args);
			SEAT_STATUS(seat,
				!spoilt           ? SHUNT_OK
				: seat->rank == 1 ? wrong->status
						  : SHUNT_PEER_REFUSED,
				plain_try(&plain));
			if (spoilt)
				seat_message_has(seat, wrong->words);
			if (spoilt && seat->rank != 1)
				seat_error_ranks(seat, 1 << 1);
			shunt_handle_destroy(plain.handle);
		}
		plain_fini(&plain);
	}
}

static void wrong_scales_are_named_here_and_refused_elsewhere(void **state)
{
	(void)state;
	ranks_run_both(RANKS, give_wrong, NULL);
}

/* ---- what goes together ----------------------------------------------- */

static void smooth(struct seat *seat)
{
	struct shunt_exchange_config config;
	struct plain plain;

	for (enum shunt_quant quant = SHUNT_QUANT_INT8;
		quant <= SHUNT_QUANT_E4M3FN_STATIC; quant++) {
		bool is_static = quant >= SHUNT_QUANT_INT8_STATIC;

		seat_label(seat, "quant %d: ", (int)quant);
		config = small_config(quant);
		plain_init(&plain, seat, NULL, &config);
		bring(&plain);
		/* They act on the sender: others need not have them. */
		plain.args.smooth_scales = seat->rank == 1 ? ones : NULL;
		plain.args.static_scales = is_static ? ones : NULL;
		plain_dispatch(&plain);
		SEAT_CHECK(seat, plain.out.num_rows == 2 * RANKS, "%d rows",
			(int)plain.out.num_rows);
		SEAT_CHECK(seat, !plain.out.dynamic_scales == is_static,
			"static scales do not travel");
		plain_fini(&plain);
	}
}

static void smooth_scales_go_with_dynamic_rows_groups_and_static_on_any_rank(
	void **state)
{
	(void)state;
	ranks_run_both(RANKS, smooth, NULL);
}

static void expect_static_row(struct plain *plain, int shape, int64_t i)
{
	const int8_t *row =
		(const int8_t *)plain->out.expand_x + i * PLAIN_HIDDEN;
	int x = plain->out.source[3 * i] + 1;

	for (int h = 0; h < PLAIN_HIDDEN; h++) {
		int by = shape == SHUNT_STATIC_ONE      ? 2
			 : shape == SHUNT_STATIC_HIDDEN ? h + 1
							: plain->seat->rank + 1;

		SEAT_CHECK(plain->seat, row[h] == (int8_t)(x * by),
			"%d * %d is %d", x, by, row[h]);
	}
}

/* y = x * scale: of the token, of the element, of the expert. */
static void scale_statically(struct seat *seat)
{
	static const float by_element[] = {1, 2, 3, 4};
	static const float by_expert[] = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
	static const float two[] = {2};
	static const float *const scales[] = {two, by_element, by_expert};
	struct shunt_exchange_config config =
		small_config(SHUNT_QUANT_INT8_STATIC);
	struct plain plain;

	plain_init(&plain, seat, NULL, &config);
	for (int shape = SHUNT_STATIC_ONE; shape <= SHUNT_STATIC_EXPERTS;
		shape++) {
		seat_label(seat, "shape %d: ", shape);
		bring(&plain);
		for (int i = 0; i < 2 * PLAIN_HIDDEN; i++)
			plain.x[i] = (float)(seat->rank + 1);
		plain.args.static_scales = scales[shape];
		plain.args.static_shape = (enum shunt_static_shape)shape;
		plain_dispatch(&plain);
		for (int64_t i = 0; i < plain.out.num_rows; i++)
			expect_static_row(&plain, shape, i);
		shunt_handle_destroy(plain.handle);
	}
	plain_fini(&plain);
}

static void static_scales_are_one_per_token_element_or_expert(void **state)
{
	(void)state;
	ranks_run_both(RANKS, scale_statically, NULL);
}

/* ---- on some ranks ---------------------------------------------------- */

/* Of ranks with tokens; one without may leave them out. */
static void scale_on_some(struct seat *seat)
{
	struct shunt_exchange_config config = small_config(SHUNT_QUANT_NONE);
	struct plain plain;

	config.x_scales_per_row = 2;
	config.x_scale_dtype = SHUNT_DTYPE_E4M3FN;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		bring(&plain);
		plain.args.x_scales = seat->rank == 2 ? NULL : ones;
		SEAT_STATUS(seat, SHUNT_MISMATCH, plain_try(&plain));
		seat_message_has(seat, "x_scales are given on some ranks");
		if (seat->rank == 2)
			plain.args.num_tokens = 0;
		plain_dispatch(&plain);
		SEAT_CHECK(seat, plain.out.dynamic_scales, "no scales");
		shunt_handle_destroy(plain.handle);
		/* Scales that no rank brings are not there. */
		bring(&plain);
		plain_dispatch(&plain);
		SEAT_CHECK(seat, !plain.out.dynamic_scales, "scales");
		shunt_handle_destroy(plain.handle);
	}
	plain_fini(&plain);
}

static void x_scales_on_some_ranks_only_are_a_mismatch_on_all(void **state)
{
	(void)state;
	ranks_run_both(RANKS, scale_on_some, NULL);
}

/* ---- rows that come quantized ----------------------------------------- */

struct given_rows {
	enum shunt_dtype dtype;
	int64_t hidden, row_bytes, stride;
};

/* Byte b of token t of rank r: 64 * r + 16 * t + b, whatever it may mean. */
static void bring_quantized(struct seat *seat)
{
	const struct given_rows *given = seat->context;
	struct shunt_exchange_config config = small_config(SHUNT_QUANT_NONE);
	int64_t pitch = given->stride * given->row_bytes / given->hidden;
	struct plain plain;
	uint8_t x[64] = {0};

	seat_label(seat, "dtype %d, hidden %d: ", (int)given->dtype,
		(int)given->hidden);
	if (given->dtype == SHUNT_DTYPE_E2M1)
		pitch = given->stride / 2;
	config.dtype = given->dtype;
	config.hidden = given->hidden;
	plain_init(&plain, seat, NULL, &config);
	bring(&plain);
	for (int64_t i = 0; i < 2 * given->row_bytes; i++)
		x[i / given->row_bytes * pitch + i % given->row_bytes] =
			(uint8_t)(64 * seat->rank +
				  16 * (i / given->row_bytes) +
				  i % given->row_bytes);
	plain.args.x = x;
	plain.args.x_stride = given->stride;
	plain_dispatch(&plain);
	for (int64_t i = 0; i < plain.out.num_rows; i++)
		for (int64_t b = 0; b < given->row_bytes; b++) {
			const int32_t *source = plain.out.source + 3 * i;
			int got = ((uint8_t *)plain.out
					   .expand_x)[i * given->row_bytes + b];

			SEAT_CHECK(seat,
				got == (int)(64 * source[0] + 16 * source[1] +
					       b),
				"byte %d of row %d is %d", (int)b, (int)i, got);
		}
	shunt_handle_destroy(plain.handle);
	bring(&plain);
	plain.args.x = x;
	plain.args.x_stride = given->stride + 1;
	SEAT_STATUS(seat,
		given->dtype == SHUNT_DTYPE_E2M1 ? SHUNT_INVALID : SHUNT_OK,
		plain_try(&plain));
	if (given->dtype == SHUNT_DTYPE_E2M1)
		seat_message_has(seat, "even with dtype E2M1");
	plain_fini(&plain);
}

static void quantized_rows_travel_as_they_are_and_strides_of_e2m1_are_even(
	void **state)
{
	static const struct given_rows rows[] = {
		{SHUNT_DTYPE_I8, 5, 5, 7},
		{SHUNT_DTYPE_E4M3FN, 4, 4, 4},
		{SHUNT_DTYPE_E5M2, 3, 3, 9},
		{SHUNT_DTYPE_E2M1, 4, 2, 4},
		{SHUNT_DTYPE_E2M1, 5, 3, 8},
		{SHUNT_DTYPE_E2M1, 1, 1, 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ranks_run_both(RANKS, bring_quantized, &rows[i]);
}

/* ---- ids with special experts ----------------------------------------- */

/* Three experts, then one zero, two copy and one constant: -1 .. 6. */
static void choose_wrongly(struct seat *seat)
{
	static const int32_t above[] = {0, 6, -1, 5, 7, 8};
	static const int32_t below[] = {6, 5, -2, 3, 0, 0};
	static const int32_t good[] = {6, 5, -1, 3, 4, 6};
	const enum shunt_bad_id *bad_id = seat->context;
	struct shunt_exchange_config config = small_config(SHUNT_QUANT_NONE);
	struct plain plain;

	config.num_zero_experts = 1;
	config.num_copy_experts = 2;
	config.num_constant_experts = 1;
	config.bad_id = *bad_id;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 4; i++) {
		bool is_bad = seat->rank == 1 && i % 2 == 0;
		bool refused = *bad_id == SHUNT_BAD_ID_REFUSE && i % 2 == 0;

		plain_bring(&plain, 2, !is_bad ? good : i == 0 ? above : below);
		SEAT_STATUS(seat,
			!refused          ? SHUNT_OK
			: seat->rank == 1 ? SHUNT_INVALID
					  : SHUNT_PEER_REFUSED,
			plain_try(&plain));
		if (refused)
			seat_message_has(seat,
				i == 0 ? "expert_ids[1, 1] is 7, must be -1 .. "
					 "6"
				       : "expert_ids[0, 2] is -2, must be -1 "
					 ".. 6");
		else
			SEAT_CHECK(seat,
				plain.out.dropped_choices ==
					(!is_bad         ? 0
						: i == 0 ? 2
							 : 1),
				"%d dropped", (int)plain.out.dropped_choices);
		shunt_handle_destroy(plain.handle);
	}
	plain_fini(&plain);
}

static void ids_above_the_special_experts_are_out_of_range_or_dropped(
	void **state)
{
	static const enum shunt_bad_id choices[] = {
		SHUNT_BAD_ID_REFUSE, SHUNT_BAD_ID_DROP};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		ranks_run_both(RANKS, choose_wrongly, &choices[i]);
}

/* The promise is about experts of ranks: special ones may come again. */
static void choose_twice(struct seat *seat)
{
	static const int32_t special[] = {3, 3, 0, 4, 1, 4};
	static const int32_t again[] = {3, 1, 1, 0, 1, 2};
	struct shunt_exchange_config config = small_config(SHUNT_QUANT_NONE);
	struct plain plain;

	config.num_zero_experts = 1;
	config.num_copy_experts = 1;
	config.distinct_experts = true;
	plain_init(&plain, seat, NULL, &config);
	plain_bring(&plain, 2, special);
	plain.args.weights = (const float[]){1, 2, 4, 8, 16, 32};
	plain_dispatch(&plain);
	plain.combine.ori_x = plain.x;
	SEAT_OK(seat, plain_try_combine(&plain, ones));
	plain_expect_sums(&plain, (const float[]){4, 8 + 16 + 32});
	plain_bring(&plain, 2, again);
	SEAT_STATUS(seat, SHUNT_INVALID, plain_try(&plain));
	seat_message_has(seat, "expert_ids[0, 2] is 1 again");
	plain_fini(&plain);
}

static void special_experts_may_come_again_within_a_token(void **state)
{
	(void)state;
	ranks_run_both(RANKS, choose_twice, NULL);
}

/* ---- what may be left out --------------------------------------------- */

/* A rank without tokens gives no pointers at all, with everything there is. */
static void bring_nothing(struct seat *seat)
{
	static const float zeros[PLAIN_HIDDEN];
	struct shunt_exchange_config config =
		small_config(SHUNT_QUANT_E4M3FN_STATIC);
	struct plain plain;

	config.num_shared_experts = 1;
	config.num_shared_ranks = 1;
	config.num_experts = 2;
	config.num_copy_experts = 1;
	config.num_constant_experts = 1;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		bool none = seat->rank == 2 - i;
		float *y;

		plain_bring(&plain, none ? 0 : 2, everywhere);
		plain.args.static_scales = ones;
		plain.combine.ori_x = plain.x;
		plain.combine.constant_alpha1 = zeros;
		plain.combine.constant_alpha2 = zeros;
		plain.combine.constant_v = zeros;
		if (none) {
			plain.args.x = NULL;
			plain.args.expert_ids = NULL;
			plain.args.ids_type = SHUNT_INDEX_NONE;
			plain.args.static_scales = NULL;
			plain.combine = (struct shunt_combine_args)
				SHUNT_COMBINE_ARGS_INIT;
		}
		plain_dispatch(&plain);
		y = plain.out.expert_rows;
		memset(y, 0,
			(size_t)(plain.out.extent_rows * PLAIN_HIDDEN) *
				sizeof(*y));
		plain.combine.y = y;
		SEAT_OK(seat, shunt_combine(plain.handle, &plain.combine));
		plain_expect_sums(&plain, (const float[]){1, 1});
	}
	plain_fini(&plain);
}

static void a_rank_without_tokens_may_leave_out_every_pointer(void **state)
{
	(void)state;
	ranks_run_both(RANKS, bring_nothing, NULL);
}

/* Rows of padding are not read: y_rows may have NULL there. Rank 0 has two
 * experts with rows 0, 1 | 4 .. 6, the others none. */
static void leave_out_padding(struct seat *seat)
{
	static const int32_t place[] = {0, 0, 0};
	static const int32_t given[] = {0, 1, 2};
	struct shunt_exchange_config config = plain_config(1, 1, 3);
	float row[PLAIN_HIDDEN];
	const void *rows[9];
	struct plain plain;

	config.expert_rank = place;
	config.expert_alignment = 4;
	plain_init(&plain, seat, NULL, &config);
	for (int i = 0; i < 3; i++) {
		plain_bring(&plain, 1, &given[(seat->rank + i) % 3 / 2]);
		plain_dispatch(&plain);
		SEAT_CHECK(seat,
			plain.out.extent_rows == (seat->rank == 0 ? 8 : 0),
			"%d rows", (int)plain.out.extent_rows);
		for (int j = 0; j < 8; j++)
			rows[j] = j < plain.out.extent_rows &&
						  plain.out.source[3 * j] >= 0
					  ? row
					  : NULL;
		for (int h = 0; h < PLAIN_HIDDEN; h++)
			row[h] = 7.0f;
		plain.combine.y_rows = seat->rank == 0 ? rows : NULL;
		SEAT_OK(seat, shunt_combine(plain.handle, &plain.combine));
		plain_expect_f32(seat, "out", plain.sums, F32_LIST(7, 7, 7, 7));
	}
	plain_fini(&plain);
}

static void y_rows_of_padding_may_be_null(void **state)
{
	(void)state;
	ranks_run_both(RANKS, leave_out_padding, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			wrong_scales_are_named_here_and_refused_elsewhere),
		cmocka_unit_test(
			smooth_scales_go_with_dynamic_rows_groups_and_static_on_any_rank),
		cmocka_unit_test(
			static_scales_are_one_per_token_element_or_expert),
		cmocka_unit_test(
			x_scales_on_some_ranks_only_are_a_mismatch_on_all),
		cmocka_unit_test(
			quantized_rows_travel_as_they_are_and_strides_of_e2m1_are_even),
		cmocka_unit_test(
			ids_above_the_special_experts_are_out_of_range_or_dropped),
		cmocka_unit_test(special_experts_may_come_again_within_a_token),
		cmocka_unit_test(
			a_rank_without_tokens_may_leave_out_every_pointer),
		cmocka_unit_test(y_rows_of_padding_may_be_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
