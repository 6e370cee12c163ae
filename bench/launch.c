/* The ranks of `shunt bench`, as threads or as forked processes. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "launch.h"

#define TICK_NS 100000000

struct rank_thread {
	const struct launch *launch;
	int32_t rank;
	pthread_t thread;
	int status;
	bool ended;
};

/* ---- threads ---------------------------------------------------------- */

static void *thread_main(void *argument)
{
	struct rank_thread *self = argument;

	self->status = self->launch->body(self->launch->context, self->rank);
	return NULL;
}

/* Waits up to a tick for one thread. */
static void join_for_a_tick(struct rank_thread *thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TICK_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	thread->ended = !pthread_timedjoin_np(thread->thread, NULL, &until);
}

/* Joins what has ended, and waits a tick if nothing new has. */
static int32_t join_threads(struct rank_thread *threads, int32_t num_ranks)
{
	struct rank_thread *running = NULL;
	int32_t num_running = 0;

	for (int32_t rank = 0; rank < num_ranks; rank++) {
		struct rank_thread *thread = &threads[rank];

		if (!thread->ended)
			thread->ended =
				!pthread_tryjoin_np(thread->thread, NULL);
		if (!thread->ended) {
			running = thread;
			num_running++;
		}
	}
	if (running)
		join_for_a_tick(running);
	return num_running;
}

static int watch_threads(
	const struct launch *launch, struct rank_thread *threads, int32_t count)
{
	int32_t num_running;
	int result = 0;

	do {
		num_running = join_threads(threads, count);
		launch->tick(launch->context);
		for (int32_t rank = 0; rank < count; rank++)
			if (threads[rank].ended && threads[rank].status) {
				launch->failed(launch->context, rank,
					threads[rank].status);
				threads[rank].status = 0;
				result = -1;
			}
	} while (num_running > 0);
	return result;
}

static int run_threads(const struct launch *launch)
{
	struct rank_thread *threads;
	int32_t count = 0;
	int error = 0;
	int result;

	threads = calloc((size_t)launch->num_ranks, sizeof(threads[0]));
	if (!threads)
		return -1;
	for (; count < launch->num_ranks; count++) {
		threads[count].launch = launch;
		threads[count].rank = count;
		error = pthread_create(&threads[count].thread, NULL,
			thread_main, &threads[count]);
		if (error)
			break;
	}
	if (error)
		launch->failed(launch->context, count, error);
	result = watch_threads(launch, threads, count);
	free(threads);
	errno = error;
	return error ? -1 : result;
}

/* ---- processes -------------------------------------------------------- */

struct processes {
	const struct launch *launch;
	pid_t *pids; /* 0: not started, or reaped */
	int32_t num_running;
	bool failed, killed;
	double kill_time;
};

static void kill_all(const struct processes *processes)
{
	for (int32_t rank = 0; rank < processes->launch->num_ranks; rank++)
		if (processes->pids[rank] > 0)
			kill(processes->pids[rank], SIGKILL);
}

static void note_end(struct processes *processes, int32_t rank, int status)
{
	const struct launch *launch = processes->launch;

	processes->pids[rank] = 0;
	processes->num_running--;
	if (status == 0)
		return;
	if (!processes->failed)
		processes->kill_time = clock_seconds() + launch->grace;
	processes->failed = true;
	/* Those that we killed have not failed. */
	if (!processes->killed)
		launch->failed(launch->context, rank, status);
}

static void reap(struct processes *processes)
{
	int status;

	for (int32_t rank = 0; rank < processes->launch->num_ranks; rank++)
		if (processes->pids[rank] > 0 &&
			waitpid(processes->pids[rank], &status, WNOHANG) > 0)
			note_end(processes, rank, child_exit_status(status));
}

static void watch_processes(struct processes *processes, const sigset_t *child)
{
	static const struct timespec tick = {.tv_nsec = TICK_NS};
	const struct launch *launch = processes->launch;

	for (;;) {
		reap(processes);
		launch->tick(launch->context);
		if (processes->num_running == 0)
			return;
		if (processes->failed && !processes->killed &&
			clock_seconds() >= processes->kill_time) {
			kill_all(processes);
			processes->killed = true;
		}
		sigtimedwait(child, NULL, &tick);
	}
}

static int start_processes(struct processes *processes, const sigset_t *mask)
{
	const struct launch *launch = processes->launch;

	fflush(NULL);
	for (int32_t rank = 0; rank < launch->num_ranks; rank++) {
		pid_t child = child_fork();

		if (child == 0) {
			sigprocmask(SIG_SETMASK, mask, NULL);
			/* _exit: stdio belongs to the parent. */
			_exit(launch->body(launch->context, rank));
		}
		if (child < 0)
			return -1;
		processes->pids[rank] = child;
		processes->num_running++;
	}
	return 0;
}

static int run_processes(const struct launch *launch)
{
	struct processes processes = {.launch = launch};
	sigset_t child, mask;
	int error = 0;

	processes.pids =
		calloc((size_t)launch->num_ranks, sizeof(processes.pids[0]));
	if (!processes.pids)
		return -1;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &mask);
	if (start_processes(&processes, &mask)) {
		error = errno;
		kill_all(&processes);
	}
	watch_processes(&processes, &child);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	free(processes.pids);
	errno = error;
	return error || processes.failed ? -1 : 0;
}

int launch_run(const struct launch *launch)
{
	return launch->kind == LAUNCH_THREADS ? run_threads(launch)
					      : run_processes(launch);
}
