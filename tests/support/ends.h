/*
 * Two ends of a transport, attached to each other in the real way: the test's
 * own, and the other, which runs a function of the test where that transport
 * has its peer (a thread, or a forked process).
 */
#ifndef SUPPORT_ENDS_H
#define SUPPORT_ENDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory/segment.h"
#include "transport/transport.h"

enum ends_kind {
	ENDS_SELF,
	ENDS_THREADS,
	ENDS_SHM,
	ENDS_VERBS,        /* the other end is a thread */
	ENDS_VERBS_PROCESS /* a process: with real devices only */
};

/* Each end has an area in its segment, far from its beginning. */
#define ENDS_RESERVE_BYTES (UINT64_C(8) << 30)
#define ENDS_AREA_ALIGN    (UINT64_C(4) << 30)
#define ENDS_AREA_BYTES    (UINT64_C(1) << 20)
#define ENDS_COUNTER       0 /* in the area */
#define ENDS_DATA          4096
#define ENDS_SOURCE        (UINT64_C(1) << 20) /* as many bytes more */

/* One end: its own segment, and how it reaches the other. */
struct end {
	struct segment *segment;
	struct peer *peers[2]; /* as attach_finish() gave them */
	struct peer *other;
	struct far *far;   /* ENDS_VERBS: then segment areas are exposed */
	uint64_t own_area; /* offsets; both differ with self, too */
	uint64_t other_area;
};

/* The other end's function. The line of what failed, or 0. */
typedef int (*ends_function)(struct end *end);

struct ends {
	enum ends_kind kind;
	struct end mine;
	struct end theirs; /* of threads, and self; a process has its own */
	ends_function function;
	pthread_t thread;
	pid_t pid;
	int wire;       /* to the other end, for hellos */
	int other_wire; /* its side of it */
};

/*
 * ENDS_VERBS is over the simulator, with devices of the form that
 * SHUNT_TEST_FORM names (fake_forms.h), unless there are real ones:
 * the addresses of both ends, from SHUNT_TEST_RDMA
 * ("10.0.0.1,10.0.0.2", or one for both); false if there is no device to test
 * with. SHUNT_TEST_RDMA_DEVICES (instead of addresses, for both ends),
 * SHUNT_TEST_RDMA_LANES, _LEVEL and _DEPTH are as in struct far_config.
 */
bool ends_have_rdma(void);

/* With ENDS_VERBS_PROCESS the program is run anew, with this option and the
 * number of a descriptor; its main() then calls ends_far_main(), and exits with
 * what that returns. The function is the program's choice. */
#define ENDS_FAR_OPTION "--far-end"
int ends_far_main(int wire, ends_function function);

/* Both ends, the other one running its function. Fails the test on error. */
void ends_start(struct ends *ends, enum ends_kind kind, ends_function function);

/* Waits until the other end's function is over and its world destroyed: it
 * has left. Fails the test if that returned a line. */
void ends_join(struct ends *ends);

/* Kills the other end's process; instead of ends_join(). */
void ends_kill(struct ends *ends);

/* Closes the own end. */
void ends_close(struct ends *ends);

/* A counter, or data, in an end's own area. */
uint8_t *ends_own(const struct end *end, uint64_t offset);

/* Sleeps on the own doorbell until the own area's counter has the value, or
 * the other end is no more. */
void ends_await(const struct end *end, uint64_t value);

/* The counted put into the other's area. Bytes too many to be copied by the
 * transport are put from the own area, where ENDS_SOURCE is. */
enum shunt_status ends_put(const struct end *end, uint64_t offset,
	const void *bytes, uint64_t num_bytes);

/* Waits until the other end's state is this, or for very long. */
enum peer_state ends_await_state(const struct end *end, enum peer_state state);

/* ---- between ends.c and ends_far.c ------------------------------------- */

/* Joins the other end over RDMA, over a socket that reaches it; rank 0 or 1.
 * Returns the line of what failed, or 0. */
int ends_far_join(struct end *end, int wire, int32_t rank);

/* Leaves. */
void ends_far_close(struct end *end);

/* Begins, and ends, the simulator if there are no real devices. */
void ends_far_begin(void);
void ends_far_end(void);

/* Moves its far side along, if it has one. */
void ends_far_progress(const struct end *end);

/* Has the doorbell rung when something comes to the far side. */
void ends_far_arm(const struct end *end);

#endif
