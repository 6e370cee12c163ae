/* The names that values of options have. */
#include <stdio.h>

#include "options_table.h"

const struct option_choice options_launches = {
	{{"processes", LAUNCH_PROCESSES}, {"threads", LAUNCH_THREADS}}};

const struct option_choice options_transports = {
	{{"auto", OPTIONS_TRANSPORT_AUTO}, {"shm", OPTIONS_TRANSPORT_SHM}}};

const struct option_choice options_algorithms = {
	{{"auto", SHUNT_ALGORITHM_AUTO}, {"fullmesh", SHUNT_ALGORITHM_FULLMESH},
		{"hierarchy", SHUNT_ALGORITHM_HIERARCHY}}};

const struct option_choice options_placements = {
	{{"even", OPTIONS_PLACEMENT_EVEN}, {"ranges", OPTIONS_PLACEMENT_RANGES},
		{"map", OPTIONS_PLACEMENT_MAP}}};

const struct option_choice options_dtypes = {{{"bf16", SHUNT_DTYPE_BF16},
	{"f16", SHUNT_DTYPE_F16}, {"f32", SHUNT_DTYPE_F32}}};

const struct option_choice options_row_dtypes = {{{"bf16", SHUNT_DTYPE_BF16},
	{"f16", SHUNT_DTYPE_F16}, {"f32", SHUNT_DTYPE_F32},
	{"int8", SHUNT_DTYPE_I8}, {"e4m3", SHUNT_DTYPE_E4M3FN},
	{"e5m2", SHUNT_DTYPE_E5M2}, {"e2m1", SHUNT_DTYPE_E2M1}}};

const struct option_choice options_gamma_dtypes = {
	{{"none", SHUNT_DTYPE_NONE}, {"bf16", SHUNT_DTYPE_BF16},
		{"f16", SHUNT_DTYPE_F16}, {"f32", SHUNT_DTYPE_F32}}};

const struct option_choice options_quants = {{{"none", SHUNT_QUANT_NONE},
	{"int8", SHUNT_QUANT_INT8}, {"e4m3", SHUNT_QUANT_E4M3FN},
	{"e5m2", SHUNT_QUANT_E5M2}, {"int8-128", SHUNT_QUANT_INT8_GROUP},
	{"e4m3-128", SHUNT_QUANT_E4M3FN_GROUP},
	{"e5m2-128", SHUNT_QUANT_E5M2_GROUP},
	{"int8-static", SHUNT_QUANT_INT8_STATIC},
	{"e4m3-static", SHUNT_QUANT_E4M3FN_STATIC},
	{"mxfp8", SHUNT_QUANT_MXFP8_E4M3FN},
	{"mxfp8-e5m2", SHUNT_QUANT_MXFP8_E5M2},
	{"mxfp4", SHUNT_QUANT_MXFP4_E2M1}, {"nvfp4", SHUNT_QUANT_NVFP4_E2M1}}};

const struct option_choice options_scale_forms = {{{"f32", SHUNT_SCALE_F32},
	{"pow2", SHUNT_SCALE_POW2}, {"e8m0", SHUNT_SCALE_E8M0}}};

const struct option_choice options_statics = {{{"one", SHUNT_STATIC_ONE},
	{"hidden", SHUNT_STATIC_HIDDEN}, {"experts", SHUNT_STATIC_EXPERTS}}};

const struct option_choice options_combine_quants = {
	{{"none", SHUNT_COMBINE_QUANT_NONE},
		{"int8-8", SHUNT_COMBINE_QUANT_INT8_8},
		{"int8-128", SHUNT_COMBINE_QUANT_INT8_128},
		{"e4m3-128", SHUNT_COMBINE_QUANT_E4M3FN_128},
		{"mxfp8", SHUNT_COMBINE_QUANT_MXFP8}}};

const struct option_choice options_layouts = {
	{{"compact", SHUNT_LAYOUT_COMPACT}, {"padded", SHUNT_LAYOUT_PADDED},
		{"indexed", SHUNT_LAYOUT_INDEXED}}};

const struct option_choice options_ys = {
	{{"window", OPTIONS_Y_WINDOW}, {"heap", OPTIONS_Y_HEAP},
		{"own", OPTIONS_Y_OWN}, {"rows", OPTIONS_Y_ROWS}}};

const struct option_choice options_weight_ways = {
	{{"dispatch", OPTIONS_WEIGHTS_DISPATCH},
		{"combine", OPTIONS_WEIGHTS_COMBINE},
		{"none", OPTIONS_WEIGHTS_NONE}}};

const struct option_choice options_id_types = {
	{{"i64", SHUNT_INDEX_I64}, {"i32", SHUNT_INDEX_I32}}};

const char *option_value_name(const struct option_choice *choice, int number)
{
	for (const struct option_value *at = choice->values; at->name; at++)
		if (at->number == number)
			return at->name;
	return "?";
}

void option_list_values(
	const struct option_choice *choice, char *list, size_t bytes)
{
	size_t used = 0;

	list[0] = '\0';
	for (int i = 0; choice->values[i].name && used < bytes; i++) {
		bool last = !choice->values[i + 1].name;
		const char *joint = i == 0 ? "" : last ? " or " : ", ";

		used += (size_t)snprintf(list + used, bytes - used, "%s%s",
			joint, choice->values[i].name);
	}
}
