/* The config of an exchange; see config.h. */
#include "exchange/config.h"

#include <string.h>

#include <sodium.h>

#include "base/config.h"
#include "base/dtype.h"
#include "base/error.h"
#include "exchange/create.h"

#define MAX_TOKENS    INT64_C(0x7fffffff)
#define MAX_HIDDEN    (INT64_C(1) << 30)
#define MAX_TOPK      INT64_C(1024)
#define MAX_EXPERTS   (INT64_C(1) << 20)
#define MAX_DEPTH     64
#define MAX_ALIGNMENT (INT64_C(1) << 20)
#define MAX_ROUTES    65536

static enum shunt_status check_range(const char *name, int64_t value,
	int64_t low, int64_t high, int32_t rank)
{
	if (value >= low && value <= high)
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"%s is %lld, must be %lld .. %lld (rank %d)", name,
		(long long)value, (long long)low, (long long)high, rank);
}

static enum shunt_status check_sizes(
	const struct shunt_exchange_config *config, int32_t rank)
{
	const struct {
		const char *name;
		int64_t value, low, high;
	} sizes[] = {
		{"max_tokens", config->max_tokens, 0, MAX_TOKENS},
		{"hidden", config->hidden, 1, MAX_HIDDEN},
		{"topk", config->topk, 1, MAX_TOPK},
		{"num_zero_experts", config->num_zero_experts, 0, MAX_EXPERTS},
		{"num_copy_experts", config->num_copy_experts, 0, MAX_EXPERTS},
		{"num_constant_experts", config->num_constant_experts, 0,
			MAX_EXPERTS},
		{"depth", config->depth, 1, MAX_DEPTH},
		{"max_recv_rows", config->max_recv_rows, 0, INT64_MAX},
		{"deadline_ns", config->deadline_ns, 0, INT64_MAX},
		{"x_scales_per_row", config->x_scales_per_row, 0, MAX_HIDDEN},
		{"rows_per_expert", config->rows_per_expert, 0, SHAPE_MAX_ROWS},
		{"expert_alignment", config->expert_alignment, 0,
			MAX_ALIGNMENT},
		{"kept_routes", config->kept_routes, 0, MAX_ROUTES},
		{"fetch_tokens", config->fetch_tokens, -1, MAX_TOKENS},
		{"the size of tp_group",
			config->tp_group ? shunt_group_size(config->tp_group)
					 : 1,
			1, GRID_MAX_TP},
	};
	enum shunt_status status = SHUNT_OK;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !status; i++)
		status = check_range(sizes[i].name, sizes[i].value,
			sizes[i].low, sizes[i].high, rank);
	if (status != SHUNT_OK)
		return status;
	/* Experts of ranks may be none where there are special ones. */
	return check_range("num_experts", config->num_experts,
		config->num_zero_experts + config->num_copy_experts +
				config->num_constant_experts ==
			0,
		MAX_EXPERTS, rank);
}

static enum shunt_status check_choices(
	const struct shunt_exchange_config *config, int32_t rank)
{
	/* Signed, as a caller sees a value that is none of the enum's. */
	const struct {
		const char *name;
		int32_t value, high;
	} choices[] = {
		{"quant", (int32_t)config->quant, SHUNT_QUANT_NVFP4_E2M1},
		{"layout", (int32_t)config->layout, SHUNT_LAYOUT_INDEXED},
		{"algorithm", (int32_t)config->algorithm,
			SHUNT_ALGORITHM_HIERARCHY},
		{"bad_id", (int32_t)config->bad_id, SHUNT_BAD_ID_DROP},
		{"scale_form", (int32_t)config->scale_form, SHUNT_SCALE_E8M0},
		{"combine_quant", (int32_t)config->combine_quant,
			SHUNT_COMBINE_QUANT_MXFP8},
	};
	enum shunt_status status = SHUNT_OK;

	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices) && !status;
		i++)
		status = check_range(choices[i].name, choices[i].value, 0,
			choices[i].high, rank);
	return status;
}

static enum shunt_status check_types(
	const struct shunt_exchange_config *config, int32_t rank)
{
	bool is_type = dtype_bits(config->dtype) > 0 &&
		       config->dtype != SHUNT_DTYPE_E8M0;

	if (config->quant != SHUNT_QUANT_NONE && !dtype_is_float(config->dtype))
		return error_set(SHUNT_INVALID,
			"dtype is %d, must be F32, F16 or BF16 with quant %d "
			"(rank %d)",
			(int)config->dtype, (int)config->quant, rank);
	if (!is_type)
		return error_set(SHUNT_INVALID,
			"dtype is %d, must be F32, F16, BF16, I8, E4M3FN, E5M2 "
			"or E2M1 (rank %d)",
			(int)config->dtype, rank);
	if (!dtype_is_float(config->expert_dtype))
		return error_set(SHUNT_INVALID,
			"expert_dtype is %d, must be F32, F16 or BF16 "
			"(rank %d)",
			(int)config->expert_dtype, rank);
	return SHUNT_OK;
}

static bool has_groups(enum shunt_quant quant)
{
	return quant >= SHUNT_QUANT_INT8_GROUP &&
	       quant <= SHUNT_QUANT_E5M2_GROUP;
}

/* An option that does not go with what it is an option of. */
static enum shunt_status refuse_option(
	const char *option, int64_t value, const char *goes_with, int32_t rank)
{
	return error_set(SHUNT_INVALID,
		"%s is %lld, but it goes with %s only (rank %d)", option,
		(long long)value, goes_with, rank);
}

static enum shunt_status check_scales(
	const struct shunt_exchange_config *config, int32_t rank)
{
	enum shunt_dtype type = config->x_scale_dtype;
	struct quant_format format;

	if (config->scale_form && !has_groups(config->quant))
		return refuse_option("scale_form", config->scale_form,
			"a _GROUP quant", rank);
	if (config->x_scales_per_row && config->quant != SHUNT_QUANT_NONE)
		return refuse_option("x_scales_per_row",
			config->x_scales_per_row, "quant NONE", rank);
	if (!config->x_scales_per_row && type)
		return refuse_option("x_scale_dtype", (int32_t)type,
			"x_scales_per_row", rank);
	if (config->x_scales_per_row && type != SHUNT_DTYPE_F32 &&
		type != SHUNT_DTYPE_E8M0 && type != SHUNT_DTYPE_E4M3FN)
		return error_set(SHUNT_INVALID,
			"x_scale_dtype is %d, must be F32, E8M0 or E4M3FN "
			"(rank %d)",
			(int)type, rank);
	format = quant_format_of(config->quant, config->scale_form,
		config->dtype, config->hidden);
	if (config->column_major_scales && !format.num_scales &&
		!config->x_scales_per_row)
		return refuse_option("column_major_scales", 1,
			"a quant that has scales, or x_scales_per_row", rank);
	return SHUNT_OK;
}

static enum shunt_status check_rows(
	const struct shunt_exchange_config *config, int32_t rank)
{
	bool padded = config->layout == SHUNT_LAYOUT_PADDED;

	if (config->rows_per_expert && !padded)
		return refuse_option("rows_per_expert", config->rows_per_expert,
			"layout PADDED", rank);
	if (config->max_recv_rows && padded)
		return refuse_option("max_recv_rows", config->max_recv_rows,
			"layout COMPACT and INDEXED (PADDED has "
			"rows_per_expert)",
			rank);
	if (config->expert_alignment > 1 &&
		config->rows_per_expert % config->expert_alignment != 0)
		return error_set(SHUNT_INVALID,
			"rows_per_expert is %lld, must be a multiple of "
			"expert_alignment = %lld (rank %d)",
			(long long)config->rows_per_expert,
			(long long)config->expert_alignment, rank);
	return SHUNT_OK;
}

/* (0, 0) and (1, 0) are none; else 1 <= s <= S < W, S % s == 0. */
static enum shunt_status check_shared(
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks)
{
	int64_t experts = config->num_shared_experts;
	int64_t ranks = config->num_shared_ranks;

	if (ranks == 0)
		return check_range("num_shared_experts without shared ranks",
			experts, 0, 1, rank);
	if (ranks < 0 || ranks >= num_ranks)
		return error_set(SHUNT_INVALID,
			"num_shared_ranks is %lld, must be 0 .. %d: below the "
			"number of ranks (rank %d)",
			(long long)ranks, num_ranks - 1, rank);
	if (experts < 1 || experts > ranks || ranks % experts != 0)
		return error_set(SHUNT_INVALID,
			"num_shared_experts is %lld, must divide "
			"num_shared_ranks = %lld (rank %d)",
			(long long)experts, (long long)ranks, rank);
	return SHUNT_OK;
}

/* A table numbers experts by rank: that needs the even placement. */
static enum shunt_status check_elastic(
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks)
{
	int64_t moe = num_ranks - config->num_shared_ranks;

	if (!config->elastic)
		return SHUNT_OK;
	if (config->tp_group)
		return error_set(SHUNT_UNSUPPORTED,
			"elastic (elastic_info) and tp_group do not go "
			"together (rank %d)",
			rank);
	if (config->expert_rank || config->first_expert || config->expert_count)
		return error_set(SHUNT_INVALID,
			"elastic is set with an explicit placement; it needs "
			"the even one (rank %d)",
			rank);
	if (config->num_experts % moe != 0)
		return error_set(SHUNT_INVALID,
			"num_experts is %lld, must be a multiple of the %lld "
			"ranks that hold MoE experts with elastic (rank %d)",
			(long long)config->num_experts, (long long)moe, rank);
	return SHUNT_OK;
}

static enum shunt_status check_config(
	const struct shunt_exchange_config *config, int32_t rank,
	int32_t num_ranks)
{
	enum shunt_status status = check_sizes(config, rank);

	if (status == SHUNT_OK)
		status = check_choices(config, rank);
	if (status == SHUNT_OK)
		status = check_types(config, rank);
	if (status == SHUNT_OK)
		status = check_scales(config, rank);
	if (status == SHUNT_OK)
		status = check_rows(config, rank);
	if (status == SHUNT_OK)
		status = check_shared(config, rank, num_ranks);
	if (status == SHUNT_OK)
		status = check_elastic(config, rank, num_ranks);
	if (status == SHUNT_OK && config->f32_partial_sums &&
		config->combine_quant != SHUNT_COMBINE_QUANT_NONE)
		status = error_set(SHUNT_INVALID,
			"f32_partial_sums is 1 and combine_quant is %d, must "
			"be NONE with it (rank %d)",
			(int)config->combine_quant, rank);
	if (status == SHUNT_OK && config->tp_rank_order && !config->tp_group)
		status = refuse_option("tp_rank_order", 1, "tp_group", rank);
	return status;
}

enum shunt_status accepted_init(struct accepted *accepted,
	const struct shunt_exchange_config *given, int32_t rank,
	int32_t num_ranks)
{
	struct shunt_exchange_config *config = &accepted->config;
	enum shunt_status status;

	status = config_read(
		config, sizeof(*config), given, "shunt_exchange_config");
	if (status != SHUNT_OK)
		return status;
	if (config->depth == 0)
		config->depth = 2;
	status = check_config(config, rank, num_ranks);
	if (status != SHUNT_OK)
		return status;
	if (config->deadline_ns == 0)
		config->deadline_ns = EXCHANGE_DEADLINE_NS;
	accepted->shape = shape_of(config, num_ranks,
		config->tp_group ? shunt_group_size(config->tp_group) : 1);
	return placement_init(&accepted->placement, config, rank, num_ranks);
}

void accepted_spread(struct accepted *accepted)
{
	shape_spread(&accepted->shape, &accepted->config, &accepted->hosts);
}

void accepted_fini(struct accepted *accepted)
{
	placement_fini(&accepted->placement);
	hosts_fini(&accepted->hosts);
}

static const char *const field_names[CONFIG_NUM_FIELDS] = {"num_ranks",
	"tp_group's size", "max_tokens", "hidden", "topk", "num_experts",
	"dtype", "expert_dtype", "quant", "layout", "algorithm", "bad_id",
	"distinct_experts", "depth", "max_recv_rows", "num_shared_experts",
	"num_shared_ranks", "num_zero_experts", "num_copy_experts",
	"num_constant_experts", "scale_form", "column_major_scales",
	"x_scales_per_row", "x_scale_dtype", "rows_per_expert",
	"expert_alignment", "zero_tail", "tp_rank_order", "elastic",
	"combine_quant", "kept_routes", "fetch_tokens", "exact_sums",
	"f32_partial_sums"};

const char *config_field_name(int i)
{
	return field_names[i];
}

void config_fields_fill(
	struct config_fields *fields, const struct accepted *accepted)
{
	const struct shunt_exchange_config *config = &accepted->config;
	const struct placement *placement = &accepted->placement;
	const int64_t value[CONFIG_NUM_FIELDS] = {accepted->shape.num_ranks,
		accepted->shape.tp_size, config->max_tokens, config->hidden,
		config->topk, config->num_experts, config->dtype,
		config->expert_dtype, config->quant, config->layout,
		config->algorithm, config->bad_id, config->distinct_experts,
		config->depth, config->max_recv_rows,
		config->num_shared_experts, config->num_shared_ranks,
		config->num_zero_experts, config->num_copy_experts,
		config->num_constant_experts, config->scale_form,
		config->column_major_scales, config->x_scales_per_row,
		config->x_scale_dtype, config->rows_per_expert,
		config->expert_alignment, config->zero_tail,
		config->tp_rank_order, config->elastic, config->combine_quant,
		config->kept_routes, config->fetch_tokens, config->exact_sums,
		config->f32_partial_sums};

	memcpy(fields->value, value, sizeof(value));
	crypto_generichash(fields->placement_hash,
		sizeof(fields->placement_hash),
		(const uint8_t *)placement->rank,
		(size_t)placement->num_units * sizeof(*placement->rank), NULL,
		0);
}
