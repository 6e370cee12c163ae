#include "reference/lanes.h"

#include <math.h>

#define LANES 16

float lanes_dot(const float *a, const float *b, int64_t count)
{
	float lanes[LANES] = {0}, product;

	for (int64_t i = 0; i < count; i++) {
		product = a[i] * b[i];
		lanes[i % LANES] = lanes[i % LANES] + product;
	}
	for (int half = LANES / 2; half > 0; half /= 2)
		for (int i = 0; i < half; i++)
			lanes[i] = lanes[i] + lanes[i + half];
	return lanes[0];
}

void lanes_softmax(float a1, float a2, float p[2])
{
	float max = a1 > a2 ? a1 : a2;
	float e1 = (float)exp((double)(a1 - max));
	float e2 = (float)exp((double)(a2 - max));

	p[0] = e1 / (e1 + e2);
	p[1] = e2 / (e1 + e2);
}
