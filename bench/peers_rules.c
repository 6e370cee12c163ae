/* What the MPI programs can do. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "options_table.h"
#include "peers.h"

/* Options that peers take over, or that only say how we ourselves are called,
 * run and watched. Any other is refused if it is given. */
static const char *const good[] = {"ranks", "tokens", "hidden", "topk",
	"experts", "dtype", "quant", "expert-dtype", "out-dtype", "routing",
	"seed", "repeat", "special-share", "iters", "warmup", "launch",
	"transport", "algorithm", "y", "depth", "fetch-tokens", "worst-rows",
	"weights", "ids", "prefix-nums", "split", "feed", "check", "stats",
	"prometheus", "performance-info", "peers", "peer-rounds",
	"peer-seconds", "json", "quiet"};

static bool fail(char error[ROUTING_ERROR], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool fail(char error[ROUTING_ERROR], const char *format, ...)
{
	va_list arguments;
	int used = snprintf(error, ROUTING_ERROR, "--peers: ");

	va_start(arguments, format);
	vsnprintf(
		error + used, ROUTING_ERROR - (size_t)used, format, arguments);
	va_end(arguments);
	return false;
}

static bool is_good(const char *name)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!strcmp(good[i], name))
			return true;
	return false;
}

static bool check_options(
	const struct options *options, char error[ROUTING_ERROR])
{
	for (size_t i = 0; i < options_num_rows; i++) {
		const struct option_row *row = &options_rows[i];

		if (row->kind != OPTION_GROUP && !is_good(row->name) &&
			!option_is_default(options, row))
			return fail(error,
				"the MPI programs cannot do --%s; leave one of "
				"the two out",
				row->name);
	}
	return true;
}

static bool check_values(
	const struct options *options, char error[ROUTING_ERROR])
{
	if (options->dtype != SHUNT_DTYPE_BF16)
		return fail(error, "needs --dtype bf16");
	if (options->expert_dtype != SHUNT_DTYPE_BF16)
		return fail(error, "needs --expert-dtype bf16");
	if (options->out_dtype != SHUNT_DTYPE_BF16)
		return fail(error, "needs --out-dtype bf16");
	if (options->quant != SHUNT_QUANT_NONE &&
		options->quant != SHUNT_QUANT_INT8)
		return fail(error, "needs --quant none or int8");
	if (options->weights == OPTIONS_WEIGHTS_NONE)
		return fail(error, "needs --weights dispatch or combine");
	if (options->num_tokens < 1)
		return fail(error, "needs --tokens of at least 1");
	if (options->num_experts < 1 ||
		options->num_experts % options->num_ranks)
		return fail(error,
			"needs --experts that are a multiple of --ranks, %lld",
			(long long)options->num_ranks);
	return true;
}

/* Options that say how peers are run. */
static bool check_alone(
	const struct options *options, char error[ROUTING_ERROR])
{
	for (size_t i = 0; i < options_num_rows; i++) {
		const struct option_row *row = &options_rows[i];

		if (row->kind == OPTION_GROUP ||
			strncmp(row->name, "peer-", 5) ||
			option_is_default(options, row))
			continue;
		snprintf(
			error, ROUTING_ERROR, "--%s: needs --peers", row->name);
		return false;
	}
	return true;
}

bool peers_settle(const struct options *options, char error[ROUTING_ERROR])
{
	if (!options->peers)
		return check_alone(options, error);
	return check_options(options, error) && check_values(options, error);
}
