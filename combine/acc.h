/*
 * The arithmetic of combine beyond the plain sum of sum.h, for one token: an
 * accumulator in f32 to which terms of all kinds are added one by one, and the
 * fused tail. One table per instruction set; all tables give the same bits.
 *
 * All operations are f32, each rounded by itself. NaNs in an accumulator may
 * have any payload; what is stored as a result has the canonical one. Arrays
 * have `hidden` >= 1 elements and any alignment but that of acc, which is
 * aligned as floats are. `weight` may be NULL: then nothing is multiplied.
 *
 * The caller has called fpenv_enter().
 */
#ifndef COMBINE_ACC_H
#define COMBINE_ACC_H

#include <stdint.h>

#include <shunt/exchange.h>
#include <shunt/types.h>

#include "base/simd.h"
#include "quant/row.h"

/* By element type: F32, F16 and BF16 are filled, the rest is NULL. */
#define ACC_NUM_DTYPES 4
/* By communication quantization; that of NONE is NULL. */
#define ACC_NUM_QUANTS 5

/* What a constant expert makes of a token x: p1 * x + p2 * v. */
struct acc_constant {
	const void *x;
	const void *v;
	float p1;
	float p2;
};

struct acc_kernels {
	const char *name;

	/* acc = acc + weight * f32(row). */
	void (*add_row[ACC_NUM_DTYPES])(float *acc, const void *row,
		const float *weight, int64_t hidden);

	/* acc = acc + weight * (p1 * x + p2 * v), four roundings and five. */
	void (*add_constant[ACC_NUM_DTYPES])(float *acc,
		const struct acc_constant *constant, const float *weight,
		int64_t hidden);

	/*
	 * acc = acc + weight * (f32(q) * f32(scale of its group)), for a row
	 * in a communication quantization. Of INT8_8 the scales are of the
	 * type of the table's second index.
	 */
	void (*add_quantized[ACC_NUM_QUANTS][ACC_NUM_DTYPES])(float *acc,
		const void *q, const void *scales, const float *weight,
		int64_t hidden);

	/*
	 * A row in INT8_8 and in INT8_128: per group sc = amax / 127 over its
	 * finite elements, q = row / sc to nearest even, held in -127 .. 127;
	 * sc 0 gives q 0, NaN 0, Inf +-127. Scales are sc, rounded to the type
	 * of the row, and in f32. NaN and Inf are counted. q (hidden) and the
	 * scales, dense, may have any alignment.
	 */
	void (*quantize_int8_8[ACC_NUM_DTYPES])(void *q, void *scales,
		const void *row, int64_t hidden, struct quant_tally *tally);
	void (*quantize_int8_128[ACC_NUM_DTYPES])(void *q, void *scales,
		const void *row, int64_t hidden, struct quant_tally *tally);

	/* out = round(acc). */
	void (*store[ACC_NUM_DTYPES])(
		void *out, const float *acc, int64_t hidden);

	/*
	 * out = round(f32(rows[0]) + f32(rows[1]) + ...), from left to right:
	 * the result of a TP group. num_rows >= 1; out does not overlap.
	 */
	void (*sum_ranks[ACC_NUM_DTYPES])(void *out, const void *const *rows,
		int64_t num_rows, int64_t hidden);

	/*
	 * The sum of a * b in 16 lanes: lane j adds the products of elements
	 * j, j + 16, ... to +0; then lanes i and i + 8 are added, then i and
	 * i + 4, i + 2, i + 1.
	 */
	float (*dot[ACC_NUM_DTYPES])(
		const void *a, const void *b, int64_t hidden);

	/*
	 * z = acc + f32(residual), left in acc, and out = round(z); returns
	 * the sum of z * z in 16 lanes. residual may be NULL: z = acc.
	 */
	float (*tail_add[ACC_NUM_DTYPES])(
		void *out, float *acc, const void *residual, int64_t hidden);

	/*
	 * norm_out = round(f32(round(z * rstd)) * f32(gamma)), both roundings
	 * to the type of norm_out. By types of norm_out and of gamma, which is
	 * the same or F32.
	 */
	void (*tail_norm[ACC_NUM_DTYPES][ACC_NUM_DTYPES])(void *norm_out,
		const float *z, float rstd, const void *gamma, int64_t hidden);
};

/* The table of simd_level(). Never NULL. */
const struct acc_kernels *acc_kernels(void);

/* The table of one level, for tests; NULL if this machine lacks it. */
const struct acc_kernels *acc_kernels_at(enum simd_level level);

/*
 * (p1, p2) = softmax(a1, a2): with m the larger of both (a2, if they do not
 * compare), e = (float)exp((double)(a - m)), p = e / (e1 + e2). A NaN, or an
 * infinity that is the larger one, makes both NaN.
 */
void acc_softmax(float a1, float a2, float *p1, float *p2);

/* 1 / sqrt(squares / hidden + eps), each operation in f32. */
float acc_rstd(float squares, int64_t hidden, float eps);

/* The tables themselves. The vector ones exist on x86-64 only. */
extern const struct acc_kernels acc_kernels_scalar;
extern const struct acc_kernels acc_kernels_avx2;

#endif
