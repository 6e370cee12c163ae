/* Ids, tokens and weights of all inputs, made from the seed. */
#include <stdlib.h>

#include "inputs.h"
#include "random.h"

/* The streams of random.h; PURPOSE_IDS is that of routing.c. */
#define PURPOSE_IDS     1
#define PURPOSE_X       2
#define PURPOSE_WEIGHTS 3

/* K distinct experts for each token, any of them as likely. */
void inputs_draw_ids(
	const struct shape *shape, int64_t number, int rank, int32_t *ids)
{
	struct random random =
		random_stream(shape->seed, PURPOSE_IDS, number, rank);
	int32_t *pool = step_memory(shape->experts * 4);

	for (int32_t e = 0; e < shape->experts; e++)
		pool[e] = e;
	for (int64_t t = 0; t < shape->tokens; t++)
		for (int64_t k = 0; k < shape->topk; k++) {
			int64_t other =
				k + random_below(&random, shape->experts - k);
			int32_t drawn = pool[other];

			pool[other] = pool[k];
			pool[k] = drawn;
			ids[t * shape->topk + k] = drawn;
		}
	free(pool);
}

static void make_input(
	struct input *input, const struct shape *shape, int64_t number)
{
	int64_t num_choices = shape->tokens * shape->topk;
	int64_t num_elements = shape->tokens * shape->hidden;
	uint64_t seed = shape->seed;
	struct random x = random_stream(seed, PURPOSE_X, number, shape->rank);
	struct random weights =
		random_stream(seed, PURPOSE_WEIGHTS, number, shape->rank);

	*input = (struct input){
		.x = step_memory(num_elements * 2),
		.ids = step_memory(num_choices * 4),
		.weights = step_memory(num_choices * 4),
	};
	inputs_draw_ids(shape, number, shape->rank, input->ids);
	/* Any sign and mantissa, magnitudes from 2^-7 to 2. */
	for (int64_t i = 0; i < num_elements; i++) {
		uint64_t bits = random_next(&x);

		input->x[i] = (uint16_t)((bits & 0x807f) |
					 (0x78 + (bits >> 32) % 8) << 7);
	}
	for (int64_t i = 0; i < num_choices; i++)
		input->weights[i] = (float)random_unit(&weights);
}

void inputs_make(struct input inputs[INPUTS], const struct shape *shape)
{
	for (int64_t i = 0; i < INPUTS; i++)
		make_input(&inputs[i], shape, i);
}

void inputs_free(struct input inputs[INPUTS])
{
	for (int64_t i = 0; i < INPUTS; i++) {
		free(inputs[i].x);
		free(inputs[i].ids);
		free(inputs[i].weights);
	}
}

int64_t inputs_most_rows(const struct shape *shape)
{
	int64_t local = shape->experts / shape->num_ranks;
	int64_t num_choices = shape->tokens * shape->topk;
	int32_t *ids = step_memory(num_choices * 4);
	int64_t most = 0;

	for (int64_t input = 0; input < INPUTS; input++) {
		int64_t rows = 0;

		for (int r = 0; r < shape->num_ranks; r++) {
			inputs_draw_ids(shape, input, r, ids);
			for (int64_t i = 0; i < num_choices; i++)
				rows += ids[i] / local == shape->rank;
		}
		most = rows > most ? rows : most;
	}
	free(ids);
	return most;
}
