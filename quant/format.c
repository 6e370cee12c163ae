/* Owns the list of modes, and the door to their kernels. */
#include "quant/format.h"

#include <stddef.h>

#include "base/dtype.h"

#define WHOLE_ROW 0 /* a group of all elements */

/* What a mode is, whatever the row. scale_dtype is that of form F32. */
static const struct mode {
	enum shunt_dtype row_dtype; /* NONE: that of x */
	enum shunt_dtype scale_dtype;
	int64_t group;
	bool is_dynamic;
	bool is_static;
	bool takes_smooth;
	bool takes_form;
	bool even_scales;
	bool has_row_scale;
} modes[QUANT_NUM_MODES] = {
#define PER_ROW(code)                                                        \
	{                                                                    \
		.row_dtype = code, .scale_dtype = SHUNT_DTYPE_F32,           \
		.group = WHOLE_ROW, .is_dynamic = true, .takes_smooth = true \
	}
#define PER_GROUP(code)                                                 \
	{                                                               \
		.row_dtype = code, .scale_dtype = SHUNT_DTYPE_F32,      \
		.group = 128, .is_dynamic = true, .takes_smooth = true, \
		.takes_form = true                                      \
	}
#define STATIC(code)                                                      \
	{                                                                 \
		.row_dtype = code, .group = WHOLE_ROW, .is_static = true, \
		.takes_smooth = true                                      \
	}
#define MX(code)                                                     \
	{                                                            \
		.row_dtype = code, .scale_dtype = SHUNT_DTYPE_E8M0,  \
		.group = 32, .is_dynamic = true, .even_scales = true \
	}
	[SHUNT_QUANT_NONE] = {.group = WHOLE_ROW},
	[SHUNT_QUANT_INT8] = PER_ROW(SHUNT_DTYPE_I8),
	[SHUNT_QUANT_E4M3FN] = PER_ROW(SHUNT_DTYPE_E4M3FN),
	[SHUNT_QUANT_E5M2] = PER_ROW(SHUNT_DTYPE_E5M2),
	[SHUNT_QUANT_INT8_GROUP] = PER_GROUP(SHUNT_DTYPE_I8),
	[SHUNT_QUANT_E4M3FN_GROUP] = PER_GROUP(SHUNT_DTYPE_E4M3FN),
	[SHUNT_QUANT_E5M2_GROUP] = PER_GROUP(SHUNT_DTYPE_E5M2),
	[SHUNT_QUANT_INT8_STATIC] = STATIC(SHUNT_DTYPE_I8),
	[SHUNT_QUANT_E4M3FN_STATIC] = STATIC(SHUNT_DTYPE_E4M3FN),
	[SHUNT_QUANT_MXFP8_E4M3FN] = MX(SHUNT_DTYPE_E4M3FN),
	[SHUNT_QUANT_MXFP8_E5M2] = MX(SHUNT_DTYPE_E5M2),
	[SHUNT_QUANT_MXFP4_E2M1] = MX(SHUNT_DTYPE_E2M1),
	[SHUNT_QUANT_NVFP4_E2M1] =
		{
			.row_dtype = SHUNT_DTYPE_E2M1,
			.scale_dtype = SHUNT_DTYPE_E4M3FN,
			.group = 16,
			.is_dynamic = true,
			.has_row_scale = true,
		},
};

struct quant_format quant_format_of(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden)
{
	const struct mode *mode = &modes[quant];
	struct quant_format format = {
		.row_dtype = mode->row_dtype ? mode->row_dtype : dtype,
		.scale_dtype = mode->scale_dtype,
		.group = mode->group == WHOLE_ROW ? hidden : mode->group,
		.has_row_scale = mode->has_row_scale,
		.is_dynamic = mode->is_dynamic,
		.is_static = mode->is_static,
		.takes_smooth = mode->takes_smooth,
	};

	format.row_bytes = dtype_row_bytes(format.row_dtype, hidden);
	if (mode->takes_form && form == SHUNT_SCALE_E8M0)
		format.scale_dtype = SHUNT_DTYPE_E8M0;
	if (format.scale_dtype == SHUNT_DTYPE_NONE)
		return format;
	format.scale_bytes = dtype_bits(format.scale_dtype) / 8;
	format.num_scales = (hidden - 1) / format.group + 1;
	if (mode->even_scales)
		format.num_scales += format.num_scales & 1;
	return format;
}

/* The form that tables are indexed by. */
static enum shunt_scale_form form_of(
	enum shunt_quant quant, enum shunt_scale_form form)
{
	return modes[quant].takes_form ? form : SHUNT_SCALE_F32;
}

quant_row_fn *quant_row_kernel(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype)
{
	/* Rows that are only copied may be of types that tables do not have. */
	if (quant == SHUNT_QUANT_NONE)
		return NULL;
	return quant_kernels()->row[quant][form_of(quant, form)][dtype];
}

quant_codes_fn *quant_codes_kernel(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype)
{
	if (quant == SHUNT_QUANT_NONE)
		return NULL;
	return quant_kernels()->back[quant][form_of(quant, form)][dtype];
}
