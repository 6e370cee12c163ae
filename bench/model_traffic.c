/* Which rows go where: the routing of a step, counted. */
#include <stdlib.h>

#include "load.h"
#include "model.h"

/* Scratch for one sender. */
struct sender {
	const struct model_job *job;
	struct model_rank *ranks;
	int32_t rank;
	int64_t *ids;     /* (T, K) */
	int64_t *host_of; /* (M): the last token with a choice there */
	int64_t *rank_of; /* (W): the same */
};

/* On another host a token is taken in by the rank with the sender's number
 * inside the host: its rail. */
static struct model_rank *landing(const struct sender *sender, int64_t host)
{
	int64_t ranks = sender->job->host_ranks;

	return &sender->ranks[host * ranks + sender->rank % ranks];
}

/* Rows are made and sent in pieces of so many tokens (dispatch/cross.c). */
#define PIECE_TOKENS 16

/* Notes that the token goes to a place, whose last one is *last. True if it is
 * the first time; *runs grows where it is no neighbour of that one. */
static bool visit(int64_t *last, int64_t token, int64_t *runs)
{
	if (*last == token)
		return false;
	*runs += token % PIECE_TOKENS == 0 || *last != token - 1;
	*last = token;
	return true;
}

static void count_remote(struct sender *sender, int64_t token, int32_t to)
{
	struct model_rank *from = &sender->ranks[sender->rank];
	int64_t host = to / sender->job->host_ranks;

	from->remote++;
	sender->ranks[to].from_remote++;
	landing(sender, host)->fanned++;
	if (visit(&sender->host_of[host], token, &from->host_runs)) {
		from->hosts++;
		landing(sender, host)->landed++;
	}
	if (visit(&sender->rank_of[to], token, &from->rank_runs)) {
		from->ranks++;
		sender->ranks[to].arrived++;
	}
}

static void count_local(struct sender *sender, int64_t token)
{
	struct model_rank *from = &sender->ranks[sender->rank];
	int64_t *last =
		&sender->host_of[sender->rank / sender->job->host_ranks];

	from->local++;
	from->stayed += *last != token;
	*last = token;
}

static void count_sender(struct sender *sender)
{
	const struct model_job *job = sender->job;
	int64_t tokens = job->options->bench.num_tokens;
	int64_t topk = job->options->bench.topk;

	for (int64_t h = 0; h < job->options->num_hosts; h++)
		sender->host_of[h] = -2;
	for (int32_t r = 0; r < job->shape.num_ranks; r++)
		sender->rank_of[r] = -2;
	for (int64_t i = 0; i < tokens * topk; i++) {
		int64_t expert = sender->ids[i];
		int32_t to = job->shape.expert_rank[expert];

		sender->ranks[to].received++;
		if (to / job->host_ranks == sender->rank / job->host_ranks)
			count_local(sender, i / topk);
		else
			count_remote(sender, i / topk, to);
	}
}

static bool take_memory(struct sender *sender)
{
	const struct options *options = &sender->job->options->bench;
	size_t ids = (size_t)(options->num_tokens * options->topk);
	size_t hosts = (size_t)sender->job->options->num_hosts;
	size_t ranks = (size_t)options->num_ranks;

	sender->ids = malloc((ids + hosts + ranks) * sizeof(int64_t));
	if (!sender->ids)
		return false;
	sender->host_of = sender->ids + ids;
	sender->rank_of = sender->host_of + hosts;
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
