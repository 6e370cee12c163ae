/*
 * How a file of kernels makes its tables: functions of the three element types
 * differ in one constant, so they are written once, as inline functions that
 * take it, and defined here for each.
 */
#ifndef QUANT_TABLE_H
#define QUANT_TABLE_H

#define QUANT_INLINE static inline __attribute__((always_inline))

/* For a table indexed by enum shunt_dtype. */
#define QUANT_TABLE(function)                         \
	{                                             \
		[SHUNT_DTYPE_F32] = function##_f32,   \
		[SHUNT_DTYPE_F16] = function##_f16,   \
		[SHUNT_DTYPE_BF16] = function##_bf16, \
	}

#endif
