/* What --peers adds to table and JSON. */
#include <string.h>

#include "peers.h"

static const char *const phase_names[BENCH_NUM_PHASES] = {
	[BENCH_DISPATCH] = "dispatch", [BENCH_COMBINE] = "combine"};

/* ---- table ------------------------------------------------------------ */

static void print_times(FILE *stream, const char *mpi, const char *variant,
	const struct stats *dispatch, const struct stats *combine)
{
	fprintf(stream,
		"%-8s %-10s %10.1f %10.1f %10.1f %12.1f %10.1f %10.1f\n", mpi,
		variant, dispatch->best, dispatch->p50, dispatch->p99,
		combine->best, combine->p50, combine->p99);
}

static void print_ratio(FILE *stream, const struct peers *peers,
	const struct results *ours, int phase)
{
	const struct peers_ratio *ratio = &peers->ratio[phase];

	fprintf(stream,
		"%s: ours takes %.2f times its floor; the fastest peer, %s %s, "
		"takes %.2f times ours (%.2f .. %.2f over the rounds; best "
		"%.2f, p99 %.2f)\n",
		phase_names[phase], ours->phase[phase].ratio,
		ratio->fastest->mpi, ratio->fastest->variant,
		ratio->times_ours.p50, ratio->least, ratio->most,
		ratio->times_ours.best, ratio->times_ours.p99);
}

static void print_libraries(FILE *stream, const struct peers *peers)
{
	const char *last = "";

	for (int i = 0; i < peers->num_peers; i++) {
		const struct peer *peer = &peers->peers[i];

		if (strcmp(last, peer->mpi))
			fprintf(stream, "%s: %s\n", peer->mpi,
				peer->median.library);
		last = peer->mpi;
	}
	for (int i = 0; i < peers->num_absent; i++)
		fprintf(stream, "%s: left out, %s\n", peers->absent[i].mpi,
			peers->absent[i].why);
}

void peers_print(
	FILE *stream, const struct peers *peers, const struct results *ours)
{
	const struct results_phase *dispatch = &ours->phase[BENCH_DISPATCH];
	const struct results_phase *combine = &ours->phase[BENCH_COMBINE];

	fprintf(stream,
		"\npeers in turns with ours, %lld round%s, medians of rounds, "
		"us\n",
		(long long)peers->num_rounds,
		peers->num_rounds == 1 ? "" : "s");
	fprintf(stream, "%-19s %10s %10s %10s %12s %10s %10s\n", "",
		"disp. best", "p50", "p99", "comb. best", "p50", "p99");
	print_times(stream, "floor", "", &dispatch->floor, &combine->floor);
	print_times(stream, "ours", "", &dispatch->time, &combine->time);
	for (int i = 0; i < peers->num_peers; i++) {
		const struct peer *peer = &peers->peers[i];

		print_times(stream, peer->mpi, peer->variant,
			&peer->median.time[BENCH_DISPATCH],
			&peer->median.time[BENCH_COMBINE]);
	}
	print_libraries(stream, peers);
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		print_ratio(stream, peers, ours, phase);
}

/* ---- JSON ------------------------------------------------------------- */

static void add_stats(cJSON *to, const char *name, const struct stats *stats)
{
	cJSON *item = cJSON_AddObjectToObject(to, name);

	cJSON_AddNumberToObject(item, "best", stats->best);
	cJSON_AddNumberToObject(item, "p50", stats->p50);
	cJSON_AddNumberToObject(item, "p99", stats->p99);
}

static void add_names(cJSON *to, const struct peer *peer)
{
	cJSON_AddStringToObject(to, "mpi", peer->mpi);
	cJSON_AddStringToObject(to, "variant", peer->variant);
}

static void add_ratio(cJSON *to, const struct peers *peers, int phase)
{
	const struct peers_ratio *ratio = &peers->ratio[phase];
	cJSON *item = cJSON_AddObjectToObject(to, phase_names[phase]);

	add_names(cJSON_AddObjectToObject(item, "fastest"), ratio->fastest);
	add_stats(item, "ratio", &ratio->times_ours);
	cJSON_AddNumberToObject(item, "least_of_rounds", ratio->least);
	cJSON_AddNumberToObject(item, "most_of_rounds", ratio->most);
}

void peers_add_json(cJSON *root, const struct peers *peers)
{
	cJSON *to = cJSON_AddObjectToObject(root, "peers");
	cJSON *list = cJSON_AddArrayToObject(to, "runs");

	for (int i = 0; i < peers->num_peers; i++) {
		const struct peer *peer = &peers->peers[i];
		cJSON *item = cJSON_CreateObject();

		add_names(item, peer);
		cJSON_AddStringToObject(item, "library", peer->median.library);
		add_stats(item, "dispatch_us",
			&peer->median.time[BENCH_DISPATCH]);
		add_stats(
			item, "combine_us", &peer->median.time[BENCH_COMBINE]);
		cJSON_AddItemToArray(list, item);
	}
	list = cJSON_AddArrayToObject(to, "left_out");
	for (int i = 0; i < peers->num_absent; i++) {
		cJSON *item = cJSON_CreateObject();

		cJSON_AddStringToObject(item, "mpi", peers->absent[i].mpi);
		cJSON_AddStringToObject(item, "why", peers->absent[i].why);
		cJSON_AddItemToArray(list, item);
	}
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		add_ratio(to, peers, phase);
}
