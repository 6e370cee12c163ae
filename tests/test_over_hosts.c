/*
 * Everything that an exchange can do, with its ranks on several hosts: each
 * layout, format and special case by both algorithms, against the reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "support/quad.h"
#include "support/stand.h"
#include "support/ways.h"

/* Two and two, in blocks and mixed; one and three. */
#define HOSTS_OF_FOUR "0011 0101 0111"

/* ---- forms ------------------------------------------------------------ */

/* What an exchange and its steps have besides the sizes. */
struct form {
	const char *name;
	struct shunt_exchange_config config;
	enum input_routing routing;
	int percent_none, percent_special, percent_bad;
	bool smooth, no_weights, tail;
	enum shunt_static_shape static_shape;
	enum shunt_mask mask;
};

static const struct form forms[] = {
	{.name = "bf16", .percent_none = 20},
	{.name = "f32, one step in flight",
		.config = {.dtype = SHUNT_DTYPE_F32,
			.expert_dtype = SHUNT_DTYPE_F32,
			.depth = 1}},
	{.name = "no weights", .no_weights = true},
	{.name = "one expert has it all", .routing = INPUT_HOT},
	{.name = "nothing leaves its rank", .routing = INPUT_LOCAL},
	{.name = "int8 with smooth scales per expert",
		.config = {.quant = SHUNT_QUANT_INT8},
		.smooth = true},
	{.name = "static scales per expert",
		.config = {.quant = SHUNT_QUANT_E4M3FN_STATIC},
		.static_shape = SHUNT_STATIC_EXPERTS},
	{.name = "e4m3 groups, columns",
		.config = {.quant = SHUNT_QUANT_E4M3FN_GROUP,
			.column_major_scales = true}},
	{.name = "nvfp4", .config = {.quant = SHUNT_QUANT_NVFP4_E2M1}},
	{.name = "mxfp4, columns",
		.config = {.quant = SHUNT_QUANT_MXFP4_E2M1,
			.column_major_scales = true}},
	{.name = "int8 rows with five scales",
		.config = {.dtype = SHUNT_DTYPE_I8,
			.x_scales_per_row = 5,
			.x_scale_dtype = SHUNT_DTYPE_F32}},
	{.name = "pointers", .config = {.layout = SHUNT_LAYOUT_INDEXED}},
	{.name = "pointers to mxfp8, alignment",
		.config = {.layout = SHUNT_LAYOUT_INDEXED,
			.quant = SHUNT_QUANT_MXFP8_E4M3FN,
			.expert_alignment = 4}},
	{.name = "padded, zeros behind",
		.config = {.layout = SHUNT_LAYOUT_PADDED,
			.rows_per_expert = 80,
			.zero_tail = true}},
	{.name = "alignment", .config = {.expert_alignment = 8}},
	{.name = "distinct experts", .config = {.distinct_experts = true}},
	{.name = "masks of tokens and of choices, bad ids",
		.config = {.bad_id = SHUNT_BAD_ID_DROP},
		.mask = SHUNT_MASK_CHOICES,
		.percent_bad = 20},
	{.name = "special experts",
		.config = {.num_zero_experts = 1,
			.num_copy_experts = 2,
			.num_constant_experts = 1},
		.percent_special = 40},
	{.name = "a shared expert with a replica",
		.config = {.num_shared_experts = 1, .num_shared_ranks = 2}},
	{.name = "two shared experts",
		.config = {.num_shared_experts = 2,
			.num_shared_ranks = 2,
			.num_copy_experts = 1},
		.percent_special = 20},
	{.name = "rows back as int8",
		.config = {.combine_quant = SHUNT_COMBINE_QUANT_INT8_128}},
	{.name = "rows back as int8 by eights, shared and special experts",
		.config = {.combine_quant = SHUNT_COMBINE_QUANT_INT8_8,
			.num_shared_experts = 1,
			.num_shared_ranks = 2,
			.num_copy_experts = 1},
		.percent_special = 20},
	{.name = "rows back as e4m3, two shared experts",
		.config = {.combine_quant = SHUNT_COMBINE_QUANT_E4M3FN_128,
			.num_shared_experts = 2,
			.num_shared_ranks = 2}},
	{.name = "f32 rows, f16 back, sums in f32",
		.config = {.dtype = SHUNT_DTYPE_F32,
			.expert_dtype = SHUNT_DTYPE_F16,
			.f32_partial_sums = true,
			.num_shared_experts = 1,
			.num_shared_ranks = 1}},
	{.name = "rows back as mxfp8, exact sums",
		.config = {.combine_quant = SHUNT_COMBINE_QUANT_MXFP8,
			.exact_sums = true}},
	{.name = "exact sums", .config = {.exact_sums = true}},
	{.name = "the fused tail", .tail = true},
	{.name = "few tokens", .config = {.fetch_tokens = 5}},
};

#define NUM_FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

static struct shunt_exchange_config config_of(
	const struct seat *seat, const struct form *form)
{
	struct shunt_exchange_config config = form->config;

	config.struct_size = sizeof(config);
	config.max_tokens = 5;
	config.hidden = 160;
	config.topk = 4;
	config.num_experts = 8;
	config.deadline_ns = INT64_C(60000000000);
	if (config.dtype == SHUNT_DTYPE_NONE)
		config.dtype = SHUNT_DTYPE_BF16;
	if (config.expert_dtype == SHUNT_DTYPE_NONE)
		config.expert_dtype = SHUNT_DTYPE_BF16;
	config.algorithm = way_of(seat)->algorithm;
	return config;
}

static struct trial_rule rule_of(struct stand *stand, const struct form *form)
{
	struct trial_rule rule = stand_rule(stand);

	rule.plain = rule.step % 2 == 0;
	rule.style = rule.step % 4 == 1 ? INPUT_ADVERSARIAL : INPUT_NORMAL;
	rule.routing = form->routing;
	rule.percent_none = form->percent_none;
	rule.percent_special = form->percent_special;
	rule.percent_bad = form->percent_bad;
	rule.percent_masked = 25;
	rule.mask = form->mask;
	rule.smooth = form->smooth;
	rule.static_shape = form->static_shape;
	rule.weights_at_dispatch = !form->no_weights && rule.step % 3 != 2;
	rule.weights_at_combine = !form->no_weights && rule.step % 3 == 2;
	rule.residual = form->tail;
	rule.gamma = form->tail;
	rule.shared_x = form->tail;
	return rule;
}

/* That the way is gone which the test is about. */
static void check_way(struct stand *stand)
{
	struct seat *seat = stand->seat;
	bool adds = way_of(seat)->algorithm == SHUNT_ALGORITHM_HIERARCHY &&
		    !stand->config.exact_sums;

	SEAT_CHECK(seat, stand->info.num_hosts == 2, "%d hosts",
		stand->info.num_hosts);
	SEAT_CHECK(seat, stand->info.dispatch == way_of(seat)->algorithm,
		"dispatch by algorithm %d", stand->info.dispatch);
	SEAT_CHECK(seat, stand->info.adds_partial_sums == adds,
		"adds_partial_sums is %d", stand->info.adds_partial_sums);
}

static void run_form(struct seat *seat, const struct form *form, int num_steps)
{
	struct shunt_exchange_config config = config_of(seat, form);
	struct trial_rule rule;
	struct stand stand;

	seat_label(seat,
		"hosts %s, algorithm %d, wire %d, %s: ", way_of(seat)->hosts,
		way_of(seat)->algorithm, way_of(seat)->wire, form->name);
	stand_init(&stand, seat, &config);
	check_way(&stand);
	for (int i = 0; i < num_steps; i++) {
		rule = rule_of(&stand, form);
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void run_forms(struct seat *seat)
{
	for (int i = 0; i < NUM_FORMS; i++)
		run_form(seat, &forms[i], 4);
}

static void every_format_and_layout_equals_the_reference(void **state)
{
	(void)state;
	ways_run(HOSTS_OF_FOUR, run_forms, NULL);
}

static void run_first_form_on_three(struct seat *seat)
{
	struct shunt_exchange_config config = config_of(seat, &forms[0]);
	struct trial_rule rule;
	struct stand stand;

	stand_init(&stand, seat, &config);
	SEAT_CHECK(seat, stand.info.num_hosts == 3, "%d hosts",
		stand.info.num_hosts);
	for (int i = 0; i < 10; i++) {
		rule = rule_of(&stand, &forms[0]);
		trial_run(seat, stand.exchange, &rule);
	}
	stand_fini(&stand);
}

static void three_hosts_equal_the_reference(void **state)
{
	(void)state;
	ways_run("012 210210 00010122", run_first_form_on_three, NULL);
}

/* ---- few and no tokens ------------------------------------------------ */

static void bring_few(struct seat *seat)
{
	static const int64_t lists[][4] = {{0, 0, 0, 0}, {0, 0, 0, 3},
		{3, 0, 0, 0}, {0, 5, 0, 0}, {0, 0, 1, 1}, {0, 0, 0, 0},
		{1, 1, 1, 1}};
	struct shunt_exchange_config config = config_of(seat, &forms[0]);
	struct stand stand;

	stand_init(&stand, seat, &config);
	stand_steps_of(&stand, lists[0], sizeof(lists) / sizeof(lists[0]));
	stand_fini(&stand);
}

static void ranks_and_whole_hosts_may_bring_no_tokens(void **state)
{
	(void)state;
	ways_run(HOSTS_OF_FOUR, bring_few, NULL);
}

/* ---- steps in flight -------------------------------------------------- */

/* Dispatches in flight together, and their combines, fed or not; rows of
 * combine wherever they may lie, memory of shunt_alloc() among it. */
static void overlap_form(struct seat *seat, const struct form *form)
{
	struct shunt_exchange_config config = config_of(seat, form);
	struct trial *steps[3];
	struct trial_rule rule;
	struct stand stand;

	config.depth = 3;
	stand_init(&stand, seat, &config);
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 3; i++) {
			rule = rule_of(&stand, form);
			rule.plain = false;
			rule.may_feed = true;
			steps[i] = stand_prepare_rule(&stand, &rule);
			SEAT_OK(seat,
				shunt_dispatch_start(stand.exchange,
					&steps[i]->args, &steps[i]->handle));
		}
		for (int i = 2; i >= 0; i--) {
			SEAT_OK(seat, shunt_dispatch_finish(steps[i]->handle, 0,
					      &steps[i]->out));
			trial_check_dispatch(seat, steps[i]);
			trial_make_rows(seat, steps[i]);
		}
		for (int i = 0; i < 3; i++) {
			SEAT_OK(seat, shunt_combine_start(steps[i]->handle,
					      &steps[i]->combine));
			trial_spoil_rows(steps[i]);
			SEAT_OK(seat,
				shunt_exchange_progress(stand.exchange, NULL));
			trial_feed(seat, steps[i]);
		}
		for (int i = 0; i < 3; i++) {
			SEAT_OK(seat,
				shunt_combine_finish(steps[i]->handle, 0));
			trial_check_combine(seat, steps[i]);
			stand_drop(steps[i]);
		}
	}
	stand_fini(&stand);
}

static void overlap(struct seat *seat)
{
	static const struct form packed = {
		.config = {.combine_quant = SHUNT_COMBINE_QUANT_INT8_128,
			.num_shared_experts = 1,
			.num_shared_ranks = 2}};

	overlap_form(seat, &forms[0]);
	overlap_form(seat, &packed);
}

static void steps_overlap_and_are_fed_in_any_order(void **state)
{
	(void)state;
	ways_run(HOSTS_OF_FOUR, overlap, NULL);
}

/* ---- cached ----------------------------------------------------------- */

static void repeat(struct seat *seat, const struct form *form)
{
	struct shunt_exchange_config config = config_of(seat, form);
	struct shunt_handle first;
	struct trial_rule rule;
	struct trial *step;
	struct stand stand;

	config.kept_routes = 6;
	stand_init(&stand, seat, &config);
	rule = rule_of(&stand, form);
	step = stand_prepare_rule(&stand, &rule);
	stand_dispatch(&stand, step);
	first = step->handle;
	stand_combine(&stand, step);
	stand_drop(step);
	for (int64_t i = 1; i < 6; i++) {
		rule.cached = true;
		rule.routing_step = 0;
		rule.step = i;
		step = stand_prepare_rule(&stand, &rule);
		step->args.cached = first;
		stand_dispatch(&stand, step);
		stand_combine(&stand, step);
		stand_drop(step);
	}
	stand_fini(&stand);
}

static void repeat_forms(struct seat *seat)
{
	for (int i = 0; i < NUM_FORMS; i++)
		if (forms[i].percent_bad == 0) {
			seat_label(seat, "hosts %s, algorithm %d, %s: ",
				way_of(seat)->hosts, way_of(seat)->algorithm,
				forms[i].name);
			repeat(seat, &forms[i]);
		}
}

static void a_routing_is_repeated_with_another_x(void **state)
{
	(void)state;
	ways_run("0011 0100", repeat_forms, NULL);
}

/* ---- elastic ---------------------------------------------------------- */

/* Two experts on each rank; one after the other is left out. */
static const int32_t tables[3][12] = {
	{1, 3, 0, 6, 0, 1, 2, -1, 0, 1, 2, -1},
	{1, 2, 0, 4, 0, 1, -1, -1, 0, 1, -1, -1},
	{1, 1, 0, 2, -1, 0, -1, -1, 1, -1, -1, -1},
};

static void leave_out(struct seat *seat)
{
	struct shunt_exchange_config config = config_of(seat, &forms[0]);
	struct trial_rule rule;
	struct stand stand;

	config.elastic = true;
	stand_init(&stand, seat, &config);
	stand_step(&stand);
	for (int i = 0; i < 3; i++) {
		/* Nobody is left out while it is still in a step. */
		seat_barrier(seat);
		for (int n = 0; tables[i][4 + seat->rank] >= 0 && n < 3; n++) {
			rule = rule_of(&stand, &forms[0]);
			rule.plain = true;
			rule.table = tables[i];
			trial_run(seat, stand.exchange, &rule);
		}
	}
	stand_fini(&stand);
}

static void ranks_and_then_whole_hosts_are_left_out(void **state)
{
	(void)state;
	ways_run("0011 0101 0001", leave_out, NULL);
}

/* ---- TP --------------------------------------------------------------- */

static void sum_over_tp(struct seat *seat)
{
	struct quad_groups groups = quad_make_groups(seat, 2);
	struct shunt_exchange_config config = quad_config(&groups);
	struct plain plain;

	config.algorithm = way_of(seat)->algorithm;
	for (int l = 0; l < 2; l++) {
		config.layout =
			l == 0 ? SHUNT_LAYOUT_COMPACT : SHUNT_LAYOUT_INDEXED;
		quad_dispatch(&plain, seat, &groups, &config);
		quad_expect_step(&plain, false);
		plain_fini(&plain);
	}
	quad_drop_groups(&groups);
}

static void tp_groups_inside_hosts_and_across_them_sum_their_rows(void **state)
{
	(void)state;
	ways_run("0101 1010 0011 0100 0123", sum_over_tp, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format_and_layout_equals_the_reference),
		cmocka_unit_test(three_hosts_equal_the_reference),
		cmocka_unit_test(ranks_and_whole_hosts_may_bring_no_tokens),
		cmocka_unit_test(steps_overlap_and_are_fed_in_any_order),
		cmocka_unit_test(a_routing_is_repeated_with_another_x),
		cmocka_unit_test(ranks_and_then_whole_hosts_are_left_out),
		cmocka_unit_test(
			tp_groups_inside_hosts_and_across_them_sum_their_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
