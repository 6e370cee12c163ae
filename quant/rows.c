/* Owns the public door to the row kernels. */
#include <shunt/quant.h>

#include <stddef.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "base/half.h"
#include "quant/request.h"

enum shunt_status shunt_quant_query(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden,
	struct shunt_quant_sizes *out)
{
	struct shunt_quant_sizes sizes;
	struct quant_format format;
	enum shunt_status status;

	status = config_read(&sizes, sizeof(sizes), out, "quant sizes");
	if (!status)
		status = request_check_mode(quant, form, dtype, hidden);
	if (status)
		return status;
	format = quant_format_of(quant, form, dtype, hidden);
	sizes.row_dtype = format.row_dtype;
	sizes.row_bytes = format.row_bytes;
	sizes.scale_dtype = format.scale_dtype;
	sizes.scales_per_row = format.num_scales;
	sizes.scale_bytes = format.scale_bytes;
	sizes.group = format.group;
	sizes.has_row_scales = format.has_row_scale;
	config_write(out, &sizes, sizeof(sizes));
	return SHUNT_OK;
}

/* NONE, either way: the bits of each row. */
static void copy_rows(char *to, int64_t to_stride, const char *from,
	int64_t from_stride, const struct request *request)
{
	for (int64_t row = 0; row < request->num_rows; row++)
		memcpy(to + row * to_stride, from + row * from_stride,
			(size_t)request->format.row_bytes);
}

static void quantize_rows(const struct shunt_quantize_args *args,
	const struct request *request, struct quant_tally *tally)
{
	quant_row_fn *kernel =
		quant_row_kernel(request->quant, request->form, request->dtype);
	struct quant_row next = {
		.smooth = request->smooth,
		.fixed = request->fixed,
		.fixed_is_one = request->static_shape == SHUNT_STATIC_ONE,
		.hidden = request->hidden,
		.tally = tally,
		.scale_step = request->scale_group_stride,
	};
	struct fpenv caller = fpenv_enter();

	for (int64_t row = 0; row < request->num_rows; row++) {
		next.x = (const char *)args->x + request_x_off(request, row);
		next.next = row + 1 < request->num_rows
				    ? (const char *)args->x +
					      request_x_off(request, row + 1)
				    : NULL;
		next.q = (char *)args->q + request_q_off(request, row);
		if (args->scales)
			next.scales = (char *)args->scales +
				      request_scales_off(request, row);
		if (args->row_scales)
			next.row_scale = args->row_scales + row;
		kernel(&next);
	}
	fpenv_leave(&caller);
}

enum shunt_status shunt_quantize_rows(const struct shunt_quantize_args *given)
{
	struct shunt_quantize_args args;
	struct quant_tally tally = {0};
	struct request request;
	enum shunt_status status;

	status = config_read(&args, sizeof(args), given, "quantize args");
	if (status)
		return status;
	request = (struct request){
		.quant = args.quant,
		.form = args.scale_form,
		.dtype = args.dtype,
		.num_rows = args.num_rows,
		.hidden = args.hidden,
		.x = args.x,
		.x_stride = args.x_stride,
		.smooth = args.smooth_scales,
		.q = args.q,
		.q_stride = args.q_stride,
		.scales = args.scales,
		.scale_row_stride = args.scale_row_stride,
		.scale_group_stride = args.scale_group_stride,
		.fixed = args.static_scales,
		.fixed_name = "static_scales",
		.static_shape = args.static_shape,
		.row_scales = args.row_scales,
	};
	status = request_check(&request);
	if (status)
		return status;
	if (args.quant == SHUNT_QUANT_NONE)
		copy_rows(args.q, request_q_off(&request, 1), args.x,
			request_x_off(&request, 1), &request);
	else
		quantize_rows(&args, &request, &tally);
	if (args.nan_elements)
		*args.nan_elements = (int64_t)tally.nan_elements;
	if (args.inf_elements)
		*args.inf_elements = (int64_t)tally.inf_elements;
	return SHUNT_OK;
}

static void dequantize_rows(
	const struct shunt_dequantize_args *args, const struct request *request)
{
	quant_codes_fn *kernel = quant_codes_kernel(
		request->quant, request->form, request->dtype);
	struct quant_codes next = {
		.scales = request->fixed,
		.fixed_is_one = request->static_shape == SHUNT_STATIC_ONE,
		.hidden = request->hidden,
		.scale_step = request->scale_group_stride,
	};
	struct fpenv caller = fpenv_enter();

	for (int64_t row = 0; row < request->num_rows; row++) {
		next.x = (char *)args->x + request_x_off(request, row);
		next.q = (const char *)args->q + request_q_off(request, row);
		if (request->scales)
			next.scales = (const char *)request->scales +
				      request_scales_off(request, row);
		if (args->row_scales)
			next.row_scale = half_load(
				SHUNT_DTYPE_F32, args->row_scales, row);
		kernel(&next);
	}
	fpenv_leave(&caller);
}

/* `scales` are those of the rows, or with static modes the caller's. */
static bool has_fixed_scales(const struct shunt_dequantize_args *args)
{
	return args->quant == SHUNT_QUANT_INT8_STATIC ||
	       args->quant == SHUNT_QUANT_E4M3FN_STATIC;
}

enum shunt_status shunt_dequantize_rows(
	const struct shunt_dequantize_args *given)
{
	struct shunt_dequantize_args args;
	struct request request;
	enum shunt_status status;

	status = config_read(&args, sizeof(args), given, "dequantize args");
	if (status)
		return status;
	request = (struct request){
		.quant = args.quant,
		.form = args.scale_form,
		.dtype = args.dtype,
		.num_rows = args.num_rows,
		.hidden = args.hidden,
		.x = args.x,
		.x_stride = args.x_stride,
		.q = args.q,
		.q_stride = args.q_stride,
		.scales = has_fixed_scales(&args) ? NULL : args.scales,
		.scale_row_stride = args.scale_row_stride,
		.scale_group_stride = args.scale_group_stride,
		.fixed = has_fixed_scales(&args) ? args.scales : NULL,
		.fixed_name = "scales",
		.static_shape = args.static_shape,
		.row_scales = args.row_scales,
	};
	status = request_check(&request);
	if (status)
		return status;
	if (args.quant == SHUNT_QUANT_NONE)
		copy_rows(args.x, request_x_off(&request, 1), args.q,
			request_q_off(&request, 1), &request);
	else
		dequantize_rows(&args, &request);
	return SHUNT_OK;
}
