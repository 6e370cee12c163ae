/*
 * The way back, of one instruction set: x = f32(q) * scale. Written over one
 * operation that the including file has defined before, always-inline:
 *
 *	void span_decode(dtype, code, codes, scale, scales, first, end)
 *		elements [first, end), times `scale`, or times scales[i] where
 *		`scales` is not NULL
 */
#include <string.h>

#include "quant/decode.h"
#include "quant/table.h"

QUANT_INLINE float back_f32(const void *scales, int64_t index)
{
	return half_load(SHUNT_DTYPE_F32, scales, index);
}

/* The scale of group `index`. */
QUANT_INLINE float back_scale(enum shunt_dtype scale_dtype,
	const struct quant_codes *codes, int64_t index)
{
	const uint8_t *bytes = codes->scales;

	if (codes->scale_step)
		index *= codes->scale_step;
	if (scale_dtype == SHUNT_DTYPE_E8M0)
		return decode_e8m0(bytes[index]);
	if (scale_dtype == SHUNT_DTYPE_E4M3FN)
		return decode_e4m3fn(bytes[index]) * codes->row_scale;
	return back_f32(codes->scales, index);
}

QUANT_INLINE void back_groups(enum shunt_dtype dtype, enum shunt_dtype code,
	enum shunt_dtype scale_dtype, int64_t group,
	const struct quant_codes *codes)
{
	int64_t first = 0, index = 0;

	for (; codes->hidden - first >= group; first += group, index++)
		span_decode(dtype, code, codes,
			back_scale(scale_dtype, codes, index), NULL, first,
			first + group);
	if (first < codes->hidden)
		span_decode(dtype, code, codes,
			back_scale(scale_dtype, codes, index), NULL, first,
			codes->hidden);
}

QUANT_INLINE void back_row(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes)
{
	span_decode(dtype, code, codes, back_f32(codes->scales, 0), NULL, 0,
		codes->hidden);
}

QUANT_INLINE void back_static(enum shunt_dtype dtype, enum shunt_dtype code,
	const struct quant_codes *codes)
{
	if (codes->fixed_is_one)
		back_row(dtype, code, codes);
	else
		span_decode(dtype, code, codes, 0.0f, codes->scales, 0,
			codes->hidden);
}
