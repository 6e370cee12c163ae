/*
 * The block: the part of the own segment that one far peer writes to, besides
 * windows. This file alone knows its layout; offsets of one's own block for a
 * peer, and of the peer's for oneself, follow from the two block offsets that
 * they told each other.
 *
 *	0	the image of the peer's control page
 *	8192	credits, a line for each lane; the peer's beat; own beats as
 *		they come back, 64 bytes for each lane
 *	12288	rings of records, one for each lane, of `depth` slots
 */
#ifndef TRANSPORT_VERBS_IMAGE_H
#define TRANSPORT_VERBS_IMAGE_H

#include "transport/verbs.h"

/*
 * How many records of a lane have been taken. It is written by a device, which
 * promises no more than bytes, and read without a completion; so it comes with
 * its complement: a total that is partly old does not match.
 */
struct image_credit {
	_Atomic uint64_t total;
	_Atomic uint64_t complement;
};

/* A beat under way: struct beat with an age, as clocks of hosts differ. */
struct image_beat {
	_Atomic uint64_t serial; /* from 1; what an echo is of */
	_Atomic uint64_t epoch;
	_Atomic uint64_t phase;
	_Atomic uint64_t age; /* ns */
};

/* Bytes of a block; whole pages. */
uint64_t image_block_bytes(uint32_t num_lanes, uint32_t ring_depth);

/* Offsets in a block. */
uint64_t image_credit_off(uint32_t lane);
uint64_t image_beat_off(void);
uint64_t image_slot_off(uint32_t lane, uint32_t ring_depth, uint64_t sequence);

/* Takes the memory of all blocks; image_off of all links. Not under the lock.
 * Errors: those of segment_alloc(). */
enum shunt_status images_open(struct far *far);
void images_close(struct far *far);

/* The total that the peer told; false if there is none now that is whole. */
bool image_credit_read(const struct verbs_lane *lane, uint64_t *total);

/* The slot of the own ring that holds a record of the lane. */
const struct record *image_slot(
	const struct verbs_lane *lane, uint64_t sequence);

/* Where own beats come back to: serials, with what there is behind them. More
 * than 32 bytes are read, since Soft-iWARP ends connections over answers of up to 32
 * bytes, which it may copy by a thread that has no memory of the process. */
#define IMAGE_ECHO_BYTES 64
_Atomic uint64_t *image_echo(const struct verbs_lane *lane);

/* Shows a beat that came in the image of the peer's control page. */
void image_show_beat(struct verbs_link *link);

#endif
