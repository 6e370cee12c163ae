/* Attaching on one host, without a world. */
#ifndef TESTS_SUPPORT_ATTACH_H
#define TESTS_SUPPORT_ATTACH_H

#include "transport/select.h"

static inline enum shunt_status attach_here(struct segment *segment,
	int32_t rank, struct peer_hello *hello, struct attachment **attachment)
{
	const struct attach_terms terms = {.segment = segment, .rank = rank};

	return attach_start(&terms, hello, attachment);
}

/* There is no other host, so no RDMA side comes of it. */
static inline enum shunt_status attach_all_here(struct attachment *attachment,
	int32_t num_ranks, const struct peer_hello *hellos,
	const uint8_t secret[32], int64_t deadline, struct peer **peers)
{
	struct far *far = NULL;

	return attach_finish(
		attachment, num_ranks, hellos, secret, deadline, peers, &far);
}

#endif
