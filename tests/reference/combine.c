/*
 * The reference's combine: a sum per token, in f32, in choice order, multiply
 * and add rounded apart (this folder is compiled with -ffp-contract=off), and
 * one rounding at the end.
 */
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"
#include "reference/rows.h"

/* What one token's sum needs besides the job. */
struct sum {
	const struct reference_job *job;
	int32_t rank;
	const float *weights;
	reference_expert expert;
	void *context;
	void *sent_row, *y; /* a row as sent, and as the expert gives it */
	float *values, *acc;
};

static void add_row(float *acc, const float *values, int64_t hidden)
{
	for (int64_t h = 0; h < hidden; h++)
		acc[h] = acc[h] + values[h];
}

static void add_weighted(
	float *acc, float weight, const float *values, int64_t hidden)
{
	float product;

	for (int64_t h = 0; h < hidden; h++) {
		product = weight * values[h];
		acc[h] = acc[h] + product;
	}
}

/* Adds what choice (t, k) brings, if anything. */
static void add_choice(
	struct sum *sum, int64_t t, int64_t k, bool *sent, float *scale)
{
	const struct reference_job *job = sum->job;
	const struct reference_input *input = &job->inputs[sum->rank];
	int64_t expert = reference_travels_to(job, input, t, k);
	struct reference_sent ignored = {0};

	if (expert < 0)
		return;
	/* Without smooth scales every expert is sent the same row. */
	if (!*sent || input->smooth != NULL)
		*scale = reference_make_row(
			job, input, t, expert, sum->sent_row, &ignored);
	*sent = true;
	sum->expert(sum->context, expert, sum->sent_row, *scale, sum->y);
	convert_load(job->expert_dtype, sum->y, job->hidden, sum->values);
	if (sum->weights == NULL)
		add_row(sum->acc, sum->values, job->hidden);
	else
		add_weighted(sum->acc, sum->weights[t * job->topk + k],
			sum->values, job->hidden);
}

static void sum_token(struct sum *sum, int64_t t)
{
	bool sent = false;
	float scale = 1;

	for (int64_t h = 0; h < sum->job->hidden; h++)
		sum->acc[h] = 0;
	for (int64_t k = 0; k < sum->job->topk; k++)
		add_choice(sum, t, k, &sent, &scale);
}

bool reference_combine(const struct reference_job *job, int32_t rank,
	const float *weights, reference_expert expert, void *context,
	enum shunt_dtype out_dtype, int64_t out_stride, void *out)
{
	size_t row_bytes = (size_t)job->hidden * sizeof(float);
	uint8_t *rows = malloc(4 * row_bytes);
	struct sum sum = {
		.job = job,
		.rank = rank,
		.weights = weights,
		.expert = expert,
		.context = context,
	};

	if (rows == NULL)
		return false;
	sum.values = (float *)(void *)rows;
	sum.acc = sum.values + job->hidden;
	sum.y = rows + 2 * row_bytes;
	sum.sent_row = rows + 3 * row_bytes;
	for (int64_t t = 0; t < job->inputs[rank].num_tokens; t++) {
		sum_token(&sum, t);
		convert_store(out_dtype, sum.acc, job->hidden,
			(uint8_t *)out + (size_t)(t * out_stride) *
						 convert_bytes(out_dtype));
	}
	free(rows);
	return true;
}
