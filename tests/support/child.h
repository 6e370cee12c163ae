/* Functions of a test run in a forked child, for what a test program cannot
 * do to itself: lower its limits, die, be another process. */
#ifndef SUPPORT_CHILD_H
#define SUPPORT_CHILD_H

#include <sys/types.h>

/* Returns the line of what failed, 0 if all was well. */
typedef int (*child_function)(void *context);

/* In a child's function: ends it, and tells where, unless `truth` holds. */
#define CHILD_CHECK(truth)               \
	do {                             \
		if (!(truth))            \
			return __LINE__; \
	} while (0)

/* Runs the function in a child. The pid. */
pid_t child_start(child_function function, void *context);

/* Waits for the child; 0 if its function returned 0, else something else and a
 * line on stderr. */
int child_wait(pid_t pid);

/* Both. */
int child_run(child_function function, void *context);

/* Kills the child (SIGKILL), and waits for it. */
void child_kill(pid_t pid);

#endif
