/*
 * The doorbell: how a rank that sleeps learns that a counter of its moved.
 *
 * Ringing costs one load unless somebody sleeps. No wake-up is lost, by
 * Dekker's argument, all four accesses being sequentially consistent:
 *
 *	ringer				sleeper
 *	counter += n			ticket = doorbell_arm()  (sleepers += 1)
 *	doorbell_ring: sleepers?	look at the counters again
 *	  yes: bell += 1, wake		doorbell_sleep(ticket) / doorbell_disarm
 *
 * Several threads of a rank may sleep on its one doorbell; all are woken. A
 * thread that sleeps alone may say what it sleeps for, by a token that ringers
 * of that also know (the offset of a counter): then nobody else wakes it. With
 * hundreds of ranks that saves hundreds of wake-ups per wait.
 */
#ifndef MEMORY_DOORBELL_H
#define MEMORY_DOORBELL_H

#include <stdatomic.h>
#include <stdint.h>

/* Any ringer wakes. Other tokens are 1 .. 2^48 - 1. */
#define DOORBELL_ANY UINT64_C(0)

struct doorbell {
	_Atomic uint32_t bell; /* futex word; added to by ringers */
	/* Threads of the owner that may sleep (upper 16 bits) and the token
	 * they sleep for, in one word, so that a ringer sees both or none. */
	_Atomic uint64_t sleepers;
};

/* Wakes the owner's sleepers if there are any and they sleep for `token` or
 * for any; with DOORBELL_ANY, whatever they sleep for. Called by peers, and by
 * the owner. Never blocks. */
void doorbell_ring(struct doorbell *doorbell, uint64_t token);

/* Announces a sleep; returns the ticket for doorbell_sleep(). */
uint32_t doorbell_arm(struct doorbell *doorbell, uint64_t token);

/* Sleeps until a ring after the arm, or for at most span_ns. May also return
 * early for no reason. Leaves the doorbell armed. */
void doorbell_sleep(
	struct doorbell *doorbell, uint32_t ticket, int64_t span_ns);

/* Ends what doorbell_arm() began. */
void doorbell_disarm(struct doorbell *doorbell);

#endif
