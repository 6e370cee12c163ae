/*
 * The kernels of modes with a scale per group. Included behind row_template.h.
 *
 * A chunk of groups is done at a time, in three loops: their tops, their
 * scales, their codes. Divisions are slow; without a loop of their own, which
 * the compiler makes vectors of, each group would wait for its own.
 */
#include <string.h>

#define GROUP_CHUNK 16

/* How a mode comes from amax to a scale. Constant in each kernel, but `form`,
 * and `row_scale` (NVFP4). */
struct group_mode {
	enum group_kind { GROUP_DYNAMIC, GROUP_MX, GROUP_NVFP4 } kind;
	enum shunt_dtype code;
	enum shunt_scale_form form;
	int64_t group;
	struct element_scale row_scale;
};

struct group_chunk {
	float amax[GROUP_CHUNK];
	float factor[GROUP_CHUNK];
	float scale[GROUP_CHUNK]; /* by mode one of these */
	uint8_t byte[GROUP_CHUNK];
	uint32_t special; /* bit g: group g has NaN or Inf */
};

/* The groups' tops are known, and some are NaN or Inf. NVFP4 has counted
 * already. */
static __attribute__((noinline)) void group_find_finite(enum shunt_dtype dtype,
	struct group_mode mode, struct element_source source, int64_t first,
	int count, struct quant_tally *tally, struct group_chunk *chunk)
{
	struct quant_tally ignored = {0};

	for (int g = 0; g < count; g++, first += mode.group) {
		if (half_bits(chunk->amax[g]) < HALF_F32_INF)
			continue;
		chunk->special |= 1u << g;
		chunk->amax[g] = half_float(
			rare_finite[dtype](source, first, first + mode.group,
				mode.kind == GROUP_NVFP4 ? &ignored : tally));
	}
}

QUANT_INLINE void group_find(enum shunt_dtype dtype,
	const struct group_mode *mode, const struct element_source *source,
	int64_t first, int count, struct quant_tally *tally,
	struct group_chunk *chunk)
{
	uint32_t top = 0;

	if (count < GROUP_CHUNK ||
		!span_tops(dtype, source, first, mode->group, chunk->amax))
		for (int g = 0; g < count; g++)
			chunk->amax[g] = half_float(
				span_top(dtype, source, first + g * mode->group,
					first + (g + 1) * mode->group));
	for (int g = 0; g < GROUP_CHUNK; g++) {
		uint32_t next = half_bits(chunk->amax[g]);

		top = next > top ? next : top;
	}
	if (__builtin_expect(top >= HALF_F32_INF, 0))
		group_find_finite(
			dtype, *mode, *source, first, count, tally, chunk);
}

/* Loops, each of one kind. */
#define GROUP_SCALES(chunk, call)                          \
	for (int g = 0; g < GROUP_CHUNK; g++) {            \
		const float amax = (chunk)->amax[g];       \
		const struct element_scale scale = (call); \
                                                           \
		(chunk)->factor[g] = scale.factor;         \
		(chunk)->scale[g] = scale.scale;           \
		(chunk)->byte[g] = scale.byte;             \
	}

/* Out of line, since types of elements do not matter. */
static __attribute__((noinline)) void group_scale(
	struct group_mode mode, struct group_chunk *chunk)
{
	const float max = code_max(mode.code);

	if (mode.kind == GROUP_MX)
		GROUP_SCALES(chunk, element_mx_scale(mode.code, amax))
	else if (mode.kind == GROUP_NVFP4)
		GROUP_SCALES(chunk, element_nvfp4_scale(&mode.row_scale, amax))
	else if (mode.form == SHUNT_SCALE_F32)
		GROUP_SCALES(chunk, element_scale(max, amax))
	else
		GROUP_SCALES(chunk, element_pow2_scale(max, amax))
}

/* The scales of groups [index, index + count). */
static __attribute__((noinline)) void group_put(const struct quant_row *row,
	struct group_mode mode, const struct group_chunk *chunk, int64_t index,
	int count)
{
	int64_t step = row->scale_step ? row->scale_step : 1;
	char *at = row->scales;

	if (mode.kind != GROUP_DYNAMIC || mode.form == SHUNT_SCALE_E8M0) {
		for (int g = 0; g < count; g++)
			at[(index + g) * step] = (char)chunk->byte[g];
		return;
	}
	for (int g = 0; g < count; g++)
		memcpy(at + (index + g) * step * 4, &chunk->scale[g],
			sizeof(float));
}

/* `count` whole groups from number `index` on. */
QUANT_INLINE void group_chunk(enum shunt_dtype dtype,
	const struct group_mode *mode, const struct quant_row *row,
	const struct element_source *source, int64_t index, int count)
{
	struct group_chunk chunk = {0};
	struct element_target target = {
		.q = row->q,
		.scaled = true,
		.clamped = mode->kind != GROUP_DYNAMIC,
		.low = -127.0f,
	};
	int64_t first = index * mode->group;
	uint32_t rest = ~0u; /* groups that are still to be encoded */

	group_find(dtype, mode, source, first, count, row->tally, &chunk);
	group_scale(*mode, &chunk);
	group_put(row, *mode, &chunk, index, count);
	if (count == GROUP_CHUNK)
		rest = chunk.special |
		       span_groups(dtype, mode->code, source, row->q, first,
			       mode->group, chunk.factor,
			       mode->kind == GROUP_MX ? chunk.byte : NULL);
	for (int g = 0; rest && g < count; g++, first += mode->group) {
		if (!(rest >> g & 1))
			continue;
		target.factor = chunk.factor[g];
		row_encode(dtype, mode->code, source, &target,
			chunk.special >> g & 1, first, first + mode->group);
	}
}

/* The short group at a row's end. It takes the rare paths: copies of the
 * others would not be worth their size. */
QUANT_INLINE void group_last(enum shunt_dtype dtype,
	const struct group_mode *mode, const struct quant_row *row,
	const struct element_source *source, int64_t index)
{
	struct group_chunk chunk = {0};
	struct quant_tally ignored = {0};
	struct element_target target = {.q = row->q, .low = -127.0f};
	int64_t first = index * mode->group;

	chunk.amax[0] =
		half_float(rare_finite[dtype](*source, first, row->hidden,
			mode->kind == GROUP_NVFP4 ? &ignored : row->tally));
	group_scale(*mode, &chunk);
	group_put(row, *mode, &chunk, index, 1);
	target.factor = chunk.factor[0];
	rare_encode[dtype][mode->code](*source, target, first, row->hidden);
}

QUANT_INLINE void group_row(enum shunt_dtype dtype,
	const struct group_mode *mode, const struct quant_row *row,
	const struct element_source *source)
{
	int64_t whole = row->hidden / mode->group, index = 0;

	while (index < whole) {
		int count = whole - index < GROUP_CHUNK ? (int)(whole - index)
							: GROUP_CHUNK;

		group_chunk(dtype, mode, row, source, index, count);
		index += count;
	}
	if (index * mode->group < row->hidden)
		group_last(dtype, mode, row, source, index++);
	if (mode->kind == GROUP_MX && index % 2)
		group_put(row, *mode, &(const struct group_chunk){0}, index, 1);
}

/* Two copies, so that no loop asks for smooth. */
QUANT_INLINE void dynamic_group_row(enum shunt_dtype dtype,
	enum shunt_dtype code, enum shunt_scale_form form,
	const struct quant_row *row)
{
	const struct group_mode mode = {
		.kind = GROUP_DYNAMIC,
		.code = code,
		.form = form,
		.group = 128,
	};
	struct element_source source = {.x = row->x, .next = row->next};

	if (row->smooth) {
		source.smooth = row->smooth;
		group_row(dtype, &mode, row, &source);
	} else {
		group_row(dtype, &mode, row, &source);
	}
}

QUANT_INLINE void mx_row(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_row *row)
{
	const struct element_source source = {
		.x = row->x,
		.next = row->next,
	};
	const struct group_mode mode = {
		.kind = GROUP_MX,
		.code = code,
		.group = 32,
	};

	group_row(dtype, &mode, row, &source);
}

QUANT_INLINE void nvfp4_row(enum shunt_dtype dtype, const struct quant_row *row)
{
	const struct element_source source = {
		.x = row->x,
		.next = row->next,
	};
	struct group_mode mode = {
		.kind = GROUP_NVFP4,
		.code = SHUNT_DTYPE_E2M1,
		.group = 16,
	};
	bool special;
	uint32_t top = row_finite(
		dtype, &source, 0, row->hidden, row->tally, &special);

	mode.row_scale = element_nvfp4_row_scale(half_float(top));
	memcpy(row->row_scale, &mode.row_scale.scale, sizeof(float));
	group_row(dtype, &mode, row, &source);
}
