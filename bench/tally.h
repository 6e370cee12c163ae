/* What the library itself has counted: --stats, --prometheus and
 * --performance-info, for people and for programs. */
#ifndef BENCH_TALLY_H
#define BENCH_TALLY_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "bench.h"

void tally_print(FILE *stream, const struct bench *bench);
void tally_add_json(cJSON *root, const struct bench *bench);

#endif
