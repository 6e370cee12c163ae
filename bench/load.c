/* What the ranks bring to their steps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "expert.h"
#include "load.h"
#include "random.h"
#include "shared.h"

enum {
	PURPOSE_X = 2,
	PURPOSE_WEIGHTS,
	PURPOSE_MASK,
	PURPOSE_DROP,
	PURPOSE_SMOOTH
};

/* ---- where things are ------------------------------------------------- */

static int64_t part(const struct load *load, int64_t step, int32_t rank)
{
	return step % LOAD_STEPS * load->num_ranks + rank;
}

uint8_t *load_x(const struct load *load, int64_t step, int32_t rank)
{
	return load->x + part(load, step, rank) * load->x_bytes;
}

int64_t *load_ids(const struct load *load, int64_t step, int32_t rank)
{
	return load->ids + part(load, step, rank) * load->num_choices;
}

float *load_weights(const struct load *load, int64_t step, int32_t rank)
{
	return load->weights + part(load, step, rank) * load->num_choices;
}

uint8_t *load_mask(const struct load *load, int64_t step, int32_t rank)
{
	if (!load->mask)
		return NULL;
	return load->mask + part(load, step, rank) * load->num_tokens;
}

static int32_t *counts_of(const struct load *load, int64_t step, int32_t rank)
{
	return load->counts + part(load, step, rank) * load->num_experts;
}

/* The expert that a choice travels to, or -1. */
static int64_t travels_to(
	const struct load *load, int64_t step, int32_t rank, int64_t choice)
{
	const uint8_t *mask = load_mask(load, step, rank);

	if (mask && !mask[choice / load->topk])
		return -1;
	return load_ids(load, step, rank)[choice];
}

/* ---- drawing ---------------------------------------------------------- */

static void draw_weights(
	struct load *load, uint64_t seed, int64_t step, int32_t rank)
{
	struct random random = random_stream(seed, PURPOSE_WEIGHTS, step, rank);
	float *weights = load_weights(load, step, rank);

	for (int64_t i = 0; i < load->num_choices; i++)
		weights[i] = (float)random_unit(&random);
}

static void draw_mask(struct load *load, const struct options *options,
	int64_t step, int32_t rank)
{
	struct random random = random_stream(
		(uint64_t)options->seed, PURPOSE_MASK, step, rank);
	uint8_t *mask = load_mask(load, step, rank);

	for (int64_t t = 0; mask && t < load->num_tokens; t++)
		mask[t] = random_unit(&random) > options->mask;
}

static void drop_choices(struct load *load, const struct options *options,
	int64_t step, int32_t rank)
{
	struct random random = random_stream(
		(uint64_t)options->seed, PURPOSE_DROP, step, rank);
	int64_t *ids = load_ids(load, step, rank);

	if (options->drop <= 0)
		return;
	for (int64_t i = 0; i < load->num_choices; i++)
		if (random_unit(&random) <= options->drop)
			ids[i] = -1;
}

static void count_choices(struct load *load, int64_t step, int32_t rank)
{
	int32_t *counts = counts_of(load, step, rank);

	for (int64_t i = 0; i < load->num_choices; i++) {
		int64_t expert = travels_to(load, step, rank, i);

		if (expert >= 0)
			counts[expert]++;
	}
}

static void draw_smooth(struct load *load, const struct options *options)
{
	struct random random =
		random_stream((uint64_t)options->seed, PURPOSE_SMOOTH, 0, 0);

	for (int64_t i = 0;
		load->smooth && i < load->num_experts * options->hidden; i++)
		load->smooth[i] = 0.5f + (float)random_unit(&random);
}

static bool draw_step(struct load *load, const struct options *options,
	int64_t step, int32_t rank)
{
	struct routing_step at = {(uint64_t)options->seed, step, rank};

	if (!routing_draw(&options->routing, &at, load->num_tokens,
		    load_ids(load, step, rank)))
		return false;
	drop_choices(load, options, step, rank);
	draw_mask(load, options, step, rank);
	draw_weights(load, at.seed, step, rank);
	count_choices(load, step, rank);
	return true;
}

static bool draw_all(struct load *load, const struct options *options)
{
	for (int64_t step = 0; step < LOAD_STEPS; step++)
		for (int32_t rank = 0; rank < load->num_ranks; rank++)
			if (!draw_step(load, options, step, rank))
				return false;
	draw_smooth(load, options);
	return true;
}

/*
 * Random bits with exponents around that of 1, without arithmetic: for each
 * type a mask of what may vary and the bits that are fixed.
 */
static void fill_x(struct random *random, enum shunt_dtype dtype, uint8_t *x,
	int64_t num_bytes)
{
	uint64_t varies, fixed;

	switch (dtype) {
	case SHUNT_DTYPE_F32: /* exponent 120 .. 127 */
		varies = 0x83ffffff83ffffffu;
		fixed = 0x3c0000003c000000u;
		break;
	case SHUNT_DTYPE_F16: /* exponent 8 .. 15 */
		varies = 0x9fff9fff9fff9fffu;
		fixed = 0x2000200020002000u;
		break;
	default: /* bf16, exponent 120 .. 127 */
		varies = 0x83ff83ff83ff83ffu;
		fixed = 0x3c003c003c003c00u;
		break;
	}
	for (int64_t i = 0; i < num_bytes; i += 8) {
		uint64_t bits = (random_next(random) & varies) | fixed;

		memcpy(x + i, &bits,
			(size_t)(num_bytes - i < 8 ? num_bytes - i : 8));
	}
}

void load_fill_x(struct load *load, const struct options *options, int32_t rank)
{
	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		struct random random = random_stream(
			(uint64_t)options->seed, PURPOSE_X, step, rank);

		fill_x(&random, (enum shunt_dtype)options->dtype,
			load_x(load, step, rank), load->x_bytes);
	}
}

/* ---- memory ----------------------------------------------------------- */

static void set_shape(struct load *load, const struct options *options)
{
	load->num_ranks = (int32_t)options->num_ranks;
	load->num_tokens = options->num_tokens;
	load->topk = options->topk;
	load->num_experts = options->num_experts;
	load->num_choices = options->num_tokens * options->topk;
	load->x_row_bytes =
		options->hidden *
		expert_element_bytes((enum shunt_dtype)options->dtype);
	load->x_bytes = options->num_tokens * load->x_row_bytes;
}

bool load_init(struct load *load, const struct options *options)
{
	struct shared_layout layout = {
		.one_process = options->launch == LAUNCH_THREADS,
	};
	size_t parts;
	size_t x, ids, weights, counts;
	size_t mask = 0;
	size_t smooth = 0;

	*load = (struct load){0};
	set_shape(load, options);
	parts = LOAD_STEPS * (size_t)load->num_ranks;
	x = shared_reserve(&layout, parts, (size_t)load->x_bytes);
	ids = shared_reserve(&layout, parts, (size_t)load->num_choices * 8);
	weights = shared_reserve(&layout, parts, (size_t)load->num_choices * 4);
	counts = shared_reserve(&layout, parts, (size_t)load->num_experts * 4);
	if (options->mask > 0)
		mask = shared_reserve(&layout, parts, (size_t)load->num_tokens);
	if (options->smooth)
		smooth = shared_reserve(&layout, (size_t)load->num_experts,
			(size_t)options->hidden * 4);
	load->memory = shared_map(&layout);
	if (!load->memory)
		return false;
	load->bytes = layout.bytes;
	load->x = shared_at(load->memory, x);
	load->ids = shared_at(load->memory, ids);
	load->weights = shared_at(load->memory, weights);
	load->counts = shared_at(load->memory, counts);
	if (options->mask > 0)
		load->mask = shared_at(load->memory, mask);
	if (options->smooth)
		load->smooth = shared_at(load->memory, smooth);
	if (draw_all(load, options))
		return true;
	load_fini(load);
	errno = ENOMEM;
	return false;
}

void load_fini(struct load *load)
{
	shared_unmap(load->memory, load->bytes);
	load->memory = NULL;
}

/* ---- what follows from the routing ------------------------------------ */

int64_t load_num_rows(const struct load *load, const struct routing *routing,
	int64_t step, int32_t rank)
{
	int64_t first = routing_first_expert(routing, rank);
	int64_t end = routing_first_expert(routing, rank + 1);
	int64_t rows = 0;

	for (int32_t source = 0; source < load->num_ranks; source++)
		for (int64_t e = first; e < end; e++)
			rows += counts_of(load, step, source)[e];
	return rows;
}

int64_t load_most_rows(const struct load *load, const struct routing *routing)
{
	int64_t most = 0;

	for (int64_t step = 0; step < LOAD_STEPS; step++)
		for (int32_t rank = 0; rank < load->num_ranks; rank++) {
			int64_t rows = load_num_rows(load, routing, step, rank);

			most = rows > most ? rows : most;
		}
	return most;
}

/* next[e] = the row of this rank's first choice of expert e. */
static void first_rows(const struct load *load, const struct routing *routing,
	int64_t step, int32_t rank, struct load_target *next)
{
	for (int32_t owner = 0; owner < load->num_ranks; owner++) {
		int64_t end = routing_first_expert(routing, owner + 1);
		int32_t row = 0;

		for (int64_t e = routing_first_expert(routing, owner); e < end;
			e++)
			for (int32_t r = 0; r < load->num_ranks; r++) {
				if (r == rank)
					next[e] = (struct load_target){
						owner, row};
				row += counts_of(load, step, r)[e];
			}
	}
}

bool load_place(const struct load *load, const struct routing *routing,
	int64_t step, int32_t rank, struct load_target *targets)
{
	struct load_target *next =
		calloc((size_t)load->num_experts, sizeof(next[0]));

	if (!next)
		return false;
	first_rows(load, routing, step, rank, next);
	for (int64_t i = 0; i < load->num_choices; i++) {
		int64_t expert = travels_to(load, step, rank, i);

		targets[i] = (struct load_target){-1, 0};
		if (expert < 0)
			continue;
		targets[i] = next[expert];
		next[expert].row++;
	}
	free(next);
	return true;
}

static int64_t num_sent(const struct load *load, int64_t step, int32_t rank)
{
	int64_t sent = 0;

	for (int64_t i = 0; i < load->num_choices; i++)
		sent += travels_to(load, step, rank, i) >= 0;
	return sent;
}

/* Tokens that are read: those that go anywhere. */
static int64_t num_read(const struct load *load, int64_t step, int32_t rank)
{
	int64_t read = 0;

	for (int64_t t = 0; t < load->num_tokens; t++) {
		bool goes = false;

		for (int64_t k = 0; k < load->topk && !goes; k++)
			goes = travels_to(load, step, rank,
				       t * load->topk + k) >= 0;
		read += goes;
	}
	return read;
}

int64_t load_dispatch_bytes(
	const struct load *load, int64_t step, int32_t rank, int64_t row_bytes)
{
	return num_read(load, step, rank) * load->x_row_bytes +
	       num_sent(load, step, rank) * row_bytes;
}

int64_t load_combine_bytes(
	const struct load *load, int64_t step, int32_t rank, int64_t row_bytes)
{
	return (num_sent(load, step, rank) + load->num_tokens) * row_bytes;
}
