/* Checks of the arguments of dispatch; see args.h. */
#include "dispatch/args.h"

#include "base/error.h"

static enum shunt_status refuse_null(
	const struct shunt_exchange *exchange, const char *name, int64_t tokens)
{
	return error_set(SHUNT_NULL_ARGUMENT,
		"%s is NULL with num_tokens %lld (rank %d)", name,
		(long long)tokens, exchange->rank);
}

/* An argument that does not go with what was asked for. */
static enum shunt_status refuse_extra(const struct shunt_exchange *exchange,
	const char *name, const char *why)
{
	return error_set(SHUNT_INVALID, "%s is given, %s (rank %d)", name, why,
		exchange->rank);
}

/* Ids and mask; a cached dispatch has those of its handle. */
static enum shunt_status check_routing(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	int64_t tokens = args->num_tokens;

	if (args->mask > SHUNT_MASK_CHOICES)
		return exchange_refuse(exchange, "mask", (int32_t)args->mask,
			"NONE, TOKENS or CHOICES");
	if (args->mask == SHUNT_MASK_NONE && args->active_mask)
		return error_set(SHUNT_INVALID,
			"active_mask is given, but mask is NONE (rank %d)",
			exchange->rank);
	if (tokens == 0)
		return SHUNT_OK;
	if (args->ids_type != SHUNT_INDEX_I32 &&
		args->ids_type != SHUNT_INDEX_I64)
		return exchange_refuse(exchange, "ids_type",
			(int32_t)args->ids_type, "I32 or I64");
	if (!args->expert_ids)
		return refuse_null(exchange, "expert_ids", tokens);
	if (args->mask != SHUNT_MASK_NONE && !args->active_mask)
		return refuse_null(exchange, "active_mask", tokens);
	return SHUNT_OK;
}

static enum shunt_status check_cached(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	const char *why = "but the routing is that of the cached handle";

	if (args->expert_ids)
		return refuse_extra(exchange, "expert_ids", why);
	if (args->active_mask || args->mask != SHUNT_MASK_NONE)
		return refuse_extra(exchange, "a mask", why);
	if (args->weights)
		return refuse_extra(exchange, "weights", why);
	return SHUNT_OK;
}

static enum shunt_status check_static(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	bool is_static = exchange_shape(exchange)->format.is_static;

	if (args->static_scales && !is_static)
		return refuse_extra(exchange, "static_scales",
			"but quant is not a _STATIC one");
	if (!is_static)
		return SHUNT_OK;
	if (args->static_shape > SHUNT_STATIC_EXPERTS)
		return exchange_refuse(exchange, "static_shape",
			(int32_t)args->static_shape, "ONE, HIDDEN or EXPERTS");
	if (!args->static_scales && args->num_tokens > 0)
		return refuse_null(exchange, "static_scales", args->num_tokens);
	return SHUNT_OK;
}

static enum shunt_status check_scales(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;

	if (args->smooth_scales &&
		!exchange_shape(exchange)->format.takes_smooth)
		return error_set(SHUNT_INVALID,
			"smooth_scales is given with quant %d; it goes with a "
			"dynamic per-row or _GROUP quant, or a _STATIC one "
			"(rank %d)",
			(int)config->quant, exchange->rank);
	if (args->x_scales && config->x_scales_per_row == 0)
		return refuse_extra(
			exchange, "x_scales", "but x_scales_per_row is 0");
	return check_static(exchange, args);
}

static enum shunt_status check_stride(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	if (args->x_stride == 0)
		return SHUNT_OK;
	if (args->x_stride < exchange_shape(exchange)->hidden ||
		args->x_stride > MAX_STRIDE)
		return exchange_refuse(exchange, "x_stride", args->x_stride,
			"0 or hidden .. 2^40");
	if (exchange->accepted.config.dtype == SHUNT_DTYPE_E2M1 &&
		args->x_stride % 2 != 0)
		return exchange_refuse(exchange, "x_stride", args->x_stride,
			"even with dtype E2M1");
	return SHUNT_OK;
}

enum shunt_status args_check(const struct shunt_exchange *exchange,
	const struct shunt_dispatch_args *args)
{
	const struct shape *shape = exchange_shape(exchange);
	enum shunt_status status;

	if (args->num_tokens < 0 || args->num_tokens > shape->max_tokens)
		return error_set(SHUNT_INVALID,
			"num_tokens is %lld, must be 0 .. max_tokens = %lld "
			"(rank %d)",
			(long long)args->num_tokens,
			(long long)shape->max_tokens, exchange->rank);
	if (args->deadline_ns < 0)
		return exchange_refuse(exchange, "deadline_ns",
			args->deadline_ns, "0 or more");
	status = check_stride(exchange, args);
	if (status == SHUNT_OK)
		status = args_are_cached(args) ? check_cached(exchange, args)
					       : check_routing(exchange, args);
	if (status == SHUNT_OK && args->num_tokens > 0 && !args->x)
		status = refuse_null(exchange, "x", args->num_tokens);
	return status ? status : check_scales(exchange, args);
}
