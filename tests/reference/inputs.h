/*
 * Inputs for tests and checks, from a seed: any rank can work out any other
 * rank's inputs of any step, row by row, without having drawn those before.
 *
 * Styles marked "adversarial" hold what breaks others: NaN, Inf, denormals,
 * zero rows, huge and tiny values, weights that must not be read.
 */
#ifndef REFERENCE_INPUTS_H
#define REFERENCE_INPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/shunt.h>

#include "reference/reference.h"

/* Where the random numbers of one rank's step come from. */
struct input_key {
	uint64_t seed;
	int64_t step;
	int32_t rank;
};

/* A random number for (key, purpose, index): a pure function of them. */
uint64_t input_random(
	const struct input_key *key, uint64_t purpose, uint64_t index);

/* A number in [low, high], for the same. */
int64_t input_range(const struct input_key *key, uint64_t purpose,
	uint64_t index, int64_t low, int64_t high);

enum input_style { INPUT_NORMAL, INPUT_ADVERSARIAL, INPUT_NUM_STYLES };

/* Writes row t of x: `hidden` elements of `dtype` (any but E8M0), at any
 * alignment. */
void input_x_row(const struct input_key *key, enum input_style style,
	enum shunt_dtype dtype, int64_t hidden, int64_t t, void *row);

enum input_routing {
	INPUT_UNIFORM,
	INPUT_HOT,   /* all tokens to one expert first */
	INPUT_LOCAL, /* to the sender's own experts only */
	INPUT_NUM_ROUTINGS
};

struct input_ids_rule {
	enum input_routing routing;
	int64_t topk, num_experts;
	int64_t num_special;        /* ids behind the experts */
	const int32_t *expert_rank; /* for INPUT_LOCAL ... */
	int32_t rank;               /* ... and the sender's */
	bool distinct;       /* within a token; what is left over is -1 */
	bool wide;           /* bad ids may need 64 bits */
	int percent_special; /* choices that become special experts */
	int percent_none;    /* choices that become -1 */
	int percent_bad;     /* choices that become bad ids */
};

/* Writes the K ids of token t. */
void input_ids(const struct input_key *key, const struct input_ids_rule *rule,
	int64_t t, int64_t *ids);

/* An id that is not below num_ids; -1 is not among them. */
int64_t input_bad_id(uint64_t random, int64_t num_ids, bool wide);

/* Writes `count` mask bytes, about `percent` of them 0, others anything. */
void input_mask(
	const struct input_key *key, int percent, int64_t count, uint8_t *mask);

/* Writes `count` weights. */
void input_weights(const struct input_key *key, enum input_style style,
	int64_t count, float *weights);

/* Writes `count` smooth scales. */
void input_smooth(const struct input_key *key, enum input_style style,
	int64_t count, float *smooth);

/* Writes `count` scales of `dtype` (F32, E8M0, E4M3FN), for rows that come
 * quantized. */
void input_scales(const struct input_key *key, enum input_style style,
	enum shunt_dtype dtype, int64_t count, void *scales);

/*
 * The toy expert: y = round(value * a + b), where value is the row's in f32,
 * and a and b depend on the expert and on the place in the TP group. `context`
 * is the struct reference_job; fits reference_expert.
 */
void input_expert_row(
	void *context, const struct reference_made *made, void *y);

#endif
