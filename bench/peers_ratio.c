/* Medians of rounds, and how the fastest peer does against us. */
#include <math.h>
#include <stdlib.h>

#include "peers.h"

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

/* The median of as many stats as there are rounds, `stride` bytes apart. */
static struct stats median_of(
	const struct stats *first, size_t stride, int64_t num)
{
	double values[3][PEERS_MOST_ROUNDS];

	for (int64_t i = 0; i < num; i++) {
		const struct stats *stats = (const void *)((const char *)first +
							   (size_t)i * stride);

		values[0][i] = stats->best;
		values[1][i] = stats->p50;
		values[2][i] = stats->p99;
	}
	for (int i = 0; i < 3; i++)
		qsort(values[i], (size_t)num, sizeof(double), by_value);
	return (struct stats){
		.best = values[0][(num - 1) / 2],
		.p50 = values[1][(num - 1) / 2],
		.p99 = values[2][(num - 1) / 2],
	};
}

/* In place of one round's times those of the median. */
static void take_medians(struct peers *peers, struct results *ours)
{
	const struct results *first = &peers->ours[0];
	size_t stride = sizeof(peers->ours[0]);
	int64_t num = peers->num_rounds;

	for (int i = 0; i < BENCH_NUM_PHASES; i++) {
		ours->phase[i].time =
			median_of(&first->phase[i].time, stride, num);
		ours->phase[i].floor =
			median_of(&first->phase[i].floor, stride, num);
		results_finish_phase(&ours->phase[i]);
	}
	ours->roundtrip.time = median_of(&first->roundtrip.time, stride, num);
	ours->roundtrip.floor = median_of(&first->roundtrip.floor, stride, num);
	results_finish_phase(&ours->roundtrip);
	for (int p = 0; p < peers->num_peers; p++) {
		struct peer *peer = &peers->peers[p];

		peer->median = peer->rounds[0];
		for (int i = 0; i < BENCH_NUM_PHASES; i++)
			peer->median.time[i] =
				median_of(&peer->rounds[0].time[i],
					sizeof(peer->rounds[0]), num);
	}
}

static void take_ratio(
	struct peers *peers, const struct results *ours, int phase)
{
	struct peers_ratio *ratio = &peers->ratio[phase];
	const struct stats *our = &ours->phase[phase].time;
	const struct stats *best;

	ratio->fastest = &peers->peers[0];
	for (int p = 1; p < peers->num_peers; p++)
		if (peers->peers[p].median.time[phase].p50 <
			ratio->fastest->median.time[phase].p50)
			ratio->fastest = &peers->peers[p];
	best = &ratio->fastest->median.time[phase];
	ratio->times_ours = (struct stats){
		.best = best->best / our->best,
		.p50 = best->p50 / our->p50,
		.p99 = best->p99 / our->p99,
	};
	ratio->least = INFINITY;
	ratio->most = 0;
	for (int64_t round = 0; round < peers->num_rounds; round++) {
		double times = ratio->fastest->rounds[round].time[phase].p50 /
			       peers->ours[round].phase[phase].time.p50;

		ratio->least = fmin(ratio->least, times);
		ratio->most = fmax(ratio->most, times);
	}
}

void peers_finish(struct peers *peers, struct results *ours)
{
	take_medians(peers, ours);
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		take_ratio(peers, ours, phase);
}
