/*
 * The peers of `shunt bench --peers`: the MPI programs of bench/peers, which
 * take turns with our own steps. peers.c has the order of runs,
 * peers_rules.c what they can do, peers_command.c how a run is started and
 * ended, peers_result.c what it prints, peers_ratio.c what came of all,
 * peers_report.c what we print.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "bench.h"
#include "results.h"
#include "stats.h"

#define PEERS_MPIS     2
#define PEERS_VARIANTS 4
#define PEERS_MAX      (PEERS_MPIS * PEERS_VARIANTS)
#define PEERS_ERROR    2048
/* Of --peer-rounds. */
#define PEERS_MOST_ROUNDS 99

/* What one run of a peer says. */
struct peers_result {
	char library[128]; /* name and version */
	struct stats time[BENCH_NUM_PHASES];
};

/* An MPI and a way to use it. */
struct peer {
	const char *mpi, *variant;
	char program[4096];
	struct peers_result *rounds; /* (num_rounds) */
	struct peers_result median;
};

/* An MPI that does not take part. */
struct peers_absent {
	const char *mpi, *why;
};

/* How the fastest peer of a phase, by median, does against us. */
struct peers_ratio {
	const struct peer *fastest;
	struct stats times_ours;
	/* Of the same peer, by the medians of single rounds. */
	double least, most;
};

struct peers {
	const struct bench *bench;
	int ids; /* descriptor of the routing; -1: none */
	char ids_path[64];
	struct peer peers[PEERS_MAX];
	int num_peers;
	struct peers_absent absent[PEERS_MPIS];
	int num_absent;
	int64_t num_rounds, round;
	struct results *ours; /* (num_rounds) */
	struct peers_ratio ratio[BENCH_NUM_PHASES];
	char error[PEERS_ERROR];
};

/* Whether the peers, if wanted, can do what the options ask for. On failure
 * `error` names the option. */
bool peers_settle(const struct options *options, char error[ROUTING_ERROR]);

/* Finds the programs and hands the routing over. On failure `error` says what
 * to do. Owes peers_fini(), also then. */
bool peers_init(struct peers *peers, const struct bench *bench);
void peers_fini(struct peers *peers);

/* Notes our own results of this round, then runs every peer. `tick` is called
 * now and then. On failure `error` says why. */
bool peers_run_round(struct peers *peers, const struct results *ours,
	void (*tick)(void *context), void *context);

/* Behind the last round: ratios, and in `ours` the medians of the rounds. */
void peers_finish(struct peers *peers, struct results *ours);

void peers_print(
	FILE *stream, const struct peers *peers, const struct results *ours);
void peers_add_json(cJSON *root, const struct peers *peers);

/* ---- parts ------------------------------------------------------------ */

/* A program that is run to its end and whose output is kept. */
struct peers_command {
	char *const *argv; /* found by PATH */
	double seconds;    /* until it is ended */
	void (*tick)(void *context);
	void *context;
	/* Filled, as texts; the beginning of one, the end of the other. */
	char output[4096], errors[PEERS_ERROR / 2];
	bool timed_out;
};

/*
 * Runs the program. Whatever it has started is gone when this returns, and
 * soon after we are gone ourselves, even by SIGKILL. Returns its exit status
 * as a shell shows it, or -1 with errno set if it cannot be started.
 */
int peers_command_run(struct peers_command *command);

/* Reads what a peer printed. On failure `error` says what is wrong with it. */
bool peers_result_read(struct peers_result *result, const char *text,
	const struct peer *peer, const struct options *options,
	char error[PEERS_ERROR]);

#endif
