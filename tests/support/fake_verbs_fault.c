/* Faults: what fails, who is dead, and which events come out of turn. */
#include "support/fake_verbs_sim.h"

#include <stdlib.h>
#include <string.h>

static struct {
	char function[32]; /* "": any */
	int calls_left;
	int sends_left;
	enum ibv_wc_status send_status;
	int events_left;
	enum fake_place place;
	enum rdma_cm_event_type event;
	int event_status;
	bool failed;
	const char *failed_call;
} faults;

void fake_forget_faults(void)
{
	memset(&faults, 0, sizeof(faults));
	faults.failed_call = "";
}

/* ---- calls -------------------------------------------------------------- */

bool fake_fails_locked(const char *function)
{
	if (faults.calls_left == 0)
		return false;
	if (faults.function[0] && strcmp(faults.function, function) != 0)
		return false;
	if (--faults.calls_left > 0)
		return false;
	faults.failed = true;
	faults.failed_call = function;
	return true;
}

bool fake_fails(const char *function)
{
	bool fails;

	fake_lock();
	fails = fake_fails_locked(function);
	fake_unlock();
	return fails;
}

void fake_verbs_fail_call(const char *function, int nth)
{
	fake_lock();
	faults.function[0] = '\0';
	if (function)
		strncpy(faults.function, function, sizeof(faults.function) - 1);
	faults.calls_left = nth;
	faults.failed = false;
	faults.failed_call = "";
	fake_unlock();
}

enum ibv_wc_status fake_send_fails(void)
{
	if (faults.sends_left == 0 || --faults.sends_left > 0)
		return IBV_WC_SUCCESS;
	faults.failed = true;
	return faults.send_status;
}

void fake_verbs_fail_send(int nth, enum ibv_wc_status status)
{
	fake_lock();
	faults.sends_left = nth;
	faults.send_status = status;
	faults.failed = false;
	fake_unlock();
}

bool fake_verbs_failed(void)
{
	bool failed;

	fake_lock();
	failed = faults.failed;
	fake_unlock();
	return failed;
}

const char *fake_verbs_failed_call(void)
{
	const char *call;

	fake_lock();
	call = faults.failed_call;
	fake_unlock();
	return call;
}

/* ---- events ------------------------------------------------------------- */

static struct letter *odd_letter(const struct letter *letter)
{
	struct letter *odd = calloc(1, sizeof(*odd));

	if (!odd)
		abort();
	odd->owner = letter->owner;
	odd->cm.id = letter->owner;
	odd->cm.event = faults.event;
	odd->cm.status = faults.event_status;
	return odd;
}

static struct mailbox *box_of(const struct letter *letter)
{
	const struct fake_id *id = letter->owner;

	return &((struct fake_events *)id->id.channel)->events;
}

/* Whether this is an event that another takes the place of. A request is not:
 * nobody would know of its id. */
static bool replace(struct letter *letter)
{
	if (faults.place != FAKE_INSTEAD ||
		letter->cm.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return false;
	letter->cm.event = faults.event;
	letter->cm.status = faults.event_status;
	return true;
}

void fake_deliver(struct fake_id *id, struct letter *letter)
{
	letter->owner = id;
	if (faults.events_left == 0 || --faults.events_left > 0) {
		mailbox_post(box_of(letter), letter);
		return;
	}
	faults.failed = true;
	if (replace(letter)) {
		mailbox_post(box_of(letter), letter);
		return;
	}
	if (faults.place == FAKE_BEHIND)
		mailbox_post(box_of(letter), letter);
	mailbox_post(box_of(letter), odd_letter(letter));
	if (faults.place != FAKE_BEHIND)
		mailbox_post(box_of(letter), letter);
}

void fake_verbs_odd_event(int nth, enum fake_place place,
	enum rdma_cm_event_type type, int status)
{
	fake_lock();
	faults.events_left = nth;
	faults.place = place;
	faults.event = type;
	faults.event_status = status;
	faults.failed = false;
	fake_unlock();
}

void fake_verbs_disorder(bool disorder)
{
	fake_lock();
	fake.disorder = disorder;
	fake_unlock();
}

int fake_verbs_raise(int host, enum rdma_cm_event_type type, int status)
{
	struct fake_id *id;
	int count = 0;

	fake_lock();
	TAILQ_FOREACH(id, &fake.ids, link)
	{
		if (id->host != host || id->listener ||
			id->state < ID_CONNECTING)
			continue;
		fake_event(id, type, status, NULL);
		count++;
	}
	fake_unlock();
	return count;
}

/* ---- asynchronous events ------------------------------------------------ */

static struct fake_qp *first_qp_of(const struct fake_device *device)
{
	struct fake_qp *qp;

	TAILQ_FOREACH(qp, &fake.qps, link)
	if (qp->device == device)
		return qp;
	abort();
}

void fake_verbs_async(const char *name, enum ibv_event_type type)
{
	struct fake_device *device = fake_device_by_name(name);
	struct ibv_async_event event = {.event_type = type};
	void *about = NULL;

	fake_lock();
	event.element.port_num = 1;
	if (type == IBV_EVENT_CQ_ERR) {
		struct fake_cq *cq = (void *)first_qp_of(device)->qp.send_cq;

		cq->broken = true;
		event.element.cq = &cq->cq;
		about = cq;
	} else if (type == IBV_EVENT_QP_FATAL) {
		struct fake_qp *qp = first_qp_of(device);

		qp->is_mute = true;
		event.element.qp = &qp->qp;
		about = qp;
	}
	fake_async(device, &event, about);
	fake_unlock();
}

void fake_verbs_break_descriptors(const char *name)
{
	struct fake_device *device = fake_device_by_name(name);
	struct fake_context *context = (void *)device->cm_context;
	struct fake_qp *qp;

	fake_lock();
	mailbox_break(&context->events);
	TAILQ_FOREACH(qp, &fake.qps, link)
	if (qp->device == device)
		mailbox_break(&((struct fake_channel *)qp->qp.send_cq->channel)
				       ->events);
	fake_unlock();
}

/* ---- hosts and wires ---------------------------------------------------- */

void fake_verbs_kill_host(int host)
{
	fake_lock();
	fake.dead[host] = true;
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
}

void fake_verbs_cut(int host, int other, bool cut)
{
	fake_lock();
	fake.cut[host][other] = cut;
	fake.cut[other][host] = cut;
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
}

void fake_verbs_mute(int host, int other, bool mute)
{
	fake_lock();
	fake.cut[host][other] = mute;
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
}

void fake_verbs_pace(int64_t ns)
{
	fake_lock();
	fake.pace_ns = ns;
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
}

void fake_verbs_hold(bool hold)
{
	fake_lock();
	fake.held = hold;
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
}

/* The kernel closes what the process had: first its memory, then it says so. */
void fake_verbs_kill_process(int host)
{
	struct fake_qp *qp;
	struct fake_id *id;

	fake_lock();
	TAILQ_FOREACH(qp, &fake.qps, link)
	if (qp->device->config.host == host)
		fake_qp_break(qp);
	TAILQ_FOREACH(id, &fake.ids, link)
	if (id->host == host)
		fake_hang_up(id);
	pthread_cond_broadcast(&fake.wake);
	fake_unlock();
}
