/*
 * The kernels of acc.h, written once for 16 lanes of any kind: a file of
 * kernels includes one of lanes_*.h, then this, and defines a table by
 * ACC_TABLE. Each kernel has an _at() function that does elements h ..
 * h + count - 1, count <= 16; whole steps of 16 are apart from the last one,
 * so that `count` is a constant in them.
 */
#include <stdbool.h>

#include "combine/acc.h"

/* A weight, taken out of memory that stores to acc might have changed. */
struct weight {
	bool given;
	float value;
};

LANES_INLINE struct weight weight_read(const float *weight)
{
	return (struct weight){weight != NULL, weight ? *weight : 0.0f};
}

/* acc[h ..] += weight * term. */
LANES_INLINE void add_term(float *acc, struct weight weight, struct lanes term,
	int64_t h, int count)
{
	struct lanes sum = lanes_load(SHUNT_DTYPE_F32, acc, h, count);

	if (weight.given)
		term = lanes_mul(lanes_set(weight.value), term);
	lanes_store_acc(acc, h, lanes_add(sum, term), count);
}

/* ---- rows --------------------------------------------------------------- */

LANES_INLINE void add_row(enum shunt_dtype dtype, float *acc, const void *row,
	const float *weight_given, int64_t hidden)
{
	struct weight weight = weight_read(weight_given);
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		add_term(acc, weight, lanes_load(dtype, row, h, 16), h, 16);
	if (h < hidden)
		add_term(acc, weight,
			lanes_load(dtype, row, h, (int)(hidden - h)), h,
			(int)(hidden - h));
}

LANES_INLINE void store(
	enum shunt_dtype dtype, void *out, const float *acc, int64_t hidden)
{
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		lanes_store(dtype, out, h,
			lanes_load(SHUNT_DTYPE_F32, acc, h, 16), 16);
	if (h < hidden)
		lanes_store(dtype, out, h,
			lanes_load(SHUNT_DTYPE_F32, acc, h, (int)(hidden - h)),
			(int)(hidden - h));
}

LANES_INLINE void sum_ranks_at(enum shunt_dtype dtype, void *out,
	const void *const *rows, int64_t num_rows, int64_t h, int count)
{
	struct lanes sum = lanes_load(dtype, rows[0], h, count);

	for (int64_t i = 1; i < num_rows; i++)
		sum = lanes_add(sum, lanes_load(dtype, rows[i], h, count));
	lanes_store(dtype, out, h, sum, count);
}

LANES_INLINE void sum_ranks(enum shunt_dtype dtype, void *out,
	const void *const *rows, int64_t num_rows, int64_t hidden)
{
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		sum_ranks_at(dtype, out, rows, num_rows, h, 16);
	if (h < hidden)
		sum_ranks_at(dtype, out, rows, num_rows, h, (int)(hidden - h));
}

/* ---- constant experts --------------------------------------------------- */

LANES_INLINE void add_constant_at(enum shunt_dtype dtype, float *acc,
	const struct acc_constant *constant, struct weight weight, int64_t h,
	int count)
{
	struct lanes x = lanes_load(dtype, constant->x, h, count);
	struct lanes v = lanes_load(dtype, constant->v, h, count);

	x = lanes_mul(lanes_set(constant->p1), x);
	v = lanes_mul(lanes_set(constant->p2), v);
	add_term(acc, weight, lanes_add(x, v), h, count);
}

LANES_INLINE void add_constant(enum shunt_dtype dtype, float *acc,
	const struct acc_constant *given, const float *weight_given,
	int64_t hidden)
{
	struct acc_constant constant = *given;
	struct weight weight = weight_read(weight_given);
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		add_constant_at(dtype, acc, &constant, weight, h, 16);
	if (h < hidden)
		add_constant_at(
			dtype, acc, &constant, weight, h, (int)(hidden - h));
}

/* Lanes beyond the end add +0 * +0 to a sum that is never -0: nothing. */
LANES_INLINE struct lanes add_product(struct lanes sum, enum shunt_dtype dtype,
	const void *a, const void *b, int64_t h, int count)
{
	struct lanes x = lanes_load(dtype, a, h, count);
	struct lanes y = lanes_load(dtype, b, h, count);

	return lanes_add(sum, lanes_mul(x, y));
}

LANES_INLINE float dot(
	enum shunt_dtype dtype, const void *a, const void *b, int64_t hidden)
{
	struct lanes sum = lanes_set(0.0f);
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		sum = add_product(sum, dtype, a, b, h, 16);
	if (h < hidden)
		sum = add_product(sum, dtype, a, b, h, (int)(hidden - h));
	return lanes_fold(sum);
}

/* ---- communication quantization ------------------------------------------ */

/* The scales of elements h .. h + count - 1; h is a multiple of 16. */
LANES_INLINE struct lanes load_scales(enum shunt_combine_quant quant,
	enum shunt_dtype dtype, const void *scales, int64_t h, int count)
{
	const uint8_t *codes = scales;

	if (quant == SHUNT_COMBINE_QUANT_INT8_8)
		return lanes_set2(half_load(dtype, scales, h / 8),
			count > 8 ? half_load(dtype, scales, h / 8 + 1) : 0.0f);
	if (quant == SHUNT_COMBINE_QUANT_MXFP8)
		return lanes_set(decode_e8m0(codes[h / 32]));
	return lanes_set(half_load(SHUNT_DTYPE_F32, scales, h / 128));
}

LANES_INLINE void add_quantized_at(enum shunt_combine_quant quant,
	enum shunt_dtype dtype, float *acc, const void *q, const void *scales,
	struct weight weight, int64_t h, int count)
{
	bool is_int8 = quant == SHUNT_COMBINE_QUANT_INT8_8 ||
		       quant == SHUNT_COMBINE_QUANT_INT8_128;
	struct lanes value = lanes_load_codes(
		is_int8 ? SHUNT_DTYPE_I8 : SHUNT_DTYPE_E4M3FN, q, h, count);

	value = lanes_mul(value, load_scales(quant, dtype, scales, h, count));
	add_term(acc, weight, value, h, count);
}

LANES_INLINE void add_quantized(enum shunt_combine_quant quant,
	enum shunt_dtype dtype, float *acc, const void *q, const void *scales,
	const float *weight_given, int64_t hidden)
{
	struct weight weight = weight_read(weight_given);
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		add_quantized_at(quant, dtype, acc, q, scales, weight, h, 16);
	if (h < hidden)
		add_quantized_at(quant, dtype, acc, q, scales, weight, h,
			(int)(hidden - h));
}

LANES_INLINE struct lanes load_finite(enum shunt_dtype dtype, const void *row,
	int64_t h, int count, struct quant_tally *tally)
{
	uint32_t nan, odd;
	struct lanes values =
		lanes_finite(lanes_load(dtype, row, h, count), &nan, &odd);

	if (odd) {
		tally->nan_elements += (uint64_t)__builtin_popcount(nan);
		tally->inf_elements += (uint64_t)__builtin_popcount(odd ^ nan);
	}
	return values;
}

/* Two groups of 8, or a shorter last one. */
LANES_INLINE void quantize_8_at(enum shunt_dtype dtype, void *q, void *scales,
	const void *row, int64_t h, int count, struct quant_tally *tally)
{
	struct lanes values = lanes_load(dtype, row, h, count);
	float low, high;

	lanes_top(load_finite(dtype, row, h, count, tally), &low, &high);
	low = low / 127.0f;
	high = high / 127.0f;
	lanes_store_i8(q, h, values, lanes_set2(low, high), count);
	half_store(dtype, scales, h / 8, low);
	if (count > 8)
		half_store(dtype, scales, h / 8 + 1, high);
}

LANES_INLINE void quantize_int8_8(enum shunt_dtype dtype, void *q, void *scales,
	const void *row, int64_t hidden, struct quant_tally *tally)
{
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		quantize_8_at(dtype, q, scales, row, h, 16, tally);
	if (h < hidden)
		quantize_8_at(
			dtype, q, scales, row, h, (int)(hidden - h), tally);
}

/* One group: elements first .. end - 1. Returns its scale. */
LANES_INLINE float quantize_group(enum shunt_dtype dtype, void *q,
	const void *row, int64_t first, int64_t end, struct quant_tally *tally)
{
	int64_t whole = first + (end - first) / 16 * 16;
	int rest = (int)(end - whole);
	struct lanes top = lanes_set(0.0f);
	float low, high, scale;

	for (int64_t h = first; h < whole; h += 16)
		top = lanes_larger(top, load_finite(dtype, row, h, 16, tally));
	if (rest)
		top = lanes_larger(
			top, load_finite(dtype, row, whole, rest, tally));
	lanes_top(top, &low, &high);
	scale = (low > high ? low : high) / 127.0f;
	for (int64_t h = first; h < whole; h += 16)
		lanes_store_i8(q, h, lanes_load(dtype, row, h, 16),
			lanes_set(scale), 16);
	if (rest)
		lanes_store_i8(q, whole, lanes_load(dtype, row, whole, rest),
			lanes_set(scale), rest);
	return scale;
}

LANES_INLINE void quantize_int8_128(enum shunt_dtype dtype, void *q,
	void *scales, const void *row, int64_t hidden,
	struct quant_tally *tally)
{
	for (int64_t h = 0; h < hidden; h += 128)
		half_store(SHUNT_DTYPE_F32, scales, h / 128,
			quantize_group(dtype, q, row, h,
				h + 128 < hidden ? h + 128 : hidden, tally));
}

/* ---- the fused tail ------------------------------------------------------ */

/* Returns `squares` with those of elements h .. h + count - 1. */
LANES_INLINE struct lanes tail_add_at(enum shunt_dtype dtype, void *out,
	float *acc, const void *residual, struct lanes squares, int64_t h,
	int count)
{
	struct lanes z = lanes_load(SHUNT_DTYPE_F32, acc, h, count);

	if (residual)
		z = lanes_add(z, lanes_load(dtype, residual, h, count));
	lanes_store_acc(acc, h, z, count);
	lanes_store(dtype, out, h, z, count);
	return lanes_add(squares, lanes_mul(z, z));
}

LANES_INLINE float tail_add(enum shunt_dtype dtype, void *out, float *acc,
	const void *residual, int64_t hidden)
{
	struct lanes squares = lanes_set(0.0f);
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		squares =
			tail_add_at(dtype, out, acc, residual, squares, h, 16);
	if (h < hidden)
		squares = tail_add_at(dtype, out, acc, residual, squares, h,
			(int)(hidden - h));
	return lanes_fold(squares);
}

LANES_INLINE void tail_norm_at(enum shunt_dtype dtype,
	enum shunt_dtype gamma_dtype, void *norm_out, const float *z,
	struct lanes rstd, const void *gamma, int64_t h, int count)
{
	struct lanes norm = lanes_load(SHUNT_DTYPE_F32, z, h, count);

	norm = lanes_round(dtype, lanes_mul(norm, rstd));
	norm = lanes_mul(norm, lanes_load(gamma_dtype, gamma, h, count));
	lanes_store(dtype, norm_out, h, norm, count);
}

LANES_INLINE void tail_norm(enum shunt_dtype dtype,
	enum shunt_dtype gamma_dtype, void *norm_out, const float *z,
	float rstd, const void *gamma, int64_t hidden)
{
	struct lanes lanes = lanes_set(rstd);
	int64_t h = 0;

	for (; h + 16 <= hidden; h += 16)
		tail_norm_at(
			dtype, gamma_dtype, norm_out, z, lanes, gamma, h, 16);
	if (h < hidden)
		tail_norm_at(dtype, gamma_dtype, norm_out, z, lanes, gamma, h,
			(int)(hidden - h));
}

/* ---- one function per type, so that types are constants in each ---------- */

#define ACC_DEFINE_QUANT(quant, QUANT, name, NAME)                             \
	static void add_##quant##_##name(float *acc, const void *q,            \
		const void *scales, const float *weight, int64_t hidden)       \
	{                                                                      \
		add_quantized(SHUNT_COMBINE_QUANT_##QUANT, SHUNT_DTYPE_##NAME, \
			acc, q, scales, weight, hidden);                       \
	}

#define ACC_DEFINE_NORM(name, NAME, gamma_name, GAMMA)                         \
	static void tail_norm_##name##_##gamma_name(void *norm_out,            \
		const float *z, float rstd, const void *gamma, int64_t hidden) \
	{                                                                      \
		tail_norm(SHUNT_DTYPE_##NAME, SHUNT_DTYPE_##GAMMA, norm_out,   \
			z, rstd, gamma, hidden);                               \
	}

#define ACC_DEFINE(name, NAME)                                                \
	static void add_row_##name(float *acc, const void *row,               \
		const float *weight, int64_t hidden)                          \
	{                                                                     \
		add_row(SHUNT_DTYPE_##NAME, acc, row, weight, hidden);        \
	}                                                                     \
	static void add_constant_##name(float *acc,                           \
		const struct acc_constant *constant, const float *weight,     \
		int64_t hidden)                                               \
	{                                                                     \
		add_constant(                                                 \
			SHUNT_DTYPE_##NAME, acc, constant, weight, hidden);   \
	}                                                                     \
	static void store_##name(void *out, const float *acc, int64_t hidden) \
	{                                                                     \
		store(SHUNT_DTYPE_##NAME, out, acc, hidden);                  \
	}                                                                     \
	static void sum_ranks_##name(void *out, const void *const *rows,      \
		int64_t num_rows, int64_t hidden)                             \
	{                                                                     \
		sum_ranks(SHUNT_DTYPE_##NAME, out, rows, num_rows, hidden);   \
	}                                                                     \
	static float dot_##name(const void *a, const void *b, int64_t hidden) \
	{                                                                     \
		return dot(SHUNT_DTYPE_##NAME, a, b, hidden);                 \
	}                                                                     \
	static float tail_add_##name(                                         \
		void *out, float *acc, const void *residual, int64_t hidden)  \
	{                                                                     \
		return tail_add(                                              \
			SHUNT_DTYPE_##NAME, out, acc, residual, hidden);      \
	}                                                                     \
	static void quantize_int8_8_##name(void *q, void *scales,             \
		const void *row, int64_t hidden, struct quant_tally *tally)   \
	{                                                                     \
		quantize_int8_8(                                              \
			SHUNT_DTYPE_##NAME, q, scales, row, hidden, tally);   \
	}                                                                     \
	static void quantize_int8_128_##name(void *q, void *scales,           \
		const void *row, int64_t hidden, struct quant_tally *tally)   \
	{                                                                     \
		quantize_int8_128(                                            \
			SHUNT_DTYPE_##NAME, q, scales, row, hidden, tally);   \
	}                                                                     \
	ACC_DEFINE_QUANT(int8_8, INT8_8, name, NAME)                          \
	ACC_DEFINE_NORM(name, NAME, f32, F32)

ACC_DEFINE(f32, F32)
ACC_DEFINE(f16, F16)
ACC_DEFINE(bf16, BF16)
ACC_DEFINE_NORM(f16, F16, f16, F16)
ACC_DEFINE_NORM(bf16, BF16, bf16, BF16)
/* Their scales do not have the type of the row. */
ACC_DEFINE_QUANT(int8_128, INT8_128, any, NONE)
ACC_DEFINE_QUANT(e4m3fn_128, E4M3FN_128, any, NONE)
ACC_DEFINE_QUANT(mxfp8, MXFP8, any, NONE)

#define ACC_BY_TYPE(f32, f16, bf16)                               \
	{                                                         \
		[SHUNT_DTYPE_F32] = f32, [SHUNT_DTYPE_F16] = f16, \
		[SHUNT_DTYPE_BF16] = bf16,                        \
	}
#define ACC_KERNEL(kernel) \
	ACC_BY_TYPE(kernel##_f32, kernel##_f16, kernel##_bf16)
#define ACC_ANY(kernel) ACC_BY_TYPE(kernel##_any, kernel##_any, kernel##_any)

#define ACC_TABLE                                                              \
	.add_row = ACC_KERNEL(add_row),                                        \
	.add_constant = ACC_KERNEL(add_constant),                              \
	.add_quantized =                                                       \
		{                                                              \
			[SHUNT_COMBINE_QUANT_INT8_8] = ACC_KERNEL(add_int8_8), \
			[SHUNT_COMBINE_QUANT_INT8_128] =                       \
				ACC_ANY(add_int8_128),                         \
			[SHUNT_COMBINE_QUANT_E4M3FN_128] =                     \
				ACC_ANY(add_e4m3fn_128),                       \
			[SHUNT_COMBINE_QUANT_MXFP8] = ACC_ANY(add_mxfp8),      \
	},                                                                     \
	.quantize_int8_8 = ACC_KERNEL(quantize_int8_8),                        \
	.quantize_int8_128 = ACC_KERNEL(quantize_int8_128),                    \
	.store = ACC_KERNEL(store), .sum_ranks = ACC_KERNEL(sum_ranks),        \
	.dot = ACC_KERNEL(dot), .tail_add = ACC_KERNEL(tail_add),              \
	.tail_norm = ACC_BY_TYPE({[SHUNT_DTYPE_F32] = tail_norm_f32_f32},      \
		ACC_BY_TYPE(tail_norm_f16_f32, tail_norm_f16_f16, NULL),       \
		ACC_BY_TYPE(tail_norm_bf16_f32, NULL, tail_norm_bf16_bf16))
