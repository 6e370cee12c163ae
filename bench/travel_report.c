/* What went between hosts, for people and as JSON. */
#include <stdio.h>

#include "bench.h"
#include "options_table.h"
#include "results.h"
#include "travel.h"

static const char *const phases[BENCH_NUM_PHASES] = {"dispatch", "combine"};
/* Pairs of ranks that reach each other in this way, both directions. */
static int64_t num_pairs(const struct bench *bench, enum travel_way way)
{
	int64_t pairs = 0;

	for (int32_t r = 0; r < bench->shape.num_members; r++)
		pairs += bench->ranks[r].travel.peers[way];
	return pairs;
}

static const char *algorithm_of(const struct bench *bench, int phase)
{
	const struct travel_rank *travel = &bench->ranks[0].travel;

	return option_value_name(&options_algorithms,
		(int)(phase == BENCH_DISPATCH ? travel->dispatch
					      : travel->combine));
}

/* "0 1 | 2 3": of each host its ranks. */
static void print_hosts(FILE *stream, const struct bench *bench)
{
	int32_t num = bench->ranks[0].travel.num_hosts;

	fprintf(stream, "\n%d host%s: ranks", num, num == 1 ? "" : "s");
	for (int32_t host = 0; host < num; host++) {
		fprintf(stream, "%s", host ? " |" : "");
		for (int32_t r = 0; r < bench->shape.num_members; r++)
			if (bench->ranks[r].travel.host == host)
				fprintf(stream, " %d", r);
	}
	fprintf(stream, "; pairs of ranks by transport:");
	for (int way = TRAVEL_THREADS; way < TRAVEL_NUM_WAYS; way++) {
		int64_t pairs = num_pairs(bench, (enum travel_way)way);

		if (pairs > 0)
			fprintf(stream, " %s %lld", travel_ways[way],
				(long long)pairs / 2);
	}
	fputc('\n', stream);
}

static void print_phase(FILE *stream, const struct bench *bench, int phase,
	const struct travel_phase *travel)
{
	fprintf(stream, "%-10s %-10s %14.0f ", phases[phase],
		algorithm_of(bench, phase), travel->wire_bytes);
	if (phase == BENCH_DISPATCH)
		fprintf(stream, "%14.0f ", travel->ideal_bytes);
	else
		fprintf(stream, "%14s ", "-");
	fprintf(stream, "%10.1f %10.1f %14.0f\n", travel->wire_requests,
		travel->wire_gbps * 1000, travel->memory_bytes);
}

void travel_print(
	FILE *stream, const struct bench *bench, const struct results *results)
{
	const struct travel_rank *first = &bench->ranks[0].travel;

	if (bench->options.num_hosts == 0)
		return;
	print_hosts(stream, bench);
	fprintf(stream, "%-10s %-10s %14s %14s %10s %10s %14s\n", "per step",
		"algorithm", "wire bytes", "ideal bytes", "requests",
		"wire MB/s", "memory bytes");
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		print_phase(stream, bench, phase, &results->travel[phase]);
	fprintf(stream,
		"wire: all that ranks sent to other hosts; ideal: each token, "
		"with its scales, to each\nother host once; memory: rows of "
		"tokens whose expert is on their host\n");
	fprintf(stream, "why: %s%s\n", first->why,
		first->adds_partial_sums
			? "; a host's rows are added up before they travel"
			: "");
}

/* ---- JSON -------------------------------------------------------------- */

static void add_phase(cJSON *to, const struct bench *bench, int phase,
	const struct travel_phase *travel)
{
	cJSON *object = cJSON_AddObjectToObject(to, phases[phase]);

	cJSON_AddStringToObject(
		object, "algorithm", algorithm_of(bench, phase));
	cJSON_AddNumberToObject(object, "wire_bytes", travel->wire_bytes);
	cJSON_AddNumberToObject(object, "wire_requests", travel->wire_requests);
	cJSON_AddNumberToObject(object, "wire_gbps", travel->wire_gbps);
	cJSON_AddNumberToObject(object, "memory_bytes", travel->memory_bytes);
	if (phase == BENCH_DISPATCH)
		cJSON_AddNumberToObject(
			object, "ideal_wire_bytes", travel->ideal_bytes);
}

/* Null without --hosts. */
void travel_add_json(
	cJSON *root, const struct bench *bench, const struct results *results)
{
	const struct travel_rank *first = &bench->ranks[0].travel;
	cJSON *to, *list, *pairs;

	if (bench->options.num_hosts == 0) {
		cJSON_AddNullToObject(root, "hosts");
		return;
	}
	to = cJSON_AddObjectToObject(root, "hosts");
	cJSON_AddNumberToObject(to, "num", first->num_hosts);
	list = cJSON_AddArrayToObject(to, "of_rank");
	for (int32_t r = 0; r < bench->shape.num_members; r++)
		cJSON_AddItemToArray(
			list, cJSON_CreateNumber(bench->ranks[r].travel.host));
	pairs = cJSON_AddObjectToObject(to, "pairs");
	for (int way = 0; way < TRAVEL_NUM_WAYS; way++)
		cJSON_AddNumberToObject(pairs, travel_ways[way],
			(double)num_pairs(bench, (enum travel_way)way));
	cJSON_AddStringToObject(to, "why", first->why);
	cJSON_AddBoolToObject(
		to, "adds_partial_sums", first->adds_partial_sums);
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		add_phase(to, bench, phase, &results->travel[phase]);
}
