/*
 * What a caller of the public functions asks for, checked: the two directions
 * take the same things from different structs.
 */
#ifndef QUANT_REQUEST_H
#define QUANT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/quant.h>

#include "quant/format.h"

struct request {
	/* As given. request_check() resolves strides that are 0. */
	enum shunt_quant quant;
	enum shunt_scale_form form;
	enum shunt_dtype dtype;
	int64_t num_rows;
	int64_t hidden;
	const void *x;
	int64_t x_stride;
	const float *smooth;
	const void *q;
	int64_t q_stride;
	const void *scales;
	int64_t scale_row_stride;
	int64_t scale_group_stride;
	/* The scales of static modes, and how the caller's struct calls them. */
	const void *fixed;
	const char *fixed_name;
	enum shunt_static_shape static_shape;
	const float *row_scales;

	/* By request_check(). */
	struct quant_format format;
};

/* Checks all of it. INVALID, NULL_ARGUMENT. */
enum shunt_status request_check(struct request *request);

/* Checks what shunt_quant_query() is given. INVALID. */
enum shunt_status request_check_mode(enum shunt_quant quant,
	enum shunt_scale_form form, enum shunt_dtype dtype, int64_t hidden);

/* Where row `row` of q, its scales, or x begins; their bytes from row to
 * row. */
int64_t request_x_off(const struct request *request, int64_t row);
int64_t request_q_off(const struct request *request, int64_t row);
int64_t request_scales_off(const struct request *request, int64_t row);

#endif
