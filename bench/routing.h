/*
 * Who chooses which experts: the routings of `shunt bench`. Each token's K
 * experts are distinct. All draws are pure functions of seed, step, member.
 */
#ifndef BENCH_ROUTING_H
#define BENCH_ROUTING_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTING_ERROR 8192

struct shape;

enum routing_kind {
	ROUTING_UNIFORM,  /* K of E, each as likely */
	ROUTING_ZIPF,     /* without replacement, weight 1 / (i + 1)^A */
	ROUTING_HOT,      /* each choice with chance F among the first N */
	ROUTING_ONE,      /* every token to experts 0 .. K-1 */
	ROUTING_LOCAL,    /* as uniform, among the rank's own experts */
	ROUTING_BALANCED, /* round robin, every expert gets the same */
	ROUTING_FILE      /* without replacement, weight by measured count */
};

struct routing {
	enum routing_kind kind;
	double exponent;                 /* A */
	int64_t num_hot;                 /* N */
	double hot_fraction;             /* F */
	int64_t file_experts, file_topk; /* of the file, else 0 */
	char set[128];                   /* of the file: which set was taken */
	double *weights; /* (E), for zipf and file; by routing_prepare() */
	const struct shape *shape;
	int64_t num_experts, topk; /* E', K */
};

/* Reads what --routing was given, and the file it names. On failure `error`
 * says why. Owes routing_fini(), also then. */
bool routing_init(
	struct routing *routing, const char *text, char error[ROUTING_ERROR]);
void routing_fini(struct routing *routing);

/* Fixes the shape, which stays. On failure `error` says what does not fit. */
bool routing_prepare(struct routing *routing, const struct shape *shape,
	int64_t topk, char error[ROUTING_ERROR]);

/* Which step of which member, and the seed of it all. */
struct routing_step {
	uint64_t seed;
	int64_t step;
	int32_t member;
};

/* The ids of one member's step, in the new numbering of shape.h:
 * ids[num_tokens * topk]; all -1 if there are only special experts. False if
 * out of memory. */
bool routing_draw(const struct routing *routing, const struct routing_step *at,
	int64_t num_tokens, int64_t *ids);

#endif
