/*
 * What each quantization mode makes of a row, and the kernel that makes it:
 * the one door through which dispatch and the public functions reach the
 * kernel tables.
 */
#ifndef QUANT_FORMAT_H
#define QUANT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/types.h>

#include "quant/kernels.h"
#include "quant/row.h"

struct quant_format {
	enum shunt_dtype row_dtype;
	int64_t row_bytes;            /* of a dense row */
	enum shunt_dtype scale_dtype; /* NONE: no scales */
	int64_t scale_bytes;          /* of one */
	int64_t num_scales;           /* per row, n */
	int64_t group;                /* elements that share a scale */
	bool has_row_scale;           /* NVFP4: one f32 per row besides */
	bool is_dynamic; /* amax decides; else static, or the bits of x */
	bool is_static;
	bool takes_smooth; /* per-row and _GROUP dynamic modes, static ones */
};

/* The format of a legal combination; see shunt_quant_query() for what is. */
struct quant_format quant_format_of(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden);

/*
 * The kernel of a mode for rows of `dtype` (F32, F16, BF16), of the best table;
 * NULL for NONE. The caller has called fpenv_enter().
 */
quant_row_fn *quant_row_kernel(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype);

/* The same of the way back. */
quant_codes_fn *quant_codes_kernel(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype);

#endif
