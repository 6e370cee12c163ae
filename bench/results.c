/* What a run of `shunt bench` found out. */
#include <stdlib.h>

#include "check.h"
#include "overlap.h"
#include "results.h"

static int64_t slowest_of(const struct bench *bench, const int64_t *times)
{
	int64_t most = 0;

	for (int64_t r = 0; r < bench->options.num_ranks; r++)
		most = times[r] > most ? times[r] : most;
	return most;
}

/* Of each iteration the time of the slowest rank. */
static void slowest(const struct bench *bench, int series,
	enum bench_phase phase, int64_t *ns)
{
	for (int64_t i = 0; i < bench->options.num_iterations; i++)
		ns[i] = slowest_of(
			bench, bench_time(bench, series, phase, i, 0));
}

static int64_t phase_bytes(const struct bench *bench, enum bench_phase phase)
{
	int64_t bytes = 0;

	for (int64_t step = 0; step < LOAD_STEPS; step++)
		for (int32_t m = 0; m < bench->shape.num_members; m++)
			bytes += phase == BENCH_DISPATCH
					 ? plan_dispatch_bytes(
						   &bench->plan, step, m)
					 : plan_combine_bytes(
						   &bench->plan, step, m);
	return bytes / LOAD_STEPS;
}

static void take_floor(struct results_phase *result, const struct bench *bench,
	enum bench_phase phase, int64_t *ns)
{
	for (int v = 0; v < bench->floor.num_copies; v++) {
		struct stats floor;

		slowest(bench, BENCH_FLOOR(v), phase, ns);
		floor = stats_of(ns, bench->options.num_iterations);
		if (v > 0 && floor.p50 >= result->floor.p50)
			continue;
		result->floor = floor;
		result->floor_loop = bench->floor.copies[v].name;
	}
}

void results_finish_phase(struct results_phase *result)
{
	if (result->floor.p50 > 0)
		result->ratio = result->time.p50 / result->floor.p50;
	if (result->time.p50 > 0)
		result->gbps = (double)result->bytes / result->time.p50 / 1000;
}

static void take_overlap(struct results_phase *result,
	const struct bench *bench, enum bench_phase phase, int64_t *ns)
{
	result->span_us = (double)overlap_span(bench, phase) / 1000;
	if (result->span_us <= 0)
		return;
	slowest(bench, BENCH_OVERLAP, phase, ns);
	result->exposed = stats_of(ns, bench->options.num_iterations);
}

static void take_phase(struct results_phase *result, const struct bench *bench,
	enum bench_phase phase, int64_t *ns, int64_t *sums)
{
	int64_t iterations = bench->options.num_iterations;

	slowest(bench, BENCH_REAL, phase, ns);
	for (int64_t i = 0; i < iterations; i++)
		sums[i] += ns[i];
	result->time = stats_of(ns, iterations);
	result->bytes = phase_bytes(bench, phase);
	take_floor(result, bench, phase, ns);
	results_finish_phase(result);
	take_overlap(result, bench, phase, ns);
}

static void take_roundtrip(struct results *results, int64_t *sums, int64_t num)
{
	struct results_phase *both = &results->roundtrip;
	const struct results_phase *dispatch = &results->phase[BENCH_DISPATCH];
	const struct results_phase *combine = &results->phase[BENCH_COMBINE];

	both->time = stats_of(sums, num);
	both->bytes = dispatch->bytes + combine->bytes;
	both->floor.best = dispatch->floor.best + combine->floor.best;
	both->floor.p50 = dispatch->floor.p50 + combine->floor.p50;
	both->floor.p99 = dispatch->floor.p99 + combine->floor.p99;
	results_finish_phase(both);
}

/* Before the phases, which are counted in signals. */
static void take_signal(struct stats *signal, struct signal *played)
{
	double ways = 2.0 * played->num_trips;

	if (played->num_samples == 0)
		return;
	*signal = stats_of(played->trips_ns, played->num_samples);
	signal->best /= ways;
	signal->p50 /= ways;
	signal->p99 /= ways;
}

static void take_startup(
	struct results_startup *startup, const struct bench *bench)
{
	int64_t num = bench_num_creations(bench), world_ns = 0;

	for (int64_t n = 0; n < num; n++)
		bench->creations[n] =
			slowest_of(bench, bench_creation(bench, n, 0));
	startup->memory_known = true;
	startup->exchange = stats_of(bench->creations, num);
	for (int64_t r = 0; r < bench->options.num_ranks; r++) {
		const struct bench_rank *rank = &bench->ranks[r];

		if (rank->world_ns > world_ns)
			world_ns = rank->world_ns;
		startup->query_bytes += rank->query_bytes;
		startup->memory_bytes += rank->memory_bytes;
		startup->memory_known &= rank->memory_known;
	}
	startup->world_us = (double)world_ns / 1000;
}

bool results_collect(struct results *results, const struct bench *bench)
{
	size_t num = (size_t)bench->options.num_iterations;
	int64_t *ns = calloc(2 * num, sizeof(ns[0]));

	if (!ns)
		return false;
	take_signal(&results->signal, bench->signal);
	take_startup(&results->startup, bench);
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++) {
		struct results_phase *result = &results->phase[phase];

		take_phase(
			result, bench, (enum bench_phase)phase, ns, ns + num);
		if (results->signal.p50 > 0)
			result->signals =
				(result->time.p50 - result->floor.p50) /
				results->signal.p50;
	}
	take_roundtrip(results, ns + num, (int64_t)num);
	free(ns);
	for (int64_t r = 0; r < bench->options.num_ranks; r++)
		results->digest = check_digest(results->digest,
			&bench->ranks[r].digest, sizeof(uint64_t));
	results->ok =
		bench->options.num_hosts == 0 || travel_collect(results, bench);
	return results->ok;
}
