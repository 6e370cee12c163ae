/*
 * The floor: what it takes to move the bytes of a step with plain copies.
 *
 * A member's dispatch reads each of its tokens once and writes each row that
 * the routing asks for once, with its scales, to the place where it lies in
 * the receiver's memory; with INDEXED each token's row once, in its own. Rows
 * that must become zero it fills itself. Its combine reads the rows of its
 * choices from where the experts would have left them, once, as wide as they
 * travel, and what else is added, and writes each token once. The memory is
 * shared, of the real sizes, and alternates between as many windows as the
 * exchange has, so that caches are as warm or cold as in a real step.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "copies.h"
#include "plan.h"

struct floor {
	const struct plan *plan;
	struct copies copies[COPIES_MAX];
	int num_copies;
	int64_t depth;
	bool one_process; /* all ranks are threads */
	/* Rows of a window: those sent, and those that experts see. */
	int64_t sent_rows, seen_rows;
	int64_t scale_words; /* of a row, 4 bytes each */
	/* (member, window, row): */
	uint8_t *sent;
	uint8_t *experts;
	uint32_t *scales;
	void *memory;
	size_t bytes;
};

/* One member's share of floor steps. */
struct floor_work {
	const struct floor *floor;
	int32_t member;
	const uint8_t **rows; /* scratch, with room for floor_most_terms() */
	uint8_t *scratch;     /* a row of any kind */
	uint8_t *out, *norm_out;
	int64_t zero_rows[LOAD_STEPS];
};

/* Reserves the memory; plan, depth and one_process are set already. False with
 * errno set. */
bool floor_init(struct floor *floor);
void floor_fini(struct floor *floor);

int64_t floor_most_terms(const struct floor *floor);
/* Bytes of the largest row. */
int64_t floor_widest_row(const struct floor *floor);

/* `targets` are those of plan_targets() for the step. */
void floor_dispatch(const struct floor_work *work, int variant, int64_t step,
	const struct plan_target *targets);
void floor_combine(const struct floor_work *work, int variant, int64_t step,
	const struct plan_target *targets);

/* Reads bytes that no copy reads. */
void floor_touch(const uint8_t *from, int64_t num_bytes);

/* The window of a member's step: rows as sent, and as the experts write
 * them. */
uint8_t *floor_sent(const struct floor *floor, int64_t step, int32_t member);
uint8_t *floor_experts(const struct floor *floor, int64_t step, int32_t member);

#endif
