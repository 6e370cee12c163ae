/*
 * Peers whose segment this process has mapped: what the transports self,
 * threads and shm have in common. They differ in how they come by the mapping
 * and how they give it back.
 */
#ifndef TRANSPORT_MAPPED_H
#define TRANSPORT_MAPPED_H

#include "transport/transport.h"

struct mapped {
	struct peer peer;
	uint8_t *base; /* of the peer's segment, here */
	uint64_t bytes;
};

/* Fills in what the transports share; `base` begins with a control page. */
void mapped_init(struct mapped *mapped, const struct transport_ops *ops,
	int32_t rank, uint8_t *base, uint64_t bytes);

/* The slots of struct transport_ops of the same names. */
void *mapped_map(struct peer *peer, uint64_t offset, uint64_t bytes);
enum shunt_status mapped_put(struct peer *peer, uint64_t offset,
	const void *bytes, uint64_t num_bytes, uint64_t counter_offset,
	uint64_t add, bool *again);
bool mapped_progress(struct peer *peer);
bool mapped_flushed(struct peer *peer);
enum peer_state mapped_state(struct peer *peer);

#endif
