/* From config to shape; see shape.h. */
#include "exchange/shape.h"

#include "base/dtype.h"
#include "exchange/algorithm.h"

#define INT8_SMALL_GROUP 8

/* Up to so many bytes of rows of a rank are fetched, unless the config says so:
 * docs/performance.md, "Who writes the rows". And no more than so many tokens,
 * nor in a crowd, which keep the memory for it small. */
#define FETCH_BYTES  (INT64_C(1) << 19)
#define FETCH_TOKENS 128
#define FETCH_RANKS  64

/* What combine_quant makes of a row of `hidden` elements, scales behind the
 * row. */
static int64_t combine_row_bytes(const struct shunt_exchange_config *config)
{
	int64_t hidden = config->hidden;
	struct quant_format format;

	switch (config->combine_quant) {
	case SHUNT_COMBINE_QUANT_INT8_8:
		return hidden + dtype_row_bytes(config->expert_dtype,
					(hidden + INT8_SMALL_GROUP - 1) /
						INT8_SMALL_GROUP);
	case SHUNT_COMBINE_QUANT_INT8_128:
		format = quant_format_of(SHUNT_QUANT_INT8_GROUP,
			SHUNT_SCALE_F32, config->expert_dtype, hidden);
		break;
	case SHUNT_COMBINE_QUANT_E4M3FN_128:
		format = quant_format_of(SHUNT_QUANT_E4M3FN_GROUP,
			SHUNT_SCALE_F32, config->expert_dtype, hidden);
		break;
	case SHUNT_COMBINE_QUANT_MXFP8:
		format = quant_format_of(SHUNT_QUANT_MXFP8_E4M3FN,
			SHUNT_SCALE_F32, config->expert_dtype, hidden);
		break;
	default:
		return dtype_row_bytes(config->expert_dtype, hidden);
	}
	return format.row_bytes + format.num_scales * format.scale_bytes;
}

/* The quantized rows; those that come with scales have the caller's. */
static struct quant_format format_of(const struct shunt_exchange_config *config)
{
	struct quant_format format = quant_format_of(config->quant,
		config->scale_form, config->dtype, config->hidden);

	if (config->quant == SHUNT_QUANT_NONE && config->x_scales_per_row > 0) {
		format.scale_dtype = config->x_scale_dtype;
		format.scale_bytes = dtype_bits(config->x_scale_dtype) / 8;
		format.num_scales = config->x_scales_per_row;
	}
	return format;
}

/* The routing that is repeated and the one it becomes; and all steps in flight
 * have one. */
static int32_t num_routes(const struct shunt_exchange_config *config)
{
	int32_t kept =
		config->kept_routes ? config->kept_routes : config->depth;

	return kept + 1 > config->depth ? kept + 1 : config->depth;
}

/* With TP, tables or INDEXED a row has more or other readers than its expert's
 * rank. */
static int64_t fetch_tokens(
	const struct shunt_exchange_config *config, const struct shape *shape)
{
	int64_t tokens = config->fetch_tokens;

	if (tokens < 0 || shape->tp_size > 1 || shape->elastic ||
		shape->layout == SHUNT_LAYOUT_INDEXED)
		return 0;
	if (tokens == 0 && shape->num_ranks <= FETCH_RANKS) {
		tokens = FETCH_BYTES /
			 (shape->num_sends * shape->format.row_bytes);
		if (tokens > FETCH_TOKENS)
			tokens = FETCH_TOKENS;
	}
	return tokens < shape->max_tokens ? tokens : shape->max_tokens;
}

static int64_t whole_lines(int64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

struct shape shape_of(const struct shunt_exchange_config *config,
	int32_t num_ranks, int32_t tp_size)
{
	struct shape shape = {
		.num_ranks = num_ranks,
		.tp_size = tp_size,
		.num_members = num_ranks * tp_size,
		.depth = config->depth,
		.num_routes = num_routes(config),
		.max_tokens = config->max_tokens,
		.hidden = config->hidden,
		.topk = config->topk,
		.num_experts = config->num_experts,
		.num_shared_ranks = config->num_shared_ranks,
		.num_special = config->num_zero_experts +
			       config->num_copy_experts +
			       config->num_constant_experts,
		.format = format_of(config),
		.layout = config->layout,
		.column_major = config->column_major_scales,
		.distinct = config->distinct_experts,
		.elastic = config->elastic,
		.max_recv_rows = config->max_recv_rows,
		.alignment =
			config->expert_alignment ? config->expert_alignment : 1,
		.x_row_bytes = dtype_row_bytes(config->dtype, config->hidden),
		.result_bytes =
			dtype_row_bytes(config->expert_dtype, config->hidden),
	};

	if (shape.num_shared_ranks > 0)
		shape.num_shared = config->num_shared_experts;
	shape.num_units = shape.num_experts + shape.num_shared_ranks;
	shape.num_sends = shape.topk + shape.num_shared;
	shape.rows_per_expert =
		config->rows_per_expert
			? config->rows_per_expert
			: shape_align(
				  &shape, shape.num_members * shape.max_tokens);
	shape.fetch_tokens = fetch_tokens(config, &shape);
	shape.offer_tokens = shape.layout == SHUNT_LAYOUT_INDEXED
				     ? shape.max_tokens
				     : shape.fetch_tokens;
	if (tp_size > 1 || config->combine_quant != SHUNT_COMBINE_QUANT_NONE)
		/* Rows are read with vectors: begin each at a line. */
		shape.travel_bytes = whole_lines(combine_row_bytes(config));
	shape.home_bytes =
		shape.travel_bytes ? shape.travel_bytes : shape.result_bytes;
	return shape;
}

/* True if the members of some TP group are on several hosts. */
static bool tp_spans(const struct shape *shape, const struct hosts *hosts)
{
	for (int32_t m = shape->num_ranks; m < shape->num_members; m++)
		if (!hosts_share(hosts, m, m % shape->num_ranks))
			return true;
	return false;
}

/* With sums by host rows of MoE experts are quantized once they are added up, and
 * not before; those of shared experts travel one by one, as ever. */
static void fit_to_sums(
	struct shape *shape, const struct shunt_exchange_config *config)
{
	int64_t results = whole_lines(shape->result_bytes);
	int64_t back = shape->partial_bytes;

	if (config->combine_quant != SHUNT_COMBINE_QUANT_NONE) {
		if (shape->tp_size == 1 && shape->num_shared == 0)
			shape->travel_bytes = 0;
		else if (shape->tp_size > 1 && shape->travel_bytes < results)
			shape->travel_bytes = results;
	}
	if (shape->num_shared > 0 && back < shape->home_bytes)
		back = shape->home_bytes;
	shape->back_bytes = whole_lines(back);
}

void shape_spread(struct shape *shape,
	const struct shunt_exchange_config *config, const struct hosts *hosts)
{
	if (!hosts_span(hosts))
		return;
	shape->hosts = hosts;
	shape->fetch_tokens = 0;
	shape->offer_tokens = shape->max_tokens;
	shape->tp_spans = tp_spans(shape, hosts);
	shape->partial_bytes = combine_row_bytes(config);
	if (config->f32_partial_sums)
		shape->partial_bytes = shape->hidden * (int64_t)sizeof(float);
	algorithm_choose(shape, config);
	shape->back_bytes = shape->home_bytes;
	if (shape->sums_by_host)
		fit_to_sums(shape, config);
}
