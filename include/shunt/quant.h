/*
 * Shunt: quantization of rows, usable alone: no world, no ranks.
 *
 * docs/numerics.md defines every bit. Functions here are local, never block,
 * allocate nothing, and may run on any number of threads at the same time.
 */
#ifndef SHUNT_QUANT_H
#define SHUNT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/status.h>
#include <shunt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a quantization makes of a row. */
struct shunt_quant_sizes {
	size_t struct_size;
	enum shunt_dtype row_dtype;   /* of q; of x with NONE */
	int64_t row_bytes;            /* of a dense row of q */
	enum shunt_dtype scale_dtype; /* F32, E8M0 or E4M3FN; NONE: no scales */
	int64_t scales_per_row;       /* n; 0: none */
	int64_t scale_bytes;          /* of one scale */
	int64_t group;                /* elements that share a scale */
	bool has_row_scales;          /* one f32 per row besides (NVFP4) */
};
#define SHUNT_QUANT_SIZES_INIT SHUNT_INIT(struct shunt_quant_sizes)

/*
 * Fills *sizes. `dtype` matters with NONE only, `form` with _GROUP only.
 * Errors: NULL_ARGUMENT, INVALID, VERSION.
 */
SHUNT_EXPORT enum shunt_status shunt_quant_query(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden,
	struct shunt_quant_sizes *sizes);

struct shunt_quantize_args {
	size_t struct_size;
	enum shunt_quant quant; /* NONE copies the bits of x */
	enum shunt_dtype
		dtype;    /* of x: F32, F16, BF16; with NONE any but E8M0 */
	int64_t num_rows; /* >= 0 */
	int64_t hidden;   /* H: elements of a row, >= 1 */
	/* (num_rows, H), any alignment. NULL if num_rows = 0. */
	const void *x;
	int64_t x_stride; /* elements from row to row, >= H; 0: dense. Of E2M1
			   * even. */
	/* (H) or NULL; with dynamic (not MX, not NVFP4) and static modes.
	 * Multiplies every row before. */
	const float *smooth_scales;
	/* (num_rows, H) in the quantized type, any alignment; does not overlap
	 * x. NULL if num_rows = 0. */
	void *q;
	int64_t q_stride; /* as x_stride */
	/*
	 * (num_rows, n), where the mode has scales (NULL if num_rows = 0);
	 * else NULL. Element (row, i) is at row * scale_row_stride +
	 * i * scale_group_stride, in elements; both 0: row-major, n and 1.
	 * Column-major: 1 and num_rows, or more.
	 */
	void *scales;
	int64_t scale_row_stride;
	int64_t scale_group_stride;
	/* How many elements were NaN, and infinite, after all scales that come
	 * before rounding (with NONE: 0). May be NULL. */
	int64_t *nan_elements;
	int64_t *inf_elements;
	enum shunt_scale_form scale_form; /* of _GROUP modes */
	/* _STATIC: the scales, ONE or HIDDEN; else NULL. */
	const float *static_scales;
	enum shunt_static_shape static_shape;
	/* NVFP4: (num_rows), what an element is multiplied by besides its
	 * group's scale; else NULL. */
	float *row_scales;
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
	enum shunt_dtype
		dtype;    /* of x: F32, F16, BF16; with NONE any but E8M0 */
	int64_t num_rows; /* >= 0 */
	int64_t hidden;   /* H: elements of a row, >= 1 */
	const void *q;    /* as in shunt_quantize_args */
	int64_t q_stride;
	/* As in shunt_quantize_args. With _STATIC modes: f32, (1) or (H) by
	 * static_shape, what q is multiplied by (the reciprocals of what made
	 * it, if x is to come back). */
	const void *scales;
	/* (num_rows, H), any alignment; does not overlap q. NULL if
	 * num_rows = 0. */
	void *x;
	int64_t x_stride;
	int64_t scale_row_stride; /* as in shunt_quantize_args */
	int64_t scale_group_stride;
	enum shunt_scale_form scale_form;
	enum shunt_static_shape static_shape;
	const float *row_scales; /* NVFP4: (num_rows) */
};
#define SHUNT_DEQUANTIZE_ARGS_INIT SHUNT_INIT(struct shunt_dequantize_args)

/*
 * Turns quantized rows back: x = f32(q) * scale, rounded once to dtype
 * (nearest even); NVFP4: f32(q) * (f32(scale) * row_scale), each rounded.
 * Smooth scales are not undone.
 * Errors, with nothing written: NULL_ARGUMENT, INVALID, VERSION.
 */
SHUNT_EXPORT enum shunt_status shunt_dequantize_rows(
	const struct shunt_dequantize_args *args);

#ifdef __cplusplus
}
#endif
#endif
