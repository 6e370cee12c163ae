/* Forked children; see child.h. A line does not fit into an exit status, so
 * the child tells it on stderr, and exits with 1. */
#include "support/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t child_start(child_function function, void *context)
{
	pid_t pid = fork();
	int line;

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	line = function(context);
	if (line)
		fprintf(stderr, "child %d: check failed in line %d\n",
			(int)getpid(), line);
	_exit(line ? 1 : 0);
}

int child_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr, "child %d: died of signal %d\n", (int)pid,
		WTERMSIG(status));
	return -1;
}

int child_run(child_function function, void *context)
{
	return child_wait(child_start(function, context));
}

void child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
