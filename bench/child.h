/* Child processes that cannot outlive their parent. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <sys/types.h>

/*
 * fork(), but the child is killed when the calling thread ends, however that
 * comes about. Returns as fork() does.
 */
pid_t child_fork(void);

/* A wait status as a shell shows it: the exit status, or 128 + signal. */
int child_exit_status(int wait_status);

#endif
