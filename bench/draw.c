/* What the ranks bring to their steps: drawing it. Each kind of numbers has a
 * stream of its own for each step and member. */
#include <string.h>

#include "load.h"
#include "random.h"

/* Numbers that bench/peers/inputs.c knows, too. */
enum {
	PURPOSE_X = 2,
	PURPOSE_WEIGHTS,
	PURPOSE_MASK,
	PURPOSE_DROP,
	PURPOSE_SMOOTH,
	PURPOSE_MASK_CHOICES,
	PURPOSE_BAD,
	PURPOSE_REPEAT,
	PURPOSE_SPECIAL,
	PURPOSE_STATIC,
	PURPOSE_FIELDS = 100, /* and the field */
	PURPOSE_TABLES = 200  /* and the table */
};

/* ---- the routing ------------------------------------------------------ */

static bool is_taken(const int64_t *ids, int64_t topk, int64_t id)
{
	for (int64_t k = 0; k < topk; k++)
		if (ids[k] == id)
			return true;
	return false;
}

/* A special expert that the token has not yet; -1: it has all. */
static int64_t pick_special(
	const struct load *load, struct random *random, const int64_t *token)
{
	int64_t count = load->shape->num_special;
	int64_t start = random_below(random, count);

	for (int64_t i = 0; i < count; i++) {
		int64_t id = load->shape->left_experts + (start + i) % count;

		if (!is_taken(token, load->topk, id))
			return id;
	}
	return -1;
}

static void make_special(const struct load *load, double share,
	struct random *random, int64_t *ids)
{
	for (int64_t i = 0; share > 0 && i < load->num_choices; i++) {
		int64_t *token = ids + i / load->topk * load->topk;
		int64_t id;

		if (random_unit(random) > share)
			continue;
		id = pick_special(load, random, token);
		if (id >= 0)
			ids[i] = id;
	}
}

static void repeat_choices(const struct load *load, double share,
	struct random *random, int64_t *ids)
{
	for (int64_t i = 0; share > 0 && i < load->num_choices; i++)
		if (random_unit(random) <= share && i % load->topk > 0)
			ids[i] = ids[i - 1];
}

static void drop_choices(const struct load *load, double share,
	struct random *random, int64_t *ids)
{
	for (int64_t i = 0; share > 0 && i < load->num_choices; i++)
		if (random_unit(random) <= share)
			ids[i] = -1;
}

static void spoil_choices(const struct load *load, double share,
	struct random *random, int64_t *ids)
{
	int64_t num_ids = load->shape->left_experts + load->shape->num_special;

	for (int64_t i = 0; share > 0 && i < load->num_choices; i++)
		if (random_unit(random) <= share)
			ids[i] = num_ids + random_below(random, 1000);
}

static void draw_mask(struct load *load, const struct options *options,
	int64_t step, int32_t member)
{
	uint64_t seed = (uint64_t)options->seed;
	struct random tokens = random_stream(seed, PURPOSE_MASK, step, member);
	struct random choices =
		random_stream(seed, PURPOSE_MASK_CHOICES, step, member);
	int64_t width = load->mask == SHUNT_MASK_CHOICES ? load->topk : 1;
	uint8_t *mask = load_at(load, LOAD_MASK, step, member);

	for (int64_t t = 0; mask && t < load->num_tokens; t++) {
		bool takes_part = random_unit(&tokens) > options->mask;

		for (int64_t k = 0; k < width; k++)
			*mask++ = takes_part &&
				  (options->mask_choices <= 0 ||
					  random_unit(&choices) >
						  options->mask_choices);
	}
}

static void draw_weights(
	struct load *load, uint64_t seed, int64_t step, int32_t member)
{
	struct random random =
		random_stream(seed, PURPOSE_WEIGHTS, step, member);
	float *weights = load_at(load, LOAD_WEIGHTS, step, member);

	for (int64_t i = 0; weights && i < load->num_choices; i++)
		weights[i] = (float)random_unit(&random);
}

static void count_rows(struct load *load, int64_t step, int32_t member)
{
	int32_t *counts = load_at(load, LOAD_COUNTS, step, member);
	const struct shape *shape = load->shape;
	int32_t active = 0;

	for (int64_t i = 0; i < load->num_choices; i++) {
		int64_t expert = load_expert(load, step, member, i);

		if (expert >= 0)
			counts[expert]++;
	}
	for (int64_t t = 0; t < load->num_tokens; t++)
		active += load_is_active(load, step, member, t);
	for (int64_t j = 0; j < shape->num_shared; j++)
		counts[shape->left_experts + j] = active;
}

static void copy_ids(struct load *load, int64_t step, int32_t member)
{
	const int64_t *ids = load_at(load, LOAD_IDS, step, member);
	int32_t *ids32 = load_at(load, LOAD_IDS32, step, member);

	for (int64_t i = 0; ids32 && i < load->num_choices; i++)
		ids32[i] = (int32_t)ids[i];
}

static bool draw_step(struct load *load, const struct options *options,
	int64_t step, int32_t member)
{
	uint64_t seed = (uint64_t)options->seed;
	struct routing_step at = {seed, step, member};
	struct random special =
		random_stream(seed, PURPOSE_SPECIAL, step, member);
	struct random repeat =
		random_stream(seed, PURPOSE_REPEAT, step, member);
	struct random drop = random_stream(seed, PURPOSE_DROP, step, member);
	struct random bad = random_stream(seed, PURPOSE_BAD, step, member);
	int64_t *ids = load_at(load, LOAD_IDS, step, member);

	if (!routing_draw(&options->routing, &at, load->num_tokens, ids))
		return false;
	make_special(load, options->special_share, &special, ids);
	repeat_choices(load, options->repeat, &repeat, ids);
	drop_choices(load, options->drop, &drop, ids);
	spoil_choices(load, options->bad, &bad, ids);
	copy_ids(load, step, member);
	draw_mask(load, options, step, member);
	draw_weights(load, seed, step, member);
	count_rows(load, step, member);
	return true;
}

bool draw_steps(struct load *load, const struct options *options)
{
	int64_t num_steps = load->one_routing ? 1 : LOAD_STEPS;

	for (int64_t step = 0; step < num_steps; step++)
		for (int32_t m = 0; m < load->shape->num_members; m++)
			if (!draw_step(load, options, step, m))
				return false;
	return true;
}

/* ---- rows ------------------------------------------------------------- */

/* Bits of 8 bytes that may vary, and those that are fixed. */
struct pattern {
	uint64_t varies, fixed;
};

/* Exponents around that of 1, so that nothing needs arithmetic. */
static struct pattern pattern_of(enum shunt_dtype dtype)
{
	switch (dtype) {
	case SHUNT_DTYPE_F32: /* exponent 120 .. 127 */
		return (struct pattern){
			0x83ffffff83ffffffu, 0x3c0000003c000000u};
	case SHUNT_DTYPE_F16: /* exponent 8 .. 15 */
		return (struct pattern){
			0x9fff9fff9fff9fffu, 0x2000200020002000u};
	case SHUNT_DTYPE_BF16: /* exponent 120 .. 127 */
		return (struct pattern){
			0x83ff83ff83ff83ffu, 0x3c003c003c003c00u};
	case SHUNT_DTYPE_E8M0: /* 120 .. 127 */
		return (struct pattern){
			0x0707070707070707u, 0x7878787878787878u};
	case SHUNT_DTYPE_E4M3FN: /* below 2 */
	case SHUNT_DTYPE_E5M2:
		return (struct pattern){0xbfbfbfbfbfbfbfbfu, 0};
	default:
		return (struct pattern){UINT64_MAX, 0};
	}
}

static void fill(struct random *random, enum shunt_dtype dtype, void *to,
	int64_t num_bytes)
{
	struct pattern pattern = pattern_of(dtype);
	uint8_t *bytes = to;

	for (int64_t i = 0; i < num_bytes; i += 8) {
		uint64_t bits =
			(random_next(random) & pattern.varies) | pattern.fixed;

		memcpy(bytes + i, &bits,
			(size_t)(num_bytes - i < 8 ? num_bytes - i : 8));
	}
}

static void draw_field(struct load *load, uint64_t seed, enum load_field field,
	enum shunt_dtype dtype, int32_t member)
{
	uint64_t purpose =
		field == LOAD_X ? PURPOSE_X : PURPOSE_FIELDS + (uint64_t)field;

	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		struct random random =
			random_stream(seed, purpose, step, member);
		void *rows = load_at(load, field, step, member);

		if (rows)
			fill(&random, dtype, rows, load->fields[field].bytes);
	}
}

void draw_rows(struct load *load, const struct options *options, int32_t member)
{
	uint64_t seed = (uint64_t)options->seed;
	enum shunt_dtype expert = (enum shunt_dtype)options->expert_dtype;

	draw_field(
		load, seed, LOAD_X, (enum shunt_dtype)options->dtype, member);
	draw_field(load, seed, LOAD_X_SCALES,
		(enum shunt_dtype)options->x_scale_dtype, member);
	draw_field(load, seed, LOAD_ORI_X, expert, member);
	draw_field(load, seed, LOAD_SHARED_X, expert, member);
	draw_field(load, seed, LOAD_RESIDUAL,
		(enum shunt_dtype)options->out_dtype, member);
}

/* ---- tables ----------------------------------------------------------- */

/* Numbers from `low` to `low` + `range`. */
static void draw_floats(struct load *load, enum load_table table,
	struct random random, float low, float range)
{
	float *floats = load_table(load, table);
	int64_t count = load->tables[table].bytes / 4;

	for (int64_t i = 0; floats && i < count; i++)
		floats[i] = low + range * (float)random_unit(&random);
}

void draw_tables(struct load *load, const struct options *options)
{
	uint64_t seed = (uint64_t)options->seed;
	enum shunt_dtype dtype;

	draw_floats(load, LOAD_SMOOTH,
		random_stream(seed, PURPOSE_SMOOTH, 0, 0), 0.5f, 1);
	/* So that int8 saturates now and then. */
	draw_floats(load, LOAD_STATIC,
		random_stream(seed, PURPOSE_STATIC, 0, 0), 50, 50);
	for (int i = LOAD_ALPHA1; i < LOAD_NUM_TABLES; i++) {
		struct random random =
			random_stream(seed, PURPOSE_TABLES + (uint64_t)i, 0, 0);

		dtype = (enum shunt_dtype)(i == LOAD_GAMMA
						   ? options->gamma
						   : options->expert_dtype);
		if (load->tables[i].base)
			fill(&random, dtype, load->tables[i].base,
				load->tables[i].bytes);
	}
}
