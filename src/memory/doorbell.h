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
 * Several threads of a rank may sleep on its one doorbell; all are woken.
 */
#ifndef MEMORY_DOORBELL_H
#define MEMORY_DOORBELL_H

#include <stdatomic.h>
#include <stdint.h>

struct doorbell {
	_Atomic uint32_t bell;	   /* futex word; added to by ringers */
	_Atomic uint32_t sleepers; /* threads of the owner that may sleep */
};

/* Wakes the owner's sleepers, if there are any. Called by peers, and by the
 * owner. Never blocks. */
void doorbell_ring(struct doorbell *doorbell);

/* Announces a sleep; returns the ticket for doorbell_sleep(). */
uint32_t doorbell_arm(struct doorbell *doorbell);

/* Sleeps until a ring after the arm, or for at most span_ns. May also return
 * early for no reason. Leaves the doorbell armed. */
void doorbell_sleep(struct doorbell *doorbell, uint32_t ticket,
	int64_t span_ns);

/* Ends what doorbell_arm() began. */
void doorbell_disarm(struct doorbell *doorbell);

#endif
