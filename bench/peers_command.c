/*
 * A run of an MPI program, of which nothing stays behind.
 *
 *	we --fork--> keeper --fork--> mpirun --> whatever it starts
 *
 * The keeper is deaf to signals, in a group of its own, and the reaper of all
 * below it: whoever loses its parent becomes its child. It ends them when the
 * program has ended, and when the pipe closes that only we hold open: because
 * the time is over, or because we are gone. mpirun gets some time to remove its
 * files in /tmp and /dev/shm.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "command.h"
#include "peers.h"

/* From SIGTERM to SIGKILL. */
#define CLEAR_UP_MS 3000
/* How often we look around while the program works, and behind its end. */
#define TICK_MS     100
#define END_TICK_MS 5

struct pipes {
	int control[2], output[2], errors[2];
};

/* ---- the keeper ------------------------------------------------------- */

static void kill_children(void)
{
	char path[64];
	FILE *file;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	if (file)
		fclose(file);
}

/* Each death may bring us new children, those of the dead. */
static void kill_all(pid_t program, int *status)
{
	int ended_status;
	pid_t ended;

	if (program > 0)
		kill(program, SIGKILL);
	do {
		kill_children();
		ended = waitpid(-1, &ended_status, 0);
		if (ended == program)
			*status = child_exit_status(ended_status);
	} while (ended > 0);
}

/* Reaps whoever has ended. False if the program was among them. */
static bool reap(pid_t program, int *status)
{
	int ended_status;
	pid_t ended;

	while ((ended = waitpid(-1, &ended_status, WNOHANG)) > 0)
		if (ended == program) {
			*status = child_exit_status(ended_status);
			return false;
		}
	return true;
}

static void drain(int signals)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) > 0)
		;
}

/* Returns the program's exit status. */
static int keep(pid_t program, int control, int signals)
{
	struct pollfd polls[] = {
		{.fd = control, .events = POLLIN},
		{.fd = signals, .events = POLLIN},
	};
	double end = 0;
	int status = 128 + SIGKILL;

	while (reap(program, &status)) {
		int left = end > 0 ? (int)((end - clock_seconds()) * 1000) : -1;

		if (end > 0 && left <= 0) {
			kill_all(program, &status);
			return status;
		}
		poll(polls, 2, left);
		drain(signals);
		if (polls[0].revents && end == 0) {
			kill(program, SIGTERM);
			end = clock_seconds() + CLEAR_UP_MS / 1000.0;
			polls[0].fd = -1;
		}
	}
	kill_all(0, &status);
	return status;
}

static void become_program(const struct peers_command *command,
	const struct pipes *pipes, const sigset_t *mask)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
		dup2(pipes->output[1], STDOUT_FILENO) < 0 ||
		dup2(pipes->errors[1], STDERR_FILENO) < 0)
		return;
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command->argv[0], command->argv);
}

static _Noreturn void be_keeper(
	const struct peers_command *command, struct pipes *pipes)
{
	sigset_t all, child, mask;
	pid_t program;
	int signals;

	setpgid(0, 0);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	close(pipes->control[1]);
	if (signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1))
		_exit(COMMAND_CANNOT_RUN);
	program = child_fork();
	if (program == 0) {
		become_program(command, pipes, &mask);
		dprintf(STDERR_FILENO, "%s: %s\n", command->argv[0],
			strerror(errno));
		_exit(errno == ENOENT ? COMMAND_NOT_FOUND : COMMAND_CANNOT_RUN);
	}
	if (program < 0)
		_exit(COMMAND_CANNOT_RUN);
	close(pipes->output[1]);
	close(pipes->errors[1]);
	_exit(keep(program, pipes->control[0], signals));
}

/* ---- our side --------------------------------------------------------- */

/* Appends to a text what has come; of what does not fit, `last` keeps the end
 * and else the beginning. False at the end of the pipe. */
static bool take(int fd, char *text, size_t room, bool last)
{
	char block[4096];
	ssize_t got = read(fd, block, sizeof(block));
	size_t used = strlen(text);
	size_t new, dropped;

	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR);
	new = (size_t)got;
	if (last && new >= room) {
		memmove(block, block + new - (room - 1), room - 1);
		new = room - 1;
	}
	if (last && used + new >= room) {
		dropped = used + new - (room - 1);
		memmove(text, text + dropped, used - dropped);
		used -= dropped;
	}
	if (new > room - 1 - used)
		new = room - 1 - used;
	memcpy(text + used, block, new);
	text[used + new] = '\0';
	return true;
}

static void take_all(struct peers_command *command, struct pollfd polls[2])
{
	if (polls[0].fd >= 0 && polls[0].revents &&
		!take(polls[0].fd, command->output, sizeof(command->output),
			false))
		polls[0].fd = -1;
	if (polls[1].fd >= 0 && polls[1].revents &&
		!take(polls[1].fd, command->errors, sizeof(command->errors),
			true))
		polls[1].fd = -1;
}

/* Until the keeper has ended, which it does some seconds after the deadline. */
static int watch(
	struct peers_command *command, pid_t keeper, struct pipes *pipes)
{
	struct pollfd polls[] = {
		{.fd = pipes->output[0], .events = POLLIN},
		{.fd = pipes->errors[0], .events = POLLIN},
	};
	double deadline = clock_seconds() + command->seconds;
	int status;

	while (waitpid(keeper, &status, WNOHANG) == 0) {
		bool silent = polls[0].fd < 0 && polls[1].fd < 0;

		poll(polls, 2, silent ? END_TICK_MS : TICK_MS);
		take_all(command, polls);
		command->tick(command->context);
		if (command->timed_out || clock_seconds() < deadline)
			continue;
		command->timed_out = true;
		close(pipes->control[1]);
		pipes->control[1] = -1;
	}
	/* The writers are gone: what is there now is all. */
	while (poll(polls, 2, 0) > 0)
		take_all(command, polls);
	return child_exit_status(status);
}

static void close_all(struct pipes *pipes)
{
	int *ends[] = {pipes->control, pipes->output, pipes->errors};

	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 2; j++)
			if (ends[i][j] >= 0)
				close(ends[i][j]);
}

static bool open_all(struct pipes *pipes)
{
	return !pipe2(pipes->control, O_CLOEXEC) &&
	       !pipe2(pipes->output, O_CLOEXEC) &&
	       !pipe2(pipes->errors, O_CLOEXEC);
}

int peers_command_run(struct peers_command *command)
{
	struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}};
	pid_t keeper = -1;
	int status = -1;
	int error;

	command->output[0] = '\0';
	command->errors[0] = '\0';
	command->timed_out = false;
	if (open_all(&pipes)) {
		fflush(NULL);
		/* Not child_fork(): the keeper must outlive us. */
		keeper = fork();
		if (keeper == 0)
			be_keeper(command, &pipes);
	}
	error = errno;
	if (keeper > 0) {
		close(pipes.output[1]);
		close(pipes.errors[1]);
		pipes.output[1] = pipes.errors[1] = -1;
		status = watch(command, keeper, &pipes);
	}
	close_all(&pipes);
	errno = error;
	return status;
}
