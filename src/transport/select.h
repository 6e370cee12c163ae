/*
 * Attaching to all peers of a world, each by the best transport that reaches
 * it.
 */
#ifndef TRANSPORT_SELECT_H
#define TRANSPORT_SELECT_H

#include "transport/transport.h"

/* A rank's side of attachment: its segment, the hand-over socket, and what
 * other hosts reach it by. */
struct attachment;

struct far;
struct far_config;

/* What this rank attaches with. */
struct attach_terms {
	struct segment *segment;
	int32_t rank;
	const char *host_text; /* see host.h; NULL */
	/* RDMA; NULL: no rank can be on another host. */
	const struct far_config *far_config;
};

/*
 * Opens this rank to its peers and fills in what they need to know. Shared
 * segments listen on an abstract socket until attach_finish(). RDMA devices
 * that do not work are no error before a rank is on another host, unless the
 * config names one.
 * Errors: NO_MEMORY, SYSTEM; those of far_open().
 */
enum shunt_status attach_start(const struct attach_terms *terms,
	struct peer_hello *hello, struct attachment **attachment);

/*
 * Attaches to every rank: peers[r] for r = 0 .. num_ranks - 1, this one by
 * transport self. hellos[r] are checked before use. `secret` (32
 * bytes, the same on all ranks, fresh for each job) authenticates hand-overs
 * and connections; strangers are dropped. Frees the attachment, also on
 * failure. *far becomes this rank's RDMA side, which is the caller's then; NULL
 * if all ranks are on this host.
 * Errors: UNSUPPORTED (a peer on another host, and no RDMA here or there;
 * names it), TIMEOUT (names the
 * missing), PEER_LOST (a rank left or died meanwhile), PEER_FAULT (a hello or
 * hand-over that is not sound), SYSTEM,
 * NO_MEMORY. On failure no peer stays attached.
 */
enum shunt_status attach_finish(struct attachment *attachment,
	int32_t num_ranks, const struct peer_hello *hellos,
	const uint8_t secret[32], int64_t deadline, struct peer **peers,
	struct far **far);

/* Gives up an attachment that was not finished. NULL is allowed. */
void attach_abandon(struct attachment *attachment);

#endif
