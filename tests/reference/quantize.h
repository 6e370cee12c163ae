/*
 * The reference's quantizations of a row, and back; and what combine's
 * communication quantization makes of one.
 */
#ifndef REFERENCE_QUANTIZE_H
#define REFERENCE_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/exchange.h>
#include <shunt/types.h>

/* What a mode makes of a row. */
struct reference_format {
	enum shunt_dtype row_dtype;
	int64_t row_bytes;
	enum shunt_dtype scale_dtype; /* NONE: no scales */
	int64_t scale_bytes;          /* of one */
	int64_t num_scales;           /* n */
	int64_t group;                /* elements of a scale */
	bool has_row_scale;
};

struct reference_format reference_format_of(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden);

/* A row with what becomes of it. */
struct reference_row {
	enum shunt_quant quant;
	enum shunt_scale_form form;
	enum shunt_dtype dtype;
	int64_t hidden;
	const void *x;       /* any alignment */
	const float *smooth; /* (hidden) or NULL */
	const float *fixed;  /* of _STATIC modes: (1) or (hidden) */
	bool fixed_is_one;
	uint8_t *q;       /* row_bytes */
	uint8_t *scales;  /* num_scales, dense, any alignment */
	float *row_scale; /* NVFP4 */
	int64_t nan_elements, inf_elements; /* added to */
};

void reference_quantize_row(struct reference_row *row);

/* A quantized row and where its values go. */
struct reference_codes {
	enum shunt_quant quant;
	enum shunt_scale_form form;
	enum shunt_dtype dtype; /* of x */
	int64_t hidden;
	const uint8_t *q;
	/* As above; of _STATIC modes f32, (1) or (hidden). */
	const uint8_t *scales;
	bool fixed_is_one;
	float row_scale; /* NVFP4 */
	void *x;         /* (hidden) in dtype, any alignment */
};

void reference_dequantize_row(const struct reference_codes *codes);

/*
 * Combine's communication quantization: values[i] = what the receiver takes
 * element i of `row` for. Adds to the two counts.
 */
void reference_travel_row(enum shunt_combine_quant quant,
	enum shunt_dtype dtype, const void *row, int64_t hidden, float *values,
	int64_t *nan_elements, int64_t *inf_elements);

/*
 * Dynamic int8, one scale per row: quantizes `count` elements at `x`, times
 * smooth[i] where smooth is not NULL, to q, and returns the scale. Adds the
 * NaN and Inf elements that it met to the two counts.
 */
float quantize_int8_row(enum shunt_dtype dtype, const void *x,
	const float *smooth, int64_t count, int8_t *q, int64_t *nan_elements,
	int64_t *inf_elements);

#endif
