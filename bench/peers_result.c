/* What a peer prints: one line of JSON, believed only if it is what was asked
 * for. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "options_table.h"
#include "peers.h"

static bool fail(char error[PEERS_ERROR], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool fail(char error[PEERS_ERROR], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, PEERS_ERROR, format, arguments);
	va_end(arguments);
	return false;
}

static bool is_text(const cJSON *root, const char *name, const char *value,
	char error[PEERS_ERROR])
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

	if (cJSON_IsString(item) && !strcmp(item->valuestring, value))
		return true;
	return fail(error, "its result has not \"%s\": \"%s\"", name, value);
}

static bool is_number(const cJSON *root, const char *name, int64_t value,
	char error[PEERS_ERROR])
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

	if (cJSON_IsNumber(item) && item->valuedouble == (double)value)
		return true;
	return fail(error, "its result has not \"%s\": %lld", name,
		(long long)value);
}

static bool read_time(const cJSON *from, const char *name, double *time)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, name);

	if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) ||
		item->valuedouble <= 0)
		return false;
	*time = item->valuedouble;
	return true;
}

static bool read_times(const cJSON *root, const char *name, struct stats *stats,
	char error[PEERS_ERROR])
{
	const cJSON *from = cJSON_GetObjectItemCaseSensitive(root, name);

	if (read_time(from, "best", &stats->best) &&
		read_time(from, "p50", &stats->p50) &&
		read_time(from, "p99", &stats->p99) &&
		stats->best <= stats->p50 && stats->p50 <= stats->p99)
		return true;
	return fail(error, "its result has no times in \"%s\"", name);
}

static bool read_library(
	const cJSON *root, struct peers_result *result, char error[PEERS_ERROR])
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "library");

	if (!cJSON_IsString(item) || !item->valuestring[0])
		return fail(error, "its result has no \"library\"");
	snprintf(result->library, sizeof(result->library), "%s",
		item->valuestring);
	return true;
}

static bool read_root(const cJSON *root, struct peers_result *result,
	const struct peer *peer, const struct options *options,
	char error[PEERS_ERROR])
{
	const char *quant = option_value_name(&options_quants, options->quant);

	if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, "ok")))
		return fail(error, "its result is not \"ok\": true");
	return read_library(root, result, error) &&
	       is_text(root, "variant", peer->variant, error) &&
	       is_text(root, "quant", quant, error) &&
	       is_number(root, "ranks", options->num_ranks, error) &&
	       is_number(root, "tokens", options->num_tokens, error) &&
	       is_number(root, "hidden", options->hidden, error) &&
	       is_number(root, "topk", options->topk, error) &&
	       is_number(root, "experts", options->num_experts, error) &&
	       is_number(root, "iters", options->num_iterations, error) &&
	       read_times(root, "dispatch_us", &result->time[BENCH_DISPATCH],
		       error) &&
	       read_times(
		       root, "combine_us", &result->time[BENCH_COMBINE], error);
}

bool peers_result_read(struct peers_result *result, const char *text,
	const struct peer *peer, const struct options *options,
	char error[PEERS_ERROR])
{
	cJSON *root = cJSON_Parse(text);
	bool done;

	if (!root)
		return fail(
			error, "it printed '%.200s', which is not JSON", text);
	done = read_root(root, result, peer, options, error);
	cJSON_Delete(root);
	return done;
}
