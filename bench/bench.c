/*
 * `shunt bench`: the launcher. Turns the options into a load and memory,
 * starts the ranks, and reports what they measured.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "command.h"
#include "joined.h"
#include "launch.h"
#include "peers.h"
#include "progress.h"
#include "report.h"
#include "results.h"
#include "setup.h"
#include "shared.h"

/* Blocks that the timed steps are cut into. */
#define ROUNDS 5
/* More than any cache holds. */
#define UNCACHED_BYTES (INT64_C(1) << 30)
/* Seconds that ranks get after one of them has failed. */
#define GRACE 10

/* What the launcher has besides what the ranks see. */
struct session {
	struct bench bench;
	struct progress progress;
	struct results results;
	struct peers peers; /* with --peers */
	void *memory;       /* behind barrier, ranks and times */
	size_t memory_bytes;
	FILE *json;
};

/* ---- preparing -------------------------------------------------------- */

static int fail(const char *what)
{
	fprintf(stderr, "shunt bench: %s: %s\n", what, strerror(errno));
	return COMMAND_FAILED;
}

static bool map_results(struct session *session)
{
	struct bench *bench = &session->bench;
	struct shared_layout layout = {
		.one_process = bench->options.launch == LAUNCH_THREADS,
	};
	size_t num_ranks = (size_t)bench->options.num_ranks;
	size_t barrier = shared_reserve(&layout, 1, sizeof(struct barrier));
	size_t failures = shared_reserve(&layout, 1, sizeof(_Atomic int32_t));
	size_t ranks =
		shared_reserve(&layout, num_ranks, sizeof(struct bench_rank));
	size_t times = shared_reserve(&layout,
		BENCH_NUM_SERIES * BENCH_NUM_PHASES *
			(size_t)bench->options.num_iterations,
		num_ranks * sizeof(int64_t));
	size_t creations =
		shared_reserve(&layout, (size_t)bench_num_creations(bench),
			num_ranks * sizeof(int64_t));
	size_t signal = shared_reserve(&layout, 1, sizeof(struct signal));
	size_t waits = shared_reserve(&layout, BENCH_NUM_PHASES * num_ranks,
		(size_t)bench->shape.num_ranks * sizeof(int64_t));
	size_t texts = shared_reserve(&layout,
		bench->options.stats ? num_ranks : 0, BENCH_TEXT_BYTES);

	session->memory = shared_map(&layout);
	if (!session->memory)
		return false;
	session->memory_bytes = layout.bytes;
	bench->barrier = shared_at(session->memory, barrier);
	bench->num_failures = shared_at(session->memory, failures);
	bench->ranks = shared_at(session->memory, ranks);
	bench->times = shared_at(session->memory, times);
	bench->creations = shared_at(session->memory, creations);
	bench->signal = shared_at(session->memory, signal);
	bench->waits = shared_at(session->memory, waits);
	bench->texts = shared_at(session->memory, texts);
	return true;
}

static bool choose_meeting(struct bench *bench)
{
	if (rendezvous_open(&bench->rendezvous))
		return false;
	if (bench->options.launch == LAUNCH_THREADS)
		snprintf(bench->meeting, sizeof(bench->meeting),
			"threads://shunt-bench");
	else
		snprintf(bench->meeting, sizeof(bench->meeting), "tcp://%s",
			bench->rendezvous.address);
	return true;
}

/*
 * The block before has left other memory in the caches, and inputs and slots
 * take turns, so that a single step would not bring back what a block works on;
 * unless no cache can hold that anyway.
 */
static int64_t block_warmup(const struct bench *bench)
{
	return bench->load.bytes + bench->floor.bytes > UNCACHED_BYTES
		       ? 1
		       : 2 * LOAD_STEPS;
}

/* Returns an exit status. */
static int prepare(struct session *session)
{
	struct bench *bench = &session->bench;
	int64_t iterations = bench->options.num_iterations;
	int status;

	machine_read(&bench->machine);
	bench->pinned = bench_num_local(bench) <= bench->machine.num_cores;
	bench->num_rounds = iterations < ROUNDS ? iterations : ROUNDS;
	status = setup(bench);
	if (status)
		return status;
	bench->block_warmup = block_warmup(bench);
	bench->num_steps = rank_num_steps(bench);
	if (!map_results(session))
		return setup_fail_memory("the results");
	if (bench->options.peers && !peers_init(&session->peers, bench)) {
		fprintf(stderr, "shunt bench: %s\n", session->peers.error);
		return COMMAND_FAILED;
	}
	return COMMAND_OK;
}

static void clear_up(struct session *session)
{
	struct bench *bench = &session->bench;

	if (bench->meeting[0])
		rendezvous_close(&bench->rendezvous);
	peers_fini(&session->peers);
	shared_unmap(session->memory, session->memory_bytes);
	setup_undo(bench);
	options_fini(&bench->options);
}

/* ---- running ---------------------------------------------------------- */

/* Makes everything as if no rank had run. */
static bool rewind_session(struct session *session)
{
	struct bench *bench = &session->bench;
	int32_t num_ranks = (int32_t)bench->options.num_ranks;

	if (bench->meeting[0])
		rendezvous_close(&bench->rendezvous);
	bench->meeting[0] = '\0';
	/* It comes zero, and much of it may never be touched. */
	if (session->peers.round > 0)
		memset(session->memory, 0, session->memory_bytes);
	barrier_init(bench->barrier, num_ranks,
		num_ranks > bench->machine.num_cores);
	signal_init(bench->signal, bench->barrier);
	session->results = (struct results){0};
	return choose_meeting(bench);
}

static void tick(void *context)
{
	struct session *session = context;

	progress_show(&session->progress,
		atomic_load(&session->bench.ranks[0].num_steps),
		session->bench.num_steps);
}

/* The message of the rank that was the first to fail; the others failed
 * because of it. */
static const struct bench_rank *first_failure(const struct bench *bench)
{
	for (int64_t r = 0; r < bench->options.num_ranks; r++)
		if (atomic_load(&bench->ranks[r].failure) == 1)
			return &bench->ranks[r];
	return NULL;
}

static void rank_failed(void *context, int32_t rank, int status)
{
	struct session *session = context;
	const struct bench_rank *first = first_failure(&session->bench);
	char *error = session->results.error;
	size_t room = sizeof(session->results.error);

	/* It may not have come to do this itself. */
	barrier_break(session->bench.barrier);
	/* A rank that was killed is the cause of whatever the others say. */
	if (status > 128)
		snprintf(error, room, "rank %d was ended by signal %d (%s)",
			rank, status - 128, strsignal(status - 128));
	else if (first && !error[0])
		snprintf(error, room, "rank %d: %s",
			(int)(first - session->bench.ranks), first->message);
}

/* Our own steps. */
static bool run_ours(struct session *session)
{
	const struct launch launch = {
		.kind = (enum launch_kind)session->bench.options.launch,
		.num_ranks = (int32_t)session->bench.options.num_ranks,
		.context = session,
		.body = rank_main,
		.tick = tick,
		.failed = rank_failed,
		.grace = GRACE,
	};
	int result;

	if (!rewind_session(session)) {
		snprintf(session->results.error, sizeof(session->results.error),
			"cannot take a port of 127.0.0.1: %s", strerror(errno));
		return false;
	}
	result = launch_run(&launch);
	progress_clear(&session->progress);
	if (result && errno && !session->results.error[0])
		snprintf(session->results.error, sizeof(session->results.error),
			"cannot start the ranks: %s", strerror(errno));
	if (!result && !results_collect(&session->results, &session->bench))
		snprintf(session->results.error, sizeof(session->results.error),
			"out of memory");
	if (result && !session->results.error[0])
		snprintf(session->results.error, sizeof(session->results.error),
			"a rank failed");
	return session->results.ok;
}

static void tick_peers(void *context)
{
	struct session *session = context;
	const struct peers *peers = &session->peers;
	char text[64];

	snprintf(text, sizeof(text), "peers, round %lld of %lld",
		(long long)peers->round + 1, (long long)peers->num_rounds);
	progress_say(&session->progress, text);
}

/* This process is one rank; rank 0 has the others' results in the end. */
static bool run_joined(struct session *session)
{
	struct bench *bench = &session->bench;
	struct results *results = &session->results;
	int32_t rank = bench->options.job.rank;

	if (!joined_open(bench, results->error))
		return false;
	barrier_init(bench->barrier, bench->options.job.num_ranks,
		bench_num_local(bench) > bench->machine.num_cores);
	bench->barrier->channel = &bench->channel;
	if (rank_main(bench, rank) == COMMAND_OK && joined_gather(bench)) {
		results->ok = rank > 0 || results_collect(results, bench);
		if (!results->ok)
			snprintf(results->error, sizeof(results->error),
				"out of memory");
	} else {
		snprintf(results->error, sizeof(results->error), "%s",
			bench->channel.error);
	}
	joined_close(bench);
	return results->ok;
}

static bool run_with_peers(struct session *session)
{
	struct peers *peers = &session->peers;
	struct results *results = &session->results;

	while (peers->round < peers->num_rounds) {
		if (!run_ours(session))
			return false;
		results->ok =
			peers_run_round(peers, results, tick_peers, session);
		progress_clear(&session->progress);
		if (results->ok)
			continue;
		snprintf(results->error, sizeof(results->error), "%.1100s",
			peers->error);
		return false;
	}
	peers_finish(peers, results);
	return true;
}

static int run(struct session *session)
{
	const struct options *options = &session->bench.options;
	bool done = options->joined  ? run_joined(session)
		    : options->peers ? run_with_peers(session)
				     : run_ours(session);

	return done ? COMMAND_OK : COMMAND_FAILED;
}

/* ---- reporting -------------------------------------------------------- */

/* Of the ranks of a launcher one. */
static bool reports(const struct session *session)
{
	const struct options *options = &session->bench.options;

	return !options->joined || options->job.rank == 0;
}

static bool open_json(struct session *session)
{
	const char *path = session->bench.options.json_path;

	if (!path || !reports(session))
		return true;
	session->json = strcmp(path, "-") ? fopen(path, "we") : stdout;
	if (session->json)
		return true;
	fprintf(stderr, "shunt bench: --json '%s': %s\n", path,
		strerror(errno));
	return false;
}

/* With JSON on stdout the table can only go to a terminal on stderr. */
static FILE *table_stream(const struct session *session)
{
	if (session->bench.options.quiet || !reports(session))
		return NULL;
	if (session->json != stdout)
		return stdout;
	return isatty(STDERR_FILENO) ? stderr : NULL;
}

static int report(struct session *session, int status)
{
	FILE *table = table_stream(session);
	const struct peers *peers =
		session->bench.options.peers ? &session->peers : NULL;

	if (!session->results.ok)
		fprintf(stderr, "shunt bench: %s\n", session->results.error);
	else if (table)
		report_table(table, &session->bench, &session->results, peers);
	if (session->json && !report_json(session->json, &session->bench,
				     &session->results, peers)) {
		fail("cannot write the JSON");
		status = COMMAND_FAILED;
	}
	if (session->json && session->json != stdout)
		fclose(session->json);
	return status;
}

int bench_command(int argc, char **argv)
{
	/* Static: it is shared with the threads, and large. */
	static struct session session;
	int status;

	options_init(&session.bench.options, argc, argv);
	progress_init(&session.progress, session.bench.options.quiet);
	status = open_json(&session) ? prepare(&session) : COMMAND_USAGE;
	if (!status)
		status = report(&session, run(&session));
	clear_up(&session);
	return status;
}
