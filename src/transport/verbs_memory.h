/*
 * Memory of the own segment that devices can reach.
 *
 * Every range of the segment is registered once, when it is taken, with all
 * devices, for writes of peers too: a second registration of windows alone
 * would count twice against the limit of locked memory. What peers may write
 * is a matter of which keys they are told (far_expose). That they are trusted
 * with more is no more than shared memory gives them.
 *
 * No relaxed ordering: a device may then place the bytes of one write in any
 * order, but completions would still be right; there is no measurement yet that
 * it pays.
 */
#ifndef TRANSPORT_VERBS_MEMORY_H
#define TRANSPORT_VERBS_MEMORY_H

#include "transport/verbs.h"

/* Registers all there is and all that will be. Not under the lock. Errors:
 * NO_MEMORY, SYSTEM, UNSUPPORTED (more than the device can register). */
enum shunt_status memory_open(struct far *far);

/* Takes the registrations back. Not under the lock, queue pairs destroyed. */
void memory_close(struct far *far);

/* The registration that covers bytes of the own segment, at `memory`; NULL if
 * it is no such. */
struct ibv_mr *memory_find(const struct far *far,
	const struct verbs_device *device, const void *memory, uint64_t bytes);

/* Whether peers have been told that they may write there. */
bool memory_is_exposed(const struct far *far, uint64_t offset, uint64_t bytes);

#endif
