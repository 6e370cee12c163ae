/*
 * What combine adds up, through the public door, against a plain sum that each
 * rank works out by itself: experts are functions of token and expert number,
 * so every row is known everywhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <shunt/shunt.h>

#include "reference/convert.h"
#include "support/known.h"
#include "support/ranks.h"

/* ---- a rank ------------------------------------------------------------- */

/* Everything that lies in memory in the types of the exchange. */
struct arguments {
	uint8_t ori_x[KNOWN_TOKENS * KNOWN_HIDDEN * 4],
		shared_x[KNOWN_TOKENS * KNOWN_HIDDEN * 4];
	uint8_t residual[KNOWN_TOKENS * KNOWN_HIDDEN * 4],
		gamma[KNOWN_HIDDEN * 4];
	uint8_t alpha1[KNOWN_CONSTANT * KNOWN_HIDDEN * 4],
		alpha2[KNOWN_CONSTANT * KNOWN_HIDDEN * 4];
	uint8_t v[KNOWN_CONSTANT * KNOWN_HIDDEN * 4];
	struct known_outputs got;
	int64_t performance[KNOWN_RANKS];
};

static struct shunt_exchange_config config_of(
	const struct known_variant *variant)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = KNOWN_TOKENS;
	config.hidden = KNOWN_HIDDEN;
	config.topk = KNOWN_TOPK;
	config.num_experts = KNOWN_EXPERTS;
	config.dtype = SHUNT_DTYPE_F32;
	config.expert_dtype = variant->expert_dtype;
	config.layout = variant->layout;
	config.combine_quant = variant->quant;
	config.expert_alignment = variant->alignment;
	config.tp_rank_order = variant->tp_order;
	if (variant->shared) {
		config.num_shared_experts = 1;
		config.num_shared_ranks = 1;
	}
	if (variant->special) {
		config.num_zero_experts = KNOWN_ZERO;
		config.num_copy_experts = KNOWN_COPY;
		config.num_constant_experts = KNOWN_CONSTANT;
	}
	return config;
}

static void fill_arguments(const struct known_variant *variant,
	const struct known_inputs *inputs, struct arguments *arguments,
	struct shunt_combine_args *args)
{
	enum shunt_dtype type = variant->expert_dtype;

	convert_store(type, &inputs->ori_x[0][0], KNOWN_TOKENS * KNOWN_HIDDEN,
		arguments->ori_x);
	convert_store(type, &inputs->shared_x[0][0],
		KNOWN_TOKENS * KNOWN_HIDDEN, arguments->shared_x);
	convert_store(variant->out_dtype, &inputs->residual[0][0],
		KNOWN_TOKENS * KNOWN_HIDDEN, arguments->residual);
	convert_store(variant->gamma_f32 ? SHUNT_DTYPE_F32 : variant->out_dtype,
		inputs->gamma, KNOWN_HIDDEN, arguments->gamma);
	convert_store(type, &inputs->alpha1[0][0],
		KNOWN_CONSTANT * KNOWN_HIDDEN, arguments->alpha1);
	convert_store(type, &inputs->alpha2[0][0],
		KNOWN_CONSTANT * KNOWN_HIDDEN, arguments->alpha2);
	convert_store(type, &inputs->v[0][0], KNOWN_CONSTANT * KNOWN_HIDDEN,
		arguments->v);
	if (variant->special) {
		args->ori_x = arguments->ori_x;
		args->constant_alpha1 = arguments->alpha1;
		args->constant_alpha2 = arguments->alpha2;
		args->constant_v = arguments->v;
	}
	args->shared_expert_x = variant->shared_x ? arguments->shared_x : NULL;
	args->residual = variant->residual ? arguments->residual : NULL;
	args->out = arguments->got.out;
	args->out_dtype = variant->out_dtype;
	args->out_stride = (int64_t)(KNOWN_HIDDEN * sizeof(float) /
				     convert_bytes(variant->out_dtype));
	args->performance_info = arguments->performance;
	if (!variant->gamma)
		return;
	args->gamma = arguments->gamma;
	args->gamma_dtype = variant->gamma_f32 ? SHUNT_DTYPE_F32 : 0;
	args->norm_eps = 1e-6f;
	args->norm_out = arguments->got.norm_out;
	args->norm_out_stride = args->out_stride;
	args->rstd = arguments->got.rstd;
}

/* Makes all experts' rows from what dispatch gave. */
static void work(struct seat *seat, const struct known_variant *variant,
	const struct shunt_dispatch_out *out, struct shunt_handle handle,
	int64_t first_expert, int32_t tp, uint8_t *y, const void **pointers)
{
	size_t row_bytes = KNOWN_HIDDEN * convert_bytes(variant->expert_dtype);
	const void **rows =
		malloc((size_t)(out->extent_rows + 1) * sizeof(*rows));
	float row[KNOWN_HIDDEN];

	SEAT_CHECK(seat, rows, "no memory");
	SEAT_OK(seat, shunt_dispatch_rows(handle, rows));
	for (int64_t i = 0; i < out->extent_rows; i++)
		pointers[i] = NULL; /* padding is not read */
	for (int64_t l = 0; l < out->num_local_experts; l++)
		for (int64_t i = 0; i < out->expert_token_nums[l]; i++) {
			int64_t at = out->expert_first_row[l] + i;

			known_row(variant, rows[at], first_expert + l, tp, row);
			convert_store(variant->expert_dtype, row, KNOWN_HIDDEN,
				y + (size_t)at * row_bytes);
			pointers[at] = y + (size_t)at * row_bytes;
		}
	free(rows);
}

static void combine(struct seat *seat, const struct known_variant *variant,
	const struct shunt_dispatch_out *out, struct shunt_handle handle,
	struct shunt_combine_args *args, uint8_t *y, const void **pointers)
{
	size_t row_bytes = KNOWN_HIDDEN * convert_bytes(variant->expert_dtype);

	if (variant->place == KNOWN_BY_POINTERS)
		args->y_rows = pointers;
	else if (variant->place == KNOWN_BY_FEED)
		args->feed = true;
	else
		args->y = y;
	if (!args->feed) {
		SEAT_OK(seat, shunt_combine(handle, args));
		return;
	}
	SEAT_OK(seat, shunt_combine_start(handle, args));
	for (int64_t l = out->num_local_experts - 1; l >= 0; l--) {
		uint8_t *first =
			y + (size_t)out->expert_first_row[l] * row_bytes;

		SEAT_OK(seat, shunt_combine_feed(handle, l, first, 0));
		if (out->expert_token_nums[l] > 0) /* it was copied */
			memset(first, 0xff,
				(size_t)out->expert_token_nums[l] * row_bytes);
	}
	SEAT_OK(seat, shunt_combine_finish(handle, 0));
}

static void check(struct seat *seat, const struct known_variant *variant,
	const struct known_inputs *inputs, const struct known_outputs *got)
{
	size_t bytes = KNOWN_HIDDEN * convert_bytes(variant->out_dtype);
	static _Thread_local struct known_outputs due;

	for (int64_t t = 0; t < KNOWN_TOKENS; t++) {
		float acc[KNOWN_HIDDEN];

		known_sum(variant, inputs, t, acc);
		known_tail(variant, inputs, t, acc, &due);
		SEAT_CHECK(seat, memcmp(got->out[t], due.out[t], bytes) == 0,
			"out of token %d differs", (int)t);
		if (!variant->gamma)
			continue;
		SEAT_CHECK(seat,
			memcmp(got->norm_out[t], due.norm_out[t], bytes) == 0,
			"norm_out of token %d differs", (int)t);
		SEAT_CHECK(seat, got->rstd[t] == due.rstd[t],
			"rstd of token %d differs", (int)t);
	}
}

/* The first expert of an EP rank: shared ones have number KNOWN_EXPERTS. */
static int64_t first_expert_of(
	const struct known_variant *variant, int32_t ep_rank, int32_t num_ep)
{
	int32_t moe = num_ep - variant->shared;
	int32_t at = ep_rank - variant->shared;
	int32_t more = KNOWN_EXPERTS % moe;

	if (at < 0)
		return KNOWN_EXPERTS;
	return (int64_t)at * (KNOWN_EXPERTS / moe) + (at < more ? at : more);
}

static void step_once(struct seat *seat, const struct known_variant *variant,
	struct shunt_exchange *exchange, int32_t ep_rank, int32_t num_ep,
	int32_t tp)
{
	struct known_inputs *inputs = calloc(1, sizeof(*inputs));
	struct arguments *arguments = calloc(1, sizeof(*arguments));
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine_args = SHUNT_COMBINE_ARGS_INIT;
	struct shunt_handle handle;
	size_t y_bytes;
	uint8_t *own, *registered;
	const void **pointers;

	SEAT_CHECK(seat, inputs && arguments, "no memory");
	known_draw(inputs, variant, seat->rank);
	args.x = inputs->x;
	args.num_tokens = KNOWN_TOKENS;
	args.expert_ids = inputs->ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.mask = SHUNT_MASK_CHOICES;
	args.active_mask = inputs->mask;
	args.weights = variant->weights ? &inputs->weights[0][0] : NULL;
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	y_bytes = (size_t)(out.extent_rows + 1) * KNOWN_HIDDEN * sizeof(float);
	own = malloc(y_bytes);
	registered = shunt_alloc(seat->world, y_bytes);
	pointers = malloc((size_t)(out.extent_rows + 1) * sizeof(*pointers));
	SEAT_CHECK(seat, own && registered && pointers, "no memory");
	fill_arguments(variant, inputs, arguments, &combine_args);
	{
		uint8_t *y = variant->place == KNOWN_IN_EXPERT_ROWS
				     ? out.expert_rows
			     : variant->place == KNOWN_IN_SEGMENT ? registered
								  : own;

		work(seat, variant, &out, handle,
			first_expert_of(variant, ep_rank, num_ep), tp, y,
			pointers);
		combine(seat, variant, &out, handle, &combine_args, y,
			pointers);
	}
	memset(registered, 0xff, y_bytes);
	check(seat, variant, inputs, &arguments->got);
	shunt_free(seat->world, registered);
	free(pointers);
	free(own);
	free(arguments);
	free(inputs);
}

static void run_variant(struct seat *seat)
{
	const struct known_variant *variant = seat->context;
	struct shunt_exchange_config config = config_of(variant);
	int32_t num_ep = variant->tp ? KNOWN_RANKS / 2 : KNOWN_RANKS;
	int32_t ep_rank = seat->rank % num_ep, tp = seat->rank / num_ep;
	struct shunt_group *ep_group = NULL, *tp_group = NULL;
	struct shunt_exchange *exchange;
	int32_t members[KNOWN_RANKS];

	if (variant->tp) {
		for (int32_t i = 0; i < num_ep; i++)
			members[i] = tp * num_ep + i;
		SEAT_OK(seat, shunt_group_create(seat->world, members, num_ep,
				      "ep", 0, &ep_group));
		for (int32_t i = 0; i < 2; i++)
			members[i] = i * num_ep + ep_rank;
		SEAT_OK(seat, shunt_group_create(seat->world, members, 2, "tp",
				      0, &tp_group));
		config.tp_group = tp_group;
	}
	SEAT_OK(seat, shunt_exchange_create(
			      seat->world, ep_group, &config, &exchange));
	for (int i = 0; i < 5; i++)
		step_once(seat, variant, exchange, ep_rank, num_ep, tp);
	shunt_exchange_destroy(exchange);
	shunt_group_destroy(tp_group);
	shunt_group_destroy(ep_group);
}

/* ---- variants ----------------------------------------------------------- */

static const struct known_variant plain = {
	.expert_dtype = SHUNT_DTYPE_BF16,
	.out_dtype = SHUNT_DTYPE_BF16,
	.weights = true,
};

static void run(const struct known_variant *variant)
{
	ranks_run_both(KNOWN_RANKS, run_variant, variant);
}

static void rows_may_lie_anywhere(void **state)
{
	struct known_variant variant = plain;

	(void)state;
	for (int place = KNOWN_IN_EXPERT_ROWS; place <= KNOWN_BY_FEED; place++)
		for (int layout = 0; layout < 3; layout++) {
			variant.place = (enum known_place)place;
			variant.layout = (enum shunt_layout)layout;
			variant.alignment = layout == 1 ? 0 : 4 * (place & 1);
			run(&variant);
		}
}

static void shared_and_special_experts_are_added_in_order(void **state)
{
	struct known_variant variant = plain;

	(void)state;
	for (int i = 0; i < 8; i++) {
		variant.shared = i & 1;
		variant.special = i & 2;
		variant.shared_x = i & 4;
		variant.weights = i % 3;
		variant.expert_dtype = SHUNT_DTYPE_F32 + i % 3;
		variant.out_dtype = SHUNT_DTYPE_F32 + i / 2 % 3;
		run(&variant);
	}
}

static void rows_come_home_quantized(void **state)
{
	struct known_variant variant = plain;

	(void)state;
	variant.shared = true;
	variant.special = true;
	for (int quant = 1; quant <= SHUNT_COMBINE_QUANT_MXFP8; quant++)
		for (int place = KNOWN_IN_EXPERT_ROWS; place <= KNOWN_BY_FEED;
			place++) {
			variant.quant = (enum shunt_combine_quant)quant;
			variant.place = (enum known_place)place;
			variant.expert_dtype =
				SHUNT_DTYPE_F32 + (quant + place) % 3;
			run(&variant);
		}
}

static void the_tail_takes_all_tokens(void **state)
{
	struct known_variant variant = plain;

	(void)state;
	for (int i = 0; i < 12; i++) {
		variant.residual = i & 1 || i < 3;
		variant.gamma = i & 2;
		variant.gamma_f32 = i & 4;
		variant.special = i & 8;
		variant.out_dtype = SHUNT_DTYPE_F32 + i % 3;
		run(&variant);
	}
}

static void tp_ranks_are_summed_first(void **state)
{
	struct known_variant variant = plain;

	(void)state;
	variant.tp = true;
	for (int i = 0; i < 10; i++) {
		variant.tp_order = i & 1;
		variant.shared = i & 2;
		variant.special = i & 4;
		variant.place = (enum known_place)(i / 2);
		variant.quant = (enum shunt_combine_quant)(i % 5);
		variant.layout = (enum shunt_layout)(i % 3);
		variant.gamma = i > 6;
		run(&variant);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_may_lie_anywhere),
		cmocka_unit_test(shared_and_special_experts_are_added_in_order),
		cmocka_unit_test(rows_come_home_quantized),
		cmocka_unit_test(the_tail_takes_all_tokens),
		cmocka_unit_test(tp_ranks_are_summed_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
