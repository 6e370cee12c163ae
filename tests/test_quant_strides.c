/*
 * The public functions in every mode: rows and scales at strides of all kinds,
 * there and back, against the reference; and what the sizes are said to be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <shunt/quant.h>

#include "reference/convert.h"
#include "reference/quantize.h"

#define ROWS       5
#define MAX_HIDDEN 300
#define STRIDE     310 /* even, for E2M1 */
#define MAX_SCALES 24
#define CANARY     0x5a

static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

/* How scales lie. */
enum order { ORDER_DENSE, ORDER_ROWS, ORDER_COLUMNS, NUM_ORDERS };

/* A call with room for everything. */
struct call {
	enum order order;
	uint8_t x[ROWS * STRIDE * sizeof(float) + 1];
	uint8_t q[ROWS * STRIDE + 1];
	uint8_t back[ROWS * STRIDE * sizeof(float) + 1];
	float smooth[MAX_HIDDEN];
	float fixed[MAX_HIDDEN];
	float scales[ROWS * MAX_SCALES * 3];
	float row_scales[ROWS];
	int64_t nan_elements, inf_elements;
	struct shunt_quantize_args args;
	struct reference_format format;
};

static bool is_static(enum shunt_quant quant)
{
	return quant == SHUNT_QUANT_INT8_STATIC ||
	       quant == SHUNT_QUANT_E4M3FN_STATIC;
}

static void fill(struct call *call, enum shunt_dtype dtype)
{
	float values[ROWS * STRIDE];

	memset(call, CANARY, sizeof(*call));
	for (int i = 0; i < ROWS * STRIDE; i++)
		values[i] = (float)(i * 37 % 101 - 50) * 0.37f;
	values[3] = (float)__builtin_nan("");
	values[4] = -(float)__builtin_inf();
	values[STRIDE + 7] = (float)__builtin_inf();
	convert_store(dtype, values, ROWS * STRIDE, call->x + 1);
	for (int i = 0; i < MAX_HIDDEN; i++) {
		call->smooth[i] = 0.5f + (float)(i % 7);
		call->fixed[i] = 1.5f - (float)(i % 5);
	}
}

/* x and q begin at odd addresses. */
static void call_init(struct call *call, enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden)
{
	struct shunt_quantize_args *args = &call->args;

	fill(call, dtype);
	call->format = reference_format_of(quant, form, dtype, hidden);
	*args = (struct shunt_quantize_args)SHUNT_QUANTIZE_ARGS_INIT;
	args->quant = quant;
	args->scale_form = form;
	args->dtype = dtype;
	args->num_rows = ROWS;
	args->hidden = hidden;
	args->x = call->x + 1;
	args->x_stride = STRIDE;
	args->q = call->q + 1;
	args->q_stride = STRIDE;
	args->nan_elements = &call->nan_elements;
	args->inf_elements = &call->inf_elements;
	if (call->format.num_scales > 0)
		args->scales = call->scales;
	if (call->format.has_row_scale)
		args->row_scales = call->row_scales;
	if (is_static(quant)) {
		args->static_scales = call->fixed;
		args->static_shape =
			hidden % 2 ? SHUNT_STATIC_ONE : SHUNT_STATIC_HIDDEN;
	}
	if (quant != SHUNT_QUANT_NONE && quant <= SHUNT_QUANT_E4M3FN_STATIC &&
		hidden % 3 == 0)
		args->smooth_scales = call->smooth;
}

static void set_order(struct call *call, enum order order)
{
	int64_t n = call->format.num_scales;

	call->order = order;
	if (order == ORDER_DENSE)
		return;
	call->args.scale_row_stride = order == ORDER_ROWS ? 2 * n + 1 : 1;
	call->args.scale_group_stride = order == ORDER_ROWS ? 2 : ROWS + 2;
}

/* Where scale i of a row lies, in scales. */
static int64_t place(const struct call *call, int64_t row, int64_t i)
{
	if (call->order == ORDER_DENSE)
		return row * call->format.num_scales + i;
	return row * call->args.scale_row_stride +
	       i * call->args.scale_group_stride;
}

/* ---- there --------------------------------------------------------------- */

static struct reference_row reference_of(const struct call *call, int64_t row)
{
	const struct shunt_quantize_args *args = &call->args;

	return (struct reference_row){
		.quant = args->quant,
		.form = args->scale_form,
		.dtype = args->dtype,
		.hidden = args->hidden,
		.x = call->x + 1 +
		     (size_t)row * STRIDE * convert_bytes(args->dtype),
		.smooth = args->smooth_scales,
		.fixed = args->static_scales,
		.fixed_is_one = args->static_shape == SHUNT_STATIC_ONE,
	};
}

/* One row's q and scales; they are put where they belong, too. */
static void expect_row(struct call *want, int64_t row)
{
	size_t bytes = (size_t)want->format.scale_bytes;
	size_t stride = want->format.row_dtype == SHUNT_DTYPE_E2M1 ? STRIDE / 2
								   : STRIDE;
	uint8_t scales[MAX_SCALES * sizeof(float)];
	struct reference_row reference = reference_of(want, row);

	reference.q = want->q + 1 + (size_t)row * stride;
	reference.scales = scales;
	reference.row_scale = &want->row_scales[row];
	reference_quantize_row(&reference);
	for (int64_t i = 0; i < want->format.num_scales; i++)
		memcpy((uint8_t *)want->scales +
				(size_t)place(want, row, i) * bytes,
			scales + (size_t)i * bytes, bytes);
	want->nan_elements += reference.nan_elements;
	want->inf_elements += reference.inf_elements;
}

/* That all of the call is as wanted, the gaps untouched. */
static void check_there(const struct call *call, struct call *want)
{
	want->nan_elements = want->inf_elements = 0;
	for (int64_t row = 0; row < ROWS; row++)
		expect_row(want, row);
	assert_memory_equal(call->q, want->q, sizeof(call->q));
	assert_memory_equal(call->scales, want->scales, sizeof(call->scales));
	assert_memory_equal(
		call->row_scales, want->row_scales, sizeof(call->row_scales));
	assert_int_equal(call->nan_elements, want->nan_elements);
	assert_int_equal(call->inf_elements, want->inf_elements);
	assert_memory_equal(call->x, want->x, sizeof(call->x));
}

/* ---- back ---------------------------------------------------------------- */

static struct shunt_dequantize_args back_of(struct call *call)
{
	struct shunt_dequantize_args args = SHUNT_DEQUANTIZE_ARGS_INIT;

	args.quant = call->args.quant;
	args.scale_form = call->args.scale_form;
	args.dtype = call->args.dtype;
	args.num_rows = ROWS;
	args.hidden = call->args.hidden;
	args.q = call->q + 1;
	args.q_stride = STRIDE;
	args.scales = is_static(args.quant) ? call->fixed : call->args.scales;
	args.static_shape = call->args.static_shape;
	args.x = call->back + 1;
	args.x_stride = STRIDE;
	args.scale_row_stride = call->args.scale_row_stride;
	args.scale_group_stride = call->args.scale_group_stride;
	args.row_scales = call->args.row_scales;
	return args;
}

static void expect_row_back(struct call *want, int64_t row)
{
	const struct shunt_quantize_args *args = &want->args;
	size_t bytes = (size_t)want->format.scale_bytes;
	size_t stride = want->format.row_dtype == SHUNT_DTYPE_E2M1 ? STRIDE / 2
								   : STRIDE;
	uint8_t scales[MAX_SCALES * sizeof(float)];
	struct reference_codes codes = {
		.quant = args->quant,
		.form = args->scale_form,
		.dtype = args->dtype,
		.hidden = args->hidden,
		.q = want->q + 1 + (size_t)row * stride,
		.scales = is_static(args->quant) ? (uint8_t *)want->fixed
						 : scales,
		.fixed_is_one = args->static_shape == SHUNT_STATIC_ONE,
		.row_scale = want->row_scales[row],
		.x = want->back + 1 +
		     (size_t)row * STRIDE * convert_bytes(args->dtype),
	};

	for (int64_t i = 0; i < want->format.num_scales; i++)
		memcpy(scales + (size_t)i * bytes,
			(uint8_t *)want->scales +
				(size_t)place(want, row, i) * bytes,
			bytes);
	reference_dequantize_row(&codes);
}

static void check_back(struct call *call, struct call *want)
{
	struct shunt_dequantize_args args = back_of(call);

	assert_int_equal(shunt_dequantize_rows(&args), SHUNT_OK);
	for (int64_t row = 0; row < ROWS; row++)
		expect_row_back(want, row);
	assert_memory_equal(call->back, want->back, sizeof(call->back));
}

static void check_call(enum shunt_quant quant, enum shunt_scale_form form,
	enum shunt_dtype dtype, int64_t hidden)
{
	static struct call call, want;

	for (int order = 0; order < NUM_ORDERS; order++) {
		call_init(&call, quant, form, dtype, hidden);
		set_order(&call, (enum order)order);
		want = call;
		assert_int_equal(shunt_quantize_rows(&call.args), SHUNT_OK);
		check_there(&call, &want);
		check_back(&call, &want);
	}
}

static void every_mode_works_at_all_strides_there_and_back(void **state)
{
	static const int64_t shapes[] = {1, 15, 33, 64, 129, 256, 299, 300};

	(void)state;
	for (int quant = SHUNT_QUANT_INT8; quant <= SHUNT_QUANT_NVFP4_E2M1;
		quant++)
		for (int form = 0; form <= SHUNT_SCALE_E8M0; form++)
			for (int type = 0; type < 3; type++)
				for (size_t i = 0; i < 8; i++)
					check_call((enum shunt_quant)quant,
						(enum shunt_scale_form)form,
						dtypes[type], shapes[i]);
}

/* ---- sizes --------------------------------------------------------------- */

static void check_sizes(enum shunt_quant quant, enum shunt_scale_form form,
	enum shunt_dtype dtype, int64_t hidden)
{
	struct reference_format want =
		reference_format_of(quant, form, dtype, hidden);
	struct shunt_quant_sizes sizes = SHUNT_QUANT_SIZES_INIT;

	assert_int_equal(shunt_quant_query(quant, form, dtype, hidden, &sizes),
		SHUNT_OK);
	assert_int_equal(sizes.row_dtype, want.row_dtype);
	assert_int_equal(sizes.row_bytes, want.row_bytes);
	assert_int_equal(sizes.scale_dtype, want.scale_dtype);
	assert_int_equal(sizes.scales_per_row, want.num_scales);
	assert_int_equal(sizes.scale_bytes, want.scale_bytes);
	assert_int_equal(sizes.group, want.group);
	assert_int_equal(sizes.has_row_scales, want.has_row_scale);
}

static void sizes_are_those_of_the_reference(void **state)
{
	(void)state;
	for (int64_t hidden = 1; hidden < 400; hidden++) {
		for (int dtype = SHUNT_DTYPE_F32; dtype <= SHUNT_DTYPE_E2M1;
			dtype++)
			check_sizes(SHUNT_QUANT_NONE, SHUNT_SCALE_F32,
				(enum shunt_dtype)dtype, hidden);
		for (int quant = SHUNT_QUANT_INT8;
			quant <= SHUNT_QUANT_NVFP4_E2M1; quant++)
			for (int form = 0; form <= SHUNT_SCALE_E8M0; form++)
				check_sizes((enum shunt_quant)quant,
					(enum shunt_scale_form)form,
					SHUNT_DTYPE_BF16, hidden);
	}
}

static void a_shape_that_cannot_be_is_refused(void **state)
{
	struct shunt_quant_sizes sizes = SHUNT_QUANT_SIZES_INIT;
	const struct shunt_quant_sizes before = sizes;

	(void)state;
	assert_int_equal(shunt_quant_query(SHUNT_QUANT_INT8, 0, 0, 0, &sizes),
		SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "hidden is 0"));
	assert_int_equal(
		shunt_quant_query(SHUNT_QUANT_INT8, 0, 0, INT64_MAX, &sizes),
		SHUNT_INVALID);
	assert_int_equal(shunt_quant_query((enum shunt_quant)13, 0,
				 SHUNT_DTYPE_F32, 8, &sizes),
		SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "quant is 13"));
	assert_int_equal(shunt_quant_query(SHUNT_QUANT_INT8_GROUP,
				 (enum shunt_scale_form)3, 0, 8, &sizes),
		SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "scale_form is 3"));
	assert_int_equal(shunt_quant_query(SHUNT_QUANT_NONE, 0,
				 SHUNT_DTYPE_E8M0, 8, &sizes),
		SHUNT_INVALID);
	assert_non_null(strstr(shunt_error_message(), "dtype is 8"));
	assert_memory_equal(&sizes, &before, sizeof(sizes));
	assert_int_equal(shunt_quant_query(SHUNT_QUANT_INT8, 0, 0, 8, NULL),
		SHUNT_NULL_ARGUMENT);
}

/* ---- bits of x ----------------------------------------------------------- */

static void none_copies_rows_of_every_type(void **state)
{
	static struct call call, want;

	(void)state;
	for (int type = SHUNT_DTYPE_F32; type <= SHUNT_DTYPE_E2M1; type++) {
		size_t bytes = type == SHUNT_DTYPE_F32    ? 4
			       : type <= SHUNT_DTYPE_BF16 ? 2
							  : 1;
		size_t row_bytes = 15 * bytes, stride = 16 * bytes;

		if (type == SHUNT_DTYPE_E2M1)
			row_bytes = stride = 8;
		call_init(&call, SHUNT_QUANT_NONE, SHUNT_SCALE_F32,
			SHUNT_DTYPE_F32, 15);
		call.args.dtype = (enum shunt_dtype)type;
		call.args.x_stride = call.args.q_stride = 16;
		want = call;
		assert_int_equal(shunt_quantize_rows(&call.args), SHUNT_OK);
		for (size_t row = 0; row < ROWS; row++)
			memcpy(want.q + 1 + row * stride,
				want.x + 1 + row * stride, row_bytes);
		assert_memory_equal(call.q, want.q, sizeof(call.q));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			every_mode_works_at_all_strides_there_and_back),
		cmocka_unit_test(sizes_are_those_of_the_reference),
		cmocka_unit_test(a_shape_that_cannot_be_is_refused),
		cmocka_unit_test(none_copies_rows_of_every_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
