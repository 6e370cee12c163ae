/*
 * The greeting: private data of a connection request and of its answer. Its
 * code proves that the sender knows the job's secret, and ties it to the two
 * ranks, the lane and the direction. What makes it fresh are the random names
 * of both segments, which each rank told at the rendezvous of this job: a
 * greeting of another job, of another pair or of the other direction does not
 * pass. 56 bytes are all that a request can carry on InfiniBand.
 */
#ifndef TRANSPORT_VERBS_GREETING_H
#define TRANSPORT_VERBS_GREETING_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

#define GREETING_CODE_BYTES 32

enum greeting_way { GREETING_REQUEST, GREETING_ANSWER };

struct greeting {
	uint32_t magic;
	int32_t from;       /* rank */
	uint64_t image_off; /* of the sender's block for the receiver */
	uint32_t rkey;      /* of the block, for this lane */
	uint16_t ring_depth;
	uint8_t lane;
	uint8_t num_lanes;
	uint8_t code[GREETING_CODE_BYTES];
};
_Static_assert(sizeof(struct greeting) == 56, "fits into a request");

/* Who greets whom, in which job. */
struct greeting_terms {
	const struct peer_hello *hellos; /* by rank */
	const uint8_t *secret;           /* 32 bytes */
	int32_t num_ranks;
};

/* Fills in magic and code. */
void greeting_sign(struct greeting *greeting, enum greeting_way way, int32_t to,
	const struct greeting_terms *terms);

/* Copies what came, which may be padded; true if it comes from a rank of the
 * job and is for `to`. */
bool greeting_read(struct greeting *greeting, const void *bytes,
	uint32_t num_bytes, enum greeting_way way, int32_t to,
	const struct greeting_terms *terms);

#endif
