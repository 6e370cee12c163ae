/* Owns the sums in plain C: the ones that other machines run, and the ones
 * that the vector sums are compared with. */
#include "combine/sum.h"

#include "base/half.h"

static inline float scalar_element(enum shunt_dtype dtype,
	const void *const *rows, const float *weights, int64_t num_rows,
	int64_t h)
{
	float acc = 0.0f;

	for (int64_t i = 0; i < num_rows; i++) {
		float value = half_load(dtype, rows[i], h);

		acc += weights ? weights[i] * value : value;
	}
	return acc;
}

static inline void scalar_rows(enum shunt_dtype dtype, enum shunt_dtype to,
	void *out, const void *const *rows, const float *weights,
	int64_t num_rows, int64_t hidden)
{
	for (int64_t h = 0; h < hidden; h++)
		half_store(to, out, h,
			scalar_element(dtype, rows, weights, num_rows, h));
}

/* One function per pair of types, so that the types are constants in each. */
#define SCALAR_ROWS(suffix, dtype, to)                                        \
	static void rows_##suffix(void *out, const void *const *rows,         \
		const float *weights, int64_t num_rows, int64_t hidden)       \
	{                                                                     \
		scalar_rows(dtype, to, out, rows, weights, num_rows, hidden); \
	}

SCALAR_ROWS(f32_f32, SHUNT_DTYPE_F32, SHUNT_DTYPE_F32)
SCALAR_ROWS(f32_f16, SHUNT_DTYPE_F32, SHUNT_DTYPE_F16)
SCALAR_ROWS(f32_bf16, SHUNT_DTYPE_F32, SHUNT_DTYPE_BF16)
SCALAR_ROWS(f16_f32, SHUNT_DTYPE_F16, SHUNT_DTYPE_F32)
SCALAR_ROWS(f16_f16, SHUNT_DTYPE_F16, SHUNT_DTYPE_F16)
SCALAR_ROWS(f16_bf16, SHUNT_DTYPE_F16, SHUNT_DTYPE_BF16)
SCALAR_ROWS(bf16_f32, SHUNT_DTYPE_BF16, SHUNT_DTYPE_F32)
SCALAR_ROWS(bf16_f16, SHUNT_DTYPE_BF16, SHUNT_DTYPE_F16)
SCALAR_ROWS(bf16_bf16, SHUNT_DTYPE_BF16, SHUNT_DTYPE_BF16)

const struct sum_kernels sum_kernels_scalar = {
	.name = "scalar",
	.rows =
		{
			[SHUNT_DTYPE_F32] =
				{
					[SHUNT_DTYPE_F32] = rows_f32_f32,
					[SHUNT_DTYPE_F16] = rows_f32_f16,
					[SHUNT_DTYPE_BF16] = rows_f32_bf16,
				},
			[SHUNT_DTYPE_F16] =
				{
					[SHUNT_DTYPE_F32] = rows_f16_f32,
					[SHUNT_DTYPE_F16] = rows_f16_f16,
					[SHUNT_DTYPE_BF16] = rows_f16_bf16,
				},
			[SHUNT_DTYPE_BF16] =
				{
					[SHUNT_DTYPE_F32] = rows_bf16_f32,
					[SHUNT_DTYPE_F16] = rows_bf16_f16,
					[SHUNT_DTYPE_BF16] = rows_bf16_bf16,
				},
		},
};
