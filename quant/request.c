/* Owns the checks of what the public functions are asked for. */
#include "quant/request.h"

#include "base/dtype.h"
#include "base/error.h"

/* Of a longer row the bits could not be counted. */
#define MAX_HIDDEN (INT64_MAX / 64)

static const char *const quant_names[QUANT_NUM_MODES] = {
	[SHUNT_QUANT_NONE] = "NONE",
	[SHUNT_QUANT_INT8] = "INT8",
	[SHUNT_QUANT_E4M3FN] = "E4M3FN",
	[SHUNT_QUANT_E5M2] = "E5M2",
	[SHUNT_QUANT_INT8_GROUP] = "INT8_GROUP",
	[SHUNT_QUANT_E4M3FN_GROUP] = "E4M3FN_GROUP",
	[SHUNT_QUANT_E5M2_GROUP] = "E5M2_GROUP",
	[SHUNT_QUANT_INT8_STATIC] = "INT8_STATIC",
	[SHUNT_QUANT_E4M3FN_STATIC] = "E4M3FN_STATIC",
	[SHUNT_QUANT_MXFP8_E4M3FN] = "MXFP8_E4M3FN",
	[SHUNT_QUANT_MXFP8_E5M2] = "MXFP8_E5M2",
	[SHUNT_QUANT_MXFP4_E2M1] = "MXFP4_E2M1",
	[SHUNT_QUANT_NVFP4_E2M1] = "NVFP4_E2M1",
};

/* ---- the mode and the shape -------------------------------------------- */

static enum shunt_status check_dtype(
	enum shunt_quant quant, enum shunt_dtype dtype)
{
	if (quant == SHUNT_QUANT_NONE) {
		if (dtype_bits(dtype) && dtype != SHUNT_DTYPE_E8M0)
			return SHUNT_OK;
		return error_set(SHUNT_INVALID,
			"dtype is %d, must be %d (F32) .. %d (E2M1) for "
			"quant = %d (NONE)",
			(int)dtype, SHUNT_DTYPE_F32, SHUNT_DTYPE_E2M1,
			SHUNT_QUANT_NONE);
	}
	if (dtype_is_float(dtype))
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"dtype is %d, must be %d (F32), %d (F16) or %d (BF16) for "
		"quant = %d (%s)",
		(int)dtype, SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16,
		(int)quant, quant_names[quant]);
}

static enum shunt_status check_quant(
	enum shunt_quant quant, enum shunt_scale_form form)
{
	if ((int)quant < 0 || (int)quant >= QUANT_NUM_MODES)
		return error_set(SHUNT_INVALID,
			"quant is %d, must be %d (NONE) .. %d (NVFP4_E2M1)",
			(int)quant, SHUNT_QUANT_NONE, SHUNT_QUANT_NVFP4_E2M1);
	if ((int)form < 0 || (int)form >= QUANT_NUM_FORMS)
		return error_set(SHUNT_INVALID,
			"scale_form is %d, must be %d (F32), %d (POW2) or %d "
			"(E8M0)",
			(int)form, SHUNT_SCALE_F32, SHUNT_SCALE_POW2,
			SHUNT_SCALE_E8M0);
	return SHUNT_OK;
}

static enum shunt_status check_hidden(int64_t hidden)
{
	if (hidden >= 1 && hidden <= MAX_HIDDEN)
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"hidden is %lld, must be at least 1 and at most %lld",
		(long long)hidden, (long long)MAX_HIDDEN);
}

enum shunt_status request_check_mode(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden)
{
	enum shunt_status status = check_quant(quant, form);

	if (!status && quant == SHUNT_QUANT_NONE)
		status = check_dtype(quant, dtype);
	return status ? status : check_hidden(hidden);
}

/* ---- strides ----------------------------------------------------------- */

/* Resolves and checks the stride of the rows of x or q. */
static enum shunt_status check_stride(const struct request *request,
	const char *name, enum shunt_dtype dtype, int64_t *stride)
{
	bool pairs = dtype == SHUNT_DTYPE_E2M1;
	int64_t bytes;

	if (*stride == 0)
		*stride = request->hidden + (pairs ? request->hidden & 1 : 0);
	if (*stride < request->hidden)
		return error_set(SHUNT_INVALID,
			"%s is %lld, must be 0 or at least hidden = %lld", name,
			(long long)*stride, (long long)request->hidden);
	if (pairs && *stride & 1)
		return error_set(SHUNT_INVALID,
			"%s is %lld, must be even, since two elements of E2M1 "
			"share a byte",
			name, (long long)*stride);
	if (__builtin_mul_overflow(request->num_rows, *stride, &bytes) ||
		__builtin_mul_overflow(bytes, (int64_t)sizeof(float), &bytes))
		return error_set(SHUNT_INVALID,
			"num_rows * %s is %lld * %lld elements, more than "
			"2^63 bytes",
			name, (long long)request->num_rows, (long long)*stride);
	return SHUNT_OK;
}

/* That the greater stride steps over all that the lesser one reaches. */
static bool strides_are_apart(
	int64_t stride, int64_t count, int64_t other, int64_t others)
{
	int64_t reach;

	if (count > 1 && stride < 1)
		return false;
	if (others <= 1)
		return true;
	return !__builtin_mul_overflow(stride, count - 1, &reach) &&
	       other > reach;
}

static enum shunt_status check_scale_strides(struct request *request)
{
	int64_t rows = request->num_rows, n = request->format.num_scales;
	int64_t *row = &request->scale_row_stride;
	int64_t *group = &request->scale_group_stride;
	int64_t reach;

	if (*row == 0 && *group == 0) {
		*row = n;
		*group = 1;
	}
	if (*row < 0 || *group < 0 ||
		!(strides_are_apart(*group, n, *row, rows) ||
			strides_are_apart(*row, rows, *group, n)))
		return error_set(SHUNT_INVALID,
			"scale_row_stride is %lld and scale_group_stride is "
			"%lld: scales of %lld rows of %lld would overlap",
			(long long)*row, (long long)*group, (long long)rows,
			(long long)n);
	if (__builtin_mul_overflow(rows, *row, &reach) ||
		__builtin_mul_overflow(reach, (int64_t)sizeof(float), &reach) ||
		__builtin_mul_overflow(n, *group, &reach) ||
		__builtin_mul_overflow(reach, (int64_t)sizeof(float), &reach))
		return error_set(SHUNT_INVALID,
			"scale_row_stride is %lld and scale_group_stride is "
			"%lld: %lld rows of %lld scales have more than 2^63 "
			"bytes",
			(long long)*row, (long long)*group, (long long)rows,
			(long long)n);
	return SHUNT_OK;
}

/* ---- pointers ---------------------------------------------------------- */

static enum shunt_status check_given(
	const struct request *request, const char *name, const void *pointer)
{
	if (pointer || request->num_rows == 0)
		return SHUNT_OK;
	return error_set(SHUNT_NULL_ARGUMENT,
		"%s is NULL, must be given for num_rows = %lld and quant = %d "
		"(%s)",
		name, (long long)request->num_rows, (int)request->quant,
		quant_names[request->quant]);
}

static enum shunt_status check_absent(
	const struct request *request, const char *name, const void *pointer)
{
	if (!pointer)
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"%s is %p, must be NULL for quant = %d (%s)", name, pointer,
		(int)request->quant, quant_names[request->quant]);
}

/* Given where the mode has it, absent where not. */
static enum shunt_status check_pointer(const struct request *request,
	const char *name, const void *pointer, bool has)
{
	return has ? check_given(request, name, pointer)
		   : check_absent(request, name, pointer);
}

static enum shunt_status check_static(const struct request *request)
{
	enum shunt_static_shape shape = request->static_shape;

	if (request->format.is_static && shape != SHUNT_STATIC_ONE &&
		shape != SHUNT_STATIC_HIDDEN)
		return error_set(SHUNT_INVALID,
			"static_shape is %d, must be %d (ONE) or %d (HIDDEN)",
			(int)shape, SHUNT_STATIC_ONE, SHUNT_STATIC_HIDDEN);
	return check_pointer(request, request->fixed_name, request->fixed,
		request->format.is_static);
}

static enum shunt_status check_scales(struct request *request)
{
	bool has = request->format.num_scales > 0;
	enum shunt_status status = SHUNT_OK;

	if (has)
		status = check_scale_strides(request);
	if (!status)
		status = check_pointer(request, "scales", request->scales, has);
	if (!status)
		status = check_pointer(request, "row_scales",
			request->row_scales, request->format.has_row_scale);
	return status;
}

static enum shunt_status check_rows(struct request *request)
{
	enum shunt_status status;

	if (request->num_rows < 0)
		return error_set(SHUNT_INVALID,
			"num_rows is %lld, must be at least 0",
			(long long)request->num_rows);
	status = check_stride(
		request, "x_stride", request->dtype, &request->x_stride);
	if (!status)
		status = check_stride(request, "q_stride",
			request->format.row_dtype, &request->q_stride);
	if (!status)
		status = check_given(request, "x", request->x);
	if (!status)
		status = check_given(request, "q", request->q);
	return status;
}

enum shunt_status request_check(struct request *request)
{
	enum shunt_status status = request_check_mode(
		request->quant, request->form, request->dtype, request->hidden);

	if (!status)
		status = check_dtype(request->quant, request->dtype);
	if (status)
		return status;
	request->format = quant_format_of(
		request->quant, request->form, request->dtype, request->hidden);
	status = check_rows(request);
	if (!status)
		status = check_scales(request);
	if (!status)
		status = check_static(request);
	if (!status && !request->format.takes_smooth)
		status =
			check_absent(request, "smooth_scales", request->smooth);
	return status;
}

/* ---- places ------------------------------------------------------------ */

int64_t request_x_off(const struct request *request, int64_t row)
{
	return row * dtype_row_bytes(request->dtype, request->x_stride);
}

int64_t request_q_off(const struct request *request, int64_t row)
{
	return row *
	       dtype_row_bytes(request->format.row_dtype, request->q_stride);
}

int64_t request_scales_off(const struct request *request, int64_t row)
{
	return row * request->scale_row_stride * request->format.scale_bytes;
}
