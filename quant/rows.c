/* Owns the public door to the row kernels: checks, strides, control word. */
#include <shunt/quant.h>

#include <stddef.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/fpenv.h"
#include "quant/kernels.h"

/* What both directions are asked for; strides are resolved. */
struct rows {
	enum shunt_quant quant;
	enum shunt_dtype dtype;
	int64_t num_rows;
	int64_t hidden;
	const void *x;
	int64_t x_stride;
	const void *q;
	int64_t q_stride;
	const void *scales;
};

static int64_t dtype_bytes(enum shunt_dtype dtype)
{
	return dtype == SHUNT_DTYPE_F32 ? 4 : 2;
}

static enum shunt_status check_stride(
	const char *name, int64_t num_rows, int64_t hidden, int64_t *stride)
{
	int64_t bytes;

	if (*stride == 0)
		*stride = hidden;
	if (*stride < hidden)
		return error_set(SHUNT_INVALID,
			"%s is %lld, must be 0 or at least hidden = %lld", name,
			(long long)*stride, (long long)hidden);
	if (__builtin_mul_overflow(num_rows, *stride, &bytes) ||
		__builtin_mul_overflow(bytes, (int64_t)sizeof(float), &bytes))
		return error_set(SHUNT_INVALID,
			"num_rows * %s is %lld * %lld elements, more than "
			"2^63 bytes",
			name, (long long)num_rows, (long long)*stride);
	return SHUNT_OK;
}

static enum shunt_status check_shape(struct rows *rows)
{
	enum shunt_status status;

	if (rows->num_rows < 0)
		return error_set(SHUNT_INVALID,
			"num_rows is %lld, must be at least 0",
			(long long)rows->num_rows);
	if (rows->hidden < 1)
		return error_set(SHUNT_INVALID,
			"hidden is %lld, must be at least 1",
			(long long)rows->hidden);
	status = check_stride(
		"x_stride", rows->num_rows, rows->hidden, &rows->x_stride);
	if (status)
		return status;
	return check_stride(
		"q_stride", rows->num_rows, rows->hidden, &rows->q_stride);
}

static enum shunt_status check_types(const struct rows *rows)
{
	if (rows->quant != SHUNT_QUANT_NONE && rows->quant != SHUNT_QUANT_INT8)
		return error_set(SHUNT_INVALID,
			"quant is %d, must be %d (NONE) or %d (INT8)",
			(int)rows->quant, SHUNT_QUANT_NONE, SHUNT_QUANT_INT8);
	if (rows->dtype != SHUNT_DTYPE_F32 && rows->dtype != SHUNT_DTYPE_F16 &&
		rows->dtype != SHUNT_DTYPE_BF16)
		return error_set(SHUNT_INVALID,
			"dtype is %d, must be %d (F32), %d (F16) or %d (BF16)",
			(int)rows->dtype, SHUNT_DTYPE_F32, SHUNT_DTYPE_F16,
			SHUNT_DTYPE_BF16);
	return SHUNT_OK;
}

static enum shunt_status check_pointer(
	const struct rows *rows, const char *name, const void *pointer)
{
	if (pointer || rows->num_rows == 0)
		return SHUNT_OK;
	return error_set(SHUNT_NULL_ARGUMENT,
		"%s is NULL, must be given for num_rows = %lld", name,
		(long long)rows->num_rows);
}

static enum shunt_status rows_check(struct rows *rows)
{
	enum shunt_status status = check_types(rows);

	if (!status)
		status = check_shape(rows);
	if (!status)
		status = check_pointer(rows, "x", rows->x);
	if (!status)
		status = check_pointer(rows, "q", rows->q);
	if (status)
		return status;
	if (rows->quant == SHUNT_QUANT_INT8)
		return check_pointer(rows, "scales", rows->scales);
	if (rows->scales)
		return error_set(SHUNT_INVALID,
			"scales is %p, must be NULL for quant = %d (NONE)",
			(const void *)rows->scales, SHUNT_QUANT_NONE);
	return SHUNT_OK;
}

/* NONE, either way: the bits of each row. */
static void copy_rows(char *to, int64_t to_stride, const char *from,
	int64_t from_stride, const struct rows *rows)
{
	int64_t bytes = dtype_bytes(rows->dtype);

	for (int64_t row = 0; row < rows->num_rows; row++)
		memcpy(to + row * to_stride * bytes,
			from + row * from_stride * bytes,
			(size_t)(rows->hidden * bytes));
}

static void quantize_int8(const struct shunt_quantize_args *args,
	const struct rows *rows, struct quant_tally *tally)
{
	const struct quant_kernels *kernels = quant_kernels();
	int64_t bytes = dtype_bytes(rows->dtype);
	struct fpenv caller = fpenv_enter();

	for (int64_t row = 0; row < rows->num_rows; row++)
		kernels->int8_row[rows->dtype](
			(int8_t *)args->q + row * rows->q_stride,
			(float *)args->scales + row,
			(const char *)args->x + row * rows->x_stride * bytes,
			args->smooth_scales, rows->hidden, tally);
	fpenv_leave(&caller);
}

static void dequantize_int8(
	const struct shunt_dequantize_args *args, const struct rows *rows)
{
	const struct quant_kernels *kernels = quant_kernels();
	int64_t bytes = dtype_bytes(rows->dtype);
	struct fpenv caller = fpenv_enter();

	for (int64_t row = 0; row < rows->num_rows; row++) {
		const struct quant_codes codes = {
			.x = (char *)args->x + row * rows->x_stride * bytes,
			.q = (const int8_t *)args->q + row * rows->q_stride,
			.scales = (const float *)args->scales + row,
			.hidden = rows->hidden,
		};

		kernels->back[SHUNT_QUANT_INT8][0][rows->dtype](&codes);
	}
	fpenv_leave(&caller);
}

enum shunt_status shunt_quantize_rows(const struct shunt_quantize_args *given)
{
	struct shunt_quantize_args args;
	struct quant_tally tally = {0};
	struct rows rows;
	enum shunt_status status;

	status = config_read(&args, sizeof(args), given, "quantize args");
	if (status)
		return status;
	rows = (struct rows){
		.quant = args.quant,
		.dtype = args.dtype,
		.num_rows = args.num_rows,
		.hidden = args.hidden,
		.x = args.x,
		.x_stride = args.x_stride,
		.q = args.q,
		.q_stride = args.q_stride,
		.scales = args.scales,
	};
	status = rows_check(&rows);
	if (status)
		return status;
	if (args.smooth_scales && args.quant == SHUNT_QUANT_NONE)
		return error_set(SHUNT_INVALID,
			"smooth_scales is %p, must be NULL for quant = %d "
			"(NONE)",
			(const void *)args.smooth_scales, SHUNT_QUANT_NONE);
	if (args.quant == SHUNT_QUANT_INT8)
		quantize_int8(&args, &rows, &tally);
	else
		copy_rows(args.q, rows.q_stride, args.x, rows.x_stride, &rows);
	if (args.nan_elements)
		*args.nan_elements = (int64_t)tally.nan_elements;
	if (args.inf_elements)
		*args.inf_elements = (int64_t)tally.inf_elements;
	return SHUNT_OK;
}

enum shunt_status shunt_dequantize_rows(
	const struct shunt_dequantize_args *given)
{
	struct shunt_dequantize_args args;
	struct rows rows;
	enum shunt_status status;

	status = config_read(&args, sizeof(args), given, "dequantize args");
	if (status)
		return status;
	rows = (struct rows){
		.quant = args.quant,
		.dtype = args.dtype,
		.num_rows = args.num_rows,
		.hidden = args.hidden,
		.x = args.x,
		.x_stride = args.x_stride,
		.q = args.q,
		.q_stride = args.q_stride,
		.scales = args.scales,
	};
	status = rows_check(&rows);
	if (status)
		return status;
	if (args.quant == SHUNT_QUANT_INT8)
		dequantize_int8(&args, &rows);
	else
		copy_rows(args.x, rows.x_stride, args.q, rows.q_stride, &rows);
	return SHUNT_OK;
}
