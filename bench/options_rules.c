/* What options mean together, and those that have a form of their own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_table.h"
#include "peers.h"

static bool fail(char error[ROUTING_ERROR], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool fail(char error[ROUTING_ERROR], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, ROUTING_ERROR, format, arguments);
	va_end(arguments);
	return false;
}

/* ---- forms of their own ----------------------------------------------- */

/* Reads `count` numbers in 0 .. most, parted by colons. */
static bool read_numbers(
	const char *text, int count, int64_t most, int64_t *numbers)
{
	char *end;

	for (int i = 0; i < count; i++) {
		if (*text < '0' || *text > '9')
			return false;
		numbers[i] = strtoll(text, &end, 10);
		if (numbers[i] > most || *end != (i + 1 < count ? ':' : '\0'))
			return false;
		text = end + 1;
	}
	return true;
}

bool options_parse_shared(
	struct options *options, const char *text, char error[ROUTING_ERROR])
{
	int64_t numbers[2];

	if (!read_numbers(text, 2, 4096, numbers))
		return fail(error,
			"'%s': must be s:S, s shared experts on S ranks, such "
			"as 1:2",
			text);
	options->num_shared = numbers[0];
	options->num_shared_ranks = numbers[1];
	return true;
}

bool options_parse_special(
	struct options *options, const char *text, char error[ROUTING_ERROR])
{
	int64_t numbers[3];

	if (!read_numbers(text, 3, 4096, numbers))
		return fail(error,
			"'%s': must be ZERO:COPY:CONST, numbers in 0 .. 4096, "
			"such as 2:1:1",
			text);
	options->num_zero = numbers[0];
	options->num_copy = numbers[1];
	options->num_constant = numbers[2];
	return true;
}

bool options_parse_x_scales(
	struct options *options, const char *text, char error[ROUTING_ERROR])
{
	static const struct option_value types[] = {
		{"f32", SHUNT_DTYPE_F32},
		{"e8m0", SHUNT_DTYPE_E8M0},
		{"e4m3", SHUNT_DTYPE_E4M3FN},
		{NULL, 0},
	};
	char *end;
	int64_t count = strtoll(text, &end, 10);
	const struct option_value *type = types;

	while (type->name && (*end != ':' || strcmp(type->name, end + 1)))
		type++;
	if (end == text || count < 1 || count > 1 << 24 || !type->name)
		return fail(error,
			"'%s': must be N:TYPE, N at least 1, TYPE f32, e8m0 or "
			"e4m3, such as 1:f32",
			text);
	options->x_scales_per_row = count;
	options->x_scale_dtype = type->number;
	return true;
}

bool options_parse_elastic(
	struct options *options, const char *text, char error[ROUTING_ERROR])
{
	const char *at = text;
	char *end;

	memset(options->left_out, 0, sizeof(options->left_out));
	do {
		long rank = strtol(at, &end, 10);

		if (end == at || rank < 0 || rank > 4095 ||
			(*end && *end != ','))
			return fail(error,
				"'%s': must be ranks to leave out, such as 1,3",
				text);
		options->left_out[rank] = true;
		at = end + 1;
	} while (*end);
	return true;
}

bool options_parse_routing(
	struct options *options, const char *text, char error[ROUTING_ERROR])
{
	routing_fini(&options->routing);
	return routing_init(&options->routing, text, error);
}

/* ---- together --------------------------------------------------------- */

static int64_t num_special(const struct options *options)
{
	return options->num_zero + options->num_copy + options->num_constant;
}

static void set_defaults(struct options *options)
{
	const struct routing *routing = &options->routing;
	int64_t experts, special = num_special(options);

	if (options->num_experts < 0)
		options->num_experts =
			routing->file_experts ? routing->file_experts : 256;
	if (options->topk == 0)
		options->topk = routing->file_topk ? routing->file_topk : 8;
	if (options->expert_dtype == SHUNT_DTYPE_NONE)
		options->expert_dtype = options->dtype < SHUNT_DTYPE_I8
						? options->dtype
						: SHUNT_DTYPE_BF16;
	if (options->out_dtype == SHUNT_DTYPE_NONE)
		options->out_dtype = options->expert_dtype;
	if (options->quant < 0)
		options->quant = options->dtype < SHUNT_DTYPE_I8
					 ? SHUNT_QUANT_INT8
					 : SHUNT_QUANT_NONE;
	experts = options->num_experts + special;
	if (options->special_share < 0)
		options->special_share =
			experts > 0 ? (double)special / (double)experts : 0;
	options->stats = options->stats || options->prometheus;
	if (options->num_ranks == 0)
		options->num_ranks = 4;
}

static bool settle_ranks(struct options *options, char error[ROUTING_ERROR])
{
	int64_t shared = options->num_shared;
	int64_t ranks = options->num_shared_ranks, group, left = 0;

	if (options->num_ranks % options->num_tp)
		return fail(error,
			"--tp %lld: must divide --ranks, %lld, the ranks of "
			"all groups",
			(long long)options->num_tp,
			(long long)options->num_ranks);
	group = options_group_size(options);
	if (!(ranks == 0 && shared <= 1) &&
		(shared < 1 || shared > ranks || ranks >= group ||
			ranks % shared))
		return fail(error,
			"--shared %s: s:S must have 1 <= s <= S < %lld (ranks "
			"of a group) and S a multiple of s; 0:0 is none",
			options->shared_text, (long long)group);
	for (int64_t r = 0; r < 4096; r++) {
		if (options->left_out[r] && r >= group)
			return fail(error,
				"--elastic %s: rank %lld: must be in 0 .. %lld",
				options->elastic_text, (long long)r,
				(long long)(group - 1));
		left += r < group && r >= ranks && !options->left_out[r];
	}
	if (left == 0)
		return fail(error,
			"--elastic %s: must leave a rank with experts",
			options->elastic_text);
	return true;
}

static bool settle_choices(struct options *options, char error[ROUTING_ERROR])
{
	int64_t experts = options->num_experts;

	if (experts == 0)
		experts = num_special(options);
	if (experts == 0)
		return fail(error,
			"--experts 0: must be in 1 .. 65536, or 0 with "
			"--special");
	if (options->topk > experts)
		return fail(error,
			"--topk %lld: must be in 1 .. %lld (%s), the choices "
			"of a token are distinct",
			(long long)options->topk, (long long)experts,
			options->num_experts ? "--experts" : "--special");
	if (options->special_text && num_special(options) == 0)
		options->special_share = 0;
	if (options->special_share > 0 && num_special(options) == 0)
		return fail(error, "--special-share: needs --special");
	if (options->num_experts == 0)
		options->special_share = 1;
	return true;
}

static bool is_static(const struct options *options)
{
	return options->quant == SHUNT_QUANT_INT8_STATIC ||
	       options->quant == SHUNT_QUANT_E4M3FN_STATIC;
}

static bool settle_formats(struct options *options, char error[ROUTING_ERROR])
{
	if (options->smooth &&
		(options->quant == SHUNT_QUANT_NONE ||
			options->quant >= SHUNT_QUANT_MXFP8_E4M3FN))
		return fail(error,
			"--smooth: needs --quant int8, e4m3, e5m2, int8-128, "
			"e4m3-128, e5m2-128, int8-static or e4m3-static");
	if (options->static_shape != SHUNT_STATIC_ONE && !is_static(options))
		return fail(error,
			"--static: needs --quant int8-static or e4m3-static");
	if (options->gamma != SHUNT_DTYPE_NONE &&
		options->gamma != SHUNT_DTYPE_F32 &&
		options->gamma != options->out_dtype)
		return fail(error, "--gamma: must be f32 or --out-dtype, %s",
			option_value_name(&options_dtypes, options->out_dtype));
	return true;
}

static bool settle_overlap(struct options *options, char error[ROUTING_ERROR])
{
	if (options->expert_us == 0)
		return true;
	if (options->compute_us > 0)
		return fail(error, "--expert-us: not with --compute-us");
	if (options->feed || options->y == OPTIONS_Y_ROWS)
		return fail(error,
			"--expert-us: not with --feed, since it measures with "
			"and without, and needs --y window, heap or own");
	if (options->num_experts == 0)
		return fail(error, "--expert-us: needs --experts");
	return true;
}

static bool settle_calls(struct options *options, char error[ROUTING_ERROR])
{
	if (options->feed && options->y == OPTIONS_Y_ROWS)
		return fail(error,
			"--feed: needs --y window, heap or own, experts are "
			"fed whole");
	if (options->rows_per_expert && options->layout != SHUNT_LAYOUT_PADDED)
		return fail(error, "--rows-per-expert: needs --layout padded");
	if (options->tp_rank_order && options->num_tp == 1)
		return fail(error, "--tp-rank-order: needs --tp");
	return true;
}

bool options_settle(struct options *options, char error[ROUTING_ERROR])
{
	if (!options_settle_hosts(options, error))
		return false;
	set_defaults(options);
	return settle_ranks(options, error) && settle_choices(options, error) &&
	       settle_formats(options, error) && settle_calls(options, error) &&
	       settle_overlap(options, error) && peers_settle(options, error);
}
