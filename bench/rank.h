/* What the parts of a rank of `shunt bench` share: rank.c has its life and the
 * order of its steps, join.c the library's objects, step.c the real steps. */
#ifndef BENCH_RANK_H
#define BENCH_RANK_H

#include "bench.h"
#include "check.h"

struct rank {
	struct bench *bench;
	int32_t member;
	bool left_out; /* by --elastic: it only waits for the others */
	struct bench_rank *page;
	struct shunt_world *world;
	struct shunt_group *ep_group, *tp_group; /* NULL without --tp */
	struct shunt_exchange *exchange;
	int64_t recv_rows;           /* room for rows */
	struct plan_target *targets; /* (step of the ring, T, targets) */
	struct floor_work work;      /* the result lies there, too */
	float *rstd;                 /* (T) */
	const void **rows;           /* (recv_rows): received */
	/* With --y: where experts write, and (recv_rows) of --y rows. */
	uint8_t *y;
	const void **y_rows;
	struct shunt_handle last; /* handle of the last step */
	int64_t *waits;           /* (W), of steps that are not timed */
	int32_t *hosts;           /* (members), with --hosts; else NULL */
	struct check check;
	int64_t real_step, floor_step;
	int series; /* of the real step: BENCH_REAL or BENCH_OVERLAP */
};

/* Leaves the message, and lets the other ranks know. Returns false. */
bool rank_fail(struct rank *self, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool rank_fail_call(
	struct rank *self, const char *call, enum shunt_status status);

/* Where to put a time: nowhere if iteration is -1. */
void rank_note_time(const struct rank *self, int series, enum bench_phase phase,
	int64_t iteration, int64_t started_ns);

/* Makes world, groups and exchange, and what lies in their memory. */
bool rank_join(struct rank *self);
void rank_leave(struct rank *self);

/* Takes what the library has counted to the rank's page; with --check it must
 * be right. */
bool rank_take_stats(struct rank *self);

/* A real step, BENCH_REAL or BENCH_OVERLAP, timed as `iteration` or, with -1,
 * not. */
bool rank_step(struct rank *self, int series, int64_t iteration);

/* Feeds the rows of a local expert. */
enum shunt_status rank_feed(const struct rank *self,
	const struct shunt_dispatch_out *sent, int64_t local);

#endif
