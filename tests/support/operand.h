/*
 * Rows of hard values for tests of kernels: each lies right in front of
 * forbidden memory in its element type, and beside it as the f32 that these
 * elements are.
 */
#ifndef SUPPORT_OPERAND_H
#define SUPPORT_OPERAND_H

#include <stdint.h>

#include <shunt/types.h>

#include "support/fence.h"

/* Kinds of values, each hard in its own way. */
enum operand_kind {
	OPERAND_PLAIN,    /* about -4 .. 4 */
	OPERAND_BITS,     /* any f32 bits, NaN and Inf among them */
	OPERAND_DENORMAL, /* f32 denormals, those of f16 and around */
	OPERAND_HUGE,     /* around the largest f16, and the largest f32 */
	OPERAND_ZEROS,    /* signed zeros, a few values */
	OPERAND_NUM_KINDS
};

struct operand {
	struct fence fence;
	float *values;   /* f32 of the elements */
	const void *row; /* the elements, misaligned now and then */
};

/* Space for up to max_hidden elements; operand_fini() is owed. */
void operand_init(struct operand *operand, int64_t max_hidden);
void operand_fini(struct operand *operand);

/* Draws `hidden` elements of a kind; *random is never 0. */
void operand_draw(struct operand *operand, enum shunt_dtype dtype,
	enum operand_kind kind, int64_t hidden, uint64_t *random);

/* Rounds operand->values to the type and puts the row, `gap` bytes from its
 * fence. */
void operand_put(struct operand *operand, enum shunt_dtype dtype,
	int64_t hidden, size_t gap);

/* The next random number, and the next value of a kind. */
uint32_t operand_random(uint64_t *random);
float operand_value(enum operand_kind kind, uint64_t *random);

/* A NaN or an Inf. */
float operand_special(uint32_t random);

/* a + b and a * b, each rounded by itself, whatever the compiler. */
float operand_plus(float a, float b);
float operand_times(float a, float b);

/* The sum of a[h] * b[h], in 16 lanes that are then added pairwise. */
float operand_dot(const float *a, const float *b, int64_t hidden);

float operand_from_bits(uint32_t bits);
uint32_t operand_to_bits(float value);

#endif
