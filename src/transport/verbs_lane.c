/* Posting and completing on one queue pair; see verbs_lane.h. */
#include "transport/verbs_lane.h"

#include <arpa/inet.h>
#include <string.h>

#include "transport/verbs_image.h"
#include "transport/verbs_link.h"
#include "transport/verbs_memory.h"

/* wr_id: is it a receive, generation of the queue pair, lane, low bits of the
 * request's number. After an error nothing else of a completion can be used. */
#define ID_RECEIVE        (UINT64_C(1) << 63)
#define ID_GENERATION(id) ((id) >> 48 & 0x7fff)
#define ID_LANE(id)       ((id) >> 24 & 0xffffff)
#define ID_NUMBER(id)     ((id)&0xffffff)
#define RECEIVES_AT_ONCE  16
/* A wire of 100 Gb/s has some 5 us to do with it. */
#define KEPT_BYTES 65536

static uint64_t id_of(
	const struct verbs_lane *lane, bool is_receive, uint64_t number)
{
	return (is_receive ? ID_RECEIVE : 0) |
	       (uint64_t)(lane->generation & 0x7fff) << 48 |
	       (uint64_t)lane->index << 24 | ID_NUMBER(number);
}

bool lane_of(const struct far *far, uint64_t wr_id, struct verbs_lane **lane,
	bool *is_receive)
{
	if (ID_LANE(wr_id) >= far->num_lanes_of_all)
		return false;
	*lane = far->lanes[ID_LANE(wr_id)];
	*is_receive = wr_id & ID_RECEIVE;
	return (*lane)->id &&
	       ID_GENERATION(wr_id) == ((*lane)->generation & 0x7fff);
}

/* ---- life -------------------------------------------------------------- */

void lane_reset(struct verbs_lane *lane)
{
	lane_release(lane);
	lane_drop_kept(lane);
	lane->generation++;
	lane->head = lane->tail = 0;
	lane->signalled = lane->awaited_head = 0;
	lane->records_sent = lane->records_taken = 0;
	lane->dirty = false;
	lane->num_receives = 0;
	lane->arrived = lane->applied = lane->returned = 0;
	lane->fences_seen = lane->fences_due = 0;
	lane->echo_asked = false;
	lane->echo_tail = lane->echo_arrived = 0;
	lane->echo_since = 0;
}

/* ---- buffers ----------------------------------------------------------- */

static int32_t bounce_take(struct far *far)
{
	return far->free_bounces[--far->num_free_bounces];
}

static uint8_t *bounce_at(const struct far *far, int32_t index)
{
	return far->base + far->bounce_off + (uint64_t)index * PUT_COPY_BYTES;
}

static void slot_release(struct far *far, struct lane_slot *slot)
{
	if (slot->bounce >= 0)
		far->free_bounces[far->num_free_bounces++] = slot->bounce;
	slot->bounce = -1;
}

static struct lane_slot *slot_of(struct verbs_lane *lane, uint64_t number)
{
	return &lane->slots[number % lane->link->far->queue_depth];
}

void lane_release(struct verbs_lane *lane)
{
	for (; lane->tail < lane->head; lane->tail++)
		slot_release(lane->link->far, slot_of(lane, lane->tail));
}

/* ---- room -------------------------------------------------------------- */

uint32_t lane_room(const struct verbs_lane *lane)
{
	return lane->depth - (uint32_t)(lane->head - lane->tail);
}

bool lane_takes_copy(const struct verbs_lane *lane, uint32_t num_bytes)
{
	return num_bytes <= lane->device->inline_bytes ||
	       lane->link->far->num_free_bounces > 0;
}

/* The lane's records find room. The outbox waits for that of the first alone. */
static void lane_moves(struct verbs_lane *lane)
{
	if (lane->number == 0 || lane->link->outbox.num == 0)
		lane->link->stalled_seen = 0;
}

/* Looks at what the peer has told. A peer that tells nonsense fails. */
static bool has_credit(struct verbs_lane *lane)
{
	uint64_t total;

	if (lane->records_sent - lane->records_taken < lane->peer_depth)
		return true;
	if (!image_credit_read(lane, &total) || total == lane->records_taken)
		return false;
	if (total < lane->records_taken || total > lane->records_sent) {
		link_fault(lane->link,
			"took %llu records of lane %d, of %llu sent",
			(unsigned long long)total, lane->number,
			(unsigned long long)lane->records_sent);
		return false;
	}
	lane->records_taken = total;
	lane_moves(lane);
	return true;
}

bool lane_takes_record(struct verbs_lane *lane, uint32_t requests)
{
	return lane_room(lane) > requests &&
	       lane_takes_copy(lane, sizeof(struct record)) && has_credit(lane);
}

/* ---- batches ----------------------------------------------------------- */

static void batch_clear(struct lane_batch *batch)
{
	batch->num = 0;
	batch->num_bytes = 0;
}

void lane_batch_begin(struct lane_batch *batch, struct verbs_lane *lane)
{
	if (lane->kept)
		lane_post(lane->kept);
	batch->lane = lane;
	batch_clear(batch);
}

struct lane_batch *lane_kept(struct verbs_lane *lane)
{
	lane->kept->lane = lane;
	return lane->kept;
}

bool lane_post_kept_if_full(struct verbs_lane *lane)
{
	if (lane->kept->num < LANE_BATCH && lane->kept->num_bytes < KEPT_BYTES)
		return false;
	lane_post(lane->kept);
	return true;
}

void lane_drop_kept(struct verbs_lane *lane)
{
	if (lane->kept)
		batch_clear(lane->kept);
}

/* Lets a request carry a copy of the bytes; until the batch is posted they
 * stay where they are. */
static void carry_copy(struct verbs_lane *lane, struct ibv_send_wr *request,
	struct ibv_sge *piece, struct lane_slot *slot)
{
	struct far *far = lane->link->far;
	uint8_t *bounce;

	if (piece->length <= lane->device->inline_bytes) {
		request->send_flags |= IBV_SEND_INLINE;
		return;
	}
	slot->bounce = bounce_take(far);
	bounce = bounce_at(far, slot->bounce);
	memcpy(bounce, (const void *)(uintptr_t)piece->addr, piece->length);
	piece->addr = (uintptr_t)bounce;
	piece->lkey =
		memory_find(far, lane->device, bounce, PUT_COPY_BYTES)->lkey;
}

/* The next request of the batch. `mr` NULL: a copy. */
static struct ibv_send_wr *batch_add(struct lane_batch *batch,
	const void *bytes, uint32_t num_bytes, const struct ibv_mr *mr)
{
	struct verbs_lane *lane = batch->lane;
	struct ibv_send_wr *request = &batch->requests[batch->num];
	struct ibv_sge *piece = &batch->pieces[batch->num];
	struct lane_slot *slot = slot_of(lane, lane->head);

	*piece = (struct ibv_sge){
		.addr = (uintptr_t)bytes,
		.length = num_bytes,
		.lkey = mr ? mr->lkey : 0,
	};
	*request = (struct ibv_send_wr){
		.wr_id = id_of(lane, false, lane->head),
		.sg_list = piece,
		.num_sge = 1,
	};
	slot->bounce = -1;
	if (!mr)
		carry_copy(lane, request, piece, slot);
	batch->is_awaited[batch->num] = slot->bounce >= 0;
	if (batch->num > 0)
		batch->requests[batch->num - 1].next = request;
	batch->num++;
	batch->num_bytes += num_bytes;
	lane->head++;
	return request;
}

void lane_add_write(struct lane_batch *batch, uint64_t offset, uint32_t rkey,
	const void *bytes, uint32_t num_bytes, const struct ibv_mr *mr)
{
	struct ibv_send_wr *request;

	if (batch->num == LANE_BATCH)
		lane_post(batch);
	request = batch_add(batch, bytes, num_bytes, mr);
	request->opcode = IBV_WR_RDMA_WRITE;
	request->wr.rdma.remote_addr = batch->lane->link->peer_base + offset;
	request->wr.rdma.rkey = rkey;
	/* Soft-iWARP takes no copy of a page or more that is not signalled, and
	 * calls it complete while TCP may still send it from where it lies. */
	if (mr && batch->lane->device->needs_echo)
		request->send_flags |= IBV_SEND_SIGNALED;
}

void lane_await_last(struct lane_batch *batch)
{
	batch->is_awaited[batch->num - 1] = true;
	batch->lane->awaited_head = batch->lane->head;
}

void lane_add_read(struct lane_batch *batch, uint64_t offset, uint32_t rkey,
	void *bytes, uint32_t num_bytes, const struct ibv_mr *mr)
{
	struct ibv_send_wr *request;

	if (batch->num == LANE_BATCH)
		lane_post(batch);
	request = batch_add(batch, bytes, num_bytes, mr);
	request->opcode = IBV_WR_RDMA_READ;
	request->wr.rdma.remote_addr = batch->lane->link->peer_base + offset;
	request->wr.rdma.rkey = rkey;
}

void lane_add_record(struct lane_batch *batch, const struct record *record)
{
	struct verbs_lane *lane = batch->lane;
	struct ibv_send_wr *request;
	struct record *copy;

	if (batch->num == LANE_BATCH)
		lane_post(batch);
	copy = &batch->records[batch->num];
	*copy = *record;
	copy->sequence = (uint32_t)lane->records_sent;
	request = batch_add(batch, copy, sizeof(*copy), NULL);
	if (lane->device->has_immediate) {
		request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		request->imm_data = htonl(copy->sequence);
		request->wr.rdma.rkey = lane->peer_image_rkey;
		request->wr.rdma.remote_addr =
			lane->link->peer_base + lane->link->peer_image_off +
			image_slot_off(lane->number, lane->peer_depth,
				lane->records_sent);
	} else {
		/* It lands in the receive that is next: the same slot. */
		request->opcode = IBV_WR_SEND;
	}
	lane->records_sent++;
	lane_moves(lane);
}

static void signal_last(struct lane_batch *batch)
{
	struct verbs_lane *lane = batch->lane;
	bool half = lane->head - lane->signalled >= lane->depth / 2;
	int last = batch->num - 1;

	/* The last that somebody waits for. */
	while (!half && last >= 0 && !batch->is_awaited[last])
		last--;
	if (last < 0)
		return;
	batch->requests[last].send_flags |= IBV_SEND_SIGNALED;
	lane->signalled = lane->head - (uint64_t)(batch->num - 1 - last);
}

static void batch_post(struct lane_batch *batch)
{
	struct verbs_lane *lane = batch->lane;
	struct ibv_send_wr *bad = NULL;
	int error;

	if (batch->num == 0)
		return;
	error = verbs_api()->post_send(lane->id->qp, batch->requests, &bad);
	batch_clear(batch);
	if (error)
		link_fail(lane->link, "posting to lane %d: %s", lane->number,
			strerror(error));
}

void lane_post(struct lane_batch *batch)
{
	if (batch->num > 0)
		signal_last(batch);
	batch_post(batch);
}

void lane_post_signalled(struct lane_batch *batch)
{
	if (batch->num > 0) {
		batch->requests[batch->num - 1].send_flags |= IBV_SEND_SIGNALED;
		batch->lane->signalled = batch->lane->head;
	}
	batch_post(batch);
}

void lane_complete(struct verbs_lane *lane, uint64_t wr_id)
{
	uint64_t over = lane->tail + ID_NUMBER(wr_id - lane->tail) + 1;

	if (over > lane->head)
		return; /* no request of ours */
	for (; lane->tail < over; lane->tail++)
		slot_release(lane->link->far, slot_of(lane, lane->tail));
}

/* ---- receives and credits ---------------------------------------------- */

/* Posts `num` receives, for the slots from `first` on. */
static bool receives_post(struct verbs_lane *lane, uint64_t first, uint32_t num)
{
	struct ibv_recv_wr requests[RECEIVES_AT_ONCE];
	struct ibv_sge pieces[RECEIVES_AT_ONCE];
	struct ibv_recv_wr *bad = NULL;
	int error;

	for (uint32_t r = 0; r < num; r++) {
		const struct record *slot = image_slot(lane, first + r);

		pieces[r] = (struct ibv_sge){
			.addr = (uintptr_t)slot,
			.length = sizeof(*slot),
			.lkey = memory_find(lane->link->far, lane->device, slot,
				sizeof(*slot))
					->lkey,
		};
		requests[r] = (struct ibv_recv_wr){
			.wr_id = id_of(lane, true, first + r),
			.next = r + 1 < num ? &requests[r + 1] : NULL,
			.sg_list = &pieces[r],
			.num_sge = 1,
		};
	}
	error = verbs_api()->post_recv(lane->id->qp, requests, &bad);
	if (error)
		link_fail(lane->link, "posting receives to lane %d: %s",
			lane->number, strerror(error));
	else
		lane->num_receives += num;
	return !error;
}

static bool receives_add(struct verbs_lane *lane, uint64_t first, uint32_t num)
{
	while (num > 0) {
		uint32_t some = num < RECEIVES_AT_ONCE ? num : RECEIVES_AT_ONCE;

		if (!receives_post(lane, first, some))
			return false;
		first += some;
		num -= some;
	}
	return true;
}

bool lane_fill_ring(struct verbs_lane *lane)
{
	return receives_add(lane, 0, lane->ring_depth);
}

bool lane_return_credits(struct verbs_lane *lane)
{
	uint64_t num = lane->applied - lane->returned;
	struct image_credit credit;
	struct lane_batch batch;

	if (num < lane->ring_depth / 2 || lane->state != LANE_OPEN)
		return false;
	if (lane_room(lane) == 0 || !lane_takes_copy(lane, sizeof(credit)))
		return true;
	if (!receives_add(lane, lane->returned, (uint32_t)num))
		return false;
	lane->returned = lane->applied;
	atomic_init(&credit.total, lane->returned);
	atomic_init(&credit.complement, ~lane->returned);
	lane_batch_begin(&batch, lane);
	lane_add_write(&batch,
		lane->link->peer_image_off + image_credit_off(lane->number),
		lane->peer_image_rkey, &credit, sizeof(credit), NULL);
	lane_post(&batch);
	return false;
}
