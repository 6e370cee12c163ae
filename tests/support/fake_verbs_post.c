/* Posting: what a queue takes, and what it refuses. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* From so many bytes on Soft-iWARP copies none that are not signalled. */
#define ZERO_COPY_BYTES    4096
#define SMALL_ANSWER_BYTES 32

void fake_wqe_free(struct wqe *wqe)
{
	free(wqe->data);
	free(wqe);
}

static uint64_t sum_of(const struct ibv_sge *sge, int num_sge)
{
	uint64_t bytes = 0;

	for (int s = 0; s < num_sge; s++)
		bytes += sge[s].length;
	return bytes;
}

static struct wqe *wqe_new(const struct ibv_sge *sge, int num_sge)
{
	struct wqe *wqe = calloc(1, sizeof(*wqe));

	if (!wqe)
		abort();
	if (num_sge > 0)
		memcpy(wqe->sge, sge, sizeof(*sge) * (size_t)num_sge);
	wqe->bytes = sum_of(sge, num_sge);
	wqe->due = fake_due();
	return wqe;
}

/* ---- sends -------------------------------------------------------------- */

static bool opcode_is_known(const struct fake_qp *qp, enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_SEND:
		return true;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND_WITH_IMM:
		return !qp->device->config.iwarp;
	case IBV_WR_RDMA_READ: /* others need none here */
		return qp->device->config.iwarp;
	default:
		return false; /* the simulator knows no atomics */
	}
}

static int refuse_send(
	const struct fake_qp *qp, const struct ibv_send_wr *request)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;

	if (qp->qp.state < IBV_QPS_RTS)
		return EINVAL;
	if (!opcode_is_known(qp, request->opcode) || request->num_sge < 0 ||
		request->num_sge > (int)cap->max_send_sge)
		return EINVAL;
	if ((request->send_flags & IBV_SEND_INLINE) &&
		sum_of(request->sg_list, request->num_sge) >
			cap->max_inline_data)
		return EINVAL;
	if (qp->send_used >= (int)cap->max_send_wr)
		return ENOMEM;
	return 0;
}

/* Inline bytes are taken now. Their sges need no key. */
static void take_inline(struct wqe *wqe)
{
	uint64_t at = 0;

	wqe->is_inline = true;
	wqe->data = malloc(wqe->bytes + 1);
	if (!wqe->data)
		abort();
	for (int s = 0; s < wqe->send.num_sge; s++) {
		memcpy(wqe->data + at, (void *)(uintptr_t)wqe->sge[s].addr,
			wqe->sge[s].length);
		at += wqe->sge[s].length;
	}
}

static void check_first_sender(struct fake_qp *qp)
{
	if (!qp->device->config.iwarp || qp->may_send)
		return;
	fake_misuse("iWARP: the accepting side sends first");
	qp->may_send = true;
}

/* Soft-iWARP may copy an answer as small as a header for a thread that has no
 * memory of the process, and then ends the connection. */
static void check_small_read(const struct fake_qp *qp, const struct wqe *wqe)
{
	if (qp->device->config.iwarp && wqe->send.opcode == IBV_WR_RDMA_READ &&
		wqe->bytes <= SMALL_ANSWER_BYTES)
		fake_misuse("iWARP: a read of %llu bytes may end the "
			    "connection",
			(unsigned long long)wqe->bytes);
}

/* Its completion by a later one would say less: TCP may send it again. */
static void check_large_write(
	const struct fake_qp *qp, const struct wqe *wqe, bool signalled)
{
	if (qp->device->config.iwarp && !signalled && !wqe->is_inline &&
		wqe->bytes >= ZERO_COPY_BYTES)
		fake_misuse("iWARP: an unsignalled write of %llu bytes is "
			    "sent again from where it lies, after its "
			    "completion",
			(unsigned long long)wqe->bytes);
}

static void post_one_send(struct fake_qp *qp, const struct ibv_send_wr *request)
{
	struct wqe *wqe = wqe_new(request->sg_list, request->num_sge);
	bool signalled =
		request->send_flags & IBV_SEND_SIGNALED || qp->init.sq_sig_all;

	wqe->send = *request;
	if (request->send_flags & IBV_SEND_INLINE)
		take_inline(wqe);
	wqe->fails = fake_send_fails();
	qp->send_used++;
	fake.sent++;
	if (signalled)
		fake.signalled++;
	check_large_write(qp, wqe, signalled);
	check_small_read(qp, wqe);
	TAILQ_INSERT_TAIL(&qp->sends, wqe, link);
	if (qp->qp.state == IBV_QPS_ERR)
		fake_finish_send(qp, wqe, IBV_WC_WR_FLUSH_ERR);
	else
		check_first_sender(qp);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request,
	struct ibv_send_wr **bad)
{
	struct fake_qp *mine = (struct fake_qp *)qp;
	int64_t num = 0;
	int result = 0;

	fake_lock();
	for (; request; request = request->next) {
		result = fake_fails_locked("post_send")
				 ? ENOMEM
				 : refuse_send(mine, request);
		if (result)
			break;
		post_one_send(mine, request);
		num++;
	}
	if (num > fake.largest_post)
		fake.largest_post = num;
	if (result)
		*bad = request;
	fake_run_at_post();
	fake_unlock();
	return result;
}

/* ---- receives ----------------------------------------------------------- */

static int refuse_recv(
	const struct fake_qp *qp, const struct ibv_recv_wr *request)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;

	if (qp->qp.state == IBV_QPS_RESET || request->num_sge < 0 ||
		request->num_sge > (int)cap->max_recv_sge)
		return EINVAL;
	if (qp->recv_used >= (int)cap->max_recv_wr)
		return ENOMEM;
	return 0;
}

static void post_one_recv(struct fake_qp *qp, const struct ibv_recv_wr *request)
{
	struct ibv_wc flushed = {.status = IBV_WC_WR_FLUSH_ERR};
	struct wqe *wqe = wqe_new(request->sg_list, request->num_sge);

	wqe->send.wr_id = request->wr_id;
	wqe->send.num_sge = request->num_sge;
	qp->recv_used++;
	TAILQ_INSERT_TAIL(&qp->recvs, wqe, link);
	if (qp->qp.state == IBV_QPS_ERR)
		fake_finish_recv(qp, wqe, &flushed);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *request,
	struct ibv_recv_wr **bad)
{
	struct fake_qp *mine = (struct fake_qp *)qp;
	int result = 0;

	fake_lock();
	for (; request; request = request->next) {
		result = fake_fails_locked("post_recv")
				 ? ENOMEM
				 : refuse_recv(mine, request);
		if (result)
			break;
		post_one_recv(mine, request);
	}
	if (result)
		*bad = request;
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
	return result;
}

void fake_post_init(struct verbs_api *api)
{
	api->post_send = post_send;
	api->post_recv = post_recv;
}
