/* Inputs from a seed: counter-based, so nothing here has a state. */
#include "reference/inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/codes.h"
#include "reference/convert.h"
#include "reference/quantize.h"

/* Purposes, so that no two kinds of numbers repeat each other. */
enum purpose {
	PURPOSE_X_KIND = 1000,
	PURPOSE_X,
	PURPOSE_ID,
	PURPOSE_ID_SPOIL,
	PURPOSE_SPECIAL,
	PURPOSE_HOT,
	PURPOSE_MASK,
	PURPOSE_WEIGHT,
	PURPOSE_SMOOTH,
	PURPOSE_SCALE
};

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The finaliser of splitmix64. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* A stream for a purpose; its element i is mix(stream + i * GOLDEN). */
static uint64_t stream_of(const struct input_key *key, uint64_t purpose)
{
	uint64_t stream = mix(key->seed + GOLDEN);

	stream = mix(stream + (uint64_t)key->step + GOLDEN);
	stream = mix(stream + (uint64_t)key->rank + GOLDEN);
	return mix(stream + purpose * GOLDEN);
}

uint64_t input_random(
	const struct input_key *key, uint64_t purpose, uint64_t index)
{
	return mix(stream_of(key, purpose) + index * GOLDEN);
}

int64_t input_range(const struct input_key *key, uint64_t purpose,
	uint64_t index, int64_t low, int64_t high)
{
	uint64_t span = (uint64_t)(high - low) + 1;

	return low + (int64_t)(input_random(key, purpose, index) % span);
}

/* About normal, variance 1: the sum of four uniform numbers. */
static float normal_of(uint64_t random)
{
	int32_t sum =
		(int32_t)(random & 0xffff) + (int32_t)(random >> 16 & 0xffff) +
		(int32_t)(random >> 32 & 0xffff) + (int32_t)(random >> 48);

	return (float)(sum - 131070) * (1.0f / 37837.0f);
}

/* ---- x ---------------------------------------------------------------- */

#define PIECE 256

static void normal_row(
	uint64_t stream, enum shunt_dtype dtype, int64_t hidden, void *row)
{
	float values[PIECE];
	uint8_t *bytes = row;
	int64_t count;

	for (int64_t first = 0; first < hidden; first += PIECE) {
		count = hidden - first < PIECE ? hidden - first : PIECE;
		for (int64_t i = 0; i < count; i++)
			values[i] = normal_of(
				mix(stream + (uint64_t)(first + i) * GOLDEN));
		convert_store(dtype, values, count,
			bytes + (size_t)first * convert_bytes(dtype));
	}
}

/* The fields of a floating point format. */
struct fields {
	uint32_t sign, exponent, fraction;
};

static struct fields fields_of(enum shunt_dtype dtype)
{
	if (dtype == SHUNT_DTYPE_F32)
		return (struct fields){0x80000000, 0x7f800000, 0x7fffff};
	if (dtype == SHUNT_DTYPE_F16)
		return (struct fields){0x8000, 0x7c00, 0x3ff};
	return (struct fields){0x8000, 0x7f80, 0x7f};
}

enum kind {
	KIND_ZERO,
	KIND_NAN,
	KIND_INF,
	KIND_DENORMAL,
	KIND_TINY,
	KIND_HUGE,
	KIND_BITS,
	KIND_INF_AND_ZERO,
	KIND_ONE_NAN,
	KIND_TWO_INFS,
	KIND_NORMAL,
	KIND_NUM
};

static uint32_t odd_bits(
	enum kind kind, enum shunt_dtype dtype, uint64_t random)
{
	struct fields fields = fields_of(dtype);
	uint32_t lowest = fields.fraction + 1; /* exponent field of 1 */
	uint32_t bits = (uint32_t)(random >> 8);

	switch (kind) {
	case KIND_NAN:
		return (bits & (fields.sign | fields.fraction)) |
		       fields.exponent | 1;
	case KIND_INF:
		return (bits & fields.sign) | fields.exponent;
	case KIND_DENORMAL:
		return bits & (fields.sign | fields.fraction);
	case KIND_TINY:
		return (bits & (fields.sign | fields.fraction)) | lowest;
	case KIND_HUGE:
		return (bits & (fields.sign | fields.fraction)) |
		       (fields.exponent - lowest);
	case KIND_BITS:
		return bits;
	case KIND_INF_AND_ZERO:
		return bits & 4 ? fields.exponent | (bits & fields.sign) : 0;
	default:
		return bits & fields.sign;
	}
}

static void put_bits(
	enum shunt_dtype dtype, void *row, int64_t h, uint32_t bits)
{
	uint16_t half = (uint16_t)bits;

	if (dtype == SHUNT_DTYPE_F32)
		memcpy((uint8_t *)row + 4 * h, &bits, sizeof(bits));
	else
		memcpy((uint8_t *)row + 2 * h, &half, sizeof(half));
}

static void put_odd(enum kind kind, enum shunt_dtype dtype, void *row,
	int64_t h, uint64_t random)
{
	put_bits(dtype, row, h, odd_bits(kind, dtype, random));
}

static void adversarial_row(enum kind kind, uint64_t stream,
	enum shunt_dtype dtype, int64_t hidden, void *row)
{
	uint64_t place = mix(stream ^ GOLDEN);
	int64_t first = (int64_t)(place % (uint64_t)hidden);
	int64_t second = (int64_t)(mix(place) % (uint64_t)hidden);

	if (kind >= KIND_ONE_NAN) {
		normal_row(stream, dtype, hidden, row);
		if (kind == KIND_ONE_NAN)
			put_odd(KIND_NAN, dtype, row, first, place);
		if (kind == KIND_TWO_INFS) {
			put_odd(KIND_INF, dtype, row, first, place);
			put_odd(KIND_INF, dtype, row, second, ~place);
		}
		return;
	}
	for (int64_t h = 0; h < hidden; h++)
		put_odd(kind, dtype, row, h,
			mix(stream + (uint64_t)h * GOLDEN));
}

/* Any codes; of E2M1 an odd last byte has a half that is not used: 0. */
static void code_row(
	uint64_t stream, enum shunt_dtype dtype, int64_t hidden, void *row)
{
	uint8_t code;

	for (int64_t h = 0; h < hidden; h++) {
		code = (uint8_t)(mix(stream + (uint64_t)h * GOLDEN) >> 8);
		if (dtype == SHUNT_DTYPE_E2M1)
			code &= 0xf;
		codes_put(dtype, row, h, code);
	}
}

void input_x_row(const struct input_key *key, enum input_style style,
	enum shunt_dtype dtype, int64_t hidden, int64_t t, void *row)
{
	uint64_t stream = mix(stream_of(key, PURPOSE_X) + (uint64_t)t);
	uint64_t kind = input_random(key, PURPOSE_X_KIND, (uint64_t)t);

	if (dtype >= SHUNT_DTYPE_I8)
		code_row(stream, dtype, hidden, row);
	else if (style == INPUT_NORMAL)
		normal_row(stream, dtype, hidden, row);
	else
		adversarial_row((enum kind)(kind % KIND_NUM), stream, dtype,
			hidden, row);
}

/* ---- ids -------------------------------------------------------------- */

static bool is_taken(const int64_t *ids, int64_t count, int64_t id)
{
	for (int64_t k = 0; k < count; k++)
		if (ids[k] == id)
			return true;
	return false;
}

/* The first expert from `start` on, going round, that the rule allows. */
static int64_t pick(const struct input_ids_rule *rule, const int64_t *ids,
	int64_t k, int64_t start)
{
	int64_t id;

	for (int64_t i = 0; i < rule->num_experts; i++) {
		id = (start + i) % rule->num_experts;
		if (rule->routing == INPUT_LOCAL &&
			rule->expert_rank[id] != rule->rank)
			continue;
		if (!rule->distinct || !is_taken(ids, k, id))
			return id;
	}
	return -1;
}

int64_t input_bad_id(uint64_t random, int64_t num_ids, bool wide)
{
	/* The last of these look like good ids to who cuts them to 32 bits. */
	const int64_t bad[] = {num_ids, -2, INT32_MAX, INT32_MIN, num_ids + 1,
		INT64_MAX, INT64_MIN, INT64_C(1) << 32, -(INT64_C(1) << 32),
		(INT64_C(1) << 32) - 1};

	return bad[random % (wide ? 10 : 5)];
}

/* Random numbers are by rank and step, the hot expert by step alone. */
static int64_t start_of(const struct input_key *key,
	const struct input_ids_rule *rule, uint64_t choice)
{
	struct input_key shared = {key->seed, key->step, 0};

	if (rule->num_experts == 0)
		return 0;
	if (rule->routing == INPUT_HOT)
		return input_range(
			&shared, PURPOSE_HOT, 0, 0, rule->num_experts - 1);
	return input_range(key, PURPOSE_ID, choice, 0, rule->num_experts - 1);
}

/* A special expert instead, unless the token has it already. */
static int64_t special_or(const struct input_key *key,
	const struct input_ids_rule *rule, const int64_t *ids, int64_t k,
	uint64_t choice)
{
	uint64_t random = input_random(key, PURPOSE_SPECIAL, choice);
	int64_t id;

	if (rule->num_special == 0 ||
		(int)(random % 100) >= rule->percent_special)
		return ids[k];
	id = rule->num_experts +
	     (int64_t)((random >> 32) % (uint64_t)rule->num_special);
	return rule->distinct && is_taken(ids, k, id) ? -1 : id;
}

static int64_t spoilt(const struct input_key *key,
	const struct input_ids_rule *rule, int64_t id, uint64_t choice)
{
	uint64_t random = input_random(key, PURPOSE_ID_SPOIL, choice);
	int percent = (int)(random % 100);

	if (percent < rule->percent_none)
		return -1;
	if (percent < rule->percent_none + rule->percent_bad)
		return input_bad_id(random >> 32,
			rule->num_experts + rule->num_special, rule->wide);
	return id;
}

void input_ids(const struct input_key *key, const struct input_ids_rule *rule,
	int64_t t, int64_t *ids)
{
	uint64_t choice;

	for (int64_t k = 0; k < rule->topk; k++) {
		choice = (uint64_t)(t * rule->topk + k);
		ids[k] = pick(rule, ids, k, start_of(key, rule, choice));
		ids[k] = special_or(key, rule, ids, k, choice);
	}
	for (int64_t k = 0; k < rule->topk; k++) {
		choice = (uint64_t)(t * rule->topk + k);
		ids[k] = spoilt(key, rule, ids[k], choice);
	}
}

/* ---- masks, weights, scales ------------------------------------------- */

void input_mask(
	const struct input_key *key, int percent, int64_t count, uint8_t *mask)
{
	uint64_t random;

	for (int64_t i = 0; i < count; i++) {
		random = input_random(key, PURPOSE_MASK, (uint64_t)i);
		mask[i] = (uint8_t)(random >> 32);
		if (mask[i] == 0)
			mask[i] = 1;
		if ((int)(random % 100) < percent)
			mask[i] = 0;
	}
}

static float odd_float(uint64_t random)
{
	const float odd[] = {
		NAN, INFINITY, -INFINITY, 0.0f, -0.0f, -1.5f, 1e-40f, 3e38f};

	return odd[random % (sizeof(odd) / sizeof(odd[0]))];
}

void input_weights(const struct input_key *key, enum input_style style,
	int64_t count, float *weights)
{
	uint64_t random;

	for (int64_t i = 0; i < count; i++) {
		random = input_random(key, PURPOSE_WEIGHT, (uint64_t)i);
		weights[i] = (float)(random >> 40) * 0x1p-24f;
		if (style == INPUT_ADVERSARIAL && (random & 3) == 0)
			weights[i] = odd_float(random >> 8);
	}
}

void input_smooth(const struct input_key *key, enum input_style style,
	int64_t count, float *smooth)
{
	uint64_t random;

	for (int64_t i = 0; i < count; i++) {
		random = input_random(key, PURPOSE_SMOOTH, (uint64_t)i);
		smooth[i] = 0.5f + (float)(random >> 40) * 0x1p-24f;
		if (style == INPUT_ADVERSARIAL && (random & 31) == 0)
			smooth[i] = odd_float(random >> 8);
	}
}

void input_scales(const struct input_key *key, enum input_style style,
	enum shunt_dtype dtype, int64_t count, void *scales)
{
	uint8_t *bytes = scales;
	uint64_t random;
	float scale;

	for (int64_t i = 0; i < count; i++) {
		random = input_random(key, PURPOSE_SCALE, (uint64_t)i);
		scale = 0.5f + (float)(random >> 40) * 0x1p-24f;
		if (style == INPUT_ADVERSARIAL && (random & 7) == 0)
			scale = odd_float(random >> 8);
		if (dtype == SHUNT_DTYPE_F32)
			memcpy(bytes + 4 * i, &scale, sizeof(scale));
		else if (style == INPUT_ADVERSARIAL)
			bytes[i] = (uint8_t)(random >> 16);
		else
			bytes[i] = dtype == SHUNT_DTYPE_E8M0
					   ? (uint8_t)(120 + (random & 7))
					   : codes_encode(dtype, scale);
	}
}

/* ---- the toy expert --------------------------------------------------- */

/* Rows that came as they are, with their scales spread over the elements. */
static void load_given(const struct shunt_exchange_config *config,
	const struct reference_made *made, float *values)
{
	int64_t hidden = config->hidden, n = config->x_scales_per_row, at;
	float scale;

	if (config->dtype < SHUNT_DTYPE_I8)
		convert_load(config->dtype, made->q, hidden, values);
	for (int64_t i = 0; i < hidden; i++) {
		if (config->dtype >= SHUNT_DTYPE_I8)
			values[i] = codes_decode(config->dtype,
				codes_get(config->dtype, made->q, i));
		if (n == 0)
			continue;
		at = i * n / hidden;
		if (config->x_scale_dtype == SHUNT_DTYPE_F32)
			memcpy(&scale, made->scales + 4 * at, sizeof(scale));
		else
			scale = codes_decode(
				config->x_scale_dtype, made->scales[at]);
		values[i] = values[i] * scale;
	}
}

static void load_quantized(const struct shunt_exchange_config *config,
	const struct reference_made *made, float *values)
{
	const float one = 1;
	struct reference_codes codes = {
		.quant = config->quant,
		.form = config->scale_form,
		.dtype = SHUNT_DTYPE_F32,
		.hidden = config->hidden,
		.q = made->q,
		.scales = made->scales,
		.row_scale = made->row_scale,
		.x = values,
	};

	if (config->quant == SHUNT_QUANT_INT8_STATIC ||
		config->quant == SHUNT_QUANT_E4M3FN_STATIC) {
		codes.scales = (const uint8_t *)&one;
		codes.fixed_is_one = true;
	}
	reference_dequantize_row(&codes);
}

void input_expert_row(void *context, const struct reference_made *made, void *y)
{
	const struct reference_job *job = context;
	const struct shunt_exchange_config *config = &job->config;
	float a = 0.5f + (float)(made->expert % 13) * 0.125f;
	float b = (float)(made->expert % 7) * 0.25f - 0.5f;
	float *values = malloc((size_t)config->hidden * sizeof(*values));

	if (values == NULL)
		abort();
	a = a + (float)made->tp * 0.0625f;
	if (config->quant == SHUNT_QUANT_NONE)
		load_given(config, made, values);
	else
		load_quantized(config, made, values);
	for (int64_t i = 0; i < config->hidden; i++)
		values[i] = values[i] * a + b;
	convert_store(config->expert_dtype, values, config->hidden, y);
	free(values);
}
