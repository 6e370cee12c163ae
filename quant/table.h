/*
 * How a file of kernels makes its table: the functions of the three element
 * types differ in one constant, so they are written once, as inline functions
 * that take the type, and defined here for each.
 */
#ifndef QUANT_TABLE_H
#define QUANT_TABLE_H

#include "quant/kernels.h"

#define QUANT_INLINE static inline __attribute__((always_inline))

/*
 * Defines int8_row_<type>() by int8_row() and int8_dequantize_<type>() by
 * int8_dequantize(), both of which the file has.
 */
#define QUANT_DEFINE(type, TYPE)                                            \
	static void int8_row_##type(int8_t *q, float *scale, const void *x, \
		const float *smooth, int64_t hidden,                        \
		struct quant_tally *tally)                                  \
	{                                                                   \
		int8_row(SHUNT_DTYPE_##TYPE, q, scale, x, smooth, hidden,   \
			tally);                                             \
	}                                                                   \
	static void int8_dequantize_##type(                                 \
		void *x, const int8_t *q, float scale, int64_t hidden)      \
	{                                                                   \
		int8_dequantize(SHUNT_DTYPE_##TYPE, x, q, scale, hidden);   \
	}
#define QUANT_DEFINE_ALL       \
	QUANT_DEFINE(f32, F32) \
	QUANT_DEFINE(f16, F16) \
	QUANT_DEFINE(bf16, BF16)

#define QUANT_TABLE(function)                         \
	{                                             \
		[SHUNT_DTYPE_F32] = function##_f32,   \
		[SHUNT_DTYPE_F16] = function##_f16,   \
		[SHUNT_DTYPE_BF16] = function##_bf16, \
	}

#endif
