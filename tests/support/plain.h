/*
 * Plain steps: a few tokens with literal ids, in f32, so that a test can spell
 * out what it expects and a reader can check it by hand.
 *
 * Element h of token t of the rank in seat r is 100 * r + 10 * t + h.
 */
#ifndef SUPPORT_PLAIN_H
#define SUPPORT_PLAIN_H

#include "support/ranks.h"

#define PLAIN_TOKENS 4 /* at most */
#define PLAIN_HIDDEN 4
#define PLAIN_TOPK   4 /* at most */

struct plain {
	struct seat *seat;
	struct shunt_exchange *exchange;
	int64_t topk;
	struct shunt_dispatch_args args;
	struct shunt_dispatch_out out;
	struct shunt_combine_args combine;
	struct shunt_handle handle;
	float x[PLAIN_TOKENS * PLAIN_HIDDEN];
	float sums[PLAIN_TOKENS * PLAIN_HIDDEN];
};

/* A received row that is expected: whose x it has, and its source triple. */
struct plain_row {
	int32_t seat, rank, token, k;
};

/* Instead of a row: padding; one that nothing is said about. */
#define PLAIN_PADDING           \
	{                       \
		-1, -1, -1, -1, \
	}
#define PLAIN_ANYTHING          \
	{                       \
		-2, -2, -2, -2, \
	}

float plain_x(int32_t seat, int64_t token, int64_t h);

/* F32 throughout, H = PLAIN_HIDDEN, a deadline of 20 s. */
struct shunt_exchange_config plain_config(
	int64_t max_tokens, int64_t topk, int64_t num_experts);

/* Makes the exchange, over `group` or the world; owes plain_fini(). */
void plain_init(struct plain *plain, struct seat *seat,
	struct shunt_group *group, const struct shunt_exchange_config *config);
void plain_fini(struct plain *plain);

/* What this rank brings to the next dispatch: tokens with these (T, K) ids.
 * Everything else in args and combine is back to nothing. */
void plain_bring(struct plain *plain, int64_t num_tokens, const int32_t *ids);

/* shunt_dispatch() of what was brought. */
enum shunt_status plain_try(struct plain *plain);
void plain_dispatch(struct plain *plain);

/* Fills expert_rows: each received row times `factors` of its local expert. */
void plain_make_rows(struct plain *plain, const float *factors);

/* The same, and shunt_combine() of it into sums. */
enum shunt_status plain_try_combine(struct plain *plain, const float *factors);

/* Dispatches and destroys the handle. */
void plain_pass(struct plain *plain);

/* Ends this rank unless the extent of `out` is these rows, in expand_x or by
 * reference: x, source and, for padding, weights. */
void plain_expect_rows(
	struct plain *plain, int64_t num_rows, const struct plain_row *rows);

/* Ends this rank unless token t came back as factors[t] times its x. */
void plain_expect_sums(struct plain *plain, const float *factors);

/* Ends this rank unless got[0 .. count - 1] are these. */
void plain_expect_i32(struct seat *seat, const char *name, const int32_t *got,
	int64_t count, const int32_t *expected);
void plain_expect_i64(struct seat *seat, const char *name, const int64_t *got,
	int64_t count, const int64_t *expected);
void plain_expect_f32(struct seat *seat, const char *name, const float *got,
	int64_t count, const float *expected);

/* An array of literals, with its length. */
#define PLAIN_LIST(type, ...)                                          \
	(int64_t)(sizeof((const type[]){__VA_ARGS__}) / sizeof(type)), \
		(const type[])                                         \
	{                                                              \
		__VA_ARGS__                                            \
	}
#define I32_LIST(...)  PLAIN_LIST(int32_t, __VA_ARGS__)
#define I64_LIST(...)  PLAIN_LIST(int64_t, __VA_ARGS__)
#define F32_LIST(...)  PLAIN_LIST(float, __VA_ARGS__)
#define ROWS_LIST(...) PLAIN_LIST(struct plain_row, __VA_ARGS__)

#endif
