/*
 * --check: one rank's outputs of every step against the reference, which has
 * worked them out ahead for the steps of the ring; and a digest of them.
 */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "expert.h"
#include "load.h"
#include "reference/check.h"
#include "reference/reference.h"

struct check {
	int32_t rank;
	struct reference_job job[LOAD_STEPS];
	struct reference_input *inputs; /* (step, rank) */
	int32_t *expert_rank;
	struct reference_received received[LOAD_STEPS];
	struct reference_sent sent[LOAD_STEPS];
	uint8_t *out[LOAD_STEPS];
	int64_t out_bytes, out_row_bytes;
	bool quantized;
	uint64_t digest;
};

/*
 * Works out what `rank` must get. The load is complete, x of all ranks too,
 * and stays. False if memory is out; owes check_fini() in any case.
 */
bool check_init(struct check *check, const struct load *load,
	const struct shunt_exchange_config *config, struct expert *expert,
	int32_t rank);
void check_fini(struct check *check);

/* Compares, and takes the bytes into the digest. False if they differ; `why`
 * names the first place. */
bool check_dispatch(struct check *check, int64_t step,
	const struct shunt_dispatch_out *out, char why[CHECK_TEXT]);
bool check_combine(struct check *check, int64_t step, const void *out,
	char why[CHECK_TEXT]);

/* Reads what the two above read, so that floor steps find the caches as real
 * steps do. */
void check_disturb_dispatch(
	const struct check *check, int64_t step, const void *rows);
void check_disturb_combine(
	const struct check *check, int64_t step, const void *out);

/* A 64-bit digest of `num_bytes` bytes behind what `digest` stands for. */
uint64_t check_digest(uint64_t digest, const void *bytes, int64_t num_bytes);

#endif
