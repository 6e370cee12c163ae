/*
 * The reference: routing, counts, rows and sums, as the specification says
 * them (1.3 to 1.6). Slow, and obviously right.
 */
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

#include "reference/convert.h"
#include "reference/quantize.h"
#include "reference/rows.h"

static void place_evenly(
	int64_t num_experts, int32_t num_ranks, int32_t *expert_rank)
{
	int64_t share = num_experts / num_ranks;
	int64_t longer = num_experts % num_ranks;
	int64_t expert = 0;

	for (int32_t r = 0; r < num_ranks; r++)
		for (int64_t i = 0; i < share + (r < longer); i++)
			expert_rank[expert++] = r;
}

void reference_place(const struct shunt_exchange_config *config,
	int32_t num_ranks, int32_t *expert_rank)
{
	if (config->expert_rank != NULL) {
		for (int64_t e = 0; e < config->num_experts; e++)
			expert_rank[e] = config->expert_rank[e];
	} else if (config->first_expert != NULL) {
		for (int32_t r = 0; r < num_ranks; r++)
			for (int64_t i = 0; i < config->expert_count[r]; i++)
				expert_rank[config->first_expert[r] + i] = r;
	} else {
		place_evenly(config->num_experts, num_ranks, expert_rank);
	}
}

int64_t reference_travels_to(const struct reference_job *job,
	const struct reference_input *input, int64_t t, int64_t k)
{
	int64_t choice = t * job->topk + k;

	if (input->mask == SHUNT_MASK_TOKENS && input->active_mask[t] == 0)
		return -1;
	if (input->mask == SHUNT_MASK_CHOICES &&
		input->active_mask[choice] == 0)
		return -1;
	if (input->ids[choice] < 0 || input->ids[choice] >= job->num_experts)
		return -1;
	return input->ids[choice];
}

static const uint8_t *token_row(const struct reference_job *job,
	const struct reference_input *input, int64_t t)
{
	size_t row = (size_t)(t * input->x_stride);

	return (const uint8_t *)input->x + row * convert_bytes(job->dtype);
}

static const float *smooth_row(const struct reference_job *job,
	const struct reference_input *input, int64_t expert)
{
	if (input->smooth == NULL)
		return NULL;
	return input->smooth + expert * job->hidden;
}

static int64_t sent_row_bytes(const struct reference_job *job)
{
	if (job->quant == SHUNT_QUANT_INT8)
		return job->hidden;
	return job->hidden * (int64_t)convert_bytes(job->dtype);
}

float reference_make_row(const struct reference_job *job,
	const struct reference_input *input, int64_t t, int64_t expert,
	void *row, struct reference_sent *sent)
{
	if (job->quant == SHUNT_QUANT_NONE) {
		memcpy(row, token_row(job, input, t),
			(size_t)sent_row_bytes(job));
		return 1.0f;
	}
	return quantize_int8_row(job->dtype, token_row(job, input, t),
		smooth_row(job, input, expert), job->hidden, row,
		&sent->nan_elements, &sent->inf_elements);
}

int64_t reference_num_local(const struct reference_job *job, int32_t rank)
{
	int64_t count = 0;

	for (int64_t e = 0; e < job->num_experts; e++)
		count += job->expert_rank[e] == rank;
	return count;
}

int64_t reference_num_rows(const struct reference_job *job, int32_t rank)
{
	const struct reference_input *input;
	int64_t rows = 0, expert;

	for (int32_t r = 0; r < job->num_ranks; r++) {
		input = &job->inputs[r];
		for (int64_t t = 0; t < input->num_tokens; t++)
			for (int64_t k = 0; k < job->topk; k++) {
				expert = reference_travels_to(job, input, t, k);
				if (expert >= 0)
					rows += job->expert_rank[expert] ==
						rank;
			}
	}
	return rows;
}

static void *room(int64_t count, size_t bytes)
{
	return calloc((size_t)count + 1, bytes);
}

bool reference_received_init(struct reference_received *received,
	const struct reference_job *job, int32_t rank, int64_t max_rows)
{
	int64_t experts = reference_num_local(job, rank);
	int64_t row_bytes = sent_row_bytes(job);

	*received = (struct reference_received){
		.num_experts = experts,
		.row_bytes = row_bytes,
		.expand_x = room(max_rows, (size_t)row_bytes),
		.dynamic_scales = room(max_rows, sizeof(float)),
		.token_nums = room(experts, sizeof(int64_t)),
		.token_prefix = room(experts, sizeof(int64_t)),
		.recv_counts = room(experts * job->num_ranks, sizeof(int32_t)),
		.weights = room(max_rows, sizeof(float)),
		.source = room(max_rows, 3 * sizeof(int32_t)),
		.experts = room(max_rows, sizeof(int64_t)),
	};
	return received->expand_x && received->dynamic_scales &&
	       received->token_nums && received->token_prefix &&
	       received->recv_counts && received->weights && received->source &&
	       received->experts;
}

void reference_received_fini(struct reference_received *received)
{
	free(received->expand_x);
	free(received->dynamic_scales);
	free(received->token_nums);
	free(received->token_prefix);
	free(received->recv_counts);
	free(received->weights);
	free(received->source);
	free(received->experts);
	*received = (struct reference_received){0};
}

static void receive_row(const struct reference_job *job, int32_t source,
	int64_t t, int64_t k, int64_t expert,
	struct reference_received *received)
{
	const struct reference_input *input = &job->inputs[source];
	struct reference_sent ignored = {0};
	int64_t n = received->num_rows++;

	received->dynamic_scales[n] = reference_make_row(job, input, t, expert,
		received->expand_x + n * received->row_bytes, &ignored);
	if (input->weights != NULL)
		memcpy(&received->weights[n],
			&input->weights[t * job->topk + k], sizeof(float));
	received->source[3 * n] = source;
	received->source[3 * n + 1] = (int32_t)t;
	received->source[3 * n + 2] = (int32_t)k;
	received->experts[n] = expert;
}

/* Block (expert, source): rows in the order of t * K + k. */
static void receive_block(const struct reference_job *job, int32_t source,
	int64_t expert, struct reference_received *received)
{
	const struct reference_input *input = &job->inputs[source];

	for (int64_t t = 0; t < input->num_tokens; t++)
		for (int64_t k = 0; k < job->topk; k++)
			if (reference_travels_to(job, input, t, k) == expert)
				receive_row(
					job, source, t, k, expert, received);
}

void reference_receive(const struct reference_job *job, int32_t rank,
	struct reference_received *received)
{
	int64_t local = 0, before;

	received->num_rows = 0;
	for (int64_t e = 0; e < job->num_experts; e++) {
		if (job->expert_rank[e] != rank)
			continue;
		before = received->num_rows;
		for (int32_t r = 0; r < job->num_ranks; r++) {
			receive_block(job, r, e, received);
			received->recv_counts[local * job->num_ranks + r] =
				(int32_t)received->num_rows;
		}
		received->token_nums[local] = received->num_rows - before;
		received->token_prefix[local] = received->num_rows;
		local++;
	}
}

static bool is_dropped(const struct reference_job *job,
	const struct reference_input *input, int64_t t, int64_t k)
{
	int64_t choice = t * job->topk + k;
	int64_t id = input->ids[choice];

	if (input->mask == SHUNT_MASK_TOKENS && input->active_mask[t] == 0)
		return false;
	if (input->mask == SHUNT_MASK_CHOICES &&
		input->active_mask[choice] == 0)
		return false;
	return id < -1 || id >= job->num_experts;
}

/* Without smooth scales a token is quantized once for all its choices. */
static void count_token(const struct reference_job *job,
	const struct reference_input *input, int64_t t, void *row,
	struct reference_sent *sent)
{
	int64_t expert;

	for (int64_t k = 0; k < job->topk; k++) {
		expert = reference_travels_to(job, input, t, k);
		if (expert < 0)
			continue;
		reference_make_row(job, input, t, expert, row, sent);
		if (input->smooth == NULL)
			return;
	}
}

void reference_send(const struct reference_job *job, int32_t rank,
	struct reference_sent *sent)
{
	const struct reference_input *input = &job->inputs[rank];
	void *row = room(1, (size_t)sent_row_bytes(job));

	*sent = (struct reference_sent){0};
	for (int64_t t = 0; t < input->num_tokens; t++) {
		for (int64_t k = 0; k < job->topk; k++)
			sent->dropped_choices += is_dropped(job, input, t, k);
		if (row != NULL)
			count_token(job, input, t, row, sent);
	}
	free(row);
}
