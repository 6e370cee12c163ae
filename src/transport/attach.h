/*
 * The transports' constructors, for select.c. Each makes a peer, or leaves
 * nothing behind.
 */
#ifndef TRANSPORT_ATTACH_H
#define TRANSPORT_ATTACH_H

#include "transport/transport.h"

/* Transport self. Holds a reference to the segment; closing it also withdraws
 * the offer of that name (see local.h). Errors: NO_MEMORY. */
enum shunt_status transport_self_attach(struct segment *segment, int32_t rank,
	const uint8_t name[16], struct peer **peer);

/* Transport threads: a rank of this process. Errors: PEER_LOST (its segment is
 * not on offer any more), PEER_FAULT (the hello is not sound), NO_MEMORY. */
enum shunt_status transport_threads_attach(
	const struct peer_hello *hello, int32_t rank, struct peer **peer);

/* Transport shm: maps the descriptor of a segment that the rank handed over,
 * and leaves it open. Errors: PEER_FAULT (it is not such a segment),
 * NO_MEMORY. */
enum shunt_status transport_shm_attach(const struct peer_hello *hello,
	int32_t rank, int fd, struct peer **peer);

#endif
