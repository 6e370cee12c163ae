/* Sizes of element types. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/types.h>

/* Bits of one element; 0 for what is no element type. */
static inline int64_t dtype_bits(enum shunt_dtype dtype)
{
	switch (dtype) {
	case SHUNT_DTYPE_F32:
		return 32;
	case SHUNT_DTYPE_F16:
	case SHUNT_DTYPE_BF16:
		return 16;
	case SHUNT_DTYPE_I8:
	case SHUNT_DTYPE_E4M3FN:
	case SHUNT_DTYPE_E5M2:
	case SHUNT_DTYPE_E8M0:
		return 8;
	case SHUNT_DTYPE_E2M1:
		return 4;
	case SHUNT_DTYPE_NONE:
		break;
	}
	return 0;
}

/* Bytes of `count` elements in a row; a last half byte is a whole one. */
static inline int64_t dtype_row_bytes(enum shunt_dtype dtype, int64_t count)
{
	return (count * dtype_bits(dtype) + 7) / 8;
}

/* True for the types that are computed with. */
static inline bool dtype_is_float(enum shunt_dtype dtype)
{
	return dtype == SHUNT_DTYPE_F32 || dtype == SHUNT_DTYPE_F16 ||
	       dtype == SHUNT_DTYPE_BF16;
}

#endif
