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

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <shunt/shunt.h>

#include "reference/convert.h"
#include "reference/quantize.h"
#include "support/operand.h"
#include "support/ranks.h"

#define TOKENS   7
#define HIDDEN   137 /* groups of 8, 32 and 128, and tails of all */
#define TOPK     4
#define RANKS    4
#define EXPERTS  5
#define ZERO     1
#define COPY     1
#define CONSTANT 2

/* Where the experts' rows are when combine gets them. */
enum place { IN_EXPERT_ROWS, ELSEWHERE, IN_SEGMENT, BY_POINTERS, BY_FEED };

/* One exchange and what its combine is given. */
struct variant {
	enum shunt_dtype expert_dtype, out_dtype;
	enum shunt_combine_quant quant;
	enum shunt_layout layout;
	enum place place;
	bool shared, special, tp, tp_order;
	bool weights, shared_x, residual, gamma, gamma_f32;
	int64_t alignment;
};

/* A rank's tokens and everything else that it gives to combine. */
struct inputs {
	float x[TOKENS][HIDDEN];
	int32_t ids[TOKENS][TOPK];
	uint8_t mask[TOKENS * TOPK];
	float weights[TOKENS][TOPK];
	float ori_x[TOKENS][HIDDEN], shared_x[TOKENS][HIDDEN];
	float residual[TOKENS][HIDDEN], gamma[HIDDEN];
	float alpha1[CONSTANT][HIDDEN], alpha2[CONSTANT][HIDDEN];
	float v[CONSTANT][HIDDEN];
};

static void draw_floats(float *to, size_t count, uint64_t *random)
{
	for (size_t i = 0; i < count; i++)
		to[i] = operand_value(OPERAND_PLAIN, random) * 0.25f;
}

/* The inputs of the rank with number `rank` of all; of a type that rounds they
 * are rounded where they are stored. */
static void draw_inputs(
	struct inputs *inputs, const struct variant *variant, int32_t rank)
{
	uint64_t random = 0x9e3779b97f4a7c15 + (uint64_t)rank;
	int ids = EXPERTS + (variant->special ? ZERO + COPY + CONSTANT : 0);

	draw_floats(&inputs->x[0][0], TOKENS * HIDDEN, &random);
	draw_floats(&inputs->weights[0][0], TOKENS * TOPK, &random);
	draw_floats(&inputs->ori_x[0][0], TOKENS * HIDDEN, &random);
	draw_floats(&inputs->shared_x[0][0], TOKENS * HIDDEN, &random);
	draw_floats(&inputs->residual[0][0], TOKENS * HIDDEN, &random);
	draw_floats(inputs->gamma, HIDDEN, &random);
	draw_floats(&inputs->alpha1[0][0], CONSTANT * HIDDEN, &random);
	draw_floats(&inputs->alpha2[0][0], CONSTANT * HIDDEN, &random);
	draw_floats(&inputs->v[0][0], CONSTANT * HIDDEN, &random);
	for (int i = 0; i < TOKENS * TOPK; i++) {
		inputs->ids[i / TOPK][i % TOPK] =
			(int32_t)(operand_random(&random) % (uint32_t)ids);
		inputs->mask[i] = operand_random(&random) % 5 != 0;
		if (!inputs->mask[i]) /* its weight is never read */
			inputs->weights[i / TOPK][i % TOPK] = NAN;
	}
	/* A token that is inactive: masked, or without any expert. */
	for (int k = 0; k < TOPK; k++) {
		inputs->mask[TOPK + k] = 0;
		inputs->ids[2][k] = -1;
	}
}

/* Rounds values to a type, in place. */
static void round_to(enum shunt_dtype dtype, float *values, int64_t count)
{
	static _Thread_local uint8_t codes[HIDDEN * sizeof(float)];

	convert_store(dtype, values, count, codes);
	convert_load(dtype, codes, count, values);
}

/* What expert `unit` at TP rank `tp` makes of a token, rounded. */
static void make_row(const struct variant *variant, const float *x,
	int64_t unit, int32_t tp, float *y)
{
	for (int64_t h = 0; h < HIDDEN; h++)
		y[h] = operand_plus(
			operand_times(x[h], 0.5f + 0.375f * (float)unit),
			0.125f * (float)(tp + 1) * (float)(h % 3));
	round_to(variant->expert_dtype, y, HIDDEN);
}

/* ---- the plain sum ------------------------------------------------------ */

/* The row as it comes home: summed over TP, quantized and back. */
static void bring_row(
	const struct variant *variant, const float *x, int64_t unit, float *row)
{
	uint8_t codes[HIDDEN * sizeof(float)];
	float other[HIDDEN];
	int64_t ignored = 0;

	make_row(variant, x, unit, 0, row);
	if (variant->tp) {
		make_row(variant, x, unit, 1, other);
		for (int h = 0; h < HIDDEN; h++)
			row[h] = operand_plus(row[h], other[h]);
		round_to(variant->expert_dtype, row, HIDDEN);
	}
	if (variant->quant == SHUNT_COMBINE_QUANT_NONE)
		return;
	convert_store(variant->expert_dtype, row, HIDDEN, codes);
	reference_travel_row(variant->quant, variant->expert_dtype, codes,
		HIDDEN, row, &ignored, &ignored);
}

static float plain_dot(const float *a, const float *b)
{
	float lanes[16] = {0};

	for (int h = 0; h < HIDDEN; h++)
		lanes[h % 16] =
			operand_plus(lanes[h % 16], operand_times(a[h], b[h]));
	for (int half = 8; half >= 1; half /= 2)
		for (int i = 0; i < half; i++)
			lanes[i] = operand_plus(lanes[i], lanes[i + half]);
	return lanes[0];
}

/* All stored values as the library sees them: rounded to the type. */
static void plain_special(const struct variant *variant,
	const struct inputs *inputs, int64_t t, int64_t z, float *row)
{
	float x[HIDDEN], alpha[HIDDEN], v[HIDDEN];
	float a1, a2, max, e1, e2;
	int64_t c = z - ZERO - COPY;

	memcpy(x, inputs->ori_x[t], sizeof(x));
	round_to(variant->expert_dtype, x, HIDDEN);
	memcpy(row, x, sizeof(x));
	if (c < 0)
		return;
	memcpy(alpha, inputs->alpha1[c], sizeof(alpha));
	round_to(variant->expert_dtype, alpha, HIDDEN);
	a1 = plain_dot(alpha, x);
	memcpy(alpha, inputs->alpha2[c], sizeof(alpha));
	round_to(variant->expert_dtype, alpha, HIDDEN);
	a2 = plain_dot(alpha, x);
	memcpy(v, inputs->v[c], sizeof(v));
	round_to(variant->expert_dtype, v, HIDDEN);
	max = a1 > a2 ? a1 : a2;
	e1 = (float)exp((double)operand_plus(a1, -max));
	e2 = (float)exp((double)operand_plus(a2, -max));
	for (int h = 0; h < HIDDEN; h++) {
		float p1 = e1 / operand_plus(e1, e2);
		float p2 = e2 / operand_plus(e1, e2);

		row[h] = operand_plus(
			operand_times(p1, x[h]), operand_times(p2, v[h]));
	}
}

static void add(float *acc, const float *row, const float *weight)
{
	for (int h = 0; h < HIDDEN; h++)
		acc[h] = operand_plus(acc[h],
			weight ? operand_times(*weight, row[h]) : row[h]);
}

/* The token's sum; false if it is inactive. */
static bool plain_sum(const struct variant *variant,
	const struct inputs *inputs, int64_t t, float *acc)
{
	float row[HIDDEN];
	bool is_active = false;

	memset(acc, 0, HIDDEN * sizeof(*acc));
	for (int64_t k = 0; k < TOPK; k++) {
		int64_t id = inputs->ids[t][k];
		const float *weight =
			variant->weights ? &inputs->weights[t][k] : NULL;

		if (!inputs->mask[t * TOPK + k] || id < 0)
			continue;
		is_active = true;
		if (id >= EXPERTS && id < EXPERTS + ZERO)
			continue;
		if (id < EXPERTS)
			bring_row(variant, inputs->x[t], id, row);
		else
			plain_special(variant, inputs, t, id - EXPERTS, row);
		add(acc, row, weight);
	}
	if (is_active && variant->shared) {
		bring_row(variant, inputs->x[t], EXPERTS, row);
		add(acc, row, NULL);
	}
	if (is_active && variant->shared_x) {
		memcpy(row, inputs->shared_x[t], sizeof(row));
		round_to(variant->expert_dtype, row, HIDDEN);
		add(acc, row, NULL);
	}
	return is_active;
}

struct outputs {
	uint8_t out[TOKENS][HIDDEN * sizeof(float)];
	uint8_t norm_out[TOKENS][HIDDEN * sizeof(float)];
	float rstd[TOKENS];
};

static void plain_tail(const struct variant *variant,
	const struct inputs *inputs, int64_t t, float *z, struct outputs *due)
{
	float values[HIDDEN];
	float rstd;

	if (variant->residual) {
		memcpy(values, inputs->residual[t], sizeof(values));
		round_to(variant->out_dtype, values, HIDDEN);
		add(z, values, NULL);
	}
	convert_store(variant->out_dtype, z, HIDDEN, due->out[t]);
	if (!variant->gamma)
		return;
	rstd = operand_plus(plain_dot(z, z) / (float)HIDDEN, 1e-6f);
	rstd = 1.0f / sqrtf(rstd);
	due->rstd[t] = rstd;
	for (int h = 0; h < HIDDEN; h++)
		z[h] = operand_times(z[h], rstd);
	round_to(variant->out_dtype, z, HIDDEN);
	memcpy(values, inputs->gamma, sizeof(values));
	round_to(variant->gamma_f32 ? SHUNT_DTYPE_F32 : variant->out_dtype,
		values, HIDDEN);
	for (int h = 0; h < HIDDEN; h++)
		z[h] = operand_times(z[h], values[h]);
	convert_store(variant->out_dtype, z, HIDDEN, due->norm_out[t]);
}

/* ---- a rank ------------------------------------------------------------- */

/* Everything that lies in memory in the types of the exchange. */
struct arguments {
	uint8_t ori_x[TOKENS * HIDDEN * 4], shared_x[TOKENS * HIDDEN * 4];
	uint8_t residual[TOKENS * HIDDEN * 4], gamma[HIDDEN * 4];
	uint8_t alpha1[CONSTANT * HIDDEN * 4], alpha2[CONSTANT * HIDDEN * 4];
	uint8_t v[CONSTANT * HIDDEN * 4];
	struct outputs got;
	int64_t performance[RANKS];
};

static struct shunt_exchange_config config_of(const struct variant *variant)
{
	struct shunt_exchange_config config = SHUNT_EXCHANGE_CONFIG_INIT;

	config.max_tokens = TOKENS;
	config.hidden = HIDDEN;
	config.topk = TOPK;
	config.num_experts = EXPERTS;
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
		config.num_zero_experts = ZERO;
		config.num_copy_experts = COPY;
		config.num_constant_experts = CONSTANT;
	}
	return config;
}

static void fill_arguments(const struct variant *variant,
	const struct inputs *inputs, struct arguments *arguments,
	struct shunt_combine_args *args)
{
	enum shunt_dtype type = variant->expert_dtype;

	convert_store(
		type, &inputs->ori_x[0][0], TOKENS * HIDDEN, arguments->ori_x);
	convert_store(type, &inputs->shared_x[0][0], TOKENS * HIDDEN,
		arguments->shared_x);
	convert_store(variant->out_dtype, &inputs->residual[0][0],
		TOKENS * HIDDEN, arguments->residual);
	convert_store(variant->gamma_f32 ? SHUNT_DTYPE_F32 : variant->out_dtype,
		inputs->gamma, HIDDEN, arguments->gamma);
	convert_store(type, &inputs->alpha1[0][0], CONSTANT * HIDDEN,
		arguments->alpha1);
	convert_store(type, &inputs->alpha2[0][0], CONSTANT * HIDDEN,
		arguments->alpha2);
	convert_store(type, &inputs->v[0][0], CONSTANT * HIDDEN, arguments->v);
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
	args->out_stride = (int64_t)(HIDDEN * sizeof(float) /
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
static void work(struct seat *seat, const struct variant *variant,
	const struct shunt_dispatch_out *out, struct shunt_handle handle,
	int64_t first_expert, int32_t tp, uint8_t *y, const void **pointers)
{
	size_t row_bytes = HIDDEN * convert_bytes(variant->expert_dtype);
	const void **rows =
		malloc((size_t)(out->extent_rows + 1) * sizeof(*rows));
	float row[HIDDEN];

	SEAT_CHECK(seat, rows, "no memory");
	SEAT_OK(seat, shunt_dispatch_rows(handle, rows));
	for (int64_t i = 0; i < out->extent_rows; i++)
		pointers[i] = NULL; /* padding is not read */
	for (int64_t l = 0; l < out->num_local_experts; l++)
		for (int64_t i = 0; i < out->expert_token_nums[l]; i++) {
			int64_t at = out->expert_first_row[l] + i;

			make_row(variant, rows[at], first_expert + l, tp, row);
			convert_store(variant->expert_dtype, row, HIDDEN,
				y + (size_t)at * row_bytes);
			pointers[at] = y + (size_t)at * row_bytes;
		}
	free(rows);
}

static void combine(struct seat *seat, const struct variant *variant,
	const struct shunt_dispatch_out *out, struct shunt_handle handle,
	struct shunt_combine_args *args, uint8_t *y, const void **pointers)
{
	size_t row_bytes = HIDDEN * convert_bytes(variant->expert_dtype);

	if (variant->place == BY_POINTERS)
		args->y_rows = pointers;
	else if (variant->place == BY_FEED)
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

static void check(struct seat *seat, const struct variant *variant,
	const struct inputs *inputs, const struct outputs *got)
{
	size_t bytes = HIDDEN * convert_bytes(variant->out_dtype);
	static _Thread_local struct outputs due;

	for (int64_t t = 0; t < TOKENS; t++) {
		float acc[HIDDEN];

		plain_sum(variant, inputs, t, acc);
		plain_tail(variant, inputs, t, acc, &due);
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

/* The first expert of an EP rank: shared ones have number EXPERTS. */
static int64_t first_expert_of(
	const struct variant *variant, int32_t ep_rank, int32_t num_ep)
{
	int32_t moe = num_ep - variant->shared;
	int32_t at = ep_rank - variant->shared;
	int32_t more = EXPERTS % moe;

	if (at < 0)
		return EXPERTS;
	return (int64_t)at * (EXPERTS / moe) + (at < more ? at : more);
}

static void step_once(struct seat *seat, const struct variant *variant,
	struct shunt_exchange *exchange, int32_t ep_rank, int32_t num_ep,
	int32_t tp)
{
	struct inputs *inputs = calloc(1, sizeof(*inputs));
	struct arguments *arguments = calloc(1, sizeof(*arguments));
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine_args = SHUNT_COMBINE_ARGS_INIT;
	struct shunt_handle handle;
	size_t y_bytes;
	uint8_t *own, *registered;
	const void **pointers;

	SEAT_CHECK(seat, inputs && arguments, "no memory");
	draw_inputs(inputs, variant, seat->rank);
	args.x = inputs->x;
	args.num_tokens = TOKENS;
	args.expert_ids = inputs->ids;
	args.ids_type = SHUNT_INDEX_I32;
	args.mask = SHUNT_MASK_CHOICES;
	args.active_mask = inputs->mask;
	args.weights = variant->weights ? &inputs->weights[0][0] : NULL;
	SEAT_OK(seat, shunt_dispatch(exchange, &args, &out, &handle));
	y_bytes = (size_t)(out.extent_rows + 1) * HIDDEN * sizeof(float);
	own = malloc(y_bytes);
	registered = shunt_alloc(seat->world, y_bytes);
	pointers = malloc((size_t)(out.extent_rows + 1) * sizeof(*pointers));
	SEAT_CHECK(seat, own && registered && pointers, "no memory");
	fill_arguments(variant, inputs, arguments, &combine_args);
	{
		uint8_t *y = variant->place == IN_EXPERT_ROWS ? out.expert_rows
			     : variant->place == IN_SEGMENT   ? registered
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
	const struct variant *variant = seat->context;
	struct shunt_exchange_config config = config_of(variant);
	int32_t num_ep = variant->tp ? RANKS / 2 : RANKS;
	int32_t ep_rank = seat->rank % num_ep, tp = seat->rank / num_ep;
	struct shunt_group *ep_group = NULL, *tp_group = NULL;
	struct shunt_exchange *exchange;
	int32_t members[RANKS];

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

static const struct variant plain = {
	.expert_dtype = SHUNT_DTYPE_BF16,
	.out_dtype = SHUNT_DTYPE_BF16,
	.weights = true,
};

static void run(const struct variant *variant)
{
	ranks_run_both(RANKS, run_variant, variant);
}

static void rows_may_lie_anywhere(void **state)
{
	struct variant variant = plain;

	(void)state;
	for (int place = IN_EXPERT_ROWS; place <= BY_FEED; place++)
		for (int layout = 0; layout < 3; layout++) {
			variant.place = (enum place)place;
			variant.layout = (enum shunt_layout)layout;
			variant.alignment = layout == 1 ? 0 : 4 * (place & 1);
			run(&variant);
		}
}

static void shared_and_special_experts_are_added_in_order(void **state)
{
	struct variant variant = plain;

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
	struct variant variant = plain;

	(void)state;
	variant.shared = true;
	variant.special = true;
	for (int quant = 1; quant <= SHUNT_COMBINE_QUANT_MXFP8; quant++)
		for (int place = IN_EXPERT_ROWS; place <= BY_FEED; place++) {
			variant.quant = (enum shunt_combine_quant)quant;
			variant.place = (enum place)place;
			variant.expert_dtype =
				SHUNT_DTYPE_F32 + (quant + place) % 3;
			run(&variant);
		}
}

static void the_tail_takes_all_tokens(void **state)
{
	struct variant variant = plain;

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
	struct variant variant = plain;

	(void)state;
	variant.tp = true;
	for (int i = 0; i < 10; i++) {
		variant.tp_order = i & 1;
		variant.shared = i & 2;
		variant.special = i & 4;
		variant.place = (enum place)(i / 2);
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
