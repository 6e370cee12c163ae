/*
 * Waiting for ranks: the one loop in which the library spins, yields, sleeps,
 * notices the dead, and keeps its deadlines.
 */
#ifndef WORLD_WAIT_H
#define WORLD_WAIT_H

#include <stdbool.h>

#include "world/group.h"

struct waiter {
	const struct shunt_group *group;
	const char *what; /* "the rows of dispatch", for messages */
	uint64_t epoch;   /* the step, for messages; 0: none */

	/* Moves work along; true when the wait is over. Never blocks. */
	bool (*ready)(struct waiter *waiter);
	/* Is group rank `rank` still waited for? Not called in the spin. */
	bool (*awaits)(struct waiter *waiter, int32_t rank);
	/* What the next thing to happen rings with, while not ready; see
	 * doorbell.h. */
	uint64_t (*token)(struct waiter *waiter);
	/* Has group rank `rank` said that it will not come any more? May be
	 * NULL. That it died is looked up in any case. */
	bool (*closed)(struct waiter *waiter, int32_t rank);
};

/*
 * Waits until ready() or the deadline (in clock_now() units). A rank counts as
 * lost only if it is still awaited after it was seen gone: what a rank sent
 * before it died is good.
 * Errors: TIMEOUT, PEER_LOST, with the ranks and what each last did.
 */
enum shunt_status wait_for(struct waiter *waiter, int64_t deadline);

/* A look at who is gone, for those who do not wait. May call ready(). Never
 * blocks. Errors: PEER_LOST, as above. */
enum shunt_status wait_look(struct waiter *waiter);

/* True if there are so many ranks that none shall wake up for what it does not
 * wait for. */
bool wait_is_crowd(const struct shunt_group *group);

/* The spin before a wait gives its core away, in ns, for a host where num_ranks
 * ranks run on num_cores cores: 0 when there are more of them than cores. */
int64_t wait_spin_ns(int32_t num_ranks, int32_t num_cores);

#endif
