/* A run whose ranks a launcher has started; see joined.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "joined.h"

/* For all to come. */
#define DEADLINE_NS (INT64_C(60) * 1000000000)

bool joined_open(struct bench *bench, char error[CHANNEL_ERROR])
{
	const struct launcher_job *job = &bench->options.job;
	const char *key = getenv("SHUNT_KEY");
	const struct channel_config config = {
		.rank = job->rank,
		.num_ranks = job->num_ranks,
		.host = job->host,
		.port = job->port,
		.key = key ? key : "",
		.purpose = options_digest(&bench->options),
		.crowded = bench_num_local(bench) > bench->machine.num_cores,
		.deadline_ns = DEADLINE_NS,
	};

	/* A start that is slept for shall not come late. */
	prctl(PR_SET_TIMERSLACK, 1);
	return channel_open(&bench->channel, &config, error);
}

void joined_close(struct bench *bench)
{
	channel_close(&bench->channel);
}

/* ---- results ----------------------------------------------------------- */

/* What a rank has measured, as one block: its page, its times by series, phase
 * and iteration, its creations, waits, and text. */
static size_t block_bytes(const struct bench *bench)
{
	size_t numbers = (size_t)(BENCH_NUM_SERIES * BENCH_NUM_PHASES *
					  bench->options.num_iterations +
				  bench_num_creations(bench) +
				  BENCH_NUM_PHASES * bench->shape.num_ranks);

	return sizeof(struct bench_rank) + numbers * sizeof(int64_t) +
	       (bench->options.stats ? BENCH_TEXT_BYTES : 0);
}

/* Copies `num_bytes` between the block and where they lie, and goes on. */
static void move(bool pack, uint8_t **block, void *place, size_t num_bytes)
{
	if (pack)
		memcpy(*block, place, num_bytes);
	else
		memcpy(place, *block, num_bytes);
	*block += num_bytes;
}

static void move_numbers(
	const struct bench *bench, int32_t rank, bool pack, uint8_t **block)
{
	int64_t iterations = bench->options.num_iterations;

	for (int series = 0; series < BENCH_NUM_SERIES; series++)
		for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
			for (int64_t i = 0; i < iterations; i++)
				move(pack, block,
					bench_time(bench, series,
						(enum bench_phase)phase, i,
						rank),
					sizeof(int64_t));
	for (int64_t n = 0; n < bench_num_creations(bench); n++)
		move(pack, block, bench_creation(bench, n, rank),
			sizeof(int64_t));
	for (int phase = 0; phase < BENCH_NUM_PHASES; phase++)
		move(pack, block, bench_waits(bench, phase, rank),
			(size_t)bench->shape.num_ranks * sizeof(int64_t));
}

static void move_all(
	struct bench *bench, int32_t rank, bool pack, uint8_t *block)
{
	move(pack, &block, &bench->ranks[rank], sizeof(struct bench_rank));
	move_numbers(bench, rank, pack, &block);
	if (bench->options.stats)
		move(pack, &block, bench->texts + rank * BENCH_TEXT_BYTES,
			BENCH_TEXT_BYTES);
}

/* Texts end, and pointers of another process are nobody's. */
static bool tidy(struct bench *bench, int32_t rank)
{
	struct bench_rank *page = &bench->ranks[rank];

	page->message[sizeof(page->message) - 1] = '\0';
	page->travel.why[sizeof(page->travel.why) - 1] = '\0';
	page->stats.expert_rows = NULL;
	if (bench->options.stats)
		bench->texts[(rank + 1) * BENCH_TEXT_BYTES - 1] = '\0';
	return page->travel.host >= 0 &&
	       page->travel.host < bench->options.num_hosts;
}

static bool take_from(struct bench *bench, int32_t rank, uint8_t *block)
{
	size_t due = block_bytes(bench), got = 0;

	if (!channel_receive(&bench->channel, rank, block, due, &got))
		return false;
	if (got == due) {
		move_all(bench, rank, false, block);
		if (tidy(bench, rank))
			return true;
	}
	snprintf(bench->ranks[0].message, sizeof(bench->ranks[0].message),
		"rank %d sends results that make no sense (%zu bytes, %zu due)",
		rank, got, due);
	channel_fail(&bench->channel, bench->ranks[0].message);
	return false;
}

bool joined_gather(struct bench *bench)
{
	int32_t rank = bench->options.job.rank;
	size_t bytes = block_bytes(bench);
	uint8_t *block = malloc(bytes);
	bool done = block != NULL;

	if (!done)
		channel_fail(&bench->channel, "out of memory for the results");
	if (done && rank > 0) {
		move_all(bench, rank, true, block);
		done = channel_send(&bench->channel, block, bytes);
	}
	for (int32_t r = 1; done && rank == 0 && r < bench->shape.num_members;
		r++)
		done = take_from(bench, r, block);
	free(block);
	return done;
}
