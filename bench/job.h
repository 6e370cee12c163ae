/*
 * The ranks of `shunt run`: started, watched, signalled, and cleared away.
 *
 * The ranks share one process group of their own, led by a keeper:
 *
 *	terminal --Ctrl-C--> launcher --kill(-group)--> keeper (deaf), ranks,
 *							whatever they started
 *
 * So the terminal never reaches the ranks itself, and each signal arrives
 * once, whether it came from the keyboard or by kill. The keeper waits for
 * the end of a pipe whose other end only the launcher has: when the launcher
 * is gone, even by SIGKILL, the keeper kills the group. Ranks also die with
 * the launcher by themselves (child_fork()), should the keeper be gone too.
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct job_config {
	int32_t num_ranks;
	char *const *program; /* argv of the ranks, NULL-terminated */
	bool tag;             /* prefix lines of output with "[rank] " */
	double grace;         /* seconds that ranks get after a failure */
};

/* Runs the job to its end. Returns the exit status of `shunt run`. */
int job_run(const struct job_config *config);

#endif
