/*
 * Fetched rows have the bits and the counts of written ones: the same steps on
 * two exchanges that differ in fetch_tokens only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "support/fetched.h"
#include "support/plain.h"
#include "support/stand.h"

#define RANKS      4
#define MAX_TOKENS 4

/* ---- forms ------------------------------------------------------------ */

/* What comes of both exchanges is compared with the reference, byte by byte.
 * A form: what it sets besides the sizes; see run_form(). */
struct form {
	const char *name;
	struct shunt_exchange_config config;
	bool smooth;
	enum shunt_static_shape static_shape;
	bool is_written; /* all the same */
};

#define GROUPS(form, column)                                                 \
	.quant = SHUNT_QUANT_E4M3FN_GROUP, .scale_form = SHUNT_SCALE_##form, \
	.column_major_scales = (column)

static const struct form forms[] = {
	{.name = "bf16", .config = {.depth = 1}},
	{.name = "f32", .config = {.dtype = SHUNT_DTYPE_F32}},
	{.name = "int8", .config = {.quant = SHUNT_QUANT_INT8}},
	{.name = "e4m3 groups", .config = {GROUPS(F32, false)}},
	{.name = "e4m3 groups, columns", .config = {GROUPS(F32, true)}},
	{.name = "e4m3 groups, e8m0 columns", .config = {GROUPS(E8M0, true)}},
	{.name = "mxfp8", .config = {.quant = SHUNT_QUANT_MXFP8_E4M3FN}},
	{.name = "nvfp4 with a scale per row",
		.config = {.quant = SHUNT_QUANT_NVFP4_E2M1}},
	{.name = "nvfp4, columns",
		.config = {.quant = SHUNT_QUANT_NVFP4_E2M1,
			.column_major_scales = true}},
	{.name = "int8 rows with five f32 scales",
		.config = {.dtype = SHUNT_DTYPE_I8,
			.x_scales_per_row = 5,
			.x_scale_dtype = SHUNT_DTYPE_F32}},
	{.name = "e2m1 rows with three e8m0 scales, columns",
		.config = {.dtype = SHUNT_DTYPE_E2M1,
			.x_scales_per_row = 3,
			.x_scale_dtype = SHUNT_DTYPE_E8M0,
			.column_major_scales = true}},
	{.name = "static int8, one scale",
		.config = {.quant = SHUNT_QUANT_INT8_STATIC}},
	{.name = "static e4m3, a scale per element",
		.config = {.quant = SHUNT_QUANT_E4M3FN_STATIC},
		.static_shape = SHUNT_STATIC_HIDDEN},
	{.name = "static int8, scales per expert",
		.config = {.quant = SHUNT_QUANT_INT8_STATIC},
		.static_shape = SHUNT_STATIC_EXPERTS,
		.is_written = true},
	{.name = "smooth scales per expert",
		.config = {.quant = SHUNT_QUANT_INT8},
		.smooth = true,
		.is_written = true},
	{.name = "alignment",
		.config = {.quant = SHUNT_QUANT_INT8, .expert_alignment = 8}},
	{.name = "alignment and tail, e4m3 columns",
		.config = {GROUPS(F32, true), .expert_alignment = 3,
			.zero_tail = true}},
	{.name = "padded",
		.config = {.layout = SHUNT_LAYOUT_PADDED,
			.rows_per_expert = 48}},
	{.name = "padded, alignment and tail, nvfp4",
		.config = {.quant = SHUNT_QUANT_NVFP4_E2M1,
			.layout = SHUNT_LAYOUT_PADDED,
			.rows_per_expert = 48,
			.expert_alignment = 16,
			.zero_tail = true}},
	{.name = "distinct experts",
		.config = {.quant = SHUNT_QUANT_INT8,
			.distinct_experts = true}},
	{.name = "shared experts",
		.config = {.quant = SHUNT_QUANT_INT8,
			.num_shared_experts = 1,
			.num_shared_ranks = 2}},
	{.name = "shared and special experts, e4m3 columns, tail",
		.config = {GROUPS(POW2, true), .num_shared_experts = 2,
			.num_shared_ranks = 2, .num_zero_experts = 1,
			.num_copy_experts = 2, .num_constant_experts = 1,
			.zero_tail = true}},
	{.name = "special experts alone",
		.config = {.num_copy_experts = 2, .num_constant_experts = 2}},
};

/* Groups that do not come out even, rows of an odd number of lines. */
static struct shunt_exchange_config config_of(const struct form *form)
{
	struct shunt_exchange_config config = form->config;

	config.struct_size = sizeof(config);
	config.max_tokens = MAX_TOKENS;
	config.hidden = 330;
	config.topk = 3;
	config.num_experts = 7;
	config.expert_dtype = SHUNT_DTYPE_BF16;
	config.bad_id = SHUNT_BAD_ID_DROP;
	if (config.dtype == SHUNT_DTYPE_NONE)
		config.dtype = SHUNT_DTYPE_BF16;
	return config;
}

static struct trial_rule rule_of(struct stand *stand, const struct form *form)
{
	struct trial_rule rule = stand_rule(stand);

	rule.plain = rule.step % 2 == 0;
	rule.weights_at_dispatch = rule.step % 3 != 0;
	rule.weights_at_combine = rule.step % 3 == 0;
	rule.style = rule.step % 4 == 1 ? INPUT_ADVERSARIAL : INPUT_NORMAL;
	rule.percent_none = 15;
	rule.percent_bad = 5;
	rule.percent_masked = 20;
	rule.mask = rule.step % 2 ? SHUNT_MASK_TOKENS : SHUNT_MASK_NONE;
	if (form->config.num_copy_experts > 0)
		rule.percent_special = 30;
	rule.smooth = form->smooth;
	rule.static_shape = form->static_shape;
	return rule;
}

static void run_steps(
	struct seat *seat, const struct form *form, int64_t fetch_tokens)
{
	struct shunt_exchange_config config = config_of(form);
	bool is_fetched = fetch_tokens >= 0 && !form->is_written;
	struct stand stand;

	seat_label(
		seat, "%s, fetch_tokens %d: ", form->name, (int)fetch_tokens);
	config.fetch_tokens = fetch_tokens;
	stand_init(&stand, seat, &config);
	for (int i = 0; i < 6; i++) {
		struct trial_rule rule = rule_of(&stand, form);
		struct trial *step = stand_prepare_rule(&stand, &rule);

		stand_dispatch(&stand, step);
		fetched_expect(seat, stand.exchange, step->handle, is_fetched);
		stand_combine(&stand, step);
		stand_drop(step);
	}
	stand_fini(&stand);
}

static void run_form(struct seat *seat)
{
	run_steps(seat, seat->context, MAX_TOKENS);
	run_steps(seat, seat->context, -1);
}

static void fetched_rows_and_all_beside_them_have_the_bits_of_written_ones(
	void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		ranks_run_both(RANKS, run_form, &forms[i]);
}

/* ---- the limit passed on one rank ------------------------------------- */

#define TWIN_RANKS 3

/* T_max 3, K 2, two experts on each rank, int8; two exchanges that differ in
 * who writes the rows. */
static const int32_t choices[TWIN_RANKS][6] = {
	{0, 3, 5, -1, 2, 2}, {1, 4, 4, 0, -1, -1}, {5, 5, 3, 1, 0, 2}};
static const int64_t tokens_of_steps[][TWIN_RANKS] = {
	{2, 1, 0}, {3, 1, 2}, {2, 2, 2}, {1, 3, 3}, {0, 0, 0}, {0, 0, 3}};

static void init_twins(struct seat *seat, struct plain *twins)
{
	struct shunt_exchange_config config =
		plain_config(3, 2, 2 * TWIN_RANKS);

	config.quant = SHUNT_QUANT_INT8;
	for (int i = 0; i < 2; i++) {
		config.fetch_tokens = i == 0 ? 2 : -1;
		plain_init(&twins[i], seat, NULL, &config);
		/* Token 0 has a NaN, token 1 an Inf. */
		twins[i].x[1] = NAN;
		twins[i].x[PLAIN_HIDDEN] = -INFINITY;
	}
}

#define SAME(field)                                                          \
	SEAT_CHECK(seat, one.field == other.field,                           \
		#field " is %" PRId64 ", and %" PRId64 " with written rows", \
		one.field, other.field)

static void expect_same_rows(struct seat *seat, const struct plain *twins)
{
	const struct shunt_dispatch_out one = twins[0].out;
	const struct shunt_dispatch_out other = twins[1].out;
	size_t rows = (size_t)other.num_rows;

	SAME(num_rows);
	SAME(nan_elements);
	SAME(inf_elements);
	SEAT_CHECK(seat,
		memcmp(one.expand_x, other.expand_x, rows * PLAIN_HIDDEN) == 0,
		"expand_x differs");
	SEAT_CHECK(seat,
		memcmp(one.dynamic_scales, other.dynamic_scales,
			rows * sizeof(float)) == 0,
		"dynamic_scales differ");
	SEAT_CHECK(seat,
		memcmp(one.source, other.source, rows * 3 * sizeof(int32_t)) ==
			0,
		"source differs");
}

static void expect_same_stats(struct seat *seat, const struct plain *twins)
{
	struct shunt_stats one = SHUNT_STATS_INIT;
	struct shunt_stats other = SHUNT_STATS_INIT;

	SEAT_OK(seat, shunt_stats_get(twins[0].exchange, &one));
	SEAT_OK(seat, shunt_stats_get(twins[1].exchange, &other));
	SAME(dispatches);
	SAME(tokens);
	SAME(sent_rows);
	SAME(received_rows);
	SAME(dispatch_bytes);
	SAME(dispatch_nan_elements);
	SAME(dispatch_inf_elements);
	SAME(failed_steps);
}

static void dispatch_twins(struct seat *seat)
{
	size_t num_steps = sizeof(tokens_of_steps) / sizeof(tokens_of_steps[0]);
	struct plain twins[2];
	int64_t nan_elements = 0;

	init_twins(seat, twins);
	for (size_t n = 0; n < num_steps; n++) {
		const int64_t *tokens = tokens_of_steps[n];
		bool small = tokens[0] < 3 && tokens[1] < 3 && tokens[2] < 3;

		seat_label(seat, "step %d: ", (int)n);
		for (int i = 0; i < 2; i++) {
			plain_bring(&twins[i], tokens[seat->rank],
				choices[seat->rank]);
			plain_dispatch(&twins[i]);
			fetched_expect(seat, twins[i].exchange, twins[i].handle,
				i == 0 && small);
		}
		nan_elements += tokens[seat->rank] > 0;
		SEAT_CHECK(seat,
			twins[0].out.nan_elements == (tokens[seat->rank] > 0),
			"%d NaN", (int)twins[0].out.nan_elements);
		expect_same_rows(seat, twins);
		expect_same_stats(seat, twins);
		for (int i = 0; i < 2; i++)
			shunt_handle_destroy(twins[i].handle);
	}
	SEAT_CHECK(seat, nan_elements > 0, "no NaN on this rank");
	for (int i = 0; i < 2; i++)
		plain_fini(&twins[i]);
}

static void a_rank_with_more_tokens_makes_all_write_with_equal_rows_and_counts(
	void **state)
{
	(void)state;
	ranks_run_both(TWIN_RANKS, dispatch_twins, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			fetched_rows_and_all_beside_them_have_the_bits_of_written_ones),
		cmocka_unit_test(
			a_rank_with_more_tokens_makes_all_write_with_equal_rows_and_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
