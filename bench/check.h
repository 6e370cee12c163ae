/*
 * --check: one member's outputs of every step against the reference, which has
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

/* What a combine gives. */
struct check_combined {
	uint8_t *out, *norm_out;
	float *rstd;
	int64_t nan_elements, inf_elements;
};

struct check {
	const struct load *load;
	const struct options *options;
	struct reference_place place;
	struct reference_job job[LOAD_STEPS];
	struct reference_input *inputs; /* (step, member) */
	struct reference_received received[LOAD_STEPS];
	struct reference_sent sent[LOAD_STEPS];
	struct check_combined combined[LOAD_STEPS];
	int64_t num_steps; /* that were compared */
	/* Over those: */
	int64_t num_rows;
	struct reference_sent total;
	uint64_t digest;
};

/* What it is made for; all of it stays. */
struct check_for {
	const struct load *load; /* complete, x of all members too */
	const struct options *options;
	const struct shunt_exchange_config *config;
	struct expert *expert;
	int32_t member;
	int64_t recv_rows;      /* of its windows */
	const int32_t *hosts;   /* of each member; NULL: one for all */
	bool adds_partial_sums; /* of each host */
};

/* Works out what the member must get. False if memory is out; owes
 * check_fini() in any case. */
bool check_init(struct check *check, const struct check_for *what);
void check_fini(struct check *check);

/* Compares, and takes the bytes into the digest. False if they differ; `why`
 * names the first place. `rows` are those of shunt_dispatch_rows(), or
 * NULL. */
bool check_dispatch(struct check *check, int64_t step,
	const struct shunt_dispatch_out *out, const void *const *rows,
	char why[CHECK_TEXT]);
bool check_combine(struct check *check, int64_t step,
	const struct check_combined *got, char why[CHECK_TEXT]);

/* What the library has counted, against the steps that were compared. */
bool check_stats(const struct check *check, const struct shunt_stats *stats,
	char why[CHECK_TEXT]);

/* Reads what the two above read, so that floor steps find the caches as real
 * steps do. */
void check_disturb_dispatch(const struct check *check, int64_t step,
	const void *rows, int64_t most_rows);
void check_disturb_combine(
	const struct check *check, int64_t step, const void *out);

/* A 64-bit digest of `num_bytes` bytes behind what `digest` stands for. */
uint64_t check_digest(uint64_t digest, const void *bytes, int64_t num_bytes);

#endif
