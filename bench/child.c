/* Child processes that cannot outlive their parent. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

pid_t child_fork(void)
{
	pid_t parent = getpid();
	pid_t child = fork();

	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The parent may have died before prctl(), which then never fires. */
	if (getppid() != parent)
		_exit(128 + SIGKILL);
	return 0;
}

int child_exit_status(int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return 128 + WTERMSIG(wait_status);
	return WEXITSTATUS(wait_status);
}
