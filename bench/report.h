/* Results as a table for people, and as JSON for programs. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "options_table.h"
#include "peers.h"
#include "results.h"

/* `peers` is NULL without --peers. */
void report_table(FILE *stream, const struct bench *bench,
	const struct results *results, const struct peers *peers);

/* Field names are stable. Times and bytes are absent if !results->ok. False
 * with errno set. */
bool report_json(FILE *stream, const struct bench *bench,
	const struct results *results, const struct peers *peers);

/* Prints `root`, and deletes it. False with errno set. */
bool report_print(FILE *stream, cJSON *root);

/* Adds an option under its own name, with _ for -. */
void report_add_parameter(
	cJSON *to, const struct options *options, const struct option_row *row);

#endif
