/*
 * The hand-over: ranks of one host pass each other the descriptors of their
 * segments over abstract sockets, and map what they get.
 */
#ifndef TRANSPORT_HANDOVER_H
#define TRANSPORT_HANDOVER_H

#include "transport/transport.h"

/* Listens under the name. Errors: SYSTEM. */
enum shunt_status handover_listen(const uint8_t name[16], int *listener);

/* What a rank brings to the hand-over. */
struct handover_terms {
	int listener;
	int fd; /* of the own segment */
	int32_t rank;
	int32_t num_ranks;
	const struct peer_hello *hellos;
	const bool *is_far;    /* [num_ranks]: on another host, left out */
	const uint8_t *secret; /* 32 bytes */
	int64_t deadline;
};

/*
 * Hands the own segment to every near rank whose peers[] is NULL, and attaches
 * to theirs; strangers are dropped. Leaves the listener open. On failure some of
 * the peers may be attached: the caller closes them.
 * Errors: PEER_LOST, TIMEOUT, PEER_FAULT, SYSTEM, NO_MEMORY; see select.h.
 */
enum shunt_status handover_run(
	const struct handover_terms *terms, struct peer **peers);

#endif
