/*
 * Steps whose combine is known: experts are functions of token and expert
 * number, so each rank works out by itself, by plain code, what must come back
 * for its tokens.
 */
#ifndef SUPPORT_KNOWN_H
#define SUPPORT_KNOWN_H

#include <shunt/shunt.h>

#define KNOWN_TOKENS   7
#define KNOWN_HIDDEN   137 /* groups of 8, 32 and 128, and tails of all */
#define KNOWN_TOPK     4
#define KNOWN_RANKS    4
#define KNOWN_EXPERTS  5
#define KNOWN_ZERO     1
#define KNOWN_COPY     1
#define KNOWN_CONSTANT 2

/* Where the experts' rows are when combine gets them. */
enum known_place {
	KNOWN_IN_EXPERT_ROWS,
	KNOWN_ELSEWHERE,
	KNOWN_IN_SEGMENT,
	KNOWN_BY_POINTERS,
	KNOWN_BY_FEED
};

/* One exchange and what its combine is given. */
struct known_variant {
	enum shunt_dtype expert_dtype, out_dtype;
	enum shunt_combine_quant quant;
	enum shunt_layout layout;
	enum known_place place;
	bool shared, special, tp, tp_order;
	bool weights, shared_x, residual, gamma, gamma_f32;
	int64_t alignment;
};

/* A rank's tokens and everything else that it gives to combine. */
struct known_inputs {
	float x[KNOWN_TOKENS][KNOWN_HIDDEN];
	int32_t ids[KNOWN_TOKENS][KNOWN_TOPK];
	uint8_t mask[KNOWN_TOKENS * KNOWN_TOPK];
	float weights[KNOWN_TOKENS][KNOWN_TOPK];
	float ori_x[KNOWN_TOKENS][KNOWN_HIDDEN],
		shared_x[KNOWN_TOKENS][KNOWN_HIDDEN];
	float residual[KNOWN_TOKENS][KNOWN_HIDDEN], gamma[KNOWN_HIDDEN];
	float alpha1[KNOWN_CONSTANT][KNOWN_HIDDEN],
		alpha2[KNOWN_CONSTANT][KNOWN_HIDDEN];
	float v[KNOWN_CONSTANT][KNOWN_HIDDEN];
};

/* What a rank's outputs must be. Rows of out and norm_out begin at full f32
 * width, whatever their type. */
struct known_outputs {
	uint8_t out[KNOWN_TOKENS][KNOWN_HIDDEN * sizeof(float)];
	uint8_t norm_out[KNOWN_TOKENS][KNOWN_HIDDEN * sizeof(float)];
	float rstd[KNOWN_TOKENS];
};

/* The inputs of the rank with number `rank` of all; of a type that rounds they
 * are rounded where they are stored. */
void known_draw(struct known_inputs *inputs,
	const struct known_variant *variant, int32_t rank);

/* What expert `unit` (the shared one: KNOWN_EXPERTS) at TP rank `tp` makes of a
 * token, rounded to expert_dtype. */
void known_row(const struct known_variant *variant, const float *x,
	int64_t unit, int32_t tp, float *y);

/* acc = the sum of token t. */
void known_sum(const struct known_variant *variant,
	const struct known_inputs *inputs, int64_t t, float *acc);

/* Token t of `due`, from its sum; z is spoilt. */
void known_tail(const struct known_variant *variant,
	const struct known_inputs *inputs, int64_t t, float *z,
	struct known_outputs *due);

#endif
