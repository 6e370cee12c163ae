/*
 * Two ends of a transport, attached to each other in the real way: the test's
 * own, and the other, which runs a function of the test where that transport
 * has its peer (a thread, or a forked process).
 */
#ifndef SUPPORT_ENDS_H
#define SUPPORT_ENDS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/segment.h"
#include "transport/transport.h"

enum ends_kind { ENDS_SELF, ENDS_THREADS, ENDS_SHM };

/* Each end has an area in its segment, far from its beginning. */
#define ENDS_RESERVE_BYTES (UINT64_C(8) << 30)
#define ENDS_AREA_ALIGN    (UINT64_C(4) << 30)
#define ENDS_AREA_BYTES    (UINT64_C(1) << 20)
#define ENDS_COUNTER       0 /* in the area */
#define ENDS_DATA          4096

/* One end: its own segment, and how it reaches the other. */
struct end {
	struct segment *segment;
	struct peer *peers[2]; /* as attach_finish() gave them */
	struct peer *other;
	uint64_t own_area; /* offsets; both differ with self, too */
	uint64_t other_area;
};

/* The other end's function. The line of what failed, or 0. */
typedef int (*ends_function)(struct end *end);

struct ends {
	enum ends_kind kind;
	struct end mine;
	struct end theirs; /* thread and self only; a process has its own */
	ends_function function;
	pthread_t thread;
	pid_t pid;
	int wire; /* to the process, for hellos */
};

/* Both ends, the other one running its function. Fails the test on error. */
void ends_start(struct ends *ends, enum ends_kind kind, ends_function function);

/* Waits until the other end's function is over and its world destroyed: it
 * has left. Fails the test if that returned a line. */
void ends_join(struct ends *ends);

/* Kills the other end's process (ENDS_SHM); instead of ends_join(). */
void ends_kill(struct ends *ends);

/* Closes the own end. */
void ends_close(struct ends *ends);

/* A counter, or data, in an end's own area. */
uint8_t *ends_own(const struct end *end, uint64_t offset);

/* Sleeps on the own doorbell until the own area's counter has the value, or
 * the other end is no more. */
void ends_await(const struct end *end, uint64_t value);

/* The counted put into the other's area. */
enum shunt_status ends_put(const struct end *end, uint64_t offset,
	const void *bytes, uint64_t num_bytes);

#endif
