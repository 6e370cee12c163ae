/* An expert multiplies a row by a power of two, so that nothing is rounded;
 * a row at the wrong expert, or home in the wrong place, changes the sum. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "inputs.h"
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
	int64_t row = 0;

	for (int64_t l = 0; l < step->local_experts; l++)
		for (int r = 0; r < shape->num_ranks; r++)
			for (int64_t i = 0; i < step_run(step, r, l);
				i++, row++)
				run_expert(shape,
					shape->rank * step->local_experts + l,
					step->rows + row * step->row_bytes,
					step->scales[row],
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
	int8_t *quantized = step_memory(hidden);
	uint16_t *answers = step_memory(shape->topk * hidden * 2);
	uint16_t *expected = step_memory(hidden * 2);
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

/* Whether each row was chosen by the token it says it comes from. */
static bool check_sources(const struct step *step, int64_t number)
{
	const struct shape *shape = &step->shape;
	int32_t *ids = step_memory(shape->tokens * shape->topk * 4);
	int64_t wrong = 0;

	for (int r = 0; r < shape->num_ranks; r++) {
		int64_t row = 0;

		inputs_draw_ids(shape, number, r, ids);
		for (int64_t run = 0; run < shape->experts; run++) {
			int64_t l = run / shape->num_ranks;
			int64_t from = run % shape->num_ranks;
			int64_t rows = step_run(step, from, l);

			for (int64_t i = 0; from == r && i < rows; i++) {
				struct source s = step->sources[row + i];

				wrong +=
					ids[s.token * shape->topk + s.choice] !=
					shape->rank * step->local_experts + l;
			}
			row += rows;
		}
	}
	free(ids);
	return wrong == 0;
}

bool check_step(const struct step *step, const struct input *input,
	int64_t number, const uint16_t *out)
{
	return check_sources(step, number) &&
	       check_out(&step->shape, input, out);
}
