/*
 * What the ranks bring to their steps: a ring of LOAD_STEPS different steps,
 * made ahead of all timing, in memory that all ranks share (the floor and the
 * check look at other ranks' inputs too). draw.c fills it.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "shape.h"

#define LOAD_STEPS 4

/* What each member brings to each step. */
enum load_field {
	LOAD_X,        /* (T, H), rows of x_row_bytes */
	LOAD_X_SCALES, /* (T, n) */
	LOAD_ORI_X,    /* (T, H), as shared_x in expert_dtype */
	LOAD_SHARED_X, /* (T, H) */
	LOAD_RESIDUAL, /* (T, H), in out_dtype */
	/* The routing, with --cached that of step 0: */
	LOAD_IDS,     /* (T, K), int64_t */
	LOAD_IDS32,   /* (T, K), int32_t */
	LOAD_WEIGHTS, /* (T, K), float */
	LOAD_MASK,    /* (T) or (T, K), bytes */
	LOAD_COUNTS,  /* (E' + s), int32_t: rows for each expert */
	LOAD_NUM_FIELDS
};

/* What all have alike, in all steps. */
enum load_table {
	LOAD_SMOOTH, /* (s + E, H), float */
	LOAD_STATIC, /* by static_shape, float */
	LOAD_ALPHA1, /* (Zk, H), as alpha2 and v in expert_dtype */
	LOAD_ALPHA2,
	LOAD_V,
	LOAD_GAMMA, /* (H) */
	LOAD_NUM_TABLES
};

struct load_area {
	uint8_t *base; /* NULL: there is none */
	int64_t bytes; /* of a part */
	size_t offset;
	bool wanted;
};

struct load {
	const struct shape *shape;
	int64_t num_tokens, topk, hidden, num_choices;
	int64_t x_stride; /* elements from row to row */
	int64_t x_row_bytes;
	int64_t x_scale_bytes; /* of a row's scales */
	int64_t expert_bytes;  /* of a row in expert_dtype */
	int64_t out_bytes;     /* of a row in out_dtype */
	int64_t first_copy;    /* id of the first copy expert */
	enum shunt_mask mask;
	bool one_routing;
	struct load_area fields[LOAD_NUM_FIELDS];
	struct load_area tables[LOAD_NUM_TABLES];
	size_t bytes; /* of all of it */
	void *memory;
};

/* Bytes of `count` elements. */
int64_t load_bytes_of(enum shunt_dtype dtype, int64_t count);

/* Reserves the memory and draws everything but x. The routing is prepared.
 * False with errno set. */
bool load_init(struct load *load, const struct options *options,
	const struct shape *shape);
void load_fini(struct load *load);

/* A member's part of a step of the ring, or of all; NULL if there is none. */
void *load_at(const struct load *load, enum load_field field, int64_t step,
	int32_t member);
void *load_table(const struct load *load, enum load_table table);

/* The id that a choice asks for; -1 if it is masked. */
int64_t load_choice(
	const struct load *load, int64_t step, int32_t member, int64_t choice);

/* The same, for those with a rank: -1 also for special and bad ones. */
int64_t load_expert(
	const struct load *load, int64_t step, int32_t member, int64_t choice);

/* True if some choice is neither masked nor -1. */
bool load_is_active(
	const struct load *load, int64_t step, int32_t member, int64_t t);

/* Drawing; see draw.c. */
bool draw_steps(struct load *load, const struct options *options);
void draw_tables(struct load *load, const struct options *options);
/* One member's rows, so that their memory is first touched there. */
void draw_rows(
	struct load *load, const struct options *options, int32_t member);

#endif
