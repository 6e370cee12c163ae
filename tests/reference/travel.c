/*
 * Combine's communication quantization. int8, per group of g elements:
 *
 *	sc = max |x| / 127 over the finite x;	q = round(x / sc), -127 .. 127
 *	value = f32(q) * f32(sc as it travels: in the row's type for g = 8)
 *
 * and a group whose sc is 0 is zeros. fp8 is as in dispatch, and back.
 */
#include "reference/quantize.h"

#include <math.h>
#include <stdlib.h>

#include "reference/codes.h"
#include "reference/convert.h"

static float rounded_to(enum shunt_dtype dtype, float value)
{
	uint8_t bytes[4];
	float rounded;

	convert_store(dtype, &value, 1, bytes);
	convert_load(dtype, bytes, 1, &rounded);
	return rounded;
}

static float largest_finite(const float *x, int64_t count)
{
	float amax = 0;

	for (int64_t i = 0; i < count; i++)
		if (isfinite(x[i]) && fabsf(x[i]) > amax)
			amax = fabsf(x[i]);
	return amax;
}

static int8_t quantize_int8(float x, float scale)
{
	if (isfinite(x)) {
		if (scale == 0)
			return 0;
		x = x / scale;
	}
	return codes_encode_int8(x, -127, 127);
}

static void travel_int8(
	enum shunt_dtype scale_dtype, int64_t count, float *values)
{
	float scale = largest_finite(values, count) / 127.0f;
	float travelled = rounded_to(scale_dtype, scale);

	for (int64_t i = 0; i < count; i++)
		values[i] = (float)quantize_int8(values[i], scale) * travelled;
}

static void count_odd(const float *values, int64_t hidden,
	int64_t *nan_elements, int64_t *inf_elements)
{
	for (int64_t i = 0; i < hidden; i++) {
		*nan_elements += isnan(values[i]) != 0;
		*inf_elements += isinf(values[i]) != 0;
	}
}

/* By way of dispatch's modes: to codes, and back to f32. */
static void travel_fp8(enum shunt_quant quant, int64_t hidden, float *values)
{
	struct reference_format format = reference_format_of(
		quant, SHUNT_SCALE_F32, SHUNT_DTYPE_F32, hidden);
	int64_t scale_bytes = format.num_scales * format.scale_bytes;
	uint8_t *q = malloc((size_t)(format.row_bytes + scale_bytes));
	struct reference_row row = {
		.quant = quant,
		.dtype = SHUNT_DTYPE_F32,
		.hidden = hidden,
		.x = values,
		.q = q,
		.scales = q + format.row_bytes,
	};
	struct reference_codes codes = {
		.quant = quant,
		.dtype = SHUNT_DTYPE_F32,
		.hidden = hidden,
		.q = q,
		.scales = q + format.row_bytes,
		.x = values,
	};

	if (q == NULL)
		abort();
	reference_quantize_row(&row);
	reference_dequantize_row(&codes);
	free(q);
}

void reference_travel_row(enum shunt_combine_quant quant,
	enum shunt_dtype dtype, const void *row, int64_t hidden, float *values,
	int64_t *nan_elements, int64_t *inf_elements)
{
	int64_t group = quant == SHUNT_COMBINE_QUANT_INT8_8 ? 8 : 128;
	enum shunt_dtype scale_dtype = group == 8 ? dtype : SHUNT_DTYPE_F32;

	convert_load(dtype, row, hidden, values);
	if (quant == SHUNT_COMBINE_QUANT_NONE)
		return;
	count_odd(values, hidden, nan_elements, inf_elements);
	if (quant == SHUNT_COMBINE_QUANT_E4M3FN_128)
		travel_fp8(SHUNT_QUANT_E4M3FN_GROUP, hidden, values);
	else if (quant == SHUNT_COMBINE_QUANT_MXFP8)
		travel_fp8(SHUNT_QUANT_MXFP8_E4M3FN, hidden, values);
	else
		for (int64_t i = 0; i < hidden; i += group)
			travel_int8(scale_dtype,
				hidden - i < group ? hidden - i : group,
				values + i);
}
