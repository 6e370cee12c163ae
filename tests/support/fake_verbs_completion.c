/* Completion queues and their channels. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- channels ----------------------------------------------------------- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel;

	if (fake_fails("create_comp_channel")) {
		errno = EMFILE;
		return NULL;
	}
	fake_lock();
	channel = fake_new(sizeof(*channel));
	channel->channel.context = context;
	mailbox_init(&channel->events);
	channel->channel.fd = channel->events.fd;
	((struct fake_context *)context)->children++;
	fake_unlock();
	return &channel->channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct fake_channel *mine = (struct fake_channel *)channel;
	bool failed = fake_fails("destroy_comp_channel");

	fake_lock();
	if (mine->children) {
		fake_misuse("destroy_comp_channel: %d queues use it",
			mine->children);
		fake_unlock();
		return EBUSY;
	}
	((struct fake_context *)channel->context)->children--;
	mailbox_fini(&mine->events);
	fake_delete(mine);
	fake_unlock();
	return failed ? EIO : 0;
}

static int get_cq_event(
	struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct fake_channel *mine = (struct fake_channel *)channel;
	struct letter *letter;

	if (fake_fails("get_cq_event")) {
		errno = EIO;
		return -1;
	}
	fake_lock();
	fake.channel_looks++;
	letter = mailbox_take(&mine->events);
	if (letter) {
		*cq = letter->owner;
		*cq_context = (*cq)->cq_context;
		((struct fake_cq *)*cq)->unacked++;
		free(letter);
	}
	fake_unlock();
	return letter ? 0 : -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int num_events)
{
	struct fake_cq *mine = (struct fake_cq *)cq;

	fake_lock();
	mine->unacked -= (int)num_events;
	if (mine->unacked < 0)
		fake_misuse("ack_cq_events: %d more than there were",
			-mine->unacked);
	fake_unlock();
}

/* ---- queues ------------------------------------------------------------- */

static struct ibv_cq *create_cq(struct ibv_context *context, int num_cqe,
	void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	const struct fake_device *device = fake_device_of(context);
	struct fake_cq *cq;

	if (fake_fails("create_cq")) {
		errno = ENOMEM;
		return NULL;
	}
	if (device->removed || num_cqe < 1 ||
		num_cqe > device->config.max_cqe || vector < 0 ||
		vector >= context->num_comp_vectors ||
		(channel && channel->context != context)) {
		errno = device->removed ? ENODEV : EINVAL;
		return NULL;
	}
	fake_lock();
	cq = fake_new(sizeof(*cq));
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = num_cqe;
	TAILQ_INIT(&cq->entries);
	((struct fake_context *)context)->children++;
	if (channel)
		((struct fake_channel *)channel)->children++;
	fake_unlock();
	return &cq->cq;
}

void fake_forget_entries(struct fake_cq *cq, const struct fake_qp *qp)
{
	struct cqe *entry = TAILQ_FIRST(&cq->entries);
	struct cqe *next;

	for (; entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (qp && entry->qp != qp)
			continue;
		TAILQ_REMOVE(&cq->entries, entry, link);
		cq->num_entries--;
		free(entry);
	}
}

static int destroy_cq(struct ibv_cq *cq)
{
	struct fake_cq *mine = (struct fake_cq *)cq;
	bool failed = fake_fails("destroy_cq");

	fake_lock();
	if (mine->children) {
		fake_misuse(
			"destroy_cq: %d queue pairs use it", mine->children);
		fake_unlock();
		return EBUSY;
	}
	if (mine->unacked)
		fake_misuse("destroy_cq blocks: %d events were not "
			    "acknowledged",
			mine->unacked);
	if (cq->channel) {
		struct fake_channel *channel = (void *)cq->channel;

		mailbox_drop(&channel->events, cq);
		channel->children--;
	}
	fake_forget_entries(mine, NULL);
	mailbox_drop(&((struct fake_context *)cq->context)->events, cq);
	((struct fake_context *)cq->context)->children--;
	fake_delete(mine);
	fake_unlock();
	return failed ? EIO : 0;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct fake_cq *mine = (struct fake_cq *)cq;

	if (fake_fails("req_notify_cq"))
		return EIO;
	fake_lock();
	/* A request for all is not weakened by one for less. */
	mine->solicited_only =
		solicited_only && (!mine->armed || mine->solicited_only);
	mine->armed = true;
	fake_unlock();
	return 0;
}

static void notify(struct fake_cq *cq)
{
	struct letter *letter = calloc(1, sizeof(*letter));

	if (!letter)
		abort();
	letter->owner = cq;
	cq->armed = false;
	mailbox_post(&((struct fake_channel *)cq->cq.channel)->events, letter);
}

/* Hardware stops the queue. */
static void overrun(struct fake_cq *cq, struct fake_qp *qp)
{
	fake_misuse("a completion queue of %d is overrun", cq->cq.cqe);
	cq->broken = true;
	fake_async(qp->device,
		&(struct ibv_async_event){
			.event_type = IBV_EVENT_CQ_ERR, .element.cq = &cq->cq},
		cq);
}

void fake_complete(struct ibv_cq *cq, struct fake_qp *qp,
	const struct ibv_wc *wc, int frees_send, int frees_recv, bool solicited)
{
	struct fake_cq *mine = (struct fake_cq *)cq;
	struct cqe *entry;

	if (mine->broken || qp->is_mute)
		return;
	if (mine->num_entries >= cq->cqe) {
		overrun(mine, qp);
		return;
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		abort();
	entry->wc = *wc;
	entry->wc.qp_num = qp->qp.qp_num;
	entry->qp = qp;
	entry->frees_send = frees_send;
	entry->frees_recv = frees_recv;
	TAILQ_INSERT_TAIL(&mine->entries, entry, link);
	mine->num_entries++;
	if (mine->armed && cq->channel &&
		(!mine->solicited_only || solicited ||
			wc->status != IBV_WC_SUCCESS))
		notify(mine);
}

/* Of a failed completion only four fields mean anything. */
static void spoil(struct ibv_wc *wc)
{
	struct ibv_wc spoilt;

	memset(&spoilt, 0xa5, sizeof(spoilt));
	spoilt.wr_id = wc->wr_id;
	spoilt.status = wc->status;
	spoilt.qp_num = wc->qp_num;
	spoilt.vendor_err = FAKE_VENDOR_ERR;
	*wc = spoilt;
}

static void take_entry(struct fake_cq *cq, struct ibv_wc *wc)
{
	struct cqe *entry = TAILQ_FIRST(&cq->entries);

	*wc = entry->wc;
	if (wc->status != IBV_WC_SUCCESS)
		spoil(wc);
	entry->qp->send_used -= entry->frees_send;
	entry->qp->recv_used -= entry->frees_recv;
	TAILQ_REMOVE(&cq->entries, entry, link);
	cq->num_entries--;
	free(entry);
}

static int poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	struct fake_cq *mine = (struct fake_cq *)cq;
	int count = 0;

	if (fake_fails("poll_cq"))
		return -1;
	fake_lock();
	fake_run_at_poll();
	while (count < num_entries && !TAILQ_EMPTY(&mine->entries))
		take_entry(mine, &wc[count++]);
	fake_unlock();
	return count;
}

void fake_completion_init(struct verbs_api *api)
{
	api->create_comp_channel = create_comp_channel;
	api->destroy_comp_channel = destroy_comp_channel;
	api->create_cq = create_cq;
	api->destroy_cq = destroy_cq;
	api->req_notify_cq = req_notify_cq;
	api->get_cq_event = get_cq_event;
	api->ack_cq_events = ack_cq_events;
	api->poll_cq = poll_cq;
	api->wc_status_str = ibv_wc_status_str;
}
