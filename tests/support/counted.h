/*
 * A plain step of two ranks whose statistics are known: experts 0 and 1 on rank
 * 0, 2 and 3 on rank 1; int8 rows of four bytes with an f32 scale, experts' rows
 * of 16 bytes; T_max 3, K 2. Id 9 is dropped.
 */
#ifndef SUPPORT_COUNTED_H
#define SUPPORT_COUNTED_H

#include "support/plain.h"

#define COUNTED_RANKS 2

extern const int32_t counted_ids[COUNTED_RANKS][6];

/* What each local expert receives in a step. */
extern const int64_t counted_rows[COUNTED_RANKS][2];

struct shunt_exchange_config counted_config(void);

/* From now on token 0 of rank 0 has a NaN, token 1 two Inf; token 2 has one and
 * goes nowhere. */
void counted_spoil_x(struct plain *plain);

/* What this rank brings to a step. */
void counted_bring(struct plain *plain);

/* Combines rows of ones. */
void counted_combine(struct plain *plain);

/* A whole step. */
void counted_pass(struct plain *plain);

struct shunt_stats counted_stats(struct plain *plain);

/* shunt_stats_text(), which must fit. */
void counted_text(struct plain *plain, char *text, size_t size);

#endif
