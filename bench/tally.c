/* What the library itself has counted. */
#include <inttypes.h>
#include <stddef.h>

#include "tally.h"

/* The numbers of struct shunt_stats. */
static const struct {
	const char *name;
	size_t offset;
} counters[] = {
	{"dispatches", offsetof(struct shunt_stats, dispatches)},
	{"combines", offsetof(struct shunt_stats, combines)},
	{"failed_steps", offsetof(struct shunt_stats, failed_steps)},
	{"tokens", offsetof(struct shunt_stats, tokens)},
	{"sent_rows", offsetof(struct shunt_stats, sent_rows)},
	{"received_rows", offsetof(struct shunt_stats, received_rows)},
	{"dropped_choices", offsetof(struct shunt_stats, dropped_choices)},
	{"dispatch_nan_elements",
		offsetof(struct shunt_stats, dispatch_nan_elements)},
	{"dispatch_inf_elements",
		offsetof(struct shunt_stats, dispatch_inf_elements)},
	{"combine_nan_elements",
		offsetof(struct shunt_stats, combine_nan_elements)},
	{"combine_inf_elements",
		offsetof(struct shunt_stats, combine_inf_elements)},
	{"dispatch_bytes", offsetof(struct shunt_stats, dispatch_bytes)},
	{"combine_bytes", offsetof(struct shunt_stats, combine_bytes)},
	{"dispatch_wait_ns", offsetof(struct shunt_stats, dispatch_wait_ns)},
	{"combine_wait_ns", offsetof(struct shunt_stats, combine_wait_ns)},
	{"dispatch_wire_bytes",
		offsetof(struct shunt_stats, dispatch_wire_bytes)},
	{"dispatch_wire_requests",
		offsetof(struct shunt_stats, dispatch_wire_requests)},
	{"combine_wire_bytes",
		offsetof(struct shunt_stats, combine_wire_bytes)},
	{"combine_wire_requests",
		offsetof(struct shunt_stats, combine_wire_requests)},
	{"ideal_wire_bytes", offsetof(struct shunt_stats, ideal_wire_bytes)},
};

#define NUM_COUNTERS (sizeof(counters) / sizeof(counters[0]))

static const char *const phases[BENCH_NUM_PHASES] = {"dispatch", "combine"};

static int64_t counter(const struct bench *bench, int32_t rank, size_t i)
{
	const char *stats = (const char *)&bench->ranks[rank].stats;

	return *(const int64_t *)(const void *)(stats + counters[i].offset);
}

/* Microseconds per step that `rank` waited for the `source`-th of its
 * group. */
static double wait_of(
	const struct bench *bench, int phase, int32_t rank, int32_t source)
{
	return (double)bench_waits(bench, phase, rank)[source] /
	       (double)bench->options.num_iterations;
}

/* ---- for people ------------------------------------------------------- */

static void print_stats(FILE *stream, const struct bench *bench)
{
	fprintf(stream, "\ncounted by the library, ranks 0 .. %d:\n",
		bench->shape.num_members - 1);
	for (size_t i = 0; i < NUM_COUNTERS; i++) {
		fprintf(stream, "%-22s", counters[i].name);
		for (int32_t r = 0; r < bench->shape.num_members; r++)
			fprintf(stream, " %12" PRId64, counter(bench, r, i));
		fputc('\n', stream);
	}
}

static void print_waits(FILE *stream, const struct bench *bench, int phase)
{
	fprintf(stream,
		"\n%s: us per step that a rank waited for each of its "
		"group\n",
		phases[phase]);
	for (int32_t r = 0; r < bench->shape.num_members; r++) {
		fprintf(stream, "rank %-4d", r);
		for (int32_t s = 0; s < bench->shape.num_ranks; s++)
			fprintf(stream, " %10.1f", wait_of(bench, phase, r, s));
		fputc('\n', stream);
	}
}

void tally_print(FILE *stream, const struct bench *bench)
{
	if (bench->options.stats)
		print_stats(stream, bench);
	for (int phase = 0;
		bench->options.performance_info && phase < BENCH_NUM_PHASES;
		phase++)
		print_waits(stream, bench, phase);
	for (int32_t r = 0;
		bench->options.prometheus && r < bench->shape.num_members; r++)
		fprintf(stream, "\n%s", bench->texts + r * BENCH_TEXT_BYTES);
}

/* ---- for programs ----------------------------------------------------- */

static void add_stats(cJSON *root, const struct bench *bench)
{
	cJSON *list = cJSON_AddArrayToObject(root, "stats");

	for (int32_t r = 0; r < bench->shape.num_members; r++) {
		cJSON *rank = cJSON_CreateObject();

		for (size_t i = 0; i < NUM_COUNTERS; i++)
			cJSON_AddNumberToObject(rank, counters[i].name,
				(double)counter(bench, r, i));
		if (bench->options.prometheus)
			cJSON_AddStringToObject(rank, "prometheus",
				bench->texts + r * BENCH_TEXT_BYTES);
		cJSON_AddItemToArray(list, rank);
	}
}

/* [rank][source], microseconds per step. */
static void add_waits(cJSON *root, const struct bench *bench, int phase)
{
	cJSON *list = cJSON_AddArrayToObject(root, phases[phase]);

	for (int32_t r = 0; r < bench->shape.num_members; r++) {
		cJSON *row = cJSON_CreateArray();

		for (int32_t s = 0; s < bench->shape.num_ranks; s++)
			cJSON_AddItemToArray(row, cJSON_CreateNumber(wait_of(
							  bench, phase, r, s)));
		cJSON_AddItemToArray(list, row);
	}
}

void tally_add_json(cJSON *root, const struct bench *bench)
{
	cJSON *waits;

	if (bench->options.stats)
		add_stats(root, bench);
	if (!bench->options.performance_info)
		return;
	waits = cJSON_AddObjectToObject(root, "performance_info_us");
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		add_waits(waits, bench, phase);
}
