/* Checks of the arguments of combine; see args.h. */
#include "combine/args.h"

#include "base/config.h"
#include "base/error.h"

/* `what`, `count` is why the argument is needed: "rows received", 3. */
static enum shunt_status refuse_null(const struct shunt_exchange *exchange,
	const char *name, const char *what, int64_t count)
{
	return error_set(SHUNT_NULL_ARGUMENT,
		"%s is NULL with %s %lld (rank %d)", name, what,
		(long long)count, exchange->rank);
}

/* An argument that does not go with what was asked for. */
static enum shunt_status refuse_extra(const struct shunt_exchange *exchange,
	const char *name, const char *why)
{
	return error_set(SHUNT_INVALID, "%s is given, %s (rank %d)", name, why,
		exchange->rank);
}

enum shunt_status combine_args_check_stride(
	const struct shunt_exchange *exchange, const char *name, int64_t stride)
{
	if (stride == 0 || (stride >= exchange_shape(exchange)->hidden &&
				   stride <= MAX_STRIDE))
		return SHUNT_OK;
	return exchange_refuse(exchange, name, stride, "0 or hidden .. 2^40");
}

static enum shunt_status check_strides(const struct shunt_exchange *exchange,
	const struct shunt_combine_args *args)
{
	const struct {
		const char *name;
		int64_t stride;
	} strides[] = {
		{"y_stride", args->y_stride},
		{"out_stride", args->out_stride},
		{"ori_x_stride", args->ori_x_stride},
		{"shared_expert_x_stride", args->shared_expert_x_stride},
		{"residual_stride", args->residual_stride},
		{"norm_out_stride", args->norm_out_stride},
	};
	enum shunt_status status = SHUNT_OK;

	for (size_t i = 0; i < sizeof(strides) / sizeof(*strides) && !status;
		i++)
		status = combine_args_check_stride(
			exchange, strides[i].name, strides[i].stride);
	return status;
}

/* The experts' rows: one way of giving them. */
static enum shunt_status check_rows(const struct shunt_exchange *exchange,
	const struct step *step, const struct shunt_combine_args *args,
	bool whole)
{
	if (args->feed && whole)
		return refuse_extra(exchange, "feed",
			"but goes with shunt_combine_start() only");
	if (args->y && (args->y_rows || args->feed))
		return refuse_extra(exchange, "y",
			args->feed ? "but so is feed" : "but so is y_rows");
	if (args->y_rows && args->feed)
		return refuse_extra(exchange, "y_rows", "but so is feed");
	if (!args->y && !args->y_rows && !args->feed &&
		step->route->num_rows > 0)
		return refuse_null(
			exchange, "y", "rows received", step->route->num_rows);
	return SHUNT_OK;
}

/* Every row of y_rows that is read. */
static enum shunt_status check_each_row(const struct shunt_exchange *exchange,
	const struct step *step, const struct shunt_combine_args *args)
{
	const struct route *route = step->route;
	const struct view *view = route->view;
	int64_t num_local = placement_num_local(&view->placement, view->rank);

	for (int64_t l = 0; args->y_rows && l < num_local; l++)
		for (int64_t i = 0; i < route->expert_rows[l]; i++) {
			int64_t row = route->expert_first_row[l] + i;

			if (!args->y_rows[row])
				return error_set(SHUNT_NULL_ARGUMENT,
					"y_rows[%lld] is NULL: a row of local "
					"expert %lld (rank %d)",
					(long long)row, (long long)l,
					exchange->rank);
		}
	return SHUNT_OK;
}

/* What special experts work on. */
static enum shunt_status check_special(const struct shunt_exchange *exchange,
	const struct step *step, const struct shunt_combine_args *args)
{
	const struct shunt_exchange_config *config = &exchange->accepted.config;
	int64_t constants = config->num_constant_experts;

	if (step->route->num_tokens == 0)
		return SHUNT_OK;
	if (!args->ori_x && config->num_copy_experts > 0)
		return refuse_null(exchange, "ori_x", "num_copy_experts",
			config->num_copy_experts);
	if (constants == 0)
		return SHUNT_OK;
	if (!args->ori_x)
		return refuse_null(
			exchange, "ori_x", "num_constant_experts", constants);
	if (!args->constant_alpha1)
		return refuse_null(exchange, "constant_alpha1",
			"num_constant_experts", constants);
	if (!args->constant_alpha2)
		return refuse_null(exchange, "constant_alpha2",
			"num_constant_experts", constants);
	if (!args->constant_v)
		return refuse_null(exchange, "constant_v",
			"num_constant_experts", constants);
	return SHUNT_OK;
}

static enum shunt_status check_norm(const struct shunt_exchange *exchange,
	const struct step *step, const struct shunt_combine_args *args)
{
	if (!args->gamma && args->norm_out)
		return refuse_extra(exchange, "norm_out", "but gamma is NULL");
	if (!args->gamma && args->rstd)
		return refuse_extra(exchange, "rstd", "but gamma is NULL");
	if (!args->gamma)
		return SHUNT_OK;
	if (!args->norm_out && step->route->num_tokens > 0)
		return refuse_null(exchange, "norm_out",
			"gamma given and num_tokens", step->route->num_tokens);
	if (args->gamma_dtype != SHUNT_DTYPE_NONE &&
		args->gamma_dtype != args->out_dtype &&
		args->gamma_dtype != SHUNT_DTYPE_F32)
		return error_set(SHUNT_INVALID,
			"gamma_dtype is %d, must be 0, out_dtype = %d or F32 "
			"(rank %d)",
			(int)args->gamma_dtype, (int)args->out_dtype,
			exchange->rank);
	if (!(args->norm_eps >= 0.0f))
		return error_set(SHUNT_INVALID,
			"norm_eps is %g, must be 0 or more (rank %d)",
			(double)args->norm_eps, exchange->rank);
	return SHUNT_OK;
}

static enum shunt_status check_args(const struct shunt_exchange *exchange,
	const struct step *step, const struct shunt_combine_args *args,
	bool whole)
{
	enum shunt_status status = check_rows(exchange, step, args, whole);

	if (status == SHUNT_OK && !args->out && step->route->num_tokens > 0)
		status = refuse_null(
			exchange, "out", "num_tokens", step->route->num_tokens);
	if (status == SHUNT_OK)
		status = check_strides(exchange, args);
	if (status == SHUNT_OK && args->deadline_ns < 0)
		status = exchange_refuse(exchange, "deadline_ns",
			args->deadline_ns, "0 or more");
	if (status == SHUNT_OK)
		status = check_special(exchange, step, args);
	if (status == SHUNT_OK)
		status = check_norm(exchange, step, args);
	if (status == SHUNT_OK)
		status = check_each_row(exchange, step, args);
	return status;
}

static void set_default(int64_t *value, int64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void fill_defaults(
	const struct shunt_exchange *exchange, struct shunt_combine_args *args)
{
	int64_t hidden = exchange_shape(exchange)->hidden;

	set_default(&args->y_stride, hidden);
	set_default(&args->out_stride, hidden);
	set_default(&args->ori_x_stride, hidden);
	set_default(&args->shared_expert_x_stride, hidden);
	set_default(&args->residual_stride, hidden);
	set_default(&args->norm_out_stride, hidden);
	set_default(&args->deadline_ns, exchange->accepted.config.deadline_ns);
	if (args->gamma_dtype == SHUNT_DTYPE_NONE)
		args->gamma_dtype = args->out_dtype;
}

enum shunt_status combine_args_read(const struct shunt_exchange *exchange,
	struct step *step, const struct shunt_combine_args *given, bool whole)
{
	struct shunt_combine_args *args = &step->combine;
	enum shunt_status status =
		config_read(args, sizeof(*args), given, "shunt_combine_args");

	if (status != SHUNT_OK)
		return status;
	if (args->out_dtype > SHUNT_DTYPE_BF16)
		return exchange_refuse(exchange, "out_dtype",
			(int32_t)args->out_dtype, "0, F32, F16 or BF16");
	if (args->out_dtype == SHUNT_DTYPE_NONE)
		args->out_dtype = exchange->accepted.config.expert_dtype;
	status = check_args(exchange, step, args, whole);
	if (status == SHUNT_OK)
		fill_defaults(exchange, args);
	return status;
}
