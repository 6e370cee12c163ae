/* An expert multiplies a row by a power of two, so that nothing is rounded;
 * a row at the wrong expert, or home in the wrong place, changes the sum. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "inputs.h"
#include "memory.h"
#include "rows.h"

static float expert_factor(int64_t expert)
{
	return (float)(1 << expert % 5);
}

static void run_expert(const struct shape *shape, int64_t expert,
	const void *row, float scale, uint16_t *y)
{
	if (shape->int8)
		rows_expert_i8(
			row, scale, expert_factor(expert), shape->hidden, y);
	else
		rows_expert_bf16(row, expert_factor(expert), shape->hidden, y);
}

void check_run_experts(struct step *step)
{
	const struct shape *shape = &step->shape;
	int64_t first = shape->rank * shape->local_experts;

	for (int64_t row = 0; row < step->num_rows; row++)
		run_expert(shape, first + step->sources[row].expert,
			step->rows + row * shape->row_bytes, step->scales[row],
			step->y + row * shape->hidden);
}

/* One element of the weighted sum of rows; shares nothing with rows_sum(). */
static uint16_t sum_plainly(const uint16_t *element, int64_t hidden,
	const float *weights, int64_t topk)
{
	float sum = 0;

	for (int64_t k = 0; k < topk; k++)
		sum += weights[k] * rows_from_bf16(element[k * hidden]);
	return rows_to_bf16(sum);
}

/* Whether `out` is what the answers sum up to. */
static bool check_out(const struct shape *shape, const struct input *input,
	const uint16_t *out)
{
	int64_t hidden = shape->hidden;
	int8_t *quantized = memory_take(hidden);
	uint16_t *answers = memory_take(shape->topk * hidden * 2);
	uint16_t *expected = memory_take(hidden * 2);
	int64_t wrong = 0;

	for (int64_t t = 0; t < shape->tokens; t++) {
		const void *row = input->x + t * hidden;
		const float *weights = input->weights + t * shape->topk;
		float scale = 0;

		if (shape->int8) {
			scale = rows_quantize(row, hidden, quantized);
			row = quantized;
		}
		for (int64_t k = 0; k < shape->topk; k++) {
			run_expert(shape, input->ids[t * shape->topk + k], row,
				scale, answers + k * hidden);
		}
		for (int64_t i = 0; i < hidden; i++)
			expected[i] = sum_plainly(
				answers + i, hidden, weights, shape->topk);
		wrong += memcmp(expected, out + t * hidden,
				 (size_t)hidden * 2) != 0;
	}
	free(quantized);
	free(answers);
	free(expected);
	return wrong == 0;
}

/* Whether the `count` rows from `row` on are the choices of `expert` by the
 * tokens of one rank, in their order. */
static bool check_run(const struct step *step, const int32_t *ids,
	int64_t expert, int64_t row, int64_t count)
{
	const struct shape *shape = &step->shape;
	const struct source *source = step->sources + row;
	int64_t num_found = 0;

	for (int64_t i = 0; i < shape->tokens * shape->topk; i++) {
		if (ids[i] != expert)
			continue;
		if (num_found == count ||
			source[num_found].token != i / shape->topk ||
			source[num_found].choice != i % shape->topk)
			return false;
		num_found++;
	}
	return num_found == count;
}

static bool check_rows(
	const struct step *step, const struct inputs *inputs, int64_t number)
{
	const struct shape *shape = &step->shape;
	int64_t first = shape->rank * shape->local_experts;
	int64_t row = 0;

	for (int64_t l = 0; l < shape->local_experts; l++)
		for (int r = 0; r < shape->num_ranks; r++) {
			int64_t run = r * shape->local_experts + l;

			if (step->run_first[run] != row ||
				!check_run(step, inputs_ids(inputs, number, r),
					first + l, row, step->run_count[run]))
				return false;
			row += step->run_count[run];
		}
	return row == step->num_rows;
}

bool check_step(const struct step *step, const struct inputs *inputs,
	int64_t number, const uint16_t *out)
{
	return check_rows(step, inputs, number) &&
	       check_out(&step->shape, &inputs->steps[number], out);
}
