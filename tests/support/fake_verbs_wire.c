/*
 * The wire: who takes the next step, and what that is.
 *
 * A send takes two steps: it is sent (bytes are placed, a receive is
 * consumed), and it is acknowledged (the sender's completion). Steps of one
 * queue pair are in order, and those of different ones in any.
 */
#include "support/fake_verbs_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Longer than any poller's pause, so that it is first. */
#define POLL_DELAY_NS 500000

/* What TCP takes without an answer, and adds to each message. */
#define TCP_BYTES        65536
#define TCP_HEADER_BYTES 60

int64_t fake_due(void)
{
	int64_t now = clock_now();

	switch (fake.config.policy) {
	case FAKE_AT_POST:
		return now;
	case FAKE_AT_POLL:
		return now + POLL_DELAY_NS;
	default:
		/* Half of all at once, so that queues fill up, too. */
		if (fake_random(2))
			return now;
		return now +
		       (int64_t)fake_random((uint64_t)fake.config.delay_ns);
	}
}

/* ---- ends of requests --------------------------------------------------- */

static const enum ibv_wc_opcode wc_opcodes[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
};

void fake_finish_send(
	struct fake_qp *qp, struct wqe *wqe, enum ibv_wc_status status)
{
	struct ibv_wc wc = {
		.wr_id = wqe->send.wr_id,
		.status = status,
		.opcode = wc_opcodes[wqe->send.opcode],
	};
	bool signalled =
		wqe->send.send_flags & IBV_SEND_SIGNALED || qp->init.sq_sig_all;

	qp->unsignalled++;
	TAILQ_REMOVE(&qp->sends, wqe, link);
	fake_wqe_free(wqe);
	if (!signalled && status == IBV_WC_SUCCESS)
		return;
	fake_complete(qp->qp.send_cq, qp, &wc, qp->unsignalled, 0, false);
	qp->unsignalled = 0;
}

void fake_finish_recv(
	struct fake_qp *qp, struct wqe *wqe, const struct ibv_wc *wc)
{
	struct ibv_wc given = *wc;

	given.wr_id = wqe->send.wr_id;
	TAILQ_REMOVE(&qp->recvs, wqe, link);
	fake_complete(qp->qp.recv_cq, qp, &given, 0, 1, true);
	fake_wqe_free(wqe);
}

/* What was sent before has arrived, and completes first. */
static void fail_send(
	struct fake_qp *qp, struct wqe *wqe, enum ibv_wc_status status)
{
	while (TAILQ_FIRST(&qp->sends) != wqe)
		fake_finish_send(qp, TAILQ_FIRST(&qp->sends), IBV_WC_SUCCESS);
	fake_finish_send(qp, wqe, status);
	fake_qp_break(qp);
}

/* What the receiving queue suffers. */
static void fail_receiver(struct fake_qp *qp)
{
	fake_async(qp->device,
		&(struct ibv_async_event){.event_type = IBV_EVENT_QP_ACCESS_ERR,
			.element.qp = &qp->qp},
		qp);
	fake_qp_break(qp);
}

/* ---- one send ----------------------------------------------------------- */

/* The queue pair at the far end, if it can be reached and answers. */
static struct fake_qp *receiver_of(const struct fake_qp *qp)
{
	struct fake_qp *other = fake_qp_find(qp->remote_num);

	if (!other || other->remote_num != qp->qp.qp_num ||
		!fake_wire_is_whole(
			qp->device->config.host, other->device->config.host))
		return NULL;
	if (other->qp.state != IBV_QPS_RTR && other->qp.state != IBV_QPS_RTS)
		return NULL;
	return other;
}

static bool needs_receive(const struct wqe *wqe)
{
	return wqe->send.opcode != IBV_WR_RDMA_WRITE &&
	       wqe->send.opcode != IBV_WR_RDMA_READ;
}

static bool has_immediate(const struct wqe *wqe)
{
	return wqe->send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       wqe->send.opcode == IBV_WR_SEND_WITH_IMM;
}

static bool is_write(const struct wqe *wqe)
{
	return wqe->send.opcode == IBV_WR_RDMA_WRITE ||
	       wqe->send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_read(const struct wqe *wqe)
{
	return wqe->send.opcode == IBV_WR_RDMA_READ;
}

/* Where a send's bytes go: the receive's sges. IBV_WC_SUCCESS, or what the
 * receiver completes with. */
static enum ibv_wc_status scatter(
	struct fake_qp *other, struct wqe *receive, const struct wqe *wqe)
{
	uint64_t left = wqe->bytes;
	const uint8_t *from = wqe->data;

	if (wqe->bytes > receive->bytes)
		return IBV_WC_LOC_LEN_ERR;
	for (int s = 0; s < receive->send.num_sge && left > 0; s++) {
		const struct ibv_sge *sge = &receive->sge[s];
		uint64_t bytes = left < sge->length ? left : sge->length;

		if (!fake_reaches(other->qp.pd, sge->lkey, false, sge->addr,
			    sge->length, IBV_ACCESS_LOCAL_WRITE))
			return IBV_WC_LOC_PROT_ERR;
		fake_copy((void *)(uintptr_t)sge->addr, from, bytes);
		from += bytes;
		left -= bytes;
	}
	return IBV_WC_SUCCESS;
}

static bool may_write(const struct fake_qp *other, const struct wqe *wqe)
{
	return wqe->bytes == 0 ||
	       ((other->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) &&
		       fake_reaches(other->qp.pd, wqe->send.wr.rdma.rkey, true,
			       wqe->send.wr.rdma.remote_addr, wqe->bytes,
			       IBV_ACCESS_REMOTE_WRITE));
}

/* Reads into one sge, what all before it on this queue pair have written.
 * IBV_WC_SUCCESS, or what the reader completes with. iWARP places the answer as
 * it places writes, so where it goes must allow them. */
static enum ibv_wc_status read_from(
	struct fake_qp *qp, const struct wqe *wqe, struct fake_qp *other)
{
	const struct ibv_sge *sge = &wqe->sge[0];
	uint64_t from = wqe->send.wr.rdma.remote_addr;

	if (wqe->send.num_sge != 1 ||
		!fake_reaches(qp->qp.pd, sge->lkey, false, sge->addr,
			sge->length,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	if (!(other->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) ||
		!fake_reaches(other->qp.pd, wqe->send.wr.rdma.rkey, true, from,
			wqe->bytes, IBV_ACCESS_REMOTE_READ))
		return IBV_WC_REM_ACCESS_ERR;
	fake_place_all(other);
	fake_copy((void *)(uintptr_t)sge->addr, (void *)(uintptr_t)from,
		wqe->bytes);
	return IBV_WC_SUCCESS;
}

static void mark_sent(struct wqe *wqe)
{
	wqe->sent = true;
	wqe->due = fake_due();
}

static void read_by(struct fake_qp *qp, struct wqe *wqe, struct fake_qp *other)
{
	enum ibv_wc_status status = read_from(qp, wqe, other);

	if (status == IBV_WC_REM_ACCESS_ERR)
		fail_receiver(other);
	if (status == IBV_WC_SUCCESS)
		mark_sent(wqe);
	else
		fail_send(qp, wqe, status);
}

/* The receive of a send, or of a write with an immediate, is over. All that
 * came before on this queue pair is placed now. */
static void complete_receive(struct fake_qp *other, struct wqe *receive,
	const struct wqe *wqe, enum ibv_wc_status status)
{
	struct ibv_wc wc = {
		.status = status,
		.opcode =
			is_write(wqe) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = (uint32_t)wqe->bytes,
	};

	if (has_immediate(wqe)) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = wqe->send.imm_data;
	}
	fake_place_all(other);
	fake_finish_recv(other, receive, &wc);
	other->may_send = true;
}

/* Sends to a receiver that is there, with a receive if one is needed. */
static void send_to(struct fake_qp *qp, struct wqe *wqe, struct fake_qp *other)
{
	struct wqe *receive =
		needs_receive(wqe) ? TAILQ_FIRST(&other->recvs) : NULL;
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	if (!fake_gather(qp, wqe)) {
		fail_send(qp, wqe, IBV_WC_LOC_PROT_ERR);
		return;
	}
	if (is_write(wqe) && !may_write(other, wqe)) {
		fail_receiver(other);
		fail_send(qp, wqe, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	if (is_write(wqe))
		fake_place(other, wqe->send.wr.rdma.remote_addr, wqe->data,
			wqe->bytes);
	else
		status = scatter(other, receive, wqe);
	if (receive)
		complete_receive(other, receive, wqe, status);
	if (status != IBV_WC_SUCCESS) {
		fail_receiver(other);
		fail_send(qp, wqe,
			status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR
						     : IBV_WC_REM_OP_ERR);
		return;
	}
	qp->device->sent_bytes += (int64_t)wqe->bytes;
	mark_sent(wqe);
}

/* ---- steps -------------------------------------------------------------- */

/* The head's stall: it ends when the peer answers again, or in an error. */
static bool stall(struct fake_qp *qp, struct wqe *wqe, uint8_t retries,
	enum ibv_wc_status status)
{
	int64_t now = clock_now();

	if (fake.config.endless_retry && retries == 7)
		return false;
	/* TCP tries for a quarter of an hour: longer than any test. */
	if (qp->device->config.iwarp && status == IBV_WC_RETRY_EXC_ERR)
		return false;
	if (wqe->give_up == 0) {
		wqe->give_up = now + fake.config.retry_ns;
		if (status == IBV_WC_RNR_RETRY_EXC_ERR)
			fake.not_ready++;
		return false;
	}
	if (now < wqe->give_up)
		return false;
	fail_send(qp, wqe, status);
	return true;
}

static struct wqe *first_unsent(struct fake_qp *qp)
{
	struct wqe *wqe;

	TAILQ_FOREACH(wqe, &qp->sends, link)
	if (!wqe->sent)
		return wqe;
	return NULL;
}

static bool is_to_the_dead(const struct fake_qp *qp)
{
	const struct fake_qp *other = fake_qp_find(qp->remote_num);

	return fake.dead[qp->device->config.host] ||
	       (other && fake.dead[other->device->config.host]);
}

/* The next that a device gives to TCP though nobody answers. Its completion
 * says no more than that, and need not wait for that of a read before it. */
static bool tcp_takes(struct fake_qp *qp)
{
	struct wqe *wqe = first_unsent(qp);

	if (!qp->device->config.iwarp || !is_to_the_dead(qp) || fake.held)
		return false;
	while (wqe && is_read(wqe))
		wqe = TAILQ_NEXT(wqe, link);
	if (!wqe || qp->tcp_bytes + wqe->bytes + TCP_HEADER_BYTES > TCP_BYTES ||
		!fake_gather(qp, wqe))
		return false;
	qp->tcp_bytes += wqe->bytes + TCP_HEADER_BYTES;
	fake_finish_send(qp, wqe, IBV_WC_SUCCESS);
	return true;
}

static bool send_next(struct fake_qp *qp, bool force)
{
	struct wqe *wqe = first_unsent(qp);
	struct fake_qp *other;

	if (!wqe || qp->qp.state != IBV_QPS_RTS ||
		(!force && wqe->due > clock_now()) ||
		qp->paced_until > clock_now())
		return false;
	if (fake.pace_ns)
		qp->paced_until = clock_now() + fake.pace_ns;
	if (wqe->fails != IBV_WC_SUCCESS) {
		fail_send(qp, wqe, wqe->fails);
		return true;
	}
	other = receiver_of(qp);
	if (!other && tcp_takes(qp))
		return true;
	if (!other)
		return stall(qp, wqe, qp->attr.retry_cnt, IBV_WC_RETRY_EXC_ERR);
	if (needs_receive(wqe) && TAILQ_EMPTY(&other->recvs))
		return stall(
			qp, wqe, qp->attr.rnr_retry, IBV_WC_RNR_RETRY_EXC_ERR);
	wqe->give_up = 0;
	if (is_read(wqe))
		read_by(qp, wqe, other);
	else
		send_to(qp, wqe, other);
	return true;
}

static bool acknowledge_next(struct fake_qp *qp, bool force)
{
	struct wqe *wqe = TAILQ_FIRST(&qp->sends);

	if (!wqe || !wqe->sent || fake.held ||
		(!force && wqe->due > clock_now()))
		return false;
	fake_check_source(qp, wqe);
	fake_finish_send(qp, wqe, IBV_WC_SUCCESS);
	return true;
}

static bool step_qp(struct fake_qp *qp, bool force)
{
	bool acknowledge_first = fake_random(2);

	if (acknowledge_first && acknowledge_next(qp, force))
		return true;
	return send_next(qp, force) || acknowledge_next(qp, force);
}

/* Queue pairs take turns from anywhere in the list. */
static bool step_any_qp(bool force)
{
	struct fake_qp *qp = TAILQ_FIRST(&fake.qps);
	struct fake_qp *start;

	if (!qp)
		return false;
	for (uint64_t skip = fake_random(8); skip > 0; skip--)
		qp = TAILQ_NEXT(qp, link) ? TAILQ_NEXT(qp, link)
					  : TAILQ_FIRST(&fake.qps);
	start = qp;
	do {
		if (step_qp(qp, force))
			return true;
		qp = TAILQ_NEXT(qp, link) ? TAILQ_NEXT(qp, link)
					  : TAILQ_FIRST(&fake.qps);
	} while (qp != start);
	return false;
}

static bool step_message(void)
{
	struct message *message;
	int64_t now = clock_now();

	TAILQ_FOREACH(message, &fake.messages, link)
	{
		if (message->due > now)
			continue;
		TAILQ_REMOVE(&fake.messages, message, link);
		fake_message_arrives(message);
		free(message);
		return true;
	}
	return false;
}

bool fake_step(bool force)
{
	/* Seldom, so that bytes are late more often than not. */
	if (fake_random(8) == 0 && fake_place_any())
		return true;
	return step_any_qp(force) || step_message() || fake_place_any();
}

static int64_t sends_at(const struct fake_qp *qp, const struct wqe *wqe)
{
	return wqe->due > qp->paced_until ? wqe->due : qp->paced_until;
}

int64_t fake_next_due(void)
{
	struct message *message;
	struct fake_qp *qp;
	int64_t due = INT64_MAX;

	TAILQ_FOREACH(message, &fake.messages, link)
	if (message->due < due)
		due = message->due;
	TAILQ_FOREACH(qp, &fake.qps, link)
	{
		struct wqe *unsent = first_unsent(qp);
		struct wqe *head = TAILQ_FIRST(&qp->sends);

		if (unsent && unsent->give_up && unsent->give_up < due)
			due = unsent->give_up;
		if (unsent && !unsent->give_up && sends_at(qp, unsent) < due)
			due = sends_at(qp, unsent);
		if (head && head->sent && head->due < due)
			due = head->due;
	}
	return due;
}

void fake_run_at_post(void)
{
	if (fake.config.policy == FAKE_AT_POST)
		while (step_any_qp(true))
			;
	pthread_cond_signal(&fake.wake);
}

void fake_run_at_poll(void)
{
	uint64_t steps = fake_random(6);

	if (fake.config.policy == FAKE_AT_POLL)
		steps = 1000;
	while (steps-- > 0 && fake_step(true))
		;
}
