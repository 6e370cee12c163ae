/* The config of an exchange; see config.h. */
#include "exchange/config.h"

#include <string.h>

#include <sodium.h>

#include "base/config.h"
#include "base/dtype.h"
#include "base/error.h"

#define MAX_TOKENS  INT64_C(0x7fffffff)
#define MAX_HIDDEN  (INT64_C(1) << 30)
#define MAX_TOPK    INT64_C(1024)
#define MAX_EXPERTS (INT64_C(1) << 20)
#define MAX_DEPTH   64

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
		{"num_experts", config->num_experts, 1, MAX_EXPERTS},
		{"depth", config->depth, 1, MAX_DEPTH},
		{"max_recv_rows", config->max_recv_rows, 0, INT64_MAX},
		{"deadline_ns", config->deadline_ns, 0, INT64_MAX},
	};
	enum shunt_status status = SHUNT_OK;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !status; i++)
		status = check_range(sizes[i].name, sizes[i].value,
			sizes[i].low, sizes[i].high, rank);
	return status;
}

static enum shunt_status check_types(
	const struct shunt_exchange_config *config, int32_t rank)
{
	if (!dtype_is_float(config->dtype))
		return error_set(SHUNT_INVALID,
			"dtype is %d, must be F32, F16 or BF16 (rank %d)",
			(int)config->dtype, rank);
	if (!dtype_is_float(config->expert_dtype))
		return error_set(SHUNT_INVALID,
			"expert_dtype is %d, must be F32, F16 or BF16 "
			"(rank %d)",
			(int)config->expert_dtype, rank);
	return SHUNT_OK;
}

/* Choices: known but not built is UNSUPPORTED, unknown is INVALID. */
static enum shunt_status check_choices(
	const struct shunt_exchange_config *config, int32_t rank)
{
	enum shunt_status status;

	status = check_range("quant", config->quant, SHUNT_QUANT_NONE,
		SHUNT_QUANT_INT8, rank);
	if (!status)
		status = check_range("layout", config->layout,
			SHUNT_LAYOUT_COMPACT, SHUNT_LAYOUT_INDEXED, rank);
	if (!status)
		status = check_range("algorithm", config->algorithm,
			SHUNT_ALGORITHM_AUTO, SHUNT_ALGORITHM_HIERARCHY, rank);
	if (!status)
		status = check_range("bad_id", config->bad_id,
			SHUNT_BAD_ID_REFUSE, SHUNT_BAD_ID_DROP, rank);
	if (status)
		return status;
	if (config->layout != SHUNT_LAYOUT_COMPACT)
		return error_set(SHUNT_UNSUPPORTED,
			"layout %s is not in this version; COMPACT is (rank "
			"%d)",
			config->layout == SHUNT_LAYOUT_PADDED ? "PADDED"
							      : "INDEXED",
			rank);
	if (config->algorithm == SHUNT_ALGORITHM_HIERARCHY)
		return error_set(SHUNT_UNSUPPORTED,
			"algorithm HIERARCHY is not in this version; AUTO and "
			"FULLMESH are (rank %d)",
			rank);
	return SHUNT_OK;
}

static struct shape shape_of(
	const struct shunt_exchange_config *config, int32_t num_ranks)
{
	bool quantized = config->quant == SHUNT_QUANT_INT8;

	return (struct shape){
		.num_ranks = num_ranks,
		.depth = config->depth,
		.max_tokens = config->max_tokens,
		.hidden = config->hidden,
		.topk = config->topk,
		.num_experts = config->num_experts,
		.row_bytes = config->hidden *
			     (quantized ? 1 : dtype_bits(config->dtype) / 8),
		.result_bytes =
			config->hidden * dtype_bits(config->expert_dtype) / 8,
		.distinct = config->distinct_experts,
		.has_scales = quantized,
		.max_recv_rows = config->max_recv_rows,
	};
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
	status = check_sizes(config, rank);
	if (status == SHUNT_OK)
		status = check_types(config, rank);
	if (status == SHUNT_OK)
		status = check_choices(config, rank);
	if (status != SHUNT_OK)
		return status;
	if (config->deadline_ns == 0)
		config->deadline_ns = EXCHANGE_DEADLINE_NS;
	accepted->shape = shape_of(config, num_ranks);
	return placement_init(&accepted->placement, config, rank, num_ranks);
}

void accepted_fini(struct accepted *accepted)
{
	placement_fini(&accepted->placement);
}

static const char *const field_names[CONFIG_NUM_FIELDS] = {"num_ranks",
	"max_tokens", "hidden", "topk", "num_experts", "dtype", "expert_dtype",
	"quant", "layout", "algorithm", "bad_id", "distinct_experts", "depth",
	"max_recv_rows"};

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
		config->max_tokens, config->hidden, config->topk,
		config->num_experts, config->dtype, config->expert_dtype,
		config->quant, config->layout, config->algorithm,
		config->bad_id, config->distinct_experts, config->depth,
		config->max_recv_rows};

	memcpy(fields->value, value, sizeof(value));
	crypto_generichash(fields->placement_hash,
		sizeof(fields->placement_hash),
		(const uint8_t *)placement->rank,
		(size_t)placement->num_experts * sizeof(*placement->rank), NULL,
		0);
}
