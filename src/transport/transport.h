/*
 * Transports: how this rank reaches a peer's segment.
 *
 * One primitive, the counted put: copy bytes to an offset in the peer's
 * segment, then add to a 64-bit counter there. Each transport keeps exactly
 * these promises, and tests/test_transport.c holds each to them:
 *
 *  - an addition covers this put and all earlier ones of this rank to the peer:
 *    whoever sees it (order_acquire) can read all of their bytes;
 *  - additions to a peer become visible in the order of their puts, bytes as
 *    they like;
 *  - a put of length 0 is a pure signal, one without a counter only bytes;
 *  - a counter has one writer, so a sum is also a value.
 *
 * Transports do not know each other. select.c picks one per peer: self, same
 * process, same host, RDMA.
 */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/status.h>

#include "memory/segment.h"
#include "transport/far_hello.h"

/* For counter_offset: nobody is told. */
#define PUT_NO_COUNTER UINT64_MAX
/* So many bytes are copied at once, wherever they lie. */
#define PUT_COPY_BYTES 256

enum peer_state {
	PEER_ALIVE,
	PEER_LEFT, /* destroyed its world */
	PEER_DEAD  /* crashed, was killed, or its host is gone */
};

struct peer;

struct transport_ops {
	const char *name; /* "self", "threads", "shm", "verbs" */

	/*
	 * Pointer for load and store to [offset, offset + bytes) of the peer's
	 * segment, valid until close; NULL if the range is not inside the
	 * segment, or if this transport cannot (then only put reaches it).
	 * Stores through it become visible to the peer at the latest with a
	 * later put to a counter.
	 */
	void *(*map)(struct peer *peer, uint64_t offset, uint64_t bytes);

	/*
	 * The counted put. `counter_offset` is 8-byte aligned. Never blocks.
	 * Wakes the peer if it sleeps. What finds no room now is noted, and goes
	 * out with progress, in order; *again becomes true if nothing was done
	 * because there is no memory to note it: progress, and call again.
	 * More than PUT_COPY_BYTES lie in this rank's segment, where the peer
	 * cannot be mapped, and stay as they are until flushed(), or until
	 * the peer is known to have them.
	 * Errors: INVALID (a range outside of what can be reached of the peer;
	 * nothing done), PEER_LOST. A put to a lost peer may also succeed and
	 * go nowhere.
	 */
	enum shunt_status (*put)(struct peer *peer, uint64_t offset,
		const void *bytes, uint64_t num_bytes, uint64_t counter_offset,
		uint64_t add, bool *again);

	/* Moves outstanding work along. Never blocks. True if it did any. */
	bool (*progress)(struct peer *peer);

	/* True once the bytes of all earlier puts, copied or not, have left for
	 * good: the sources may be reused. That they have arrived is not said.
	 * Never blocks; the caller progresses in between. */
	bool (*flushed)(struct peer *peer);

	/* What is known of the peer now. Cheap enough for a wait loop: no
	 * system call. */
	enum peer_state (*state)(struct peer *peer);

	/* Frees the peer. Never blocks. */
	void (*close)(struct peer *peer);
};

/* A reachable peer; each transport embeds it at the head of its own struct. */
struct peer {
	const struct transport_ops *ops;
	int32_t rank; /* in the world */
	int32_t host; /* its number in the world */
	bool is_far;  /* on another host: it cannot be mapped */
	uint64_t segment_bytes;
	/* The peer's control page, or of a far one the image that it keeps up
	 * to date here. */
	struct control *control;
};

/* True if [offset, offset + bytes) is inside of the peer's segment. */
static inline bool peer_has(
	const struct peer *peer, uint64_t offset, uint64_t bytes)
{
	/* No sum that could overflow. */
	return offset <= peer->segment_bytes &&
	       bytes <= peer->segment_bytes - offset;
}

/*
 * A put that asks again where there is no memory to note it. To a lost peer it goes
 * nowhere; whoever waits for it notices the loss.
 */
void peer_put(struct peer *peer, uint64_t offset, const void *bytes,
	uint64_t num_bytes, uint64_t counter_offset, uint64_t add);

/* A pure signal: adds to a counter of the peer. */
void peer_signal(struct peer *peer, uint64_t counter_offset, uint64_t add);

/* What a rank tells the others at the rendezvous, so that they can attach.
 * Fixed size, plain data, same layout on every host. */
struct peer_hello {
	uint64_t segment_bytes;
	uint8_t process[16]; /* random, the same for all ranks of a process */
	uint8_t segment[16]; /* random, names the segment within the process */
	uint8_t host[16];    /* where abstract sockets are shared; host.h */
	uint8_t socket[16];  /* random name of the hand-over socket */
	uint64_t pid;
	struct far_hello far; /* how other hosts reach it */
};

#endif
