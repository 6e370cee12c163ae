/*
 * A lane: one queue pair to a peer. Posts writes and records, knows how many
 * more fit, and takes their completions.
 *
 * No queue can overrun. Requests: `depth` at most between head and tail; at
 * least each half depth one asks for a completion, so that up to half a depth
 * of room always comes back. Receives: the sender of records counts those that
 * the receiver has told it of (credits), and the receiver tells only what it has
 * posted, so that a record never finds no receive. Completions: the queue has
 * an entry for each request and receive of all lanes.
 *
 * Under the lock, all of it.
 */
#ifndef TRANSPORT_VERBS_LANE_H
#define TRANSPORT_VERBS_LANE_H

#include "transport/verbs.h"

#define LANE_BATCH 16

/* Requests that go to the device together, with one call. */
struct lane_batch {
	struct verbs_lane *lane;
	int num;
	struct ibv_send_wr requests[LANE_BATCH];
	struct ibv_sge pieces[LANE_BATCH];
	bool is_awaited[LANE_BATCH]; /* somebody waits until it is over */
	struct record records[LANE_BATCH];
	uint64_t num_bytes;
};

/* Makes a lane new, for its first queue pair or another. */
void lane_reset(struct verbs_lane *lane);

/* Frees what its requests hold, once its queue pair is destroyed. */
void lane_release(struct verbs_lane *lane);

/* Posts all receives of the ring, for a new queue pair. False if that failed;
 * then the link has failed. */
bool lane_fill_ring(struct verbs_lane *lane);

/* How many more requests fit now. */
uint32_t lane_room(const struct verbs_lane *lane);

/* Whether a record fits: request, credit and, if the device needs one, a
 * buffer. `requests` more are to fit before it. */
bool lane_takes_record(struct verbs_lane *lane, uint32_t requests);

/* Whether so many bytes can be copied into a request now. */
bool lane_takes_copy(const struct verbs_lane *lane, uint32_t num_bytes);

/* What is kept goes first. */
void lane_batch_begin(struct lane_batch *batch, struct verbs_lane *lane);

/*
 * The lane's own batch, of the first lane of a link: writes that nobody waits for yet
 * may be kept in it, as a post takes longer than a request does. Whatever else goes
 * to the lane takes them along, and so does link_pump().
 */
struct lane_batch *lane_kept(struct verbs_lane *lane);

/* Posts what is kept, if it is enough for a post of its own. False: it is not. */
bool lane_post_kept_if_full(struct verbs_lane *lane);

/* Drops what is kept: its queue pair has failed. */
void lane_drop_kept(struct verbs_lane *lane);

/* Adds a write to an offset of the peer's segment. There is room for it. `mr`
 * covers the bytes; NULL: they are copied, PUT_COPY_BYTES at most, and there
 * is room for that, too. */
void lane_add_write(struct lane_batch *batch, uint64_t offset, uint32_t rkey,
	const void *bytes, uint32_t num_bytes, const struct ibv_mr *mr);

/* Adds a read from an offset of the peer's segment. There is room for it. `mr`
 * covers the bytes that it goes to. */
void lane_add_read(struct lane_batch *batch, uint64_t offset, uint32_t rkey,
	void *bytes, uint32_t num_bytes, const struct ibv_mr *mr);

/* The write that was added last is awaited by flushed(). */
void lane_await_last(struct lane_batch *batch);

/* Adds a record; lane_takes_record() said so. Fills in its sequence. */
void lane_add_record(struct lane_batch *batch, const struct record *record);

/* Posts the batch, with a completion for its last. */
void lane_post_signalled(struct lane_batch *batch);

/* Posts the batch. If that fails the link fails. */
void lane_post(struct lane_batch *batch);

/* Posts receives for records that were applied and tells the peer, if that is
 * worth it now. True if it is, but there is no room. */
bool lane_return_credits(struct verbs_lane *lane);

/* What a completion was about; false if its queue pair is no more. */
bool lane_of(const struct far *far, uint64_t wr_id, struct verbs_lane **lane,
	bool *is_receive);

/* Takes the completion of a request: all up to it are over. */
void lane_complete(struct verbs_lane *lane, uint64_t wr_id);

#endif
