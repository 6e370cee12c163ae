/*
 * The far side: this rank's RDMA towards ranks of other hosts. One far side
 * serves all far peers of a world; each of them is a struct peer of transport
 * "verbs" (transport.h), which put alone reaches.
 *
 *	far_open	devices, listener, hello        before the rendezvous
 *	far_connect	a peer for each far rank        behind it
 *	far_expose	windows that far peers write    before any of them does
 *	far_cut		a peer is to write no more
 *	far_progress	completions, records, credits   in every wait loop
 *	far_arm		then a completion rings the doorbell
 *	far_close	LEAVE, bounded wait, all down
 *
 * Threads of the rank may call all but open, connect and close at once.
 * Nothing here blocks but these three; far_expose takes the time of a memory
 * registration.
 */
#ifndef TRANSPORT_FAR_H
#define TRANSPORT_FAR_H

#include <stdbool.h>
#include <stdint.h>

#include <shunt/status.h>

#include "transport/far_hello.h"

struct far;
struct peer;
struct peer_hello;
struct segment;

/* From the world's config and environment, already parsed. All zero but
 * gid_index, service_level and traffic_class (-1) means: choose. */
struct far_config {
	const char *device;    /* "mlx5_0,mlx5_1": several are striped; NULL:
				* by the address */
	const char *interface; /* name of a network interface; NULL */
	const char *address;   /* IPv4 or IPv6 of this rank; NULL: of the
				* interface or device, else the next */
	const char *fallback_address; /* of this rank's socket to the
				       * rendezvous; NULL if unknown */
	int32_t port;                 /* of the device; 0: any active one */
	int32_t gid_index;            /* -1: the kernel's choice */
	int32_t service_level;        /* 0 .. 15; -1: the kernel's choice */
	int32_t traffic_class;        /* 0 .. 255; -1: the kernel's choice */
	int32_t lanes;       /* queue pairs per peer; 0: one a device */
	int32_t ack_timeout; /* n: 4.096 us << n, 1 .. 31; 0: 14 */
	int32_t queue_depth; /* of each queue; 0: FAR_QUEUE_DEPTH */
	/* How long puts may find no room, without any coming, before the peer
	 * counts as dead, in ns; 0: FAR_PATIENCE_NS. */
	int64_t patience_ns;
};

#define FAR_CONFIG_INIT                                                   \
	{                                                                 \
		.gid_index = -1, .service_level = -1, .traffic_class = -1 \
	}

/* Longer than any pause of a rank that is to go on. */
#define FAR_PATIENCE_NS INT64_C(30000000000)

#define FAR_MAX_DEVICES     8
#define FAR_MAX_LANES       16
#define FAR_ACK_TIMEOUT     14
#define FAR_RETRIES         6 /* 7 can mean: for ever */
#define FAR_QUEUE_DEPTH     256
#define FAR_MIN_QUEUE_DEPTH 4

/*
 * Opens the devices and listens. `segment` is this rank's; the far side holds
 * a reference and watches its ranges (segment_watch) until it is closed.
 * *far becomes NULL, with OK, if this rank has no RDMA device and the config
 * asks for none by name; far_absence() then says why. *hello is filled in
 * both cases.
 * Errors: INVALID (an option out of range, or one that no device here can
 * serve; names option, value and range), UNSUPPORTED (the device lacks what
 * is needed), NO_MEMORY (also the limit of locked memory: names amount, limit,
 * remedies), SYSTEM.
 */
enum shunt_status far_open(const struct far_config *config,
	struct segment *segment, int32_t rank, struct far **far,
	struct far_hello *hello);

/* Why the calling thread's last far_open() found nothing; never NULL. */
const char *far_absence(void);

/*
 * Connects to all ranks r with is_far[r]: the lower rank of two connects, the
 * other accepts, if both know `secret` (32 bytes). Fills peers[r] for these
 * and leaves the others alone. Takes memory of the segment for one image of
 * a control page per far rank (peer->control is the image of that peer's).
 * Errors: TIMEOUT, PEER_LOST (name the ranks), PEER_FAULT (a hello or what a
 * peer said is not sound), UNSUPPORTED (a far rank has no device), NO_MEMORY,
 * SYSTEM. On failure far_close() is due, and ends what is connected.
 */
enum shunt_status far_connect(struct far *far, int32_t num_ranks,
	const struct peer_hello *hellos, const bool *is_far,
	const uint8_t secret[32], int64_t deadline, struct peer **peers);

/* The offset, in the segment of a peer of transport "verbs", of its image of
 * this rank's control page. Puts may go anywhere in [0, CONTROL_BYTES) of it
 * but to its beat, which the far side keeps up to date. */
uint64_t far_image_off(const struct peer *peer);

/*
 * Ends the link to a far peer, whatever it does: for a peer that may be stopped, and
 * have more on its way here than this rank can bear. Never blocks; the peer's state is
 * ALIVE until nothing of it can arrive any more, then DEAD (or LEFT, if it had said
 * so). That takes a moment, half a second at most. What had arrived is still applied.
 * The peer finds this rank DEAD. True if the link was up until now.
 * Peers of this host have no such thing: they write to the memory themselves.
 */
bool far_cut(struct peer *peer);

/*
 * Lets all far peers write to a range of the own segment: page-aligned, taken
 * by segment_alloc(). They know before any later put of this rank. A peer's
 * put to what is not exposed to it is INVALID there; a peer that learns of
 * the range only with this call is told by a put behind it.
 * Errors: NO_MEMORY (also locked memory), INVALID (overlaps an exposed range),
 * SYSTEM.
 */
enum shunt_status far_expose(struct far *far, uint64_t offset, uint64_t bytes);

/* The opposite, before segment_free(). The caller knows that no peer puts to
 * the range any more. Does nothing to what is not exposed. */
void far_hide(struct far *far, uint64_t offset);

/* Moves along what is outstanding with all far peers: completions, records
 * that came, credits. Never blocks; cheap if nothing came. True if it did
 * anything. */
bool far_progress(struct far *far);

/*
 * For a waiter about to sleep on the own doorbell: asks for an event with the
 * next completion, upon which a thread of the far side rings (DOORBELL_ANY).
 * doorbell_arm(), far_arm(), look again with far_progress(), sleep.
 */
void far_arm(struct far *far);

/* True once the sources of all puts to all far peers may be reused. */
bool far_is_quiet(struct far *far);

/*
 * Tells the living that this rank leaves, waits a bounded time until they have
 * it, and takes everything down. Behind the close of all its peers. NULL is
 * allowed. In a forked child it frees nothing and touches no device.
 */
void far_close(struct far *far);

#endif
