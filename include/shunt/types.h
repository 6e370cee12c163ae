/* Shunt: element types, quantization modes and the words that all headers
 * share. docs/numerics.md defines every bit. */
#ifndef SHUNT_TYPES_H
#define SHUNT_TYPES_H

#include <stddef.h>

/* Begins a struct that is passed in: its size, and zero everywhere else. */
#ifdef __cplusplus
#define SHUNT_INIT(type)     \
	{                    \
		sizeof(type) \
	}
#else
#define SHUNT_INIT(type)                    \
	{                                   \
		.struct_size = sizeof(type) \
	}
#endif

/* No deadline: wait as long as it takes (a lost rank still ends the wait). */
#define SHUNT_FOREVER INT64_MAX

/* Element types. Zero is "not given"; where a field has a default, it says. */
enum shunt_dtype {
	SHUNT_DTYPE_NONE = 0,
	SHUNT_DTYPE_F32,    /* IEEE binary32 */
	SHUNT_DTYPE_F16,    /* IEEE binary16 */
	SHUNT_DTYPE_BF16,   /* upper half of binary32 */
	SHUNT_DTYPE_I8,     /* two's complement byte */
	SHUNT_DTYPE_E4M3FN, /* OCP fp8: largest 448, NaN 0x7f and 0xff, no Inf */
	SHUNT_DTYPE_E5M2,   /* OCP fp8: largest 57344, Inf 0x7c, NaN 0x7d.. */
	SHUNT_DTYPE_E2M1,   /* OCP fp4: largest 6; two in a byte, the element
			     * of even index in the low nibble */
	SHUNT_DTYPE_E8M0    /* OCP scale: code c is 2^(c - 127), 255 is NaN */
};

/* Types of index arrays. */
enum shunt_index {
	SHUNT_INDEX_NONE = 0,
	SHUNT_INDEX_I32,
	SHUNT_INDEX_I64,
};

/*
 * What happens to a row before it is sent. Rows of H elements become rows of
 * the type in the name (E2M1: ceil(H / 2) bytes), with scales: "n" of them per
 * row below.
 */
enum shunt_quant {
	/* The bits of x, unchanged. x may be of any type but E8M0, and bring
	 * scales of its own. */
	SHUNT_QUANT_NONE = 0,
	/* Dynamic, one f32 scale per row (n = 1): scale = 1 / (FMAX / amax). */
	SHUNT_QUANT_INT8,
	SHUNT_QUANT_E4M3FN,
	SHUNT_QUANT_E5M2,
	/* Dynamic, a scale per 128 elements (n = ceil(H / 128)). */
	SHUNT_QUANT_INT8_GROUP,
	SHUNT_QUANT_E4M3FN_GROUP,
	SHUNT_QUANT_E5M2_GROUP,
	/* By the caller's scales, which multiply; no scale travels (n = 0). */
	SHUNT_QUANT_INT8_STATIC,
	SHUNT_QUANT_E4M3FN_STATIC,
	/* OCP MX: an E8M0 code per 32 elements (n = ceil(H / 32), rounded up
	 * to even; a code without elements is 0). */
	SHUNT_QUANT_MXFP8_E4M3FN,
	SHUNT_QUANT_MXFP8_E5M2,
	SHUNT_QUANT_MXFP4_E2M1,
	/* E2M1 with an E4M3FN scale per 16 elements (n = ceil(H / 16)) and one
	 * f32 per row. */
	SHUNT_QUANT_NVFP4_E2M1
};

/* What the scales of the _GROUP modes are. */
enum shunt_scale_form {
	SHUNT_SCALE_F32 = 0, /* f32 */
	SHUNT_SCALE_POW2,    /* f32, rounded up to a power of two */
	SHUNT_SCALE_E8M0     /* the same power of two as an E8M0 byte */
};

/* What the caller's scales of the _STATIC modes cover. */
enum shunt_static_shape {
	SHUNT_STATIC_ONE = 0, /* (1) */
	SHUNT_STATIC_HIDDEN,  /* (H) */
	SHUNT_STATIC_EXPERTS  /* (rows, H), rows as of smooth_scales */
};

#endif
