/* The ranks of `shunt run`; job.h has the picture. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "command.h"
#include "job.h"
#include "rendezvous.h"
#include "tag.h"

/* From SIGTERM to SIGKILL, for those that did not find out by themselves. */
#define KILL_DELAY 2.0
/* How long we wait for output that some survivor might still hold. */
#define DRAIN_MS 1000

static const int forwarded[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/* What is still to be done to ranks that outlive a failed one. */
enum stage {
	STAGE_NONE, /* no rank has failed */
	STAGE_TERM,
	STAGE_KILL,
	STAGE_DONE
};

struct job {
	const struct job_config *config;
	struct rendezvous rendezvous;
	pid_t group;     /* the keeper's pid */
	int keeper_pipe; /* its end tells the keeper to kill */
	int signals;     /* signalfd */
	sigset_t old_mask;
	pid_t *pids; /* 0: not started, or reaped */
	int32_t num_alive;
	int status; /* of the first rank that failed */
	enum stage stage;
	double stage_time;          /* when the stage is due */
	struct tag_stream *streams; /* 2 per rank with --tag, else none */
	int num_streams;
	struct pollfd *polls; /* signals, stdin, then the streams */
	int stdin_pipe; /* to rank 0 while our stdin is a terminal, else -1 */
};

/* ---- the keeper ------------------------------------------------------- */

static void keep(int pipe_end)
{
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	while (read(pipe_end, &byte, 1) < 0 && errno == EINTR)
		;
	kill(0, SIGKILL);
}

static int start_keeper(struct job *job)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	/* Not child_fork(): the keeper must outlive the launcher. */
	job->group = fork();
	if (job->group == 0) {
		setpgid(0, 0);
		close(ends[1]);
		keep(ends[0]);
	}
	close(ends[0]);
	if (job->group < 0) {
		close(ends[1]);
		return -1;
	}
	setpgid(job->group, job->group);
	job->keeper_pipe = ends[1];
	return 0;
}

/* ---- starting --------------------------------------------------------- */

static void set_number(const char *name, int32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void set_environment(const struct job *job, int32_t rank)
{
	char name[32];

	set_number("SHUNT_RANK", rank);
	set_number("SHUNT_LOCAL_RANK", rank);
	set_number("SHUNT_NUM_RANKS", job->config->num_ranks);
	setenv("SHUNT_ADDRESS", job->rendezvous.address, 1);
	setenv("SHUNT_KEY", job->rendezvous.key, 0);
	snprintf(name, sizeof(name), "run-%d", getppid());
	setenv("SHUNT_JOB", name, 0);
}

/* Opens what the rank reads as its standard input, on descriptor 0. */
static int redirect_input(const int stdin_ends[2], int32_t rank)
{
	int null;

	if (rank == 0)
		return stdin_ends[0] < 0 ? 0 : dup2(stdin_ends[0], 0);
	null = open("/dev/null", O_RDONLY);
	if (null > 0) {
		dup2(null, 0);
		close(null);
	}
	return null;
}

/* The life of a rank before it becomes the program; returns on failure. */
static void become_program(struct job *job, int32_t rank,
	const int stdin_ends[2], const int output[2])
{
	setpgid(0, job->group);
	set_environment(job, rank);
	if (redirect_input(stdin_ends, rank) < 0)
		return;
	if (job->config->tag && (dup2(output[0], STDOUT_FILENO) < 0 ||
					dup2(output[1], STDERR_FILENO) < 0))
		return;
	sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
	execvp(job->config->program[0], job->config->program);
}

static int add_stream(struct job *job, int32_t rank, int to, int *write_end)
{
	struct tag_stream *stream = &job->streams[job->num_streams];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	stream->from = ends[0];
	stream->to = to;
	stream->rank = rank;
	*write_end = ends[1];
	job->num_streams++;
	return 0;
}

static void close_pair(const int ends[2])
{
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
}

/*
 * Forks a rank and waits until it has become the program: the status pipe
 * closes at exec, or brings the errno of what went wrong.
 */
static int fork_rank(struct job *job, int32_t rank, const int stdin_ends[2],
	const int output[2])
{
	int status[2];
	int error = 0;

	if (pipe2(status, O_CLOEXEC))
		return -1;
	job->pids[rank] = child_fork();
	if (job->pids[rank] == 0) {
		become_program(job, rank, stdin_ends, output);
		error = errno;
		_exit(write(status[1], &error, sizeof(error)) < 0);
	}
	close(status[1]);
	if (job->pids[rank] < 0)
		error = errno;
	else if (read(status[0], &error, sizeof(error)) == sizeof(error))
		waitpid(job->pids[rank], NULL, 0);
	close(status[0]);
	if (error) {
		job->pids[rank] = 0;
		errno = error;
		return -1;
	}
	job->num_alive++;
	return 0;
}

/* A terminal belongs to our process group, not to the ranks': what is typed
 * has to go through us. */
static int open_stdin(struct job *job, int stdin_ends[2])
{
	if (!isatty(STDIN_FILENO))
		return 0;
	if (pipe2(stdin_ends, O_CLOEXEC))
		return -1;
	/* A rank 0 that does not read must not stop us. */
	fcntl(stdin_ends[1], F_SETFL, O_NONBLOCK);
	job->stdin_pipe = stdin_ends[1];
	return 0;
}

static int start_rank(struct job *job, int32_t rank)
{
	int stdin_ends[2] = {-1, -1};
	int output[2] = {-1, -1};
	int result = -1;
	int error;

	if (rank == 0 && open_stdin(job, stdin_ends))
		return -1;
	if (!job->config->tag ||
		(!add_stream(job, rank, STDOUT_FILENO, &output[0]) &&
			!add_stream(job, rank, STDERR_FILENO, &output[1])))
		result = fork_rank(job, rank, stdin_ends, output);
	error = errno;
	if (stdin_ends[0] >= 0)
		close(stdin_ends[0]);
	close_pair(output);
	errno = error;
	return result;
}

static int start_ranks(struct job *job)
{
	const char *program = job->config->program[0];

	for (int32_t rank = 0; rank < job->config->num_ranks; rank++) {
		if (!start_rank(job, rank))
			continue;
		fprintf(stderr, "shunt run: cannot start '%s': %s\n", program,
			strerror(errno));
		return errno == ENOENT ? COMMAND_NOT_FOUND : COMMAND_CANNOT_RUN;
	}
	return 0;
}

/* ---- watching --------------------------------------------------------- */

static void note_failure(struct job *job, int32_t rank, int status)
{
	if (job->stage != STAGE_NONE)
		return;
	job->status = status;
	job->stage = STAGE_TERM;
	job->stage_time = clock_seconds() + job->config->grace;
	if (status > 128)
		fprintf(stderr, "shunt run: rank %d ended by signal %d (%s)\n",
			rank, status - 128, strsignal(status - 128));
	else
		fprintf(stderr, "shunt run: rank %d failed, exit status %d\n",
			rank, status);
}

static void reap(struct job *job)
{
	int wait_status;

	for (int32_t rank = 0; rank < job->config->num_ranks; rank++) {
		if (job->pids[rank] == 0 ||
			waitpid(job->pids[rank], &wait_status, WNOHANG) <= 0)
			continue;
		job->pids[rank] = 0;
		job->num_alive--;
		if (child_exit_status(wait_status))
			note_failure(job, rank, child_exit_status(wait_status));
	}
}

/* Reaches the group, and ranks that have made a group of their own, as
 * timeout(1) does. */
static void signal_ranks(const struct job *job, int number)
{
	kill(-job->group, number);
	for (int32_t rank = 0; rank < job->config->num_ranks; rank++)
		if (job->pids[rank] > 0 &&
			getpgid(job->pids[rank]) != job->group)
			kill(job->pids[rank], number);
}

/* The keyboard's stop, for the ranks and for us, until somebody says fg. */
static void stop_and_go_on(struct job *job)
{
	signal_ranks(job, SIGTSTP);
	kill(getpid(), SIGSTOP);
	signal_ranks(job, SIGCONT);
}

static void handle_signal(struct job *job)
{
	struct signalfd_siginfo info;

	if (read(job->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGCHLD)
		reap(job);
	else if (info.ssi_signo == SIGTSTP)
		stop_and_go_on(job);
	else
		signal_ranks(job, (int)info.ssi_signo);
}

static void escalate(struct job *job)
{
	if (job->stage == STAGE_NONE || job->stage == STAGE_DONE ||
		clock_seconds() < job->stage_time)
		return;
	fprintf(stderr, "shunt run: ending %d remaining rank%s with %s\n",
		job->num_alive, job->num_alive == 1 ? "" : "s",
		job->stage == STAGE_TERM ? "SIGTERM" : "SIGKILL");
	signal_ranks(job, job->stage == STAGE_TERM ? SIGTERM : SIGKILL);
	job->stage++;
	job->stage_time = clock_seconds() + KILL_DELAY;
}

static int poll_timeout(const struct job *job)
{
	double rest;

	/* Now and then look whether the terminal has become ours. */
	if (job->stage == STAGE_NONE || job->stage == STAGE_DONE)
		return job->stdin_pipe < 0 ? -1 : 1000;
	rest = (job->stage_time - clock_seconds()) * 1000;
	return rest < 0 ? 0 : rest > 1000 ? 1000 : (int)rest + 1;
}

static void close_stdin(struct job *job)
{
	close(job->stdin_pipe);
	job->stdin_pipe = -1;
}

/* Passes on what was typed; a rank 0 that does not read loses it. */
static void forward_stdin(struct job *job)
{
	char typed[4096];
	ssize_t got = read(STDIN_FILENO, typed, sizeof(typed));

	if (got < 0 && errno == EINTR)
		return;
	if (got <= 0 || write(job->stdin_pipe, typed, (size_t)got) < 0)
		close_stdin(job);
}

/* In the background a read from the terminal would stop us. */
static bool may_read_stdin(const struct job *job)
{
	return job->stdin_pipe >= 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void fill_polls(struct job *job)
{
	job->polls[0] = (struct pollfd){.fd = job->signals, .events = POLLIN};
	job->polls[1] = (struct pollfd){
		.fd = may_read_stdin(job) ? STDIN_FILENO : -1,
		.events = POLLIN,
	};
	for (int i = 0; i < job->num_streams; i++)
		job->polls[2 + i] = (struct pollfd){
			.fd = job->streams[i].from,
			.events = POLLIN,
		};
}

/* Waits for something to happen and does what it asks for. Returns how many
 * descriptors had something. */
static int step(struct job *job, int timeout)
{
	int num_ready;

	fill_polls(job);
	num_ready = poll(job->polls, 2 + (nfds_t)job->num_streams, timeout);
	if (num_ready <= 0)
		return 0;
	for (int i = 0; i < job->num_streams; i++)
		if (job->polls[2 + i].revents)
			tag_forward(&job->streams[i]);
	if (job->polls[1].revents)
		forward_stdin(job);
	if (job->polls[0].revents)
		handle_signal(job);
	return num_ready;
}

static bool streams_are_open(const struct job *job)
{
	for (int i = 0; i < job->num_streams; i++)
		if (job->streams[i].from >= 0)
			return true;
	return false;
}

/* ---- the whole -------------------------------------------------------- */

static int block_signals(struct job *job)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTSTP);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&mask, forwarded[i]);
	sigprocmask(SIG_BLOCK, &mask, &job->old_mask);
	/* A rank that stops reading must not end the launcher. */
	signal(SIGPIPE, SIG_IGN);
	job->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return job->signals < 0 ? -1 : 0;
}

static int open_job(struct job *job)
{
	size_t num_ranks = (size_t)job->config->num_ranks;

	job->pids = calloc(num_ranks, sizeof(job->pids[0]));
	job->streams = calloc(2 * num_ranks, sizeof(job->streams[0]));
	job->polls = calloc(2 + 2 * num_ranks, sizeof(job->polls[0]));
	if (!job->pids || !job->streams || !job->polls)
		return -1;
	if (rendezvous_open(&job->rendezvous))
		return -1;
	if (block_signals(job) || start_keeper(job))
		return -1;
	return 0;
}

/* Clears away whatever the ranks left in their group, and their output. */
static void clear_up(struct job *job)
{
	kill(-job->group, SIGKILL);
	reap(job);
	while (streams_are_open(job) && step(job, DRAIN_MS) > 0)
		;
	for (int i = 0; i < job->num_streams; i++)
		tag_finish(&job->streams[i]);
	waitpid(job->group, NULL, 0);
}

static void close_job(struct job *job)
{
	rendezvous_close(&job->rendezvous);
	free(job->pids);
	free(job->streams);
	free(job->polls);
}

int job_run(const struct job_config *config)
{
	struct job job = {.config = config, .stdin_pipe = -1};
	int status;

	if (open_job(&job)) {
		/* All that was opened ends with us. */
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		fprintf(stderr, "shunt run: cannot prepare the job: %s\n",
			strerror(errno));
		return COMMAND_FAILED;
	}
	status = start_ranks(&job);
	while (!status && job.num_alive > 0) {
		step(&job, poll_timeout(&job));
		escalate(&job);
	}
	clear_up(&job);
	close_job(&job);
	return status ? status : job.status;
}
