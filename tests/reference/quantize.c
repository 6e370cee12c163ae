/*
 * The reference's quantizations, group by group and element by element. With y
 * the element in f32 after smooth and static scales, and amax the largest |y|
 * of the group's finite y:
 *
 *	dynamic	f = FMAX / amax		q = round(y * f)	scale 1 / f
 *	  pow2	s = 2^i >= 1 / f	q = round(y * (1 / s))	scale s
 *	static				q = round(y)
 *	MX	code = max(e - emax, 0), e the exponent field of amax
 *					q = round(y * 2^(127 - code))
 *	NVFP4	enc = 2688 / row's amax, code = round(amax / 6 * enc),
 *		g = 1 / (code * (1 / enc))	q = round(y * g)
 *
 * Where amax is 0, or f (enc, g) is not finite: q and scale are 0. NaN and Inf
 * are as their own elements are, whatever the group's scale.
 */
#include "reference/quantize.h"

#include <math.h>
#include <string.h>

#include "reference/codes.h"
#include "reference/convert.h"

/* Groups are done in pieces, so that no memory is needed. */
#define PIECE 256

static bool is_static(enum shunt_quant quant)
{
	return quant == SHUNT_QUANT_INT8_STATIC ||
	       quant == SHUNT_QUANT_E4M3FN_STATIC;
}

static bool is_mx(enum shunt_quant quant)
{
	return quant == SHUNT_QUANT_MXFP8_E4M3FN ||
	       quant == SHUNT_QUANT_MXFP8_E5M2 ||
	       quant == SHUNT_QUANT_MXFP4_E2M1;
}

static bool is_group(enum shunt_quant quant)
{
	return quant == SHUNT_QUANT_INT8_GROUP ||
	       quant == SHUNT_QUANT_E4M3FN_GROUP ||
	       quant == SHUNT_QUANT_E5M2_GROUP;
}

/* ---- formats ---------------------------------------------------------- */

static enum shunt_dtype row_dtype_of(
	enum shunt_quant quant, enum shunt_dtype dtype)
{
	switch (quant) {
	case SHUNT_QUANT_NONE:
		return dtype;
	case SHUNT_QUANT_INT8:
	case SHUNT_QUANT_INT8_GROUP:
	case SHUNT_QUANT_INT8_STATIC:
		return SHUNT_DTYPE_I8;
	case SHUNT_QUANT_E4M3FN:
	case SHUNT_QUANT_E4M3FN_GROUP:
	case SHUNT_QUANT_E4M3FN_STATIC:
	case SHUNT_QUANT_MXFP8_E4M3FN:
		return SHUNT_DTYPE_E4M3FN;
	case SHUNT_QUANT_E5M2:
	case SHUNT_QUANT_E5M2_GROUP:
	case SHUNT_QUANT_MXFP8_E5M2:
		return SHUNT_DTYPE_E5M2;
	case SHUNT_QUANT_MXFP4_E2M1:
	case SHUNT_QUANT_NVFP4_E2M1:
		return SHUNT_DTYPE_E2M1;
	}
	return SHUNT_DTYPE_NONE;
}

static int64_t group_of(enum shunt_quant quant, int64_t hidden)
{
	if (is_group(quant))
		return 128;
	if (is_mx(quant))
		return 32;
	return quant == SHUNT_QUANT_NVFP4_E2M1 ? 16 : hidden;
}

static enum shunt_dtype scale_dtype_of(
	enum shunt_quant quant, enum shunt_scale_form form)
{
	if (quant == SHUNT_QUANT_NONE || is_static(quant))
		return SHUNT_DTYPE_NONE;
	if (is_mx(quant) || (is_group(quant) && form == SHUNT_SCALE_E8M0))
		return SHUNT_DTYPE_E8M0;
	if (quant == SHUNT_QUANT_NVFP4_E2M1)
		return SHUNT_DTYPE_E4M3FN;
	return SHUNT_DTYPE_F32;
}

struct reference_format reference_format_of(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden)
{
	struct reference_format format = {
		.row_dtype = row_dtype_of(quant, dtype),
		.scale_dtype = scale_dtype_of(quant, form),
		.group = group_of(quant, hidden),
		.has_row_scale = quant == SHUNT_QUANT_NVFP4_E2M1,
	};

	if (format.row_dtype == SHUNT_DTYPE_E2M1)
		format.row_bytes = (hidden + 1) / 2;
	else
		format.row_bytes =
			hidden * (int64_t)convert_bytes(format.row_dtype);
	if (format.scale_dtype == SHUNT_DTYPE_NONE)
		return format;
	format.scale_bytes = (int64_t)convert_bytes(format.scale_dtype);
	format.num_scales = (hidden + format.group - 1) / format.group;
	if (is_mx(quant))
		format.num_scales += format.num_scales % 2;
	return format;
}

/* ---- elements --------------------------------------------------------- */

/* y of elements [first, first + count). */
static void load_piece(
	const struct reference_row *row, int64_t first, int64_t count, float *y)
{
	const uint8_t *x = row->x;

	convert_load(row->dtype, x + (size_t)first * convert_bytes(row->dtype),
		count, y);
	for (int64_t i = 0; i < count && row->smooth != NULL; i++)
		y[i] = y[i] * row->smooth[first + i];
	for (int64_t i = 0; i < count && row->fixed != NULL; i++)
		y[i] = y[i] * row->fixed[row->fixed_is_one ? 0 : first + i];
}

/* The largest |y| of the finite y of elements [first, end); each NaN and Inf
 * adds to the counts, if they are given. */
static float find_amax(const struct reference_row *row, int64_t first,
	int64_t end, int64_t *nan_elements, int64_t *inf_elements)
{
	float y[PIECE], amax = 0;
	int64_t count;

	for (; first < end; first += count) {
		count = end - first < PIECE ? end - first : PIECE;
		load_piece(row, first, count, y);
		for (int64_t i = 0; i < count; i++) {
			if (isnan(y[i]))
				++*nan_elements;
			else if (isinf(y[i]))
				++*inf_elements;
			else if (fabsf(y[i]) > amax)
				amax = fabsf(y[i]);
		}
	}
	return amax;
}

/* The code of an element: `factor` is not for NaN and Inf. */
static uint8_t encode(const struct reference_row *row,
	enum shunt_dtype row_dtype, float y, float factor)
{
	int low = is_static(row->quant) ? -128 : -127;

	if (isfinite(y)) {
		/* "q = 0" is +0. */
		if (factor == 0)
			return 0;
		y = y * factor;
	}
	if (row_dtype == SHUNT_DTYPE_I8)
		return (uint8_t)codes_encode_int8(y, low, 127);
	return codes_encode(row_dtype, y);
}

/* q of elements [first, end); factor 0: zeros. */
static void encode_span(
	struct reference_row *row, int64_t first, int64_t end, float factor)
{
	enum shunt_dtype row_dtype = row_dtype_of(row->quant, row->dtype);
	float y[PIECE];
	int64_t count;

	for (; first < end; first += count) {
		count = end - first < PIECE ? end - first : PIECE;
		load_piece(row, first, count, y);
		for (int64_t i = 0; i < count; i++)
			codes_put(row_dtype, row->q, first + i,
				encode(row, row_dtype, y[i], factor));
	}
}

/* ---- a group's factor and scale --------------------------------------- */

static void put_float(struct reference_row *row, int64_t group, float scale)
{
	memcpy(row->scales + 4 * group, &scale, sizeof(scale));
}

static float largest_of(enum shunt_quant quant)
{
	switch (row_dtype_of(quant, SHUNT_DTYPE_NONE)) {
	case SHUNT_DTYPE_I8:
		return 127;
	case SHUNT_DTYPE_E4M3FN:
		return 448;
	default:
		return 57344;
	}
}

/* Each returns what y is multiplied by, 0 for "q = 0". */
static float dynamic_factor(
	struct reference_row *row, int64_t group, float amax)
{
	float factor = largest_of(row->quant) / amax;
	float scale = 1.0f / factor;
	int code = 0;

	if (amax == 0 || isinf(factor)) {
		factor = 0;
		scale = 0;
	} else if (is_group(row->quant) && row->form != SHUNT_SCALE_F32) {
		while (codes_decode(SHUNT_DTYPE_E8M0, (uint8_t)code) < scale)
			code++;
		scale = codes_decode(SHUNT_DTYPE_E8M0, (uint8_t)code);
		factor = 1.0f / scale;
	}
	if (is_group(row->quant) && row->form == SHUNT_SCALE_E8M0)
		row->scales[group] = (uint8_t)code;
	else
		put_float(row, group, scale);
	return factor;
}

static float mx_factor(struct reference_row *row, int64_t group, float amax)
{
	int emax = row->quant == SHUNT_QUANT_MXFP8_E4M3FN ? 8
		   : row->quant == SHUNT_QUANT_MXFP8_E5M2 ? 15
							  : 2;
	int exponent = 0;
	uint32_t bits;

	memcpy(&bits, &amax, sizeof(bits));
	exponent = (int)(bits >> 23);
	row->scales[group] = (uint8_t)(exponent > emax ? exponent - emax : 0);
	return ldexpf(1, 127 - row->scales[group]);
}

static float nvfp4_factor(
	struct reference_row *row, int64_t group, float amax, float row_amax)
{
	float enc = 2688.0f / row_amax, dec = 1.0f / enc;
	float share = amax / 6.0f, code, factor;

	row->scales[group] = 0;
	*row->row_scale = 0;
	if (row_amax == 0 || isinf(enc))
		return 0;
	*row->row_scale = dec;
	share = share * enc;
	row->scales[group] = codes_encode(SHUNT_DTYPE_E4M3FN, share);
	code = codes_decode(SHUNT_DTYPE_E4M3FN, row->scales[group]);
	factor = 1.0f / (code * dec);
	if (isfinite(factor))
		return factor;
	row->scales[group] = 0;
	return 0;
}

/* ---- rows ------------------------------------------------------------- */

static void quantize_group(struct reference_row *row, int64_t group,
	int64_t first, int64_t end, float row_amax)
{
	float amax = find_amax(
		row, first, end, &row->nan_elements, &row->inf_elements);
	float factor;

	if (is_static(row->quant))
		factor = 1;
	else if (is_mx(row->quant))
		factor = mx_factor(row, group, amax);
	else if (row->quant == SHUNT_QUANT_NVFP4_E2M1)
		factor = nvfp4_factor(row, group, amax, row_amax);
	else
		factor = dynamic_factor(row, group, amax);
	encode_span(row, first, end, factor);
}

void reference_quantize_row(struct reference_row *row)
{
	struct reference_format format = reference_format_of(
		row->quant, row->form, row->dtype, row->hidden);
	int64_t ignored = 0, first, end, group = 0;
	float row_amax = 0;

	if (row->quant == SHUNT_QUANT_NONE) {
		memcpy(row->q, row->x, (size_t)format.row_bytes);
		return;
	}
	memset(row->q, 0, (size_t)format.row_bytes);
	if (format.num_scales > 0)
		memset(row->scales, 0,
			(size_t)(format.num_scales * format.scale_bytes));
	if (row->quant == SHUNT_QUANT_NVFP4_E2M1)
		row_amax = find_amax(row, 0, row->hidden, &ignored, &ignored);
	for (first = 0; first < row->hidden; first = end) {
		end = first + format.group;
		if (end > row->hidden)
			end = row->hidden;
		quantize_group(row, group++, first, end, row_amax);
	}
}

float quantize_int8_row(enum shunt_dtype dtype, const void *x,
	const float *smooth, int64_t count, int8_t *q, int64_t *nan_elements,
	int64_t *inf_elements)
{
	float scale = 0;
	struct reference_row row = {
		.quant = SHUNT_QUANT_INT8,
		.dtype = dtype,
		.hidden = count,
		.x = x,
		.smooth = smooth,
		.q = (uint8_t *)q,
		.scales = (uint8_t *)&scale,
	};

	reference_quantize_row(&row);
	*nan_elements += row.nan_elements;
	*inf_elements += row.inf_elements;
	return scale;
}

/* ---- back ------------------------------------------------------------- */

static float scale_of_element(const struct reference_codes *codes,
	const struct reference_format *format, int64_t i)
{
	int64_t index = i / format->group;
	float scale;

	if (is_static(codes->quant))
		index = codes->fixed_is_one ? 0 : i;
	else if (format->scale_dtype != SHUNT_DTYPE_F32)
		return codes_decode(format->scale_dtype, codes->scales[index]);
	memcpy(&scale, codes->scales + 4 * index, sizeof(scale));
	return scale;
}

static float value_of(const struct reference_codes *codes,
	const struct reference_format *format, int64_t i)
{
	float scale = scale_of_element(codes, format, i);
	float value = codes_decode(
		format->row_dtype, codes_get(format->row_dtype, codes->q, i));

	if (format->has_row_scale)
		scale = scale * codes->row_scale;
	return value * scale;
}

void reference_dequantize_row(const struct reference_codes *codes)
{
	struct reference_format format = reference_format_of(
		codes->quant, codes->form, codes->dtype, codes->hidden);
	uint8_t *x = codes->x;
	float value;

	if (codes->quant == SHUNT_QUANT_NONE) {
		memcpy(x, codes->q, (size_t)format.row_bytes);
		return;
	}
	for (int64_t i = 0; i < codes->hidden; i++) {
		value = value_of(codes, &format, i);
		convert_store(codes->dtype, &value, 1,
			x + (size_t)i * convert_bytes(codes->dtype));
	}
}
