/* Queue pairs and their states. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fake_qp *fake_qp_find(uint32_t number)
{
	struct fake_qp *qp;

	TAILQ_FOREACH(qp, &fake.qps, link)
	if (qp->qp.qp_num == number)
		return qp;
	return NULL;
}

static void set_state(struct fake_qp *qp, enum ibv_qp_state state)
{
	qp->attr.qp_state = state;
	qp->qp.state = state;
}

/* ---- create and destroy ------------------------------------------------- */

static bool is_possible(const struct ibv_pd *pd,
	const struct ibv_qp_init_attr *init, const struct fake_device *device)
{
	const struct fake_device_config *config = &device->config;
	const struct ibv_qp_cap *cap = &init->cap;

	return !device->removed && init->qp_type == IBV_QPT_RC &&
	       init->send_cq && init->recv_cq && !init->srq &&
	       init->send_cq->context == pd->context &&
	       init->recv_cq->context == pd->context && cap->max_send_wr > 0 &&
	       cap->max_send_wr <= (uint32_t)config->max_queue &&
	       cap->max_recv_wr <= (uint32_t)config->max_queue &&
	       cap->max_send_sge <= (uint32_t)config->max_sge &&
	       cap->max_recv_sge <= (uint32_t)config->max_sge &&
	       cap->max_inline_data <= (uint32_t)config->max_inline;
}

/* What is given is often more than what was asked for. */
static void round_up(uint32_t *value, uint32_t step, uint32_t most)
{
	uint32_t more = (*value + step - 1) / step * step;

	*value = more < most ? more : most;
}

struct fake_qp *fake_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *init,
	struct fake_device *device)
{
	const struct fake_device_config *config = &device->config;
	struct fake_qp *qp;

	if (!is_possible(pd, init, device)) {
		errno = device->removed ? ENODEV : EINVAL;
		return NULL;
	}
	round_up(&init->cap.max_send_wr, 2, (uint32_t)config->max_queue);
	round_up(&init->cap.max_recv_wr, 2, (uint32_t)config->max_queue);
	round_up(&init->cap.max_inline_data, 4, (uint32_t)config->max_inline);
	qp = fake_new(sizeof(*qp));
	qp->device = device;
	qp->init = *init;
	qp->qp.context = pd->context;
	qp->qp.pd = pd;
	qp->qp.qp_context = init->qp_context;
	qp->qp.send_cq = init->send_cq;
	qp->qp.recv_cq = init->recv_cq;
	qp->qp.qp_type = init->qp_type;
	qp->qp.qp_num = ++fake.last_number;
	TAILQ_INIT(&qp->sends);
	TAILQ_INIT(&qp->recvs);
	((struct fake_pd *)pd)->children++;
	((struct fake_cq *)init->send_cq)->children++;
	((struct fake_cq *)init->recv_cq)->children++;
	set_state(qp, IBV_QPS_RESET);
	TAILQ_INSERT_TAIL(&fake.qps, qp, link);
	return qp;
}

static void forget_requests(struct fake_qp *qp)
{
	struct wqes *queues[2] = {&qp->sends, &qp->recvs};
	struct wqe *wqe;

	for (int q = 0; q < 2; q++)
		while ((wqe = TAILQ_FIRST(queues[q])) != NULL) {
			TAILQ_REMOVE(queues[q], wqe, link);
			fake_wqe_free(wqe);
		}
	qp->send_used = 0;
	qp->recv_used = 0;
	qp->unsignalled = 0;
}

void fake_qp_destroy(struct fake_qp *qp)
{
	fake_place_all(qp);
	forget_requests(qp);
	fake_forget_entries((struct fake_cq *)qp->qp.send_cq, qp);
	fake_forget_entries((struct fake_cq *)qp->qp.recv_cq, qp);
	if (qp->device->cm_context) {
		struct fake_context *context = (void *)qp->device->cm_context;

		mailbox_drop(&context->events, qp);
	}
	((struct fake_pd *)qp->qp.pd)->children--;
	((struct fake_cq *)qp->qp.send_cq)->children--;
	((struct fake_cq *)qp->qp.recv_cq)->children--;
	TAILQ_REMOVE(&fake.qps, qp, link);
	fake_delete(qp);
}

/* ---- states ------------------------------------------------------------- */

/* Once the queue is in error each of its requests ends, and nothing of the
 * peer arrives any more. */
void fake_qp_break(struct fake_qp *qp)
{
	struct wqe *wqe;
	struct ibv_wc flushed = {.status = IBV_WC_WR_FLUSH_ERR};

	if (qp->qp.state == IBV_QPS_ERR || qp->qp.state == IBV_QPS_RESET)
		return;
	set_state(qp, IBV_QPS_ERR);
	fake_place_all(qp);
	while ((wqe = TAILQ_FIRST(&qp->sends)) != NULL)
		fake_finish_send(qp, wqe, IBV_WC_WR_FLUSH_ERR);
	while ((wqe = TAILQ_FIRST(&qp->recvs)) != NULL)
		fake_finish_recv(qp, wqe, &flushed);
}

void fake_qp_ready(struct fake_qp *qp, uint32_t remote_num)
{
	qp->remote_num = remote_num;
	qp->attr.ah_attr.is_global = 1;
	qp->attr.ah_attr.grh.sgid_index = 1; /* of the address */
	if (qp->qp.state != IBV_QPS_ERR)
		set_state(qp, IBV_QPS_RTS);
}

static int modify_qp(
	struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
	/* All other states are the connection manager's. */
	if (fake_fails("modify_qp") || mask != IBV_QP_STATE ||
		attributes->qp_state != IBV_QPS_ERR)
		return EINVAL;
	fake_lock();
	fake_qp_break((struct fake_qp *)qp);
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
	return 0;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask,
	struct ibv_qp_init_attr *initial)
{
	const struct fake_qp *mine = (struct fake_qp *)qp;

	(void)mask; /* all is given */
	if (fake_fails("query_qp"))
		return EIO;
	fake_lock();
	*attributes = mine->attr;
	attributes->cap = mine->init.cap;
	*initial = mine->init;
	fake_unlock();
	return 0;
}

void fake_queue_init(struct verbs_api *api)
{
	api->modify_qp = modify_qp;
	api->query_qp = query_qp;
}
