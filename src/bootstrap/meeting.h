/*
 * What bootstrap.c hands to the two back-ends: one rank's part in a meeting,
 * its arguments checked.
 */
#ifndef BOOTSTRAP_MEETING_H
#define BOOTSTRAP_MEETING_H

#include "bootstrap/bootstrap.h"

struct meeting {
	const struct bootstrap *bootstrap;
	const void *blob;
	size_t blob_bytes;
	int64_t deadline;
	void *blobs;     /* out: num_ranks * blob_bytes */
	uint8_t *secret; /* out: BOOTSTRAP_SECRET_BYTES */
};

#endif
