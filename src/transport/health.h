/*
 * Health: how the death of a process becomes an event.
 *
 * Each shared segment has a life word, a futex that a service thread of the
 * owning process holds on its robust list. The kernel walks that list before
 * it tears the address space down, so peers see FUTEX_OWNER_DIED within
 * fractions of a millisecond whatever the size of the dead (a pidfd would
 * tell after 150 ms for 2 GiB; see docs/architecture.md). Peers only read the
 * word.
 *
 * The service thread is one per process, made with the first held word and
 * joined with the last. Ranks as threads need none of this: they die together.
 */
#ifndef TRANSPORT_HEALTH_H
#define TRANSPORT_HEALTH_H

#include <stdatomic.h>
#include <stdint.h>

#include <shunt/status.h>

struct segment;

/* Values of a life word besides the holder's thread id. */
#define HEALTH_UNBORN 0u
#define HEALTH_HERE   1u          /* lives as long as this process does */
#define HEALTH_LEFT   0x20000000u /* the owner destroyed its world */

enum health {
	HEALTH_ALIVE,
	HEALTH_GONE, /* left in good order */
	HEALTH_DEAD
};

/*
 * Begins to hold a life word until health_release(). `life` is that of a
 * control page, whose life_link is used, too. Errors: SYSTEM (no thread; more
 * than the kernel would look at, HEALTH_MAX_HELD).
 */
#define HEALTH_MAX_HELD 2048
enum shunt_status health_hold(_Atomic uint32_t *life);

/* Stops holding and marks the word as left. Does nothing to a word that this
 * process does not hold. */
void health_release(_Atomic uint32_t *life);

/* What a life word says. */
enum health health_read(const _Atomic uint32_t *life);

/* Brings the segment's life word to life, by the segment's kind. To be called
 * before peers can see it. Errors: SYSTEM, NO_MEMORY. */
enum shunt_status life_begin(struct segment *segment);

/* Marks the segment as left. Before the segment is put. */
void life_end(struct segment *segment);

#endif
