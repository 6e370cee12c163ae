/* Shunt: element types and quantization modes, shared by all headers. */
#ifndef SHUNT_TYPES_H
#define SHUNT_TYPES_H

/* Element types. Zero is "not given"; where a field has a default, it says. */
enum shunt_dtype {
	SHUNT_DTYPE_NONE = 0,
	SHUNT_DTYPE_F32,  /* IEEE binary32 */
	SHUNT_DTYPE_F16,  /* IEEE binary16 */
	SHUNT_DTYPE_BF16, /* upper half of binary32 */
	SHUNT_DTYPE_I8    /* two's complement byte; quantized rows only */
};

/* Types of index arrays. */
enum shunt_index {
	SHUNT_INDEX_NONE = 0,
	SHUNT_INDEX_I32,
	SHUNT_INDEX_I64,
};

/* What happens to a row before it is sent; docs/numerics.md has the bits. */
enum shunt_quant {
	/* The bits of x, unchanged. */
	SHUNT_QUANT_NONE = 0,
	/* int8 with one f32 scale per row: scale = 1 / (127 / amax). */
	SHUNT_QUANT_INT8
};

#endif
