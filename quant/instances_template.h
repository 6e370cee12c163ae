/*
 * All kernels of one instruction set, and what its tables hold. Included behind
 * row_template.h and back_template.h.
 */
#define ROW_OF(name, type, call)                                     \
	static void row_##name##_##type(const struct quant_row *row) \
	{                                                            \
		call;                                                \
	}
#define BACK_OF(name, type, call)                                         \
	static void back_##name##_##type(const struct quant_codes *codes) \
	{                                                                 \
		call;                                                     \
	}

/* Of a code that has all of these. The form is no constant: it costs a branch
 * per group, and copies would cost their size in the instruction cache. */
#define INSTANCES_DYNAMIC(dtype, type, code, name)                             \
	ROW_OF(name, type, dynamic_row(dtype, code, row))                      \
	BACK_OF(name, type, back_row(dtype, code, codes))                      \
	static __attribute__((noinline)) void groups_##name##_##type(          \
		const struct quant_row *row, enum shunt_scale_form form)       \
	{                                                                      \
		dynamic_group_row(dtype, code, form, row);                     \
	}                                                                      \
	ROW_OF(name##_f32, type, groups_##name##_##type(row, SHUNT_SCALE_F32)) \
	ROW_OF(name##_pow2, type,                                              \
		groups_##name##_##type(row, SHUNT_SCALE_POW2))                 \
	ROW_OF(name##_e8m0, type,                                              \
		groups_##name##_##type(row, SHUNT_SCALE_E8M0))                 \
	BACK_OF(name##_f32, type,                                              \
		back_groups(dtype, code, SHUNT_DTYPE_F32, 128, codes))         \
	BACK_OF(name##_e8m0, type,                                             \
		back_groups(dtype, code, SHUNT_DTYPE_E8M0, 128, codes))
#define INSTANCES_STATIC(dtype, type, code, name)                 \
	ROW_OF(name##_static, type, static_row(dtype, code, row)) \
	BACK_OF(name##_static, type, back_static(dtype, code, codes))
#define INSTANCES_MX(dtype, type, code, name)             \
	ROW_OF(mx_##name, type, mx_row(dtype, code, row)) \
	BACK_OF(mx_##name, type,                          \
		back_groups(dtype, code, SHUNT_DTYPE_E8M0, 32, codes))

#define INSTANCES(dtype, type)                                               \
	INSTANCES_DYNAMIC(dtype, type, SHUNT_DTYPE_I8, i8)                   \
	INSTANCES_DYNAMIC(dtype, type, SHUNT_DTYPE_E4M3FN, e4m3fn)           \
	INSTANCES_DYNAMIC(dtype, type, SHUNT_DTYPE_E5M2, e5m2)               \
	INSTANCES_STATIC(dtype, type, SHUNT_DTYPE_I8, i8)                    \
	INSTANCES_STATIC(dtype, type, SHUNT_DTYPE_E4M3FN, e4m3fn)            \
	INSTANCES_MX(dtype, type, SHUNT_DTYPE_E4M3FN, e4m3fn)                \
	INSTANCES_MX(dtype, type, SHUNT_DTYPE_E5M2, e5m2)                    \
	INSTANCES_MX(dtype, type, SHUNT_DTYPE_E2M1, e2m1)                    \
	ROW_OF(nvfp4, type, nvfp4_row(dtype, row))                           \
	BACK_OF(nvfp4, type,                                                 \
		back_groups(dtype, SHUNT_DTYPE_E2M1, SHUNT_DTYPE_E4M3FN, 16, \
			codes))

INSTANCES(SHUNT_DTYPE_F32, f32)
INSTANCES(SHUNT_DTYPE_F16, f16)
INSTANCES(SHUNT_DTYPE_BF16, bf16)

#define ROW_GROUPS(name)                                             \
	{                                                            \
		[SHUNT_SCALE_F32] = QUANT_TABLE(row_##name##_f32),   \
		[SHUNT_SCALE_POW2] = QUANT_TABLE(row_##name##_pow2), \
		[SHUNT_SCALE_E8M0] = QUANT_TABLE(row_##name##_e8m0), \
	}
#define BACK_GROUPS(name)                                             \
	{                                                             \
		[SHUNT_SCALE_F32] = QUANT_TABLE(back_##name##_f32),   \
		[SHUNT_SCALE_POW2] = QUANT_TABLE(back_##name##_f32),  \
		[SHUNT_SCALE_E8M0] = QUANT_TABLE(back_##name##_e8m0), \
	}
#define ONE_FORM(name)                                 \
	{                                              \
		[SHUNT_SCALE_F32] = QUANT_TABLE(name), \
	}
#define INSTANCES_TABLE(way, groups)                                         \
	{                                                                    \
		[SHUNT_QUANT_INT8] = ONE_FORM(way##_i8),                     \
		[SHUNT_QUANT_E4M3FN] = ONE_FORM(way##_e4m3fn),               \
		[SHUNT_QUANT_E5M2] = ONE_FORM(way##_e5m2),                   \
		[SHUNT_QUANT_INT8_GROUP] = groups(i8),                       \
		[SHUNT_QUANT_E4M3FN_GROUP] = groups(e4m3fn),                 \
		[SHUNT_QUANT_E5M2_GROUP] = groups(e5m2),                     \
		[SHUNT_QUANT_INT8_STATIC] = ONE_FORM(way##_i8_static),       \
		[SHUNT_QUANT_E4M3FN_STATIC] = ONE_FORM(way##_e4m3fn_static), \
		[SHUNT_QUANT_MXFP8_E4M3FN] = ONE_FORM(way##_mx_e4m3fn),      \
		[SHUNT_QUANT_MXFP8_E5M2] = ONE_FORM(way##_mx_e5m2),          \
		[SHUNT_QUANT_MXFP4_E2M1] = ONE_FORM(way##_mx_e2m1),          \
		[SHUNT_QUANT_NVFP4_E2M1] = ONE_FORM(way##_nvfp4),            \
	}
#define ROW_KERNELS  INSTANCES_TABLE(row, ROW_GROUPS)
#define BACK_KERNELS INSTANCES_TABLE(back, BACK_GROUPS)
