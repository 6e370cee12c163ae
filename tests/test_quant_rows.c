/* Int8 by its public door: strides, counts, and bits that do not depend on the
 * caller's control word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <shunt/quant.h>

#include "reference/convert.h"
#include "reference/quantize.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define ROWS     5
#define HIDDEN   83
#define X_STRIDE 90
#define Q_STRIDE 101
#define CANARY   0x5a

static const enum shunt_dtype dtypes[] = {
	SHUNT_DTYPE_F32, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16};

/* A call with room for everything, and values that are not too easy. */
struct call {
	uint8_t x[ROWS * X_STRIDE * sizeof(float)];
	uint8_t q[ROWS * Q_STRIDE * sizeof(float)];
	float smooth[HIDDEN];
	float scales[ROWS];
	int64_t nan_elements;
	int64_t inf_elements;
	struct shunt_quantize_args args;
};

static void call_init(struct call *call, enum shunt_dtype dtype)
{
	float values[X_STRIDE * ROWS];

	for (int i = 0; i < X_STRIDE * ROWS; i++)
		values[i] = (float)(i * 37 % 101 - 50) * 0.37f;
	values[3] = NAN;
	values[4] = -INFINITY;
	values[X_STRIDE + 7] = INFINITY;
	memset(call, CANARY, sizeof(*call));
	convert_store(dtype, values, X_STRIDE * ROWS, call->x);
	for (int i = 0; i < HIDDEN; i++)
		call->smooth[i] = 0.5f + (float)(i % 7);
	call->args = (struct shunt_quantize_args)SHUNT_QUANTIZE_ARGS_INIT;
	call->args.quant = SHUNT_QUANT_INT8;
	call->args.dtype = dtype;
	call->args.num_rows = ROWS;
	call->args.hidden = HIDDEN;
	call->args.x = call->x;
	call->args.x_stride = X_STRIDE;
	call->args.q = call->q;
	call->args.q_stride = Q_STRIDE;
	call->args.scales = call->scales;
	call->args.nan_elements = &call->nan_elements;
	call->args.inf_elements = &call->inf_elements;
}

/* That q, scales and counts are the reference's, and gaps are untouched. */
static void check_int8(const struct call *call)
{
	const struct shunt_quantize_args *args = &call->args;
	size_t x_bytes = X_STRIDE * convert_bytes(args->dtype);
	int64_t nans = 0, infs = 0;
	int8_t q[HIDDEN];
	float scale;

	for (int row = 0; row < ROWS; row++) {
		const uint8_t *out = call->q + row * Q_STRIDE;

		scale = quantize_int8_row(args->dtype,
			call->x + (size_t)row * x_bytes, args->smooth_scales,
			HIDDEN, q, &nans, &infs);
		assert_memory_equal(out, q, HIDDEN);
		assert_memory_equal(&call->scales[row], &scale, sizeof(scale));
		for (int i = HIDDEN; i < Q_STRIDE; i++)
			assert_int_equal(out[i], CANARY);
	}
	assert_int_equal(call->nan_elements, nans);
	assert_int_equal(call->inf_elements, infs);
}

static void int8_rows_have_the_reference_bits(void **state)
{
	static struct call call;

	(void)state;
	for (int i = 0; i < 6; i++) {
		call_init(&call, dtypes[i % 3]);
		call.args.smooth_scales = i < 3 ? NULL : call.smooth;
		assert_int_equal(shunt_quantize_rows(&call.args), SHUNT_OK);
		check_int8(&call);
	}
}

static void counts_start_anew_and_need_not_be_taken(void **state)
{
	static struct call call;

	(void)state;
	call_init(&call, SHUNT_DTYPE_BF16);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(shunt_quantize_rows(&call.args), SHUNT_OK);
		assert_int_equal(call.nan_elements, 1);
		assert_int_equal(call.inf_elements, 2);
	}
	call.args.nan_elements = NULL;
	call.args.inf_elements = NULL;
	assert_int_equal(shunt_quantize_rows(&call.args), SHUNT_OK);
}

static void a_stride_of_zero_is_dense(void **state)
{
	const float x[4] = {127.0f, -1.0f, 254.0f, 2.0f};
	const int8_t want[4] = {127, -1, 127, 1};
	struct shunt_quantize_args args = SHUNT_QUANTIZE_ARGS_INIT;
	float scales[2];
	int8_t q[4];

	(void)state;
	args.quant = SHUNT_QUANT_INT8;
	args.dtype = SHUNT_DTYPE_F32;
	args.num_rows = 2;
	args.hidden = 2;
	args.x = x;
	args.q = q;
	args.scales = scales;
	assert_int_equal(shunt_quantize_rows(&args), SHUNT_OK);
	assert_memory_equal(q, want, sizeof(want));
	assert_true(scales[0] == 1.0f && scales[1] == 2.0f);
}

static void none_copies_bits_there_and_back(void **state)
{
	static struct call call;
	static uint8_t back[sizeof(call.x)];

	(void)state;
	for (int type = 0; type < 3; type++) {
		size_t width = convert_bytes(dtypes[type]);
		struct shunt_dequantize_args args = SHUNT_DEQUANTIZE_ARGS_INIT;

		call_init(&call, dtypes[type]);
		call.args.quant = SHUNT_QUANT_NONE;
		call.args.scales = NULL;
		assert_int_equal(shunt_quantize_rows(&call.args), SHUNT_OK);
		assert_int_equal(call.nan_elements, 0);
		assert_int_equal(call.inf_elements, 0);
		memcpy(back, call.x, sizeof(back));
		for (size_t row = 0; row < ROWS; row++)
			memset(back + row * X_STRIDE * width, 0,
				HIDDEN * width);
		args.dtype = dtypes[type];
		args.num_rows = ROWS;
		args.hidden = HIDDEN;
		args.q = call.q;
		args.q_stride = Q_STRIDE;
		args.x = back;
		args.x_stride = X_STRIDE;
		assert_int_equal(shunt_dequantize_rows(&args), SHUNT_OK);
		assert_memory_equal(back, call.x, sizeof(back));
	}
}

static void dequantize_multiplies_each_row_by_its_scale(void **state)
{
	const int8_t q[6] = {1, -127, 99, 64, 3, 99};
	const float scales[2] = {0.5f, 0x1p-8f};
	const float want[6] = {0.5f, -63.5f, -1, 0.25f, 0x1.8p-7f, -1};
	struct shunt_dequantize_args args = SHUNT_DEQUANTIZE_ARGS_INIT;

	(void)state;
	args.quant = SHUNT_QUANT_INT8;
	args.num_rows = 2;
	args.hidden = 2;
	args.q = q;
	args.q_stride = 3;
	args.scales = scales;
	args.x_stride = 3;
	for (int type = 0; type < 3; type++) {
		float x[6] = {-1, -1, -1, -1, -1, -1}, got[6];

		args.dtype = dtypes[type];
		args.x = x;
		convert_store(
			args.dtype, (float[]){-1, -1, -1, -1, -1, -1}, 6, x);
		assert_int_equal(shunt_dequantize_rows(&args), SHUNT_OK);
		convert_load(args.dtype, x, 6, got);
		assert_memory_equal(got, want, sizeof(want));
	}
}

/* ---- the caller's control word ------------------------------------------ */

#if defined(__x86_64__)

#define HOSTILE 0xdfc0u /* flush to zero, denormals zero, round up */
#define DEFAULT 0x1f80u

/* amax 2^-120 keeps y of 2^-127 and less (denormals) at q = 1 and less; the
 * scale, 2^-120 / 127, is a denormal itself. */
static void a_caller_that_flushes_gets_the_same_bits(void **state)
{
	const float x[4] = {0x1p-120f, 0x1.8p-127f, -0x1.8p-127f, 0x1p-126f};
	struct shunt_quantize_args args = SHUNT_QUANTIZE_ARGS_INIT;
	int8_t q[2][4];
	float scale[2];
	unsigned int left;

	(void)state;
	args.quant = SHUNT_QUANT_INT8;
	args.dtype = SHUNT_DTYPE_F32;
	args.num_rows = 1;
	args.hidden = 4;
	args.x = x;
	for (int i = 0; i < 2; i++) {
		enum shunt_status status;

		args.q = q[i];
		args.scales = &scale[i];
		_mm_setcsr(i ? HOSTILE : DEFAULT);
		status = shunt_quantize_rows(&args);
		left = _mm_getcsr();
		_mm_setcsr(DEFAULT);
		assert_int_equal(status, SHUNT_OK);
		assert_int_equal(left & ~0x3fu, i ? HOSTILE : DEFAULT);
	}
	assert_int_equal(q[0][1], 1);
	assert_int_equal(q[0][2], -1);
	assert_memory_equal(q[0], q[1], sizeof(q[0]));
	assert_memory_equal(&scale[0], &scale[1], sizeof(float));
}

/* q, scales, and x again, of a row of small and large values. */
struct outcome {
	uint8_t q[64];
	float scales[8];
	float row_scale;
	float back[64];
};

static void there_and_back(
	enum shunt_quant quant, const float *x, struct outcome *outcome)
{
	static const float one = 1.0f;
	bool is_static = quant == SHUNT_QUANT_INT8_STATIC ||
			 quant == SHUNT_QUANT_E4M3FN_STATIC;
	bool has_row_scale = quant == SHUNT_QUANT_NVFP4_E2M1;
	struct shunt_quantize_args args = SHUNT_QUANTIZE_ARGS_INIT;
	struct shunt_dequantize_args back = SHUNT_DEQUANTIZE_ARGS_INIT;

	args.quant = back.quant = quant;
	args.dtype = back.dtype = SHUNT_DTYPE_F32;
	args.num_rows = back.num_rows = 1;
	args.hidden = back.hidden = 64;
	args.x = x;
	args.q = outcome->q;
	args.scales = is_static ? NULL : outcome->scales;
	args.static_scales = is_static ? &one : NULL;
	args.row_scales = has_row_scale ? &outcome->row_scale : NULL;
	assert_int_equal(shunt_quantize_rows(&args), SHUNT_OK);
	back.q = outcome->q;
	back.scales = is_static ? &one : outcome->scales;
	back.row_scales = args.row_scales;
	back.x = outcome->back;
	assert_int_equal(shunt_dequantize_rows(&back), SHUNT_OK);
}

static void no_mode_depends_on_the_callers_control_word(void **state)
{
	(void)state;
	for (int i = 0; i < SHUNT_QUANT_NVFP4_E2M1 * 3; i++) {
		static const float sizes[] = {0x1p-130f, 0x1p-115f, 1.0f};
		struct outcome plain = {0}, hostile = {0};
		float x[64];

		for (int h = 0; h < 64; h++)
			x[h] = (float)(h * 37 % 101 - 50) * sizes[i % 3];
		there_and_back((enum shunt_quant)(i / 3 + 1), x, &plain);
		_mm_setcsr(HOSTILE);
		there_and_back((enum shunt_quant)(i / 3 + 1), x, &hostile);
		_mm_setcsr(DEFAULT);
		assert_memory_equal(&plain, &hostile, sizeof(plain));
	}
}

static void a_caller_that_flushes_gets_denormals_back(void **state)
{
	const int8_t q[2] = {3, -1};
	const float scale = 0x1p-140f;
	const float want[2] = {0x1.8p-139f, -0x1p-140f};
	struct shunt_dequantize_args args = SHUNT_DEQUANTIZE_ARGS_INIT;
	enum shunt_status status;
	float x[2];

	(void)state;
	args.quant = SHUNT_QUANT_INT8;
	args.dtype = SHUNT_DTYPE_F32;
	args.num_rows = 1;
	args.hidden = 2;
	args.q = q;
	args.scales = &scale;
	args.x = x;
	_mm_setcsr(HOSTILE);
	status = shunt_dequantize_rows(&args);
	_mm_setcsr(DEFAULT);
	assert_int_equal(status, SHUNT_OK);
	assert_memory_equal(x, want, sizeof(want));
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(int8_rows_have_the_reference_bits),
		cmocka_unit_test(counts_start_anew_and_need_not_be_taken),
		cmocka_unit_test(a_stride_of_zero_is_dense),
		cmocka_unit_test(none_copies_bits_there_and_back),
		cmocka_unit_test(dequantize_multiplies_each_row_by_its_scale),
#if defined(__x86_64__)
		cmocka_unit_test(a_caller_that_flushes_gets_the_same_bits),
		cmocka_unit_test(a_caller_that_flushes_gets_denormals_back),
		cmocka_unit_test(no_mode_depends_on_the_callers_control_word),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
