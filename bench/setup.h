/* From the options to shape, load, plan, config and floor of a run. */
#ifndef BENCH_SETUP_H
#define BENCH_SETUP_H

#include "bench.h"

/* Fills those parts of `bench`; the options are there. Returns an exit status,
 * and has said why. Owes setup_undo() in any case. */
int setup(struct bench *bench);
void setup_undo(struct bench *bench);

/* Says that memory for `what` is out, by errno. Returns an exit status. */
int setup_fail_memory(const char *what);

/* Bytes of an expert's row on its way home, with its scales. */
/* For shunt_exchange_query(): 0 where all are on one host. */
int32_t setup_ranks_per_host(const struct bench *bench);

int64_t setup_home_bytes(const struct options *options);

#endif
