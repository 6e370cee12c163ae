/*
 * What the files of transport "verbs" share.
 *
 *	far.c            the seam of far.h
 *	verbs_address    which addresses, hence which devices; the hello
 *	verbs_device     opening a device, its limits, its queues
 *	verbs_memory     registered ranges, exposed ranges
 *	verbs_image      the block of the own segment that one peer writes
 *	verbs_greeting   what is said, and proven, in connecting
 *	verbs_connect    connection manager: the loop and its events; who asks
 *	                 (verbs_dial) and who answers (verbs_answer)
 *	verbs_path       routes of a chosen service level
 *	verbs_lane       one queue pair: posting, room, completions
 *	verbs_record     records: what they say, sending and applying them
 *	verbs_put        puts: into writes and records
 *	verbs_backlog    puts that wait for room
 *	verbs_echo       whether a peer's device answers, where no completion
 *	                 tells
 *	verbs_link       life of a link; struct transport_ops
 *	verbs_async      asynchronous events of devices
 *	verbs_service    the thread: events, beats, burials
 *
 * A link is a far peer, seen from here; it has one or more lanes, each a
 * reliable connected queue pair. One lock per far side guards all of it.
 * "Under the lock" is what functions of this header and the others expect
 * unless they say otherwise. Nothing blocks under it.
 *
 * What orders what. Bytes are placed by RDMA writes; the record behind them is
 * a write with immediate (or, where the device has none, a send) on the same
 * queue pair. Both consume a receive, whose completion the receiver polls. A
 * reliable connection executes requests in the order of posting, and the
 * completion of a receive says that all requests before it are in memory. So
 * whoever polls it may read the bytes, by no assumption about the order in
 * which a device writes memory. The receiver's software then applies the record
 * with order_publish_add(), as a peer of the same host would.
 */
#ifndef TRANSPORT_VERBS_H
#define TRANSPORT_VERBS_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/sa.h>

#include "transport/far.h"
#include "transport/transport.h"
#include "transport/verbs_api.h"
#include "transport/verbs_ranges.h"

#define VERBS_NS_PER_MS INT64_C(1000000)

/* ---- records ----------------------------------------------------------- */

enum record_kind {
	RECORD_HELLO = 1, /* the first of a lane, by who connected */
	RECORD_COUNT,     /* add `value` to the counter at `offset` */
	RECORD_EXPOSE,    /* `value` bytes at `offset`, `rkey` of `device` */
	RECORD_HIDE,      /* the range at `offset` */
	RECORD_FENCE,     /* all bytes of this lane before it are there */
	RECORD_LEAVE      /* nothing comes behind it */
};

/* On the wire; one slot of the receiver's ring. */
struct record {
	uint32_t sequence; /* of the lane's records */
	uint8_t kind;
	uint8_t device;
	uint16_t fences; /* COUNT: bit n: behind one FENCE more of lane n */
	uint64_t offset;
	uint64_t value;
	uint32_t rkey;
	uint32_t zero;
};
_Static_assert(sizeof(struct record) == 32, "no padding goes out");
_Static_assert(FAR_MAX_LANES <= 16, "lanes fit into record.fences");

/* ---- devices ----------------------------------------------------------- */

struct verbs_device {
	int32_t number;
	const char *name;
	struct rdma_cm_id *listener; /* keeps the context open */
	struct sockaddr_storage address;
	struct ibv_context *context;
	struct ibv_device_attr limits;
	uint32_t max_message_bytes;
	bool has_immediate;
	bool needs_echo; /* what completes may not have arrived: iWARP */
	/* What queue pairs here took last: create_qp() alone tells. */
	uint32_t inline_bytes;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

/* ---- lanes ------------------------------------------------------------- */

enum lane_state {
	LANE_IDLE,       /* not begun, or to be tried again */
	LANE_ADDRESS,    /* resolving */
	LANE_ROUTE,      /* resolving */
	LANE_CONNECTING, /* asked the other side */
	LANE_ACCEPTED,   /* said yes, the other side's HELLO is awaited */
	LANE_OPEN,
	LANE_DEAD /* its queue pair is in error, or gone */
};

/* A request posted, until it is known to be over. */
struct lane_slot {
	int32_t bounce; /* index of the buffer that it uses; -1: none */
};

struct verbs_lane {
	struct verbs_link *link;
	struct verbs_device *device;
	struct rdma_cm_id *id;
	enum lane_state state;
	uint32_t index;      /* in far->lanes: what a wr_id names */
	uint32_t generation; /* of its queue pair, likewise */
	uint8_t number;      /* in its link */
	uint8_t peer_device; /* the peer's, by its number */
	struct sockaddr_storage peer_address;
	bool has_path; /* of the config's service level */
	struct ibv_path_data path;
	int64_t retry_at;   /* LANE_IDLE */
	int64_t give_up_at; /* while connecting to a higher rank */
	uint32_t refusals;  /* in a row, "nobody listens" */

	/* Requests: head posted, tail known to be over. */
	uint32_t depth;
	uint64_t head, tail;
	uint64_t signalled;    /* head behind the last that was signalled */
	uint64_t awaited_head; /* head behind the last with bytes of a put */
	struct lane_slot *slots;
	struct lane_batch
		*kept; /* see verbs_lane.h; NULL but of the first lane */

	/* See verbs_echo.h. */
	bool echo_asked;       /* a read is under way */
	uint64_t echo_at;      /* its number */
	uint64_t echo_seen;    /* the beat that came back last */
	uint64_t echo_tail;    /* tail, at the last look */
	uint64_t echo_arrived; /* arrived, likewise */
	int64_t echo_since;    /* the last sign of life, or the first look */

	/* Records to the peer: its ring, and how much of it is free. */
	uint32_t peer_depth;
	uint32_t peer_image_rkey;
	uint64_t records_sent;
	uint64_t records_taken; /* by the peer, as far as known here */
	bool dirty;             /* bytes behind the last FENCE; not lane 0 */

	/* Records from the peer. */
	uint32_t ring_depth;
	uint32_t num_receives; /* posted, not completed */
	uint64_t arrived;
	uint64_t applied;
	uint64_t returned; /* of applied, told to the peer */
	uint64_t fences_seen, fences_due;
};

/* ---- links ------------------------------------------------------------- */

enum link_phase {
	LINK_CONNECTING,
	LINK_OPEN,
	LINK_FAILING, /* queue pairs in error; what arrived is still applied */
	LINK_GONE     /* queue pairs destroyed: state says how */
};

/* Records that wait for room, so that no caller has to: COUNTs that the peer has none
 * for, which may be stopped, and what is told of ranges. */
struct verbs_outbox {
	struct record *records;
	uint32_t num, sent, capacity;
	uint32_t num_owed; /* HIDE records that must find room */
};

/* A put, as struct transport_ops has it. */
struct verbs_put {
	const uint8_t *bytes;
	uint64_t offset;
	uint64_t num_bytes;
	uint64_t counter_offset;
	uint64_t add;
};

/* Those that wait for room; see verbs_backlog.h. */
struct verbs_backlog {
	uint8_t *bytes;
	uint64_t from, to, capacity;
	uint64_t num_added; /* since it was empty */
};

/* The one put that is under way: split into pieces, over several lanes. */
struct verbs_pending {
	bool active;
	struct verbs_put put;
	uint16_t fences; /* lanes whose FENCE is out */
	/* By lane: the part of the bytes that is still to be written. */
	uint64_t from[FAR_MAX_LANES], to[FAR_MAX_LANES];
};

struct verbs_link {
	struct peer peer; /* first: struct transport_ops casts */
	struct far *far;
	enum link_phase phase;
	_Atomic int state; /* enum peer_state */
	bool said_leave;
	bool at_fault; /* the peer said nonsense: no LEAVE makes it good */
	int64_t failing_since;
	/* For how long something has found no room while this process ran, as of
	 * the last look; 0: all did, or some. */
	int64_t stalled_ns, stalled_seen;
	char why[192]; /* what went wrong last */

	uint64_t
		peer_base; /* of the segment, where the peer's device sees it */
	uint64_t peer_bytes;
	uint64_t image_off; /* of the peer's block in the own segment */
	uint64_t peer_image_off;
	struct verbs_ranges remote; /* what the peer exposed */
	uint8_t num_peer_devices;

	uint8_t num_lanes;
	struct verbs_lane *lanes;
	struct verbs_outbox outbox;
	struct verbs_pending pending;
	struct verbs_backlog backlog;
	uint64_t beat_serial; /* last sent */
	uint64_t beat_seen;   /* last shown in the peer's image */

	bool busy; /* in far->busy: something waits for room, or is kept */
	struct verbs_link *next_busy;
};

/* ---- the far side ------------------------------------------------------ */

struct far {
	struct far_config config;
	struct segment *segment;
	uint8_t *base; /* of the segment */
	int32_t rank;
	unsigned long generation; /* guard.h */
	uint32_t queue_depth;
	uint32_t num_lanes;

	struct rdma_event_channel *events;
	struct verbs_device devices[FAR_MAX_DEVICES];
	int32_t num_devices;

	pthread_mutex_t lock;
	struct verbs_ranges local;   /* registered, by segment_watch() */
	struct verbs_ranges exposed; /* parts of these */

	struct verbs_link *links; /* of the far ranks, ascending */
	int32_t num_links;
	struct verbs_lane **lanes; /* of all links, what wr_ids index */
	uint32_t num_lanes_of_all;
	struct verbs_link *busy;

	uint64_t images_off, images_bytes, block_bytes;
	uint64_t bounce_off, bounce_bytes;
	int32_t *free_bounces;
	int32_t num_free_bounces;

	/* The thread, and what it polls: wake, events, and of each device its
	 * completion channel and its asynchronous events. */
	pthread_t thread;
	bool has_thread;
	int wake;        /* eventfd */
	bool looks_soon; /* it does so each millisecond now */
	struct pollfd polled[2 + 2 * FAR_MAX_DEVICES];
	struct far *next_joined; /* see verbs_async.h */
	_Atomic bool stop;
};

static inline void far_lock(struct far *far)
{
	pthread_mutex_lock(&far->lock);
}

static inline void far_unlock(struct far *far)
{
	pthread_mutex_unlock(&far->lock);
}

#endif
