/*
 * `shunt model`: what a step would take, worked out from a routing that is
 * drawn as the bench's is, and from constants that were measured or are
 * assumed. docs/scale.md has the formulas.
 *
 * model_options.c reads, model_from.c takes constants from a run of the bench,
 * model_traffic.c counts rows, model_time.c makes times of them, model_needs.c
 * has memory and queue pairs, model_report.c prints.
 */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <shunt/shunt.h>

#include "options.h"
#include "options_table.h"
#include "shape.h"

enum model_phase { MODEL_DISPATCH, MODEL_COMBINE, MODEL_NUM_PHASES };
enum model_algorithm { MODEL_FULLMESH, MODEL_HIERARCHY, MODEL_NUM_ALGORITHMS };

/* Constants; negative: not given. */
struct model_constants {
	double signal_us;    /* one way, inside a host */
	double dispatch_gbs; /* bytes read and written by a core in a second */
	double combine_gbs;
	double quant_us;   /* dispatch, per token: quantizing and placing */
	double sum_us;     /* combine, per token, beside copying */
	double home_us;    /* combine, per row or sum that is quantized */
	double peer_us;    /* per phase and peer: a signal out, a look in */
	double expert_ns;  /* dispatch, per expert of the job */
	double counts_gbs; /* at which the counts of all are read */
	double turn_us;    /* per phase and rank of a core, if it has several */
	double wire_gbs;   /* of a host, in each direction */
	double wire_us;    /* until a small write is seen on another host */
	double message_us; /* of a core, per message to another host */
};

struct model_options {
	struct options bench; /* first: bench's rows of options have offsets in
			       * it */
	int64_t num_hosts, cores, lanes, devices;
	const char *from_path;
	struct model_constants constants;
};

/* Ends the process as options_init() does. Owes options_fini() of `bench`. */
void model_options_init(struct model_options *options, int argc, char **argv);

/* The rows of the constants, for help, JSON and messages; `offset` is in
 * struct model_options. */
extern const struct option_row model_rows[];
extern const size_t model_num_rows;
double model_constant(
	const struct model_options *options, const struct option_row *row);

/* A row of the bench's options, by its name. */
const struct option_row *model_bench_row(const char *name);
/* The parameters of a job one by one, beginning with *next = 0; then NULL. */
const struct option_row *model_parameter(size_t *next);

/* The shape of a job, worked out. */
struct model_job {
	const struct model_options *options;
	struct shape shape;
	int64_t host_ranks;               /* R */
	int64_t x_bytes, row_bytes;       /* a row, with its scales */
	int64_t scale_bytes;              /* of a row on its way */
	int64_t expert_bytes, home_bytes; /* as written, as sent */
	int64_t out_bytes;
	bool fetched;                             /* dispatch has one phase */
	struct shunt_exchange_sizes sizes, worst; /* the largest of any rank */
	int64_t most_rows;                        /* that a rank receives */
};

/* Rows of a rank in a step, by what is done with them. */
struct model_rank {
	int64_t local;     /* choices on the own host */
	int64_t remote;    /* choices on others */
	int64_t hosts;     /* (token, other host with a choice) */
	int64_t ranks;     /* (token, rank of another host with a choice) */
	int64_t host_runs; /* neighbours among those, which go at once */
	int64_t rank_runs;
	int64_t received;    /* rows for the own experts, */
	int64_t from_remote; /* those from other hosts */
	int64_t arrived;     /* fullmesh: tokens that it takes in for itself */
	int64_t landed; /* hierarchy: those that it takes in for its host */
	int64_t fanned; /* the rows that its host has of them */
	int64_t stayed; /* own tokens with a choice on the own host */
};

/* Draws step `step`: ranks[W]. False if memory is out. */
bool model_traffic(
	const struct model_job *job, int64_t step, struct model_rank *ranks);

enum model_term {
	MODEL_COUNTS,
	MODEL_EXPERTS,
	MODEL_PEERS,
	MODEL_TOKENS,
	MODEL_COPY,
	MODEL_MESSAGES,
	MODEL_WIRE,
	MODEL_LATENCY,
	MODEL_TURNS,
	MODEL_NUM_TERMS
};

extern const char *const model_term_names[MODEL_NUM_TERMS];

/* A phase by an algorithm; means over the steps. */
struct model_result {
	double us[MODEL_NUM_TERMS];
	double total_us;
	double copied_bytes;      /* read and written in memory, all ranks */
	double wire_bytes;        /* of rows, into or out of the busiest host */
	double counts_bytes;      /* the same, of what is told beside them */
	double messages, signals; /* to other hosts, of the busiest rank; and
				    * inside the host */
};

/* What an algorithm takes of a rank. */
struct model_needs {
	double window_bytes, private_bytes; /* exchange, rows as drawn */
	double worst_bytes;                 /* both, for any routing */
	double wire_bytes; /* for rows to and from other hosts, any routing */
	int64_t queue_pairs, registrations;
};

struct model {
	struct model_options options;
	struct model_job job;
	double remote_hosts_per_token, remote_rows_per_token;
	struct model_result result[MODEL_NUM_ALGORITHMS][MODEL_NUM_PHASES];
	struct model_needs needs[MODEL_NUM_ALGORITHMS];
};

#define MODEL_ERROR 1200

/* Takes the constants of a run of `shunt bench --json` that were not given;
 * they must come from the same model's shape. On failure `error` says why. */
bool model_from(struct model_options *options, char error[MODEL_ERROR]);

/* Microseconds of a phase of one host that depend on no row: for W ranks,
 * E experts. */
double model_fixed_us(const struct model_constants *constants,
	enum model_phase phase, double num_ranks, double num_experts);

/* Adds what a step makes of `ranks` to the results, `share` of it. */
void model_add_step(
	struct model *model, const struct model_rank *ranks, double share);

/* Asks the library for the formats and sizes. Messages and exit statuses as
 * setup()'s. */
int model_formats(struct model_job *job);
int model_needs(struct model *model);

double model_roundtrip(const struct model *model, enum model_algorithm which);
void model_print(FILE *stream, const struct model *model);
bool model_json(FILE *stream, const struct model *model);

#endif
