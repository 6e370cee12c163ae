/* What the public functions of quantization refuse, in which words, and that
 * nothing is written then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <shunt/quant.h>

#define ROWS   5
#define HIDDEN 83
#define SCALES 6 /* of NVFP4 */

/* A call with room for every mode. */
struct call {
	float x[ROWS * HIDDEN];
	uint8_t q[ROWS * HIDDEN];
	float scales[ROWS * SCALES];
	float row_scales[ROWS];
	float smooth[HIDDEN];
	int64_t nan_elements;
	struct shunt_quantize_args args;
};

static void call_init(struct call *call, enum shunt_quant quant)
{
	struct shunt_quantize_args *args = &call->args;

	memset(call, 0, sizeof(*call));
	*args = (struct shunt_quantize_args)SHUNT_QUANTIZE_ARGS_INIT;
	args->quant = quant;
	args->dtype = SHUNT_DTYPE_F16;
	args->num_rows = ROWS;
	args->hidden = HIDDEN;
	args->x = call->x;
	args->q = call->q;
	args->nan_elements = &call->nan_elements;
	call->nan_elements = 77;
	if (quant == SHUNT_QUANT_INT8_STATIC ||
		quant == SHUNT_QUANT_E4M3FN_STATIC)
		args->static_scales = call->smooth;
	else if (quant != SHUNT_QUANT_NONE)
		args->scales = call->scales;
	if (quant == SHUNT_QUANT_NVFP4_E2M1)
		args->row_scales = call->row_scales;
}

/* One wrong field of a good call, the status, and what the message holds. */
struct refusal {
	enum shunt_quant quant;
	void (*spoil)(struct shunt_quantize_args *args);
	enum shunt_status status;
	const char *words[3];
};

#define SPOIL(name, statement)                                     \
	static void spoil_##name(struct shunt_quantize_args *args) \
	{                                                          \
		statement;                                         \
	}

SPOIL(quant, args->quant = (enum shunt_quant)77)
SPOIL(form, args->scale_form = (enum shunt_scale_form)3)
SPOIL(dtype, args->dtype = SHUNT_DTYPE_I8)
SPOIL(dtype_e8m0, args->dtype = SHUNT_DTYPE_E8M0)
SPOIL(num_rows, args->num_rows = -3)
SPOIL(hidden, args->hidden = 0)
SPOIL(hidden_huge, args->hidden = INT64_MAX)
SPOIL(x_stride, args->x_stride = HIDDEN - 1)
SPOIL(q_stride, args->q_stride = -1)
SPOIL(q_stride_odd, args->q_stride = HIDDEN)
SPOIL(extent, args->q_stride = INT64_MAX / 2)
SPOIL(x, args->x = NULL)
SPOIL(q, args->q = NULL)
SPOIL(scales, args->scales = NULL)
SPOIL(scales_given, args->scales = args->q)
SPOIL(smooth_given, args->smooth_scales = args->x)
SPOIL(fixed, args->static_scales = NULL)
SPOIL(fixed_given, args->static_scales = args->x)
SPOIL(shape, args->static_shape = SHUNT_STATIC_EXPERTS)
SPOIL(row_scales, args->row_scales = NULL)
SPOIL(row_scales_given, args->row_scales = args->scales)
SPOIL(scales_negative, args->scale_row_stride = -6)
SPOIL(scales_overlap, args->scale_row_stride = 2; args->scale_group_stride = 1)
SPOIL(scales_columns, args->scale_row_stride = 1;
	args->scale_group_stride = ROWS - 1)
SPOIL(scales_row_only, args->scale_row_stride = 6)
SPOIL(scales_extent, args->scale_row_stride = INT64_MAX / 2;
	args->scale_group_stride = 1)

static const struct refusal refusals[] = {
	{SHUNT_QUANT_INT8, spoil_quant, SHUNT_INVALID,
		{"quant", "77", "NVFP4_E2M1"}},
	{SHUNT_QUANT_E4M3FN_GROUP, spoil_form, SHUNT_INVALID,
		{"scale_form", "3", "E8M0"}},
	{SHUNT_QUANT_INT8, spoil_dtype, SHUNT_INVALID, {"dtype", "4", "BF16"}},
	{SHUNT_QUANT_NONE, spoil_dtype_e8m0, SHUNT_INVALID,
		{"dtype", "8", "E2M1"}},
	{SHUNT_QUANT_INT8, spoil_num_rows, SHUNT_INVALID,
		{"num_rows", "-3", "at least 0"}},
	{SHUNT_QUANT_INT8, spoil_hidden, SHUNT_INVALID,
		{"hidden", "0", "at least 1"}},
	{SHUNT_QUANT_MXFP4_E2M1, spoil_hidden_huge, SHUNT_INVALID,
		{"hidden", "9223372036854775807", "at most"}},
	{SHUNT_QUANT_INT8, spoil_x_stride, SHUNT_INVALID,
		{"x_stride", "82", "83"}},
	{SHUNT_QUANT_INT8, spoil_q_stride, SHUNT_INVALID,
		{"q_stride", "-1", "83"}},
	{SHUNT_QUANT_MXFP4_E2M1, spoil_q_stride_odd, SHUNT_INVALID,
		{"q_stride", "83", "even"}},
	{SHUNT_QUANT_INT8, spoil_extent, SHUNT_INVALID,
		{"q_stride", "num_rows", "4611"}},
	{SHUNT_QUANT_INT8, spoil_x, SHUNT_NULL_ARGUMENT,
		{"x is NULL", "num_rows", "5"}},
	{SHUNT_QUANT_INT8, spoil_q, SHUNT_NULL_ARGUMENT,
		{"q is NULL", "num_rows", "5"}},
	{SHUNT_QUANT_MXFP8_E5M2, spoil_scales, SHUNT_NULL_ARGUMENT,
		{"scales is NULL", "5", "MXFP8_E5M2"}},
	{SHUNT_QUANT_NONE, spoil_scales_given, SHUNT_INVALID,
		{"scales", "must be NULL", "NONE"}},
	{SHUNT_QUANT_INT8_STATIC, spoil_scales_given, SHUNT_INVALID,
		{"scales", "must be NULL", "INT8_STATIC"}},
	{SHUNT_QUANT_NONE, spoil_smooth_given, SHUNT_INVALID,
		{"smooth_scales", "must be NULL", "NONE"}},
	{SHUNT_QUANT_MXFP8_E4M3FN, spoil_smooth_given, SHUNT_INVALID,
		{"smooth_scales", "must be NULL", "MXFP8_E4M3FN"}},
	{SHUNT_QUANT_NVFP4_E2M1, spoil_smooth_given, SHUNT_INVALID,
		{"smooth_scales", "must be NULL", "NVFP4_E2M1"}},
	{SHUNT_QUANT_INT8_STATIC, spoil_fixed, SHUNT_NULL_ARGUMENT,
		{"static_scales is NULL", "5", "INT8_STATIC"}},
	{SHUNT_QUANT_INT8, spoil_fixed_given, SHUNT_INVALID,
		{"static_scales", "must be NULL", "INT8"}},
	{SHUNT_QUANT_E4M3FN_STATIC, spoil_shape, SHUNT_INVALID,
		{"static_shape", "2", "HIDDEN"}},
	{SHUNT_QUANT_NVFP4_E2M1, spoil_row_scales, SHUNT_NULL_ARGUMENT,
		{"row_scales is NULL", "5", "NVFP4_E2M1"}},
	{SHUNT_QUANT_E5M2_GROUP, spoil_row_scales_given, SHUNT_INVALID,
		{"row_scales", "must be NULL", "E5M2_GROUP"}},
	{SHUNT_QUANT_NVFP4_E2M1, spoil_scales_negative, SHUNT_INVALID,
		{"scale_row_stride", "-6", "overlap"}},
	{SHUNT_QUANT_NVFP4_E2M1, spoil_scales_overlap, SHUNT_INVALID,
		{"scale_row_stride is 2", "scale_group_stride is 1",
			"5 rows of 6"}},
	{SHUNT_QUANT_NVFP4_E2M1, spoil_scales_columns, SHUNT_INVALID,
		{"scale_row_stride is 1", "scale_group_stride is 4",
			"overlap"}},
	{SHUNT_QUANT_NVFP4_E2M1, spoil_scales_row_only, SHUNT_INVALID,
		{"scale_row_stride is 6", "scale_group_stride is 0",
			"overlap"}},
	{SHUNT_QUANT_NVFP4_E2M1, spoil_scales_extent, SHUNT_INVALID,
		{"scale_row_stride", "4611686018427387903", "2^63"}},
};

static void a_wrong_argument_is_named_and_nothing_is_written(void **state)
{
	static struct call call, before;

	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *refusal = &refusals[i];

		call_init(&call, refusal->quant);
		assert_int_equal(shunt_quantize_rows(&call.args), SHUNT_OK);
		call_init(&call, refusal->quant);
		refusal->spoil(&call.args);
		before = call;
		assert_int_equal(
			shunt_quantize_rows(&call.args), refusal->status);
		for (int word = 0; word < 3; word++)
			if (!strstr(shunt_error_message(),
				    refusal->words[word]))
				fail_msg("%zu: no \"%s\" in \"%s\"", i,
					refusal->words[word],
					shunt_error_message());
		assert_memory_equal(&call, &before, sizeof(call));
	}
}

/* ---- the way back -------------------------------------------------------- */

static void good_back(struct shunt_dequantize_args *args, const int8_t *q,
	const float *scales, float *x)
{
	*args = (struct shunt_dequantize_args)SHUNT_DEQUANTIZE_ARGS_INIT;
	args->quant = SHUNT_QUANT_INT8;
	args->dtype = SHUNT_DTYPE_F32;
	args->num_rows = 1;
	args->hidden = 2;
	args->q = q;
	args->scales = scales;
	args->x = x;
}

static void dequantize_refuses_the_same(void **state)
{
	const int8_t q[2] = {1, 2};
	const float scale = 1.0f;
	float x[2] = {7, 7};
	struct shunt_dequantize_args args;

	(void)state;
	good_back(&args, q, &scale, x);
	args.dtype = SHUNT_DTYPE_NONE;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_INVALID);
	good_back(&args, q, &scale, x);
	args.x_stride = 1;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_INVALID);
	good_back(&args, q, NULL, x);
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_NULL_ARGUMENT);
	good_back(&args, q, &scale, x);
	args.quant = SHUNT_QUANT_NONE;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_INVALID);
	good_back(&args, q, &scale, x);
	args.row_scales = &scale;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_INVALID);
	good_back(&args, q, &scale, x);
	args.scale_row_stride = -1;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_INVALID);
	assert_true(x[0] == 7 && x[1] == 7);
	good_back(&args, q, &scale, x);
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_OK);
	assert_true(x[0] == 1 && x[1] == 2);
}

static void dequantize_takes_static_scales_as_scales(void **state)
{
	const int8_t q[2] = {1, 2};
	const float scales[2] = {3, 5};
	float x[2] = {7, 7};
	struct shunt_dequantize_args args;

	(void)state;
	good_back(&args, q, NULL, x);
	args.quant = SHUNT_QUANT_INT8_STATIC;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_NULL_ARGUMENT);
	assert_non_null(strstr(shunt_error_message(), "scales is NULL"));
	args.scales = scales;
	args.static_shape = SHUNT_STATIC_EXPERTS;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_INVALID);
	assert_true(x[0] == 7 && x[1] == 7);
	args.static_shape = SHUNT_STATIC_HIDDEN;
	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_OK);
	assert_true(x[0] == 3 && x[1] == 10);
}

static void no_struct_and_no_size_are_refused(void **state)
{
	struct shunt_quantize_args args = {0};

	(void)state;
	assert_int_equal(shunt_quantize_rows(NULL), SHUNT_NULL_ARGUMENT);
	assert_int_equal(shunt_dequantize_rows(NULL), SHUNT_NULL_ARGUMENT);
	assert_int_equal(shunt_quantize_rows(&args), SHUNT_INVALID);
}

static void no_rows_need_no_pointers(void **state)
{
	(void)state;
	for (int quant = 0; quant <= SHUNT_QUANT_NVFP4_E2M1; quant++) {
		struct shunt_quantize_args args = SHUNT_QUANTIZE_ARGS_INIT;
		struct shunt_dequantize_args back = SHUNT_DEQUANTIZE_ARGS_INIT;
		int64_t nans = 9;

		args.quant = back.quant = (enum shunt_quant)quant;
		args.dtype = back.dtype = SHUNT_DTYPE_F32;
		args.hidden = back.hidden = 1;
		args.nan_elements = &nans;
		assert_int_equal(shunt_quantize_rows(&args), SHUNT_OK);
		assert_int_equal(nans, 0);
		assert_int_equal(shunt_dequantize_rows(&back), SHUNT_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_wrong_argument_is_named_and_nothing_is_written),
		cmocka_unit_test(dequantize_refuses_the_same),
		cmocka_unit_test(dequantize_takes_static_scales_as_scales),
		cmocka_unit_test(no_struct_and_no_size_are_refused),
		cmocka_unit_test(no_rows_need_no_pointers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
