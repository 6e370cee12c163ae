/*
 * The floor: what it takes to move the bytes of a step with plain copies.
 *
 * A rank's dispatch reads each of its tokens once and writes each row that
 * the routing asks for once, to the place where it lies in the receiver's
 * memory. Its combine reads the rows of its choices from where the experts
 * would have left them, once, and writes each token once. The memory is
 * shared, of the real sizes, and alternates between as many windows as the
 * exchange has, so that caches are as warm or cold as in a real step.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "copies.h"
#include "load.h"

struct floor {
	const struct load *load;
	struct copies copies[COPIES_MAX];
	int num_copies;
	int64_t depth, most_rows;
	int64_t sent_bytes;   /* of a row that travels, without its scale */
	int64_t expert_bytes; /* of an expert's row */
	bool scales;
	bool one_process; /* all ranks are threads */
	/* (rank, window, row): */
	uint8_t *sent;
	uint8_t *experts;
	float *scale;
	void *memory;
	size_t bytes;
};

/* Reserves the memory; the other fields but `copies` are set already. False
 * with errno set. */
bool floor_init(struct floor *floor);
void floor_fini(struct floor *floor);

/* One rank's share of a floor step; `targets` are those of load_place(). */
void floor_dispatch(const struct floor *floor, int variant, int64_t step,
	int32_t rank, const struct load_target *targets);
/* `rows` has room for K pointers. */
void floor_combine(const struct floor *floor, int variant, int64_t step,
	const struct load_target *targets, const uint8_t **rows, uint8_t *out);

/* The window of a rank's step: rows as sent, and as the experts write them. */
uint8_t *floor_sent(const struct floor *floor, int64_t step, int32_t rank);
uint8_t *floor_experts(const struct floor *floor, int64_t step, int32_t rank);

#endif
