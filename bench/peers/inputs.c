/* The inputs of all steps: ids read from a file, the rest made from a seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "memory.h"
#include "random.h"

/* Streams of random.h. */
#define PURPOSE_X       2
#define PURPOSE_WEIGHTS 3

/* ---- the file --------------------------------------------------------- */

static bool head_is_good(const struct ids_head *head)
{
	return head->magic == IDS_MAGIC && head->steps >= 1 &&
	       head->steps <= 1 << 10 && head->ranks >= 1 &&
	       head->ranks <= 1 << 12 && head->tokens >= 1 &&
	       head->tokens <= 1 << 24 && head->topk >= 1 &&
	       head->topk <= 1 << 12 && head->experts >= 1 &&
	       head->experts <= 1 << 16 && head->experts % head->ranks == 0;
}

static int64_t num_ids(const struct ids_head *head)
{
	return head->steps * head->ranks * head->tokens * head->topk;
}

/* Reads all ids, behind which the file must end. */
static bool read_ids(FILE *file, const struct ids_head *head, int32_t *ids)
{
	size_t num = (size_t)num_ids(head);

	if (fread(ids, sizeof(ids[0]), num, file) != num || fgetc(file) != EOF)
		return false;
	for (size_t i = 0; i < num; i++)
		if (ids[i] < 0 || ids[i] >= head->experts)
			return false;
	return true;
}

bool inputs_read(struct inputs *inputs, const char *path)
{
	FILE *file = fopen(path, "rbe");
	struct ids_head *head = &inputs->head;
	int32_t *ids;

	if (!file) {
		perror(path);
		return false;
	}
	if (fread(head, sizeof(*head), 1, file) != 1 || !head_is_good(head)) {
		fprintf(stderr, "%s: not a file of expert ids\n", path);
		fclose(file);
		return false;
	}
	ids = memory_take(num_ids(head) * 4);
	inputs->ids = ids;
	if (!read_ids(file, head, ids)) {
		fprintf(stderr, "%s: its ids are not those of its head\n",
			path);
		fclose(file);
		return false;
	}
	fclose(file);
	return true;
}

const int32_t *inputs_ids(const struct inputs *inputs, int64_t step, int rank)
{
	const struct ids_head *head = &inputs->head;

	return inputs->ids +
	       (step * head->ranks + rank) * head->tokens * head->topk;
}

int64_t inputs_most_rows(const struct inputs *inputs, const struct shape *shape)
{
	int64_t most = 0;

	for (int64_t step = 0; step < inputs->head.steps; step++) {
		const int32_t *ids = inputs_ids(inputs, step, 0);
		int64_t num = inputs->head.ranks * shape->tokens * shape->topk;
		int64_t rows = 0;

		for (int64_t i = 0; i < num; i++)
			rows += step_rank_of(shape, ids[i]) == shape->rank;
		most = rows > most ? rows : most;
	}
	return most;
}

/* ---- the rest --------------------------------------------------------- */

static void draw_step(struct input *input, const struct inputs *inputs,
	const struct shape *shape, uint64_t seed, int64_t step)
{
	int64_t num_choices = shape->tokens * shape->topk;
	int64_t num_elements = shape->tokens * shape->hidden;
	struct random x = random_stream(seed, PURPOSE_X, step, shape->rank);
	struct random weights =
		random_stream(seed, PURPOSE_WEIGHTS, step, shape->rank);

	*input = (struct input){
		.x = memory_take(num_elements * 2),
		.ids = inputs_ids(inputs, step, shape->rank),
		.weights = memory_take(num_choices * 4),
	};
	/* Any sign and mantissa, magnitudes from 2^-7 to 2. */
	for (int64_t i = 0; i < num_elements; i++) {
		uint64_t bits = random_next(&x);

		input->x[i] = (uint16_t)((bits & 0x807f) |
					 (0x78 + (bits >> 32) % 8) << 7);
	}
	for (int64_t i = 0; i < num_choices; i++)
		input->weights[i] = (float)random_unit(&weights);
}

void inputs_draw(
	struct inputs *inputs, const struct shape *shape, uint64_t seed)
{
	int64_t steps = inputs->head.steps;

	inputs->steps = memory_take(steps * (int64_t)sizeof(struct input));
	for (int64_t step = 0; step < steps; step++)
		draw_step(&inputs->steps[step], inputs, shape, seed, step);
}

void inputs_free(struct inputs *inputs)
{
	for (int64_t step = 0; step < inputs->head.steps; step++) {
		free(inputs->steps[step].x);
		free(inputs->steps[step].weights);
	}
	free(inputs->steps);
	free((void *)inputs->ids);
}
