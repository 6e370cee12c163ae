/* What the ranks bring to their steps: where it lies. */
#include <errno.h>
#include <string.h>

#include "load.h"
#include "shared.h"

int64_t load_bytes_of(enum shunt_dtype dtype, int64_t count)
{
	switch (dtype) {
	case SHUNT_DTYPE_NONE:
		return 0;
	case SHUNT_DTYPE_F32:
		return 4 * count;
	case SHUNT_DTYPE_F16:
	case SHUNT_DTYPE_BF16:
		return 2 * count;
	case SHUNT_DTYPE_E2M1:
		return (count + 1) / 2;
	default:
		return count;
	}
}

/* ---- where things are ------------------------------------------------- */

void *load_at(const struct load *load, enum load_field field, int64_t step,
	int32_t member)
{
	const struct load_area *area = &load->fields[field];
	int64_t part = step % LOAD_STEPS;

	if (!area->base)
		return NULL;
	if (load->one_routing && field >= LOAD_IDS)
		part = 0;
	part = part * load->shape->num_members + member;
	return area->base + part * area->bytes;
}

void *load_table(const struct load *load, enum load_table table)
{
	return load->tables[table].base;
}

static bool is_masked(
	const struct load *load, int64_t step, int32_t member, int64_t choice)
{
	const uint8_t *mask = load_at(load, LOAD_MASK, step, member);

	if (load->mask == SHUNT_MASK_NONE)
		return false;
	return !mask[load->mask == SHUNT_MASK_TOKENS ? choice / load->topk
						     : choice];
}

int64_t load_choice(
	const struct load *load, int64_t step, int32_t member, int64_t choice)
{
	const int64_t *ids = load_at(load, LOAD_IDS, step, member);

	return is_masked(load, step, member, choice) ? -1 : ids[choice];
}

int64_t load_expert(
	const struct load *load, int64_t step, int32_t member, int64_t choice)
{
	int64_t id = load_choice(load, step, member, choice);

	return id < load->shape->left_experts ? id : -1;
}

bool load_is_active(
	const struct load *load, int64_t step, int32_t member, int64_t t)
{
	for (int64_t k = 0; k < load->topk; k++)
		if (load_choice(load, step, member, t * load->topk + k) != -1)
			return true;
	return false;
}

/* ---- sizes ------------------------------------------------------------ */

static void set_shape(struct load *load, const struct options *options)
{
	enum shunt_dtype dtype = (enum shunt_dtype)options->dtype;

	load->num_tokens = options->num_tokens;
	load->topk = options->topk;
	load->hidden = options->hidden;
	load->num_choices = options->num_tokens * options->topk;
	load->x_stride = options->hidden;
	if (dtype == SHUNT_DTYPE_E2M1)
		load->x_stride += options->hidden % 2;
	load->x_row_bytes = load_bytes_of(dtype, options->hidden);
	load->x_scale_bytes =
		load_bytes_of((enum shunt_dtype)options->x_scale_dtype,
			options->x_scales_per_row);
	load->expert_bytes = load_bytes_of(
		(enum shunt_dtype)options->expert_dtype, options->hidden);
	load->out_bytes = load_bytes_of(
		(enum shunt_dtype)options->out_dtype, options->hidden);
	load->first_copy = load->shape->left_experts + options->num_zero;
	load->one_routing = options->cached;
	if (options->mask_choices > 0)
		load->mask = SHUNT_MASK_CHOICES;
	else if (options->mask > 0)
		load->mask = SHUNT_MASK_TOKENS;
}

static void want(struct load_area *area, bool wanted, int64_t bytes)
{
	area->wanted = wanted;
	area->bytes = bytes;
}

static void want_fields(struct load *load, const struct options *options)
{
	struct load_area *fields = load->fields;
	int64_t tokens = load->num_tokens, choices = load->num_choices;
	bool ori_x = options->num_copy + options->num_constant > 0;

	want(&fields[LOAD_X], true, tokens * load->x_row_bytes);
	want(&fields[LOAD_X_SCALES], options->x_scales_per_row > 0,
		tokens * load->x_scale_bytes);
	want(&fields[LOAD_ORI_X], ori_x, tokens * load->expert_bytes);
	want(&fields[LOAD_SHARED_X], options->shared_x,
		tokens * load->expert_bytes);
	want(&fields[LOAD_RESIDUAL], options->residual,
		tokens * load->out_bytes);
	want(&fields[LOAD_IDS], true, choices * 8);
	want(&fields[LOAD_IDS32], options->ids == SHUNT_INDEX_I32, choices * 4);
	want(&fields[LOAD_WEIGHTS], options->weights != OPTIONS_WEIGHTS_NONE,
		choices * 4);
	want(&fields[LOAD_MASK], load->mask != SHUNT_MASK_NONE,
		load->mask == SHUNT_MASK_CHOICES ? choices : tokens);
	want(&fields[LOAD_COUNTS], true,
		(load->shape->left_experts + load->shape->num_shared) * 4);
}

static void want_tables(struct load *load, const struct options *options)
{
	const struct shape *shape = load->shape;
	struct load_area *tables = load->tables;
	int64_t experts = shape->num_shared + shape->num_experts;
	int64_t rows =
		options->static_shape == SHUNT_STATIC_EXPERTS ? experts : 1;
	bool constant = options->num_constant > 0;

	want(&tables[LOAD_SMOOTH], options->smooth, experts * load->hidden * 4);
	want(&tables[LOAD_STATIC],
		options->quant == SHUNT_QUANT_INT8_STATIC ||
			options->quant == SHUNT_QUANT_E4M3FN_STATIC,
		options->static_shape == SHUNT_STATIC_ONE
			? 4
			: rows * load->hidden * 4);
	for (int i = LOAD_ALPHA1; i <= LOAD_V; i++)
		want(&tables[i], constant,
			options->num_constant * load->expert_bytes);
	want(&tables[LOAD_GAMMA], options->gamma != SHUNT_DTYPE_NONE,
		load_bytes_of((enum shunt_dtype)options->gamma, load->hidden));
}

/* ---- memory ----------------------------------------------------------- */

static void reserve(struct shared_layout *layout, struct load_area *areas,
	int num_areas, size_t parts)
{
	for (int i = 0; i < num_areas; i++)
		if (areas[i].wanted)
			areas[i].offset = shared_reserve(
				layout, parts, (size_t)areas[i].bytes);
}

static void settle(void *memory, struct load_area *areas, int num_areas)
{
	for (int i = 0; i < num_areas; i++)
		if (areas[i].wanted)
			areas[i].base = shared_at(memory, areas[i].offset);
}

bool load_init(struct load *load, const struct options *options,
	const struct shape *shape)
{
	struct shared_layout layout = {
		.one_process = options->launch == LAUNCH_THREADS,
	};

	*load = (struct load){.shape = shape};
	set_shape(load, options);
	want_fields(load, options);
	want_tables(load, options);
	reserve(&layout, load->fields, LOAD_NUM_FIELDS,
		LOAD_STEPS * (size_t)shape->num_members);
	reserve(&layout, load->tables, LOAD_NUM_TABLES, 1);
	load->memory = shared_map(&layout);
	if (!load->memory)
		return false;
	load->bytes = layout.bytes;
	settle(load->memory, load->fields, LOAD_NUM_FIELDS);
	settle(load->memory, load->tables, LOAD_NUM_TABLES);
	draw_tables(load, options);
	if (draw_steps(load, options))
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
