/* The options of `shunt bench`, checked. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "launch.h"
#include "routing.h"

struct options {
	int64_t num_ranks, num_tokens, hidden, topk, num_experts;
	int64_t seed, num_iterations, num_warmup, depth;
	int launch;              /* enum launch_kind */
	int dtype, expert_dtype; /* enum shunt_dtype */
	int quant;               /* enum shunt_quant */
	int layout;              /* enum shunt_layout */
	int algorithm;           /* enum shunt_algorithm */
	int transport;           /* enum options_transport */
	bool smooth;
	bool worst_rows; /* windows for the worst case, not for the need */
	double mask;     /* share of tokens that are masked out */
	double drop;     /* share of choices that are -1 */
	const char *routing_text;
	struct routing routing;
	bool check, quiet;
	const char *json_path; /* NULL: none, "-": stdout */
};

enum options_transport { OPTIONS_TRANSPORT_AUTO, OPTIONS_TRANSPORT_SHM };

/*
 * Reads the command line. Ends the process where it cannot be used (exit
 * status 2, with a message) and after --help. Owes options_fini().
 */
void options_init(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

/* The name of a value, as it is written on the command line. */
const char *options_dtype_name(int dtype);
const char *options_quant_name(int quant);
const char *options_launch_name(int launch);
const char *options_transport_name(int transport);
const char *options_algorithm_name(int algorithm);
const char *options_layout_name(int layout);

#endif
