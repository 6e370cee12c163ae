/*
 * Who takes part and where choices go (spec 1.1, 1.3, 3.2). A table (elastic
 * info) is
 *
 *	[0] 1 if it counts	[1] W'	[2] S'	[3] E'
 *	[4 ..] new rank of each original one, or -1
 *	[4 + W ..] original rank of each new one
 */
#include "reference/route.h"

#include <stddef.h>

/* Experts in order over the ranks behind the shared ones. */
static void place_evenly(const struct shunt_exchange_config *config,
	int32_t num_ranks, int32_t *expert_rank)
{
	int64_t ranks = num_ranks - config->num_shared_ranks;
	int64_t share = config->num_experts / ranks;
	int64_t longer = config->num_experts % ranks;
	int64_t expert = 0;

	for (int64_t r = 0; r < ranks; r++)
		for (int64_t i = 0; i < share + (r < longer); i++)
			expert_rank[expert++] =
				config->num_shared_ranks + (int32_t)r;
}

void reference_place_experts(const struct shunt_exchange_config *config,
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
		place_evenly(config, num_ranks, expert_rank);
	}
}

struct frame frame_of(const struct reference_job *job)
{
	const struct shunt_exchange_config *config = &job->config;
	const int32_t *table = job->table;
	struct frame frame = {
		.job = job,
		.num_tp = job->num_tp == 0 ? 1 : job->num_tp,
		.num_ranks = job->num_ranks,
		.num_shared_ranks = config->num_shared_ranks,
		.num_experts = config->num_experts,
		.num_special = config->num_zero_experts +
			       config->num_copy_experts +
			       config->num_constant_experts,
		.old_shared_ranks = config->num_shared_ranks,
	};

	if (config->num_shared_ranks > 0)
		frame.num_shared = config->num_shared_experts;
	if (table == NULL || table[0] != 1)
		return frame;
	frame.old_share = config->num_experts /
			  (job->num_ranks - config->num_shared_ranks);
	frame.num_ranks = table[1];
	frame.num_shared_ranks = table[2];
	frame.num_experts = table[3];
	frame.new_of_old = table + 4;
	frame.old_of_new = table + 4 + job->num_ranks;
	return frame;
}

int32_t frame_rank(const struct frame *frame, int32_t original)
{
	return frame->new_of_old == NULL ? original
					 : frame->new_of_old[original];
}

int32_t frame_original(const struct frame *frame, int32_t rank)
{
	return frame->old_of_new == NULL ? rank : frame->old_of_new[rank];
}

const struct reference_input *frame_input(
	const struct frame *frame, int32_t tp, int32_t rank)
{
	return &frame->job->inputs[tp * frame->job->num_ranks +
				   frame_original(frame, rank)];
}

int32_t frame_expert_rank(const struct frame *frame, int64_t expert)
{
	if (frame->old_of_new == NULL)
		return frame->job->expert_rank[expert];
	return frame->num_shared_ranks + (int32_t)(expert / frame->old_share);
}

int64_t frame_original_expert(const struct frame *frame, int64_t expert)
{
	int32_t original;

	if (frame->old_of_new == NULL)
		return expert;
	original = frame_original(frame, frame_expert_rank(frame, expert));
	return (original - frame->old_shared_ranks) * frame->old_share +
	       expert % frame->old_share;
}

int32_t frame_replicas(const struct frame *frame)
{
	return frame->num_shared_ranks / (int32_t)frame->num_shared;
}

int32_t frame_shared_rank(
	const struct frame *frame, int64_t shared, int32_t rank)
{
	int32_t replicas = frame_replicas(frame);

	return (int32_t)shared * replicas + rank % replicas;
}

int32_t frame_host(const struct frame *frame, int32_t tp, int32_t rank)
{
	const struct reference_job *job = frame->job;

	if (job->hosts == NULL)
		return 0;
	return job->hosts[tp * job->num_ranks + frame_original(frame, rank)];
}

/* The number of a rank among those of its host, and how many these are. */
static int32_t number_on_host(
	const struct frame *frame, int32_t tp, int32_t rank, int32_t *size)
{
	int32_t number = 0;

	*size = 0;
	for (int32_t p = 0; p < frame->num_tp; p++)
		for (int32_t r = 0; r < frame->num_ranks; r++) {
			if (frame_host(frame, p, r) !=
				frame_host(frame, tp, rank))
				continue;
			if (p == tp && r == rank)
				number = *size;
			++*size;
		}
	return number;
}

bool frame_adds_up(const struct frame *frame, int32_t tp, int32_t rank,
	int32_t owner_tp, int32_t owner_rank)
{
	int32_t number, owner_number, size, owner_size;

	if (frame_host(frame, tp, rank) ==
		frame_host(frame, owner_tp, owner_rank))
		return tp == owner_tp && rank == owner_rank;
	number = number_on_host(frame, tp, rank, &size);
	owner_number = number_on_host(frame, owner_tp, owner_rank, &owner_size);
	return size > 0 && owner_number % size == number;
}

static bool is_masked(
	const struct reference_input *input, int64_t t, int64_t choice)
{
	if (input->mask == SHUNT_MASK_TOKENS)
		return input->active_mask[t] == 0;
	if (input->mask == SHUNT_MASK_CHOICES)
		return input->active_mask[choice] == 0;
	return false;
}

static bool is_good(const struct frame *frame, int64_t id)
{
	return id >= 0 && id < frame->num_experts + frame->num_special;
}

int64_t route_choice(const struct frame *frame,
	const struct reference_input *input, int64_t t, int64_t k)
{
	int64_t choice = t * frame->job->config.topk + k;

	if (is_masked(input, t, choice) || !is_good(frame, input->ids[choice]))
		return -1;
	return input->ids[choice];
}

int64_t route_expert(const struct frame *frame,
	const struct reference_input *input, int64_t t, int64_t k)
{
	int64_t id = route_choice(frame, input, t, k);

	return id < frame->num_experts ? id : -1;
}

bool route_is_active(const struct frame *frame,
	const struct reference_input *input, int64_t t)
{
	int64_t topk = frame->job->config.topk;

	for (int64_t choice = t * topk; choice < (t + 1) * topk; choice++)
		if (!is_masked(input, t, choice) && input->ids[choice] != -1)
			return true;
	return false;
}

bool route_is_dropped(const struct frame *frame,
	const struct reference_input *input, int64_t t, int64_t k)
{
	int64_t choice = t * frame->job->config.topk + k;

	return !is_masked(input, t, choice) && input->ids[choice] != -1 &&
	       !is_good(frame, input->ids[choice]);
}
