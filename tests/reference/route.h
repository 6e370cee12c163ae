/*
 * What the reference's parts share: who takes part, where choices go, and the
 * row that is sent there.
 *
 * With a table all ranks and experts are in the new numbering, but where it
 * says "original".
 */
#ifndef REFERENCE_ROUTE_H
#define REFERENCE_ROUTE_H

#include "reference/reference.h"

/* The group of ranks that takes part in a step. */
struct frame {
	const struct reference_job *job;
	int32_t num_tp;            /* P */
	int32_t num_ranks;         /* W */
	int32_t num_shared_ranks;  /* S */
	int64_t num_shared;        /* s, 0 where there are no shared ranks */
	int64_t num_experts;       /* E */
	int64_t num_special;       /* zero, copy and constant experts */
	int64_t old_share;         /* Lm, with a table */
	int32_t old_shared_ranks;  /* S before the table */
	const int32_t *new_of_old; /* (original W); NULL without a table */
	const int32_t *old_of_new;
};

struct frame frame_of(const struct reference_job *job);

/* The rank of an original one, -1 if it is gone; and back. */
int32_t frame_rank(const struct frame *frame, int32_t original);
int32_t frame_original(const struct frame *frame, int32_t rank);

const struct reference_input *frame_input(
	const struct frame *frame, int32_t tp, int32_t rank);

/* The rank of MoE expert `expert`, and its number before the table. */
int32_t frame_expert_rank(const struct frame *frame, int64_t expert);
int64_t frame_original_expert(const struct frame *frame, int64_t expert);

/* Ranks that hold each shared expert, R; and which of them has the rows of
 * `rank` for shared expert `shared`. */
int32_t frame_replicas(const struct frame *frame);
int32_t frame_shared_rank(
	const struct frame *frame, int64_t shared, int32_t rank);

/* The host of a rank of EP group `tp`. */
int32_t frame_host(const struct frame *frame, int32_t tp, int32_t rank);

/* True if `rank` of EP group `tp` adds up what is on its host of the tokens of
 * owner_rank of EP group owner_tp: the owner itself, or on another host who has the
 * owner's number among those of its own, or that modulo their number. */
bool frame_adds_up(const struct frame *frame, int32_t tp, int32_t rank,
	int32_t owner_tp, int32_t owner_rank);

/* What choice (t, k) of `input` asks for: an id below E + the special experts,
 * or -1 if it is masked, -1, or dropped. */
int64_t route_choice(const struct frame *frame,
	const struct reference_input *input, int64_t t, int64_t k);

/* The same for MoE experts only. */
int64_t route_expert(const struct frame *frame,
	const struct reference_input *input, int64_t t, int64_t k);

bool route_is_active(const struct frame *frame,
	const struct reference_input *input, int64_t t);
bool route_is_dropped(const struct frame *frame,
	const struct reference_input *input, int64_t t, int64_t k);

/* True if rows may differ by expert. */
bool made_varies(const struct reference_input *input);

/* Room for a row as it is sent; false if memory is out. */
bool made_init(struct reference_made *made, const struct reference_job *job);
void made_fini(struct reference_made *made);

/* Bytes of a row, and its scales. */
int64_t made_row_bytes(const struct reference_job *job);
int64_t made_num_scales(const struct reference_job *job);
int64_t made_scale_bytes(const struct reference_job *job);

/* Makes the row of token t for `expert`, an original number, E + j for shared
 * expert j. Adds NaN and Inf to `sent`. */
void made_fill(struct reference_made *made, const struct reference_job *job,
	const struct reference_input *input, int64_t t, int64_t expert,
	struct reference_sent *sent);

#endif
