/*
 * Attaching to all peers of a world, each by the best transport that reaches
 * it.
 */
#ifndef TRANSPORT_SELECT_H
#define TRANSPORT_SELECT_H

#include "transport/transport.h"

/* A rank's side of attachment: its segment, and the hand-over socket. */
struct attachment;

/*
 * Opens this rank to its peers and fills in what they need to know. Shared
 * segments listen on an abstract socket until attach_finish().
 * Errors: NO_MEMORY, SYSTEM.
 */
enum shunt_status attach_start(struct segment *segment,
	struct peer_hello *hello, struct attachment **attachment);

/*
 * Attaches to every rank: peers[r] for r = 0 .. num_ranks - 1, `rank` being
 * this one (transport self). hellos[r] are checked before use. `secret` (32
 * bytes, the same on all ranks, fresh for each job) authenticates hand-overs;
 * strangers on the socket are dropped. Frees the attachment, also on failure.
 * Errors: UNSUPPORTED (a peer on another host; names it), TIMEOUT (names the
 * missing), PEER_LOST (a rank left or died meanwhile), PEER_FAULT (a hello or hand-over that is not sound), SYSTEM,
 * NO_MEMORY. On failure no peer stays attached.
 */
enum shunt_status attach_finish(struct attachment *attachment, int32_t rank,
	int32_t num_ranks, const struct peer_hello *hellos,
	const uint8_t secret[32], int64_t deadline, struct peer **peers);

/* Gives up an attachment that was not finished. NULL is allowed. */
void attach_abandon(struct attachment *attachment);

#endif
