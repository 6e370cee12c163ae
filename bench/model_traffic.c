/* Which rows go where: the routing of a step, counted. */
#include <stdlib.h>

#include "load.h"
#include "model.h"

/* Scratch for one sender. */
struct sender {
	const struct model_job *job;
	struct model_rank *ranks;
	int32_t rank;
	int64_t *ids;       /* (T, K) */
	int64_t *host_of;   /* (M): the last token with a choice there */
	int64_t *expert_of; /* (E): the last sender of a row */
	int64_t *rank_of;   /* (W): the same */
};

/* On another host a token is taken in by the rank with the sender's number
 * inside the host: its rail. */
static struct model_rank *landing(const struct sender *sender, int64_t host)
{
	int64_t ranks = sender->job->host_ranks;

	return &sender->ranks[host * ranks + sender->rank % ranks];
}

static void count_remote(struct sender *sender, int64_t token, int64_t expert)
{
	const struct model_job *job = sender->job;
	int32_t to = job->shape.expert_rank[expert];
	int64_t host = to / job->host_ranks;

	sender->ranks[sender->rank].remote++;
	sender->ranks[to].from_remote++;
	landing(sender, host)->fanned++;
	if (sender->host_of[host] != token) {
		sender->host_of[host] = token;
		sender->ranks[sender->rank].hosts++;
		landing(sender, host)->landed++;
	}
	if (sender->expert_of[expert] != sender->rank)
		sender->ranks[to].runs++;
	if (sender->rank_of[to] != sender->rank)
		sender->ranks[to].sources++;
	sender->expert_of[expert] = sender->rank_of[to] = sender->rank;
}

static void count_sender(struct sender *sender)
{
	const struct model_job *job = sender->job;
	int64_t tokens = job->options->bench.num_tokens;
	int64_t topk = job->options->bench.topk;

	for (int64_t h = 0; h < job->options->num_hosts; h++)
		sender->host_of[h] = -1;
	for (int64_t i = 0; i < tokens * topk; i++) {
		int64_t expert = sender->ids[i];
		int32_t to = job->shape.expert_rank[expert];

		sender->ranks[to].received++;
		if (to / job->host_ranks == sender->rank / job->host_ranks)
			sender->ranks[sender->rank].local++;
		else
			count_remote(sender, i / topk, expert);
	}
}

static bool take_memory(struct sender *sender)
{
	const struct options *options = &sender->job->options->bench;
	size_t ids = (size_t)(options->num_tokens * options->topk);
	size_t hosts = (size_t)sender->job->options->num_hosts;
	size_t experts = (size_t)options->num_experts;
	size_t ranks = (size_t)options->num_ranks;

	sender->ids = malloc((ids + hosts + experts + ranks) * sizeof(int64_t));
	if (!sender->ids)
		return false;
	sender->host_of = sender->ids + ids;
	sender->expert_of = sender->host_of + hosts;
	sender->rank_of = sender->expert_of + experts;
	for (size_t i = 0; i < experts + ranks; i++)
		sender->expert_of[i] = -1;
	return true;
}

bool model_traffic(
	const struct model_job *job, int64_t step, struct model_rank *ranks)
{
	const struct options *options = &job->options->bench;
	struct sender sender = {.job = job, .ranks = ranks};
	bool done = take_memory(&sender);

	for (int32_t r = 0; r < job->shape.num_ranks; r++)
		ranks[r] = (struct model_rank){0};
	for (int32_t r = 0; done && r < job->shape.num_ranks; r++) {
		struct routing_step at = {
			.seed = (uint64_t)options->seed,
			.step = step,
			.member = r,
		};

		sender.rank = r;
		done = routing_draw(&options->routing, &at, options->num_tokens,
			sender.ids);
		if (done)
			count_sender(&sender);
	}
	free(sender.ids);
	return done;
}
