/* Jobs worked out by hand; see small_job.h. */
#include "support/small_job.h"

static const int64_t example_ids[4][4] = {
	{0, 1, 2, 1}, {3, 0, 1, 2}, {2, 3, 0, 3}, {1, 3, 3, 2}};

static const int32_t example_rank[4] = {2, 2, 3, 3};

void small_job_example(struct reference_job *job,
	struct reference_input inputs[4], const float *x)
{
	*job = (struct reference_job){
		.config =
			{
				.max_tokens = 2,
				.hidden = 1,
				.topk = 2,
				.num_experts = 4,
				.dtype = SHUNT_DTYPE_F32,
				.expert_dtype = SHUNT_DTYPE_F32,
				.num_shared_experts = 1,
				.num_shared_ranks = 2,
			},
		.num_ranks = 4,
		.expert_rank = example_rank,
		.inputs = inputs,
	};
	for (int r = 0; r < 4; r++)
		inputs[r] = (struct reference_input){
			.num_tokens = 2,
			.x = x + 2 * r,
			.x_stride = 1,
			.ids = example_ids[r],
		};
}

void small_job_pair(struct reference_job *job, struct reference_input inputs[2],
	const float *x)
{
	static const int64_t zeros[2] = {0, 0};
	static const int32_t first[1] = {0};

	*job = (struct reference_job){
		.config = {.max_tokens = 2,
			.hidden = 1,
			.topk = 1,
			.num_experts = 1,
			.dtype = SHUNT_DTYPE_F32,
			.expert_dtype = SHUNT_DTYPE_F16},
		.num_ranks = 1,
		.num_tp = 2,
		.expert_rank = first,
		.inputs = inputs,
	};
	for (int p = 0; p < 2; p++)
		inputs[p] = (struct reference_input){.num_tokens = 1 + p,
			.x = x + p,
			.x_stride = 1,
			.ids = zeros};
}
