/*
 * Who chooses which experts: the routings of `shunt bench`. Each token's K
 * experts are distinct. All draws are pure functions of seed, step, rank.
 */
#ifndef BENCH_ROUTING_H
#define BENCH_ROUTING_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTING_ERROR 8192

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
	int64_t num_experts, topk;
	int32_t num_ranks;
};

/* Reads what --routing was given, and the file it names. On failure `error`
 * says why. Owes routing_fini(), also then. */
bool routing_init(
	struct routing *routing, const char *text, char error[ROUTING_ERROR]);
void routing_fini(struct routing *routing);

/* Fixes the shape. On failure `error` says what does not fit. */
bool routing_prepare(struct routing *routing, int32_t num_ranks,
	int64_t num_experts, int64_t topk, char error[ROUTING_ERROR]);

/* Which step of which rank, and the seed of it all. */
struct routing_step {
	uint64_t seed;
	int64_t step;
	int32_t rank;
};

/* The ids of one rank's step: ids[num_tokens * topk]. False if out of
 * memory. */
bool routing_draw(const struct routing *routing, const struct routing_step *at,
	int64_t num_tokens, int64_t *ids);

/* First expert of a rank under the even placement; rank num_ranks: E. */
int64_t routing_first_expert(const struct routing *routing, int32_t rank);

#endif
