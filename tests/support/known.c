#include "support/known.h"

#include <math.h>
#include <string.h>

#include "reference/convert.h"
#include "reference/quantize.h"
#include "support/operand.h"

static void draw_floats(float *to, size_t count, uint64_t *random)
{
	for (size_t i = 0; i < count; i++)
		to[i] = operand_value(OPERAND_PLAIN, random) * 0.25f;
}

void known_draw(struct known_inputs *inputs,
	const struct known_variant *variant, int32_t rank)
{
	uint64_t random = 0x9e3779b97f4a7c15 + (uint64_t)rank;
	int ids = KNOWN_EXPERTS +
		  (variant->special ? KNOWN_ZERO + KNOWN_COPY + KNOWN_CONSTANT
				    : 0);

	draw_floats(&inputs->x[0][0], KNOWN_TOKENS * KNOWN_HIDDEN, &random);
	draw_floats(&inputs->weights[0][0], KNOWN_TOKENS * KNOWN_TOPK, &random);
	draw_floats(&inputs->ori_x[0][0], KNOWN_TOKENS * KNOWN_HIDDEN, &random);
	draw_floats(
		&inputs->shared_x[0][0], KNOWN_TOKENS * KNOWN_HIDDEN, &random);
	draw_floats(
		&inputs->residual[0][0], KNOWN_TOKENS * KNOWN_HIDDEN, &random);
	draw_floats(inputs->gamma, KNOWN_HIDDEN, &random);
	draw_floats(
		&inputs->alpha1[0][0], KNOWN_CONSTANT * KNOWN_HIDDEN, &random);
	draw_floats(
		&inputs->alpha2[0][0], KNOWN_CONSTANT * KNOWN_HIDDEN, &random);
	draw_floats(&inputs->v[0][0], KNOWN_CONSTANT * KNOWN_HIDDEN, &random);
	for (int i = 0; i < KNOWN_TOKENS * KNOWN_TOPK; i++) {
		inputs->ids[i / KNOWN_TOPK][i % KNOWN_TOPK] =
			(int32_t)(operand_random(&random) % (uint32_t)ids);
		inputs->mask[i] = operand_random(&random) % 5 != 0;
		if (!inputs->mask[i]) /* its weight is never read */
			inputs->weights[i / KNOWN_TOPK][i % KNOWN_TOPK] = NAN;
	}
	/* A token that is inactive: masked, or without any expert. */
	for (int k = 0; k < KNOWN_TOPK; k++) {
		inputs->mask[KNOWN_TOPK + k] = 0;
		inputs->ids[2][k] = -1;
	}
}

/* Rounds values to a type, in place. */
static void round_to(enum shunt_dtype dtype, float *values, int64_t count)
{
	static _Thread_local uint8_t codes[KNOWN_HIDDEN * sizeof(float)];

	convert_store(dtype, values, count, codes);
	convert_load(dtype, codes, count, values);
}

void known_row(const struct known_variant *variant, const float *x,
	int64_t unit, int32_t tp, float *y)
{
	for (int64_t h = 0; h < KNOWN_HIDDEN; h++)
		y[h] = operand_plus(
			operand_times(x[h], 0.5f + 0.375f * (float)unit),
			0.125f * (float)(tp + 1) * (float)(h % 3));
	round_to(variant->expert_dtype, y, KNOWN_HIDDEN);
}

/* ---- the plain sum ------------------------------------------------------ */

/* The row as it comes home: summed over TP, quantized and back. */
static void bring_row(const struct known_variant *variant, const float *x,
	int64_t unit, float *row)
{
	uint8_t codes[KNOWN_HIDDEN * sizeof(float)];
	float other[KNOWN_HIDDEN];
	int64_t ignored = 0;

	known_row(variant, x, unit, 0, row);
	if (variant->tp) {
		known_row(variant, x, unit, 1, other);
		for (int h = 0; h < KNOWN_HIDDEN; h++)
			row[h] = operand_plus(row[h], other[h]);
		round_to(variant->expert_dtype, row, KNOWN_HIDDEN);
	}
	if (variant->quant == SHUNT_COMBINE_QUANT_NONE)
		return;
	convert_store(variant->expert_dtype, row, KNOWN_HIDDEN, codes);
	reference_travel_row(variant->quant, variant->expert_dtype, codes,
		KNOWN_HIDDEN, row, &ignored, &ignored);
}

/* All stored values as the library sees them: rounded to the type. */
static void plain_special(const struct known_variant *variant,
	const struct known_inputs *inputs, int64_t t, int64_t z, float *row)
{
	float x[KNOWN_HIDDEN], alpha[KNOWN_HIDDEN], v[KNOWN_HIDDEN];
	float a1, a2, max, e1, e2;
	int64_t c = z - KNOWN_ZERO - KNOWN_COPY;

	memcpy(x, inputs->ori_x[t], sizeof(x));
	round_to(variant->expert_dtype, x, KNOWN_HIDDEN);
	memcpy(row, x, sizeof(x));
	if (c < 0)
		return;
	memcpy(alpha, inputs->alpha1[c], sizeof(alpha));
	round_to(variant->expert_dtype, alpha, KNOWN_HIDDEN);
	a1 = operand_dot(alpha, x, KNOWN_HIDDEN);
	memcpy(alpha, inputs->alpha2[c], sizeof(alpha));
	round_to(variant->expert_dtype, alpha, KNOWN_HIDDEN);
	a2 = operand_dot(alpha, x, KNOWN_HIDDEN);
	memcpy(v, inputs->v[c], sizeof(v));
	round_to(variant->expert_dtype, v, KNOWN_HIDDEN);
	max = a1 > a2 ? a1 : a2;
	e1 = (float)exp((double)operand_plus(a1, -max));
	e2 = (float)exp((double)operand_plus(a2, -max));
	for (int h = 0; h < KNOWN_HIDDEN; h++) {
		float p1 = e1 / operand_plus(e1, e2);
		float p2 = e2 / operand_plus(e1, e2);

		row[h] = operand_plus(
			operand_times(p1, x[h]), operand_times(p2, v[h]));
	}
}

static void add(float *acc, const float *row, const float *weight)
{
	for (int h = 0; h < KNOWN_HIDDEN; h++)
		acc[h] = operand_plus(acc[h],
			weight ? operand_times(*weight, row[h]) : row[h]);
}

void known_sum(const struct known_variant *variant,
	const struct known_inputs *inputs, int64_t t, float *acc)
{
	float row[KNOWN_HIDDEN];
	bool is_active = false;

	memset(acc, 0, KNOWN_HIDDEN * sizeof(*acc));
	for (int64_t k = 0; k < KNOWN_TOPK; k++) {
		int64_t id = inputs->ids[t][k];
		const float *weight =
			variant->weights ? &inputs->weights[t][k] : NULL;

		if (!inputs->mask[t * KNOWN_TOPK + k] || id < 0)
			continue;
		is_active = true;
		if (id >= KNOWN_EXPERTS && id < KNOWN_EXPERTS + KNOWN_ZERO)
			continue;
		if (id < KNOWN_EXPERTS)
			bring_row(variant, inputs->x[t], id, row);
		else
			plain_special(
				variant, inputs, t, id - KNOWN_EXPERTS, row);
		add(acc, row, weight);
	}
	if (is_active && variant->shared) {
		bring_row(variant, inputs->x[t], KNOWN_EXPERTS, row);
		add(acc, row, NULL);
	}
	if (is_active && variant->shared_x) {
		memcpy(row, inputs->shared_x[t], sizeof(row));
		round_to(variant->expert_dtype, row, KNOWN_HIDDEN);
		add(acc, row, NULL);
	}
}

void known_tail(const struct known_variant *variant,
	const struct known_inputs *inputs, int64_t t, float *z,
	struct known_outputs *due)
{
	float values[KNOWN_HIDDEN];
	float rstd;

	if (variant->residual) {
		memcpy(values, inputs->residual[t], sizeof(values));
		round_to(variant->out_dtype, values, KNOWN_HIDDEN);
		add(z, values, NULL);
	}
	convert_store(variant->out_dtype, z, KNOWN_HIDDEN, due->out[t]);
	if (!variant->gamma)
		return;
	rstd = operand_plus(
		operand_dot(z, z, KNOWN_HIDDEN) / (float)KNOWN_HIDDEN, 1e-6f);
	rstd = 1.0f / sqrtf(rstd);
	due->rstd[t] = rstd;
	for (int h = 0; h < KNOWN_HIDDEN; h++)
		z[h] = operand_times(z[h], rstd);
	round_to(variant->out_dtype, z, KNOWN_HIDDEN);
	memcpy(values, inputs->gamma, sizeof(values));
	round_to(variant->gamma_f32 ? SHUNT_DTYPE_F32 : variant->out_dtype,
		values, KNOWN_HIDDEN);
	for (int h = 0; h < KNOWN_HIDDEN; h++)
		z[h] = operand_times(z[h], values[h]);
	convert_store(variant->out_dtype, z, KNOWN_HIDDEN, due->norm_out[t]);
}
