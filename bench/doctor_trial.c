/*
 * The trial of `shunt doctor`: we fork two ranks, which write to a pipe what
 * went wrong, and nothing if all went well.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shunt/shunt.h>

#include "child.h"
#include "doctor_trial.h"
#include "rendezvous.h"

#define DEADLINE_NS INT64_C(15000000000)
#define GIVE_UP_MS  40000

enum { RANKS = 2, HIDDEN = 64 };

/* ---- a rank ------------------------------------------------------------ */

/* Sends a row to the other rank's expert, which doubles it. */
static enum shunt_status step(struct shunt_exchange *exchange, int32_t rank)
{
	struct shunt_dispatch_args args = SHUNT_DISPATCH_ARGS_INIT;
	struct shunt_dispatch_out out = SHUNT_DISPATCH_OUT_INIT;
	struct shunt_combine_args combine = SHUNT_COMBINE_ARGS_INIT;
	float x[HIDDEN], result[HIDDEN] = {0};
	int32_t expert = 1 - rank;
	enum shunt_status status;
	struct shunt_handle handle;
	float weight = 1;

	for (int i = 0; i < HIDDEN; i++)
		x[i] = (float)(1 + rank + i);
	args.x = x;
	args.num_tokens = 1;
	args.expert_ids = &expert;
	args.ids_type = SHUNT_INDEX_I32;
	args.weights = &weight;
	status = shunt_dispatch(exchange, &args, &out, &handle);
	if (status != SHUNT_OK)
		return status;
	for (int64_t i = 0; i < out.num_rows * HIDDEN; i++)
		((float *)out.expert_rows)[i] = 2 * ((float *)out.expand_x)[i];
	combine.y = out.expert_rows;
	combine.out = result;
	status = shunt_combine(handle, &combine);
	for (int i = 0; i < HIDDEN && status == SHUNT_OK; i++)
		if (result[i] != 2 * x[i])
			status = SHUNT_NUM_STATUSES;
	return status;
}

static enum shunt_status take_part(
	const struct shunt_world_config *config, struct shunt_world **world)
{
	struct shunt_exchange_config shape = SHUNT_EXCHANGE_CONFIG_INIT;
	struct shunt_exchange *exchange;
	enum shunt_status status = shunt_world_create(config, world);

	if (status != SHUNT_OK)
		return status;
	shape.max_tokens = 1;
	shape.hidden = HIDDEN;
	shape.topk = 1;
	shape.num_experts = RANKS;
	shape.dtype = shape.expert_dtype = SHUNT_DTYPE_F32;
	status = shunt_exchange_create(*world, NULL, &shape, &exchange);
	if (status != SHUNT_OK)
		return status;
	status = step(exchange, config->rank);
	shunt_exchange_destroy(exchange);
	return status;
}

static _Noreturn void be_rank(
	int32_t rank, const struct rendezvous *rendezvous, int fd)
{
	struct shunt_world_config config = SHUNT_WORLD_CONFIG_INIT;
	struct shunt_world *world = NULL;
	enum shunt_status status;
	char where[80];

	snprintf(where, sizeof(where), "tcp://%s", rendezvous->address);
	config.rendezvous = where;
	config.rank = rank;
	config.num_ranks = RANKS;
	config.key = rendezvous->key;
	config.job = "shunt doctor";
	config.deadline_ns = DEADLINE_NS;
	status = take_part(&config, &world);
	if (status == SHUNT_NUM_STATUSES)
		dprintf(fd, "rank %d got a wrong row back\n", (int)rank);
	else if (status != SHUNT_OK)
		dprintf(fd, "%s: %s\n", shunt_status_name(status),
			shunt_error_message());
	shunt_world_destroy(world);
	_exit(status == SHUNT_OK ? 0 : 1);
}

/* ---- we ---------------------------------------------------------------- */

/* What the ranks write, until all have closed the pipe or time is over. Of two
 * messages the first is kept: it has the cause. */
static bool collect(int fd, char text[TRIAL_TEXT_BYTES])
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char block[TRIAL_TEXT_BYTES];

	text[0] = '\0';
	while (poll(&ready, 1, GIVE_UP_MS) > 0) {
		ssize_t got = read(fd, block, sizeof(block) - 1);

		if (got <= 0)
			return true;
		block[got] = '\0';
		block[strcspn(block, "\n")] = '\0';
		if (!text[0])
			memcpy(text, block, strlen(block) + 1);
	}
	snprintf(text, TRIAL_TEXT_BYTES, "the ranks hang");
	return false;
}

static void reap(const pid_t ranks[RANKS], char text[TRIAL_TEXT_BYTES])
{
	for (int r = 0; r < RANKS; r++) {
		int status = 0;

		if (ranks[r] <= 0)
			continue;
		while (waitpid(ranks[r], &status, 0) < 0 && errno == EINTR)
			;
		if (WIFSIGNALED(status) && !text[0])
			snprintf(text, TRIAL_TEXT_BYTES,
				"rank %d was ended by signal %d", r,
				WTERMSIG(status));
		else if (status && !text[0])
			snprintf(text, TRIAL_TEXT_BYTES,
				"rank %d failed without a word", r);
	}
}

static void run_ranks(const struct rendezvous *rendezvous, int pipe_ends[2],
	char text[TRIAL_TEXT_BYTES])
{
	pid_t ranks[RANKS];
	bool started = true, ended;

	fflush(NULL);
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = child_fork();
		if (ranks[r] == 0)
			be_rank(r, rendezvous, pipe_ends[1]);
		started = started && ranks[r] > 0;
	}
	snprintf(text, TRIAL_TEXT_BYTES, "fork: %s", strerror(errno));
	close(pipe_ends[1]);
	ended = started && collect(pipe_ends[0], text);
	for (int r = 0; r < RANKS && !ended; r++)
		if (ranks[r] > 0)
			kill(ranks[r], SIGKILL);
	reap(ranks, text);
}

bool trial_run(char text[TRIAL_TEXT_BYTES])
{
	struct rendezvous rendezvous;
	int pipe_ends[2];

	if (rendezvous_open(&rendezvous)) {
		snprintf(text, TRIAL_TEXT_BYTES,
			"no port on the loopback interface: %s",
			strerror(errno));
		return false;
	}
	if (pipe2(pipe_ends, O_CLOEXEC)) {
		snprintf(
			text, TRIAL_TEXT_BYTES, "no pipe: %s", strerror(errno));
	} else {
		run_ranks(&rendezvous, pipe_ends, text);
		close(pipe_ends[0]);
	}
	rendezvous_close(&rendezvous);
	return text[0] == '\0';
}
