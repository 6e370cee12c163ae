/* The experts' rows home, and their weighted sum. */
#include <mpi.h>
#include <string.h>

#include "block.h"
#include "exchange.h"
#include "rows.h"
#include "step.h"

/* Brings the experts' rows for other ranks together, by expert. */
static void pack_answers(struct step *step)
{
	const struct shape *shape = &step->shape;
	int64_t row_bytes = shape->hidden * 2;
	const uint8_t *y = (const uint8_t *)step->y;

	for (int r = 0; r < shape->num_ranks; r++) {
		int64_t first = r * shape->local_experts;
		uint8_t *to = step->received.memory + step->received.at[r];

		for (int64_t run = first;
			r != shape->rank && run < first + shape->local_experts;
			run++) {
			int64_t bytes = step->run_count[run] * row_bytes;

			memcpy(to, y + step->run_first[run] * row_bytes,
				(size_t)bytes);
			to += bytes;
		}
	}
}

static void sum_answers(
	struct step *step, const struct input *input, uint16_t *out)
{
	const struct shape *shape = &step->shape;
	const uint16_t *came = (const uint16_t *)(void *)step->sent.memory;

	for (int64_t t = 0; t < shape->tokens; t++) {
		for (int64_t k = 0; k < shape->topk; k++) {
			int64_t i = t * shape->topk + k;
			bool own = step_rank_of(shape, input->ids[i]) ==
				   shape->rank;

			step->chosen[k] = (own ? step->y : came) +
					  step->answers[i] * shape->hidden;
		}
		rows_sum(step->chosen, input->weights + t * shape->topk,
			shape->topk, shape->hidden, out + t * shape->hidden);
	}
}

void step_combine(struct step *step, const struct input *input, uint16_t *out)
{
	const struct shape *shape = &step->shape;

	block_lay_out_answers(shape, &step->sent, step->send_sizes);
	if (shape->variant == VARIANT_DIRECT) {
		exchange_answers(step);
	} else {
		block_lay_out_answers(shape, &step->received, step->recv_sizes);
		pack_answers(step);
		exchange_bytes(step, &step->received, &step->sent);
	}
	sum_answers(step, input, out);
}
