/* Results as a table for people, and as JSON for programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "report.h"

/* ---- table ------------------------------------------------------------ */

static void print_job(FILE *stream, const struct bench *bench)
{
	const struct options *options = &bench->options;

	fprintf(stream,
		"shunt %s bench: %lld rank%s (%s), %lld tokens of %lld %s, "
		"top-%lld of %lld experts, quant %s%s, experts' rows %s, "
		"routing %s, seed %lld, %lld steps after %lld\n",
		shunt_version(), (long long)options->num_ranks,
		options->num_ranks == 1 ? "" : "s",
		options_launch_name(options->launch),
		(long long)options->num_tokens, (long long)options->hidden,
		options_dtype_name(options->dtype), (long long)options->topk,
		(long long)options->num_experts,
		options_quant_name(options->quant),
		options->smooth ? " with smooth scales" : "",
		options_dtype_name(options->expert_dtype),
		options->routing_text, (long long)options->seed,
		(long long)options->num_iterations,
		(long long)options->num_warmup);
	if (options->routing.kind == ROUTING_FILE)
		fprintf(stream, "set %s\n", options->routing.set);
}

static void print_machine(FILE *stream, const struct bench *bench)
{
	fprintf(stream, "%s, %d core%s, %s; %s\n\n", bench->machine.cpu,
		bench->machine.num_cores,
		bench->machine.num_cores == 1 ? "" : "s", bench->machine.simd,
		bench->pinned ? "one rank per core"
			      : "more ranks than cores: they take turns");
}

static void print_phase(
	FILE *stream, const char *name, const struct results_phase *phase)
{
	fprintf(stream,
		"%-10s %10.1f %10.1f %10.1f %12" PRId64 " %7.1f %10.1f %6.2f\n",
		name, phase->time.best, phase->time.p50, phase->time.p99,
		phase->bytes, phase->gbps, phase->floor.p50, phase->ratio);
}

void report_table(
	FILE *stream, const struct bench *bench, const struct results *results)
{
	const struct results_phase *dispatch = &results->phase[BENCH_DISPATCH];
	const struct results_phase *combine = &results->phase[BENCH_COMBINE];

	print_job(stream, bench);
	print_machine(stream, bench);
	fprintf(stream, "%-10s %10s %10s %10s %12s %7s %10s %6s\n", "phase",
		"best us", "p50 us", "p99 us", "bytes", "GB/s", "floor us",
		"ratio");
	print_phase(stream, "dispatch", dispatch);
	print_phase(stream, "combine", combine);
	print_phase(stream, "round trip", &results->roundtrip);
	fprintf(stream,
		"\nfloor: p50 of the best copy loop (dispatch: %s, combine: "
		"%s); ratio: p50 to floor\n",
		dispatch->floor_loop, combine->floor_loop);
	if (bench->options.check)
		fprintf(stream,
			"check: every output of every step equals the "
			"reference, digest %016" PRIx64 "\n"
			"ok\n",
			results->digest);
}

/* ---- JSON ------------------------------------------------------------- */

static void add_parameters(cJSON *root, const struct options *options)
{
	cJSON *to = cJSON_AddObjectToObject(root, "parameters");

	cJSON_AddNumberToObject(to, "ranks", (double)options->num_ranks);
	cJSON_AddStringToObject(
		to, "launch", options_launch_name(options->launch));
	cJSON_AddNumberToObject(to, "tokens", (double)options->num_tokens);
	cJSON_AddNumberToObject(to, "hidden", (double)options->hidden);
	cJSON_AddNumberToObject(to, "topk", (double)options->topk);
	cJSON_AddNumberToObject(to, "experts", (double)options->num_experts);
	cJSON_AddStringToObject(
		to, "dtype", options_dtype_name(options->dtype));
	cJSON_AddStringToObject(
		to, "expert_dtype", options_dtype_name(options->expert_dtype));
	cJSON_AddStringToObject(
		to, "quant", options_quant_name(options->quant));
	cJSON_AddBoolToObject(to, "smooth", options->smooth);
	cJSON_AddStringToObject(
		to, "layout", options_layout_name(options->layout));
	cJSON_AddStringToObject(
		to, "algorithm", options_algorithm_name(options->algorithm));
	cJSON_AddStringToObject(
		to, "transport", options_transport_name(options->transport));
	cJSON_AddStringToObject(to, "routing", options->routing_text);
	cJSON_AddStringToObject(to, "routing_set", options->routing.set);
	cJSON_AddNumberToObject(to, "seed", (double)options->seed);
	cJSON_AddNumberToObject(to, "mask", options->mask);
	cJSON_AddNumberToObject(to, "drop", options->drop);
	cJSON_AddNumberToObject(to, "depth", (double)options->depth);
	cJSON_AddBoolToObject(to, "worst_rows", options->worst_rows);
	cJSON_AddNumberToObject(to, "iters", (double)options->num_iterations);
	cJSON_AddNumberToObject(to, "warmup", (double)options->num_warmup);
	cJSON_AddBoolToObject(to, "check", options->check);
}

static void add_machine(cJSON *root, const struct bench *bench)
{
	cJSON *to = cJSON_AddObjectToObject(root, "machine");

	cJSON_AddStringToObject(to, "cpu", bench->machine.cpu);
	cJSON_AddNumberToObject(to, "cores", bench->machine.num_cores);
	cJSON_AddStringToObject(to, "simd", bench->machine.simd);
	cJSON_AddBoolToObject(to, "pinned", bench->pinned);
}

static void add_stats(cJSON *root, const char *name, const struct stats *stats)
{
	cJSON *to = cJSON_AddObjectToObject(root, name);

	cJSON_AddNumberToObject(to, "best", stats->best);
	cJSON_AddNumberToObject(to, "p50", stats->p50);
	cJSON_AddNumberToObject(to, "p99", stats->p99);
}

static void add_times(cJSON *root, const struct results *results)
{
	const struct results_phase *dispatch = &results->phase[BENCH_DISPATCH];
	const struct results_phase *combine = &results->phase[BENCH_COMBINE];
	cJSON *gbps;

	add_stats(root, "dispatch_us", &dispatch->time);
	add_stats(root, "combine_us", &combine->time);
	add_stats(root, "roundtrip_us", &results->roundtrip.time);
	cJSON_AddNumberToObject(root, "dispatch_floor_us", dispatch->floor.p50);
	cJSON_AddNumberToObject(root, "combine_floor_us", combine->floor.p50);
	cJSON_AddStringToObject(
		root, "dispatch_floor_loop", dispatch->floor_loop);
	cJSON_AddStringToObject(
		root, "combine_floor_loop", combine->floor_loop);
	cJSON_AddNumberToObject(root, "dispatch_ratio", dispatch->ratio);
	cJSON_AddNumberToObject(root, "combine_ratio", combine->ratio);
	cJSON_AddNumberToObject(
		root, "dispatch_bytes", (double)dispatch->bytes);
	cJSON_AddNumberToObject(root, "combine_bytes", (double)combine->bytes);
	gbps = cJSON_AddObjectToObject(root, "gbps");
	cJSON_AddNumberToObject(gbps, "dispatch", dispatch->gbps);
	cJSON_AddNumberToObject(gbps, "combine", combine->gbps);
	cJSON_AddNumberToObject(gbps, "roundtrip", results->roundtrip.gbps);
}

/* A string: JSON numbers have not 64 bits. Null if nothing was checked. */
static void add_digest(
	cJSON *root, const struct bench *bench, const struct results *results)
{
	char text[17];

	if (!bench->options.check) {
		cJSON_AddNullToObject(root, "digest");
		return;
	}
	snprintf(text, sizeof(text), "%016" PRIx64, results->digest);
	cJSON_AddStringToObject(root, "digest", text);
}

static cJSON *make_json(
	const struct bench *bench, const struct results *results)
{
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, "version", shunt_version());
	cJSON_AddBoolToObject(root, "ok", results->ok);
	if (!results->ok)
		cJSON_AddStringToObject(root, "error", results->error);
	add_parameters(root, &bench->options);
	add_machine(root, bench);
	if (results->ok) {
		add_times(root, results);
		add_digest(root, bench, results);
	}
	return root;
}

bool report_json(
	FILE *stream, const struct bench *bench, const struct results *results)
{
	cJSON *root = make_json(bench, results);
	char *text = cJSON_Print(root);
	bool written =
		text && fprintf(stream, "%s\n", text) > 0 && !fflush(stream);

	if (!text)
		errno = ENOMEM;
	free(text);
	cJSON_Delete(root);
	return written;
}
