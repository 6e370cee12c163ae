/* The reference's sums over a row, in 16 lanes (ruling 1.6), and softmax. */
#ifndef REFERENCE_LANES_H
#define REFERENCE_LANES_H

#include <stdint.h>

/* The sum of a[i] * b[i]. */
float lanes_dot(const float *a, const float *b, int64_t count);

/* (p[0], p[1]) = softmax(a1, a2). */
void lanes_softmax(float a1, float a2, float p[2]);

#endif
