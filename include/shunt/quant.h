/*
 * Shunt: quantization of rows, usable alone: no world, no ranks.
 *
 * docs/numerics.md defines every bit. Functions here are local, never block,
 * allocate nothing, and may run on any number of threads at the same time.
 */
#ifndef SHUNT_QUANT_H
#define SHUNT_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include <shunt/shunt.h>
#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shunt_quantize_args {
	size_t struct_size;
	enum shunt_quant quant; /* NONE copies the bits of x */
	enum shunt_dtype dtype; /* type of x: F32, F16 or BF16 */
	int64_t num_rows;       /* >= 0 */
	int64_t hidden;         /* H: elements of a row, >= 1 */
	/* (num_rows, H), any alignment. NULL if num_rows = 0. */
	const void *x;
	int64_t x_stride; /* elements from row to row, >= H; 0: H */
	/* (H) or NULL; with INT8 only. Multiplies every row before. */
	const float *smooth_scales;
	/* (num_rows, H) in int8, or in dtype with NONE; any alignment; does
	 * not overlap x. NULL if num_rows = 0. */
	void *q;
	int64_t q_stride; /* elements from row to row, >= H; 0: H */
	/* (num_rows) with INT8 (NULL if num_rows = 0); NULL with NONE. */
	float *scales;
	/* How many elements were NaN, and infinite, after smoothing (with
	 * INT8; else 0). May be NULL. */
	int64_t *nan_elements;
	int64_t *inf_elements;
};
#define SHUNT_QUANTIZE_ARGS_INIT SHUNT_INIT(struct shunt_quantize_args)

/*
 * Quantizes rows: q, scales and the counts are written.
 * Errors, with nothing written: NULL_ARGUMENT, INVALID, VERSION.
 */
SHUNT_EXPORT enum shunt_status shunt_quantize_rows(
	const struct shunt_quantize_args *args);

struct shunt_dequantize_args {
	size_t struct_size;
	enum shunt_quant quant; /* what made q; NONE copies the bits */
	enum shunt_dtype dtype; /* type of x: F32, F16 or BF16 */
	int64_t num_rows;       /* >= 0 */
	int64_t hidden;         /* H: elements of a row, >= 1 */
	/* (num_rows, H) in int8, or in dtype with NONE; any alignment. NULL if
	 * num_rows = 0. */
	const void *q;
	int64_t q_stride; /* elements from row to row, >= H; 0: H */
	/* (num_rows) with INT8 (NULL if num_rows = 0); NULL with NONE. */
	const float *scales;
	/* (num_rows, H), any alignment; does not overlap q. NULL if
	 * num_rows = 0. */
	void *x;
	int64_t x_stride; /* elements from row to row, >= H; 0: H */
};
#define SHUNT_DEQUANTIZE_ARGS_INIT SHUNT_INIT(struct shunt_dequantize_args)

/*
 * Turns quantized rows back: x = f32(q) * scale, rounded once to dtype
 * (nearest even). Smooth scales are not undone.
 * Errors, with nothing written: NULL_ARGUMENT, INVALID, VERSION.
 */
SHUNT_EXPORT enum shunt_status shunt_dequantize_rows(
	const struct shunt_dequantize_args *args);

#ifdef __cplusplus
}
#endif
#endif
