/* Results as a table for people, and as JSON for programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "options_table.h"
#include "report.h"
#include "tally.h"

/* ---- options ---------------------------------------------------------- */

static const void *field_of(
	const struct options *options, const struct option_row *row)
{
	return (const char *)options + row->offset;
}

/* Reads a field of any kind as a number; texts have none. */
static double number_of(
	const struct options *options, const struct option_row *row)
{
	const void *field = field_of(options, row);

	switch (row->kind) {
	case OPTION_FLAG:
		return *(const bool *)field;
	case OPTION_NUMBER:
		return (double)*(const int64_t *)field;
	case OPTION_SHARE:
	case OPTION_REAL:
		return *(const double *)field;
	case OPTION_CHOICE:
		return *(const int *)field;
	default:
		return 0;
	}
}

static const char *text_of(
	const struct options *options, const struct option_row *row)
{
	const void *field = field_of(options, row);

	if (row->kind == OPTION_CHOICE)
		return option_value_name(row->choice, *(const int *)field);
	return row->kind == OPTION_TEXT ? *(const char *const *)field : NULL;
}

/* ---- table ------------------------------------------------------------ */

/* Options that the headline does not have and that were given. */
static void print_others(FILE *stream, const struct options *options)
{
	const char *text;

	for (size_t i = 0; i < options_num_rows; i++) {
		const struct option_row *row = &options_rows[i];

		text = text_of(options, row);
		if (row->kind == OPTION_GROUP || row->common || row->aside ||
			option_is_default(options, row))
			continue;
		fprintf(stream, " --%s", row->name);
		if (text)
			fprintf(stream, " %s", text);
		else if (row->kind != OPTION_FLAG)
			fprintf(stream, " %g", number_of(options, row));
	}
}

static void print_job(FILE *stream, const struct bench *bench)
{
	const struct options *options = &bench->options;

	fprintf(stream,
		"shunt %s bench: %lld rank%s (%s), %lld tokens of %lld %s, "
		"top-%lld of %lld experts, quant %s, experts' rows %s, result "
		"%s, routing %s, seed %lld, %lld steps after %lld",
		shunt_version(), (long long)options->num_ranks,
		options->num_ranks == 1 ? "" : "s",
		option_value_name(&options_launches, options->launch),
		(long long)options->num_tokens, (long long)options->hidden,
		option_value_name(&options_row_dtypes, options->dtype),
		(long long)options->topk, (long long)options->num_experts,
		option_value_name(&options_quants, options->quant),
		option_value_name(&options_dtypes, options->expert_dtype),
		option_value_name(&options_dtypes, options->out_dtype),
		options->routing_text, (long long)options->seed,
		(long long)options->num_iterations,
		(long long)options->num_warmup);
	print_others(stream, options);
	fputc('\n', stream);
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
	fprintf(stream, "%-10s %10.1f %10.1f %10.1f %12" PRId64 " %7.1f", name,
		phase->time.best, phase->time.p50, phase->time.p99,
		phase->bytes, phase->gbps);
	if (phase->floor.p50 > 0)
		fprintf(stream, " %10.1f %6.2f\n", phase->floor.p50,
			phase->ratio);
	else
		fprintf(stream, " %10s %6s\n", "-", "-");
}

static void print_overlap(
	FILE *stream, const char *name, const struct results_phase *phase)
{
	double hidden = phase->time.p50 - phase->exposed.p50;

	if (phase->span_us <= 0)
		return;
	fprintf(stream, "%-10s %12.1f %10.1f %10.1f %10.1f %6.0f %%\n", name,
		phase->span_us, phase->time.p50, phase->exposed.p50, hidden,
		100 * hidden / phase->time.p50);
}

static void print_overlaps(
	FILE *stream, const struct bench *bench, const struct results *results)
{
	const struct results_phase *dispatch = &results->phase[BENCH_DISPATCH];
	const struct results_phase *combine = &results->phase[BENCH_COMBINE];

	if (combine->span_us <= 0)
		return;
	fprintf(stream, "\n%-10s %12s %10s %10s %10s %8s\n", "overlap",
		"accelerator", "alone us", "exposed us", "hidden us", "share");
	print_overlap(stream, "dispatch", dispatch);
	print_overlap(stream, "combine", combine);
	fprintf(stream,
		"p50; alone: %s; exposed: %s, without the accelerator's time\n",
		bench->options.expert_us > 0 ? "behind the last expert"
					     : "as above",
		bench->options.expert_us > 0
			? "fed expert by expert as they are ready"
			: "start, the accelerator's time, finish");
}

/* Signals are told while they say something: where little is moved, waiting is
 * what takes the time. */
#define TELLING_SIGNALS 100

static void print_signal(
	FILE *stream, const struct bench *bench, const struct results *results)
{
	double dispatch = results->phase[BENCH_DISPATCH].signals;
	double combine = results->phase[BENCH_COMBINE].signals;

	if (results->signal.p50 <= 0)
		return;
	fprintf(stream, "signal: %.3f us one way, ranks 0 and %d%s",
		results->signal.p50, bench->shape.num_members - 1,
		bench->pinned ? "" : ", which wait for a core, too");
	if (dispatch < TELLING_SIGNALS && combine < TELLING_SIGNALS)
		fprintf(stream,
			"; above the floor: dispatch %.1f, combine %.1f "
			"signals",
			dispatch, combine);
	fputc('\n', stream);
}

static void print_startup(
	FILE *stream, const struct bench *bench, const struct results *results)
{
	const struct results_startup *startup = &results->startup;
	double query = (double)startup->query_bytes;

	fprintf(stream,
		"start-up: world %.1f ms, exchange %.1f ms (slowest rank, "
		"median of %lld)",
		startup->world_us / 1000, startup->exchange.p50 / 1000,
		(long long)bench_num_creations(bench));
	fprintf(stream, "; exchange's memory on all ranks %.1f MiB by query",
		query / (1 << 20));
	if (startup->memory_known)
		fprintf(stream, ", %+.1f %% taken",
			100 * ((double)startup->memory_bytes - query) / query);
	fputc('\n', stream);
}

void report_table(FILE *stream, const struct bench *bench,
	const struct results *results, const struct peers *peers)
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
	print_overlaps(stream, bench, results);
	if (dispatch->floor_loop)
		fprintf(stream,
			"\nfloor: p50 of the best copy loop (dispatch: %s, "
			"combine: %s); ratio: p50 to floor\n",
			dispatch->floor_loop, combine->floor_loop);
	travel_print(stream, bench, results);
	print_signal(stream, bench, results);
	print_startup(stream, bench, results);
	if (bench->options.check)
		fprintf(stream,
			"check: every output of every step equals the "
			"reference, digest %016" PRIx64 "\n"
			"ok\n",
			results->digest);
	tally_print(stream, bench);
	if (peers)
		peers_print(stream, peers, results);
}

/* ---- JSON ------------------------------------------------------------- */

/* An option's name, as JSON has it. */
static void name_of(const struct option_row *row, char *name, size_t bytes)
{
	snprintf(name, bytes, "%s", row->name);
	for (; *name; name++)
		if (*name == '-')
			*name = '_';
}

void report_add_parameter(
	cJSON *to, const struct options *options, const struct option_row *row)
{
	const char *text = text_of(options, row);
	char name[64];

	name_of(row, name, sizeof(name));
	if (text)
		cJSON_AddStringToObject(to, name, text);
	else if (row->kind == OPTION_TEXT)
		cJSON_AddNullToObject(to, name);
	else if (row->kind == OPTION_FLAG)
		cJSON_AddBoolToObject(to, name, number_of(options, row) != 0);
	else
		cJSON_AddNumberToObject(to, name, number_of(options, row));
}

static void add_parameters(cJSON *root, const struct options *options)
{
	cJSON *to = cJSON_AddObjectToObject(root, "parameters");

	for (size_t i = 0; i < options_num_rows; i++)
		if (options_rows[i].kind != OPTION_GROUP &&
			!options_rows[i].aside)
			report_add_parameter(to, options, &options_rows[i]);
	cJSON_AddStringToObject(to, "routing_set", options->routing.set);
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

/* With its loop; null where ranks have no memory in common. */
static void add_floor(
	cJSON *root, const char *name, const struct results_phase *phase)
{
	char field[32];

	snprintf(field, sizeof(field), "%s_floor_us", name);
	if (phase->floor_loop)
		cJSON_AddNumberToObject(root, field, phase->floor.p50);
	else
		cJSON_AddNullToObject(root, field);
	snprintf(field, sizeof(field), "%s_floor_best_us", name);
	if (phase->floor_loop)
		cJSON_AddNumberToObject(root, field, phase->floor.best);
	else
		cJSON_AddNullToObject(root, field);
	snprintf(field, sizeof(field), "%s_floor_loop", name);
	if (phase->floor_loop)
		cJSON_AddStringToObject(root, field, phase->floor_loop);
	else
		cJSON_AddNullToObject(root, field);
}

static void add_overlap(
	cJSON *root, const char *name, const struct results_phase *phase)
{
	cJSON *to;

	if (phase->span_us <= 0)
		return;
	to = cJSON_AddObjectToObject(root, name);
	cJSON_AddNumberToObject(to, "accelerator_us", phase->span_us);
	cJSON_AddNumberToObject(to, "alone_us", phase->time.p50);
	add_stats(to, "exposed_us", &phase->exposed);
	cJSON_AddNumberToObject(
		to, "hidden_us", phase->time.p50 - phase->exposed.p50);
}

static void add_times(cJSON *root, const struct results *results)
{
	const struct results_phase *dispatch = &results->phase[BENCH_DISPATCH];
	const struct results_phase *combine = &results->phase[BENCH_COMBINE];
	cJSON *gbps;

	add_stats(root, "dispatch_us", &dispatch->time);
	add_stats(root, "combine_us", &combine->time);
	add_stats(root, "roundtrip_us", &results->roundtrip.time);
	add_floor(root, "dispatch", dispatch);
	add_floor(root, "combine", combine);
	if (results->signal.p50 > 0)
		add_stats(root, "signal_us", &results->signal);
	else
		cJSON_AddNullToObject(root, "signal_us");
	cJSON_AddNumberToObject(root, "dispatch_signals", dispatch->signals);
	cJSON_AddNumberToObject(root, "combine_signals", combine->signals);
	cJSON_AddNumberToObject(root, "dispatch_ratio", dispatch->ratio);
	cJSON_AddNumberToObject(root, "combine_ratio", combine->ratio);
	cJSON_AddNumberToObject(
		root, "dispatch_bytes", (double)dispatch->bytes);
	cJSON_AddNumberToObject(root, "combine_bytes", (double)combine->bytes);
	gbps = cJSON_AddObjectToObject(root, "gbps");
	cJSON_AddNumberToObject(gbps, "dispatch", dispatch->gbps);
	cJSON_AddNumberToObject(gbps, "combine", combine->gbps);
	cJSON_AddNumberToObject(gbps, "roundtrip", results->roundtrip.gbps);
	add_overlap(root, "dispatch_overlap", dispatch);
	add_overlap(root, "combine_overlap", combine);
}

static void add_startup(cJSON *root, const struct results_startup *startup)
{
	cJSON *to = cJSON_AddObjectToObject(root, "startup");

	cJSON_AddNumberToObject(to, "world_us", startup->world_us);
	add_stats(to, "exchange_us", &startup->exchange);
	cJSON_AddNumberToObject(
		to, "query_bytes", (double)startup->query_bytes);
	if (startup->memory_known)
		cJSON_AddNumberToObject(
			to, "memory_bytes", (double)startup->memory_bytes);
	else
		cJSON_AddNullToObject(to, "memory_bytes");
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

static cJSON *make_json(const struct bench *bench,
	const struct results *results, const struct peers *peers)
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
		add_startup(root, &results->startup);
		add_digest(root, bench, results);
		travel_add_json(root, bench, results);
		tally_add_json(root, bench);
		if (peers)
			peers_add_json(root, peers);
	}
	return root;
}

bool report_print(FILE *stream, cJSON *root)
{
	char *text = cJSON_Print(root);
	bool written =
		text && fprintf(stream, "%s\n", text) > 0 && !fflush(stream);

	if (!text)
		errno = ENOMEM;
	free(text);
	cJSON_Delete(root);
	return written;
}

bool report_json(FILE *stream, const struct bench *bench,
	const struct results *results, const struct peers *peers)
{
	return report_print(stream, make_json(bench, results, peers));
}
