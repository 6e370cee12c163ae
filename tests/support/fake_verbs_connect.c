/* Connecting, accepting, refusing and hanging up: what callers ask for. */
#include "support/fake_verbs_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Private data that fits in a message of InfiniBand's connection manager. */
#define REQUEST_BYTES 56
#define REPLY_BYTES   196
#define REJECT_BYTES  148
#define MOST_BYTES    255

/* Reasons, as the standard numbers them. */
#define REASON_CONSUMER 28

#define TIMEWAIT_NS 5000000

static int answer(int error)
{
	errno = error;
	return error ? -1 : 0;
}

static bool is_iwarp(const struct fake_id *id)
{
	return fake_device_of(id->id.verbs)->config.iwarp;
}

static uint8_t limit(const struct fake_id *id, uint8_t bytes)
{
	return is_iwarp(id) ? MOST_BYTES : bytes;
}

/* Private data may arrive padded, with anything. */
static void take_data(const struct fake_id *id, struct message *message,
	const void *data, uint8_t bytes, uint8_t padded)
{
	memset(message->data, 0xee, sizeof(message->data));
	if (bytes)
		memcpy(message->data, data, bytes);
	message->param.private_data_len = is_iwarp(id) ? bytes : padded;
}

/* ---- queue pairs of identifiers ----------------------------------------- */

static int make_qp(
	struct fake_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp;

	if (!id->id.verbs || id->id.qp || !pd || pd->context != id->id.verbs)
		return EINVAL;
	qp = fake_qp_create(pd, init, fake_device_of(id->id.verbs));
	if (!qp)
		return errno;
	qp->id = id;
	qp->attr.qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	qp->attr.qp_state = IBV_QPS_INIT;
	qp->qp.state = IBV_QPS_INIT;
	qp->may_send = !id->passive;
	id->id.qp = &qp->qp;
	id->id.pd = pd;
	id->id.send_cq = init->send_cq;
	id->id.recv_cq = init->recv_cq;
	return 0;
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
	struct ibv_qp_init_attr *attributes)
{
	int error;

	if (fake_fails("cm_create_qp"))
		return answer(ENOMEM);
	fake_lock();
	error = make_qp((struct fake_id *)id, pd, attributes);
	fake_unlock();
	return answer(error);
}

static void destroy_qp(struct rdma_cm_id *id)
{
	fake_lock();
	fake_qp_destroy((struct fake_qp *)id->qp);
	id->qp = NULL;
	fake_unlock();
}

/* ---- connect and accept ------------------------------------------------- */

static bool are_possible(const struct fake_id *id,
	const struct rdma_conn_param *parameters, uint8_t most)
{
	return parameters->private_data_len <= limit(id, most) &&
	       (is_iwarp(id) || parameters->responder_resources <= 16) &&
	       (is_iwarp(id) || parameters->initiator_depth <= 16) && id->id.qp;
}

static void take_parameters(
	struct fake_id *id, const struct rdma_conn_param *parameters)
{
	struct fake_qp *qp = (void *)id->id.qp;

	/* The accepting side's retries are the connecting side's. */
	if (!id->passive)
		id->connect.retry_count = parameters->retry_count;
	id->connect.rnr_retry_count = parameters->rnr_retry_count;
	qp->attr.retry_cnt = id->connect.retry_count;
	qp->attr.rnr_retry = id->connect.rnr_retry_count;
	qp->attr.timeout = id->timeout ? id->timeout : 19;
}

static void send_parameters(struct fake_id *id, enum message_type type,
	const struct rdma_conn_param *parameters, uint8_t padded)
{
	struct message *message = fake_message(type, id, id->other);

	message->param = *parameters;
	message->param.qp_num = id->id.qp->qp_num;
	take_data(id, message, parameters->private_data,
		parameters->private_data_len, padded);
	message->address = id->id.route.addr.dst_storage;
}

static int start_connecting(
	struct fake_id *id, const struct rdma_conn_param *parameters)
{
	if (id->state != ID_ROUTED ||
		!are_possible(id, parameters, REQUEST_BYTES))
		return EINVAL;
	take_parameters(id, parameters);
	id->state = ID_CONNECTING;
	send_parameters(id, MESSAGE_REQUEST, parameters, REQUEST_BYTES);
	fake_event_later(
		id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, fake.config.cm_ns);
	return 0;
}

static int connect_id(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	int error;

	if (fake_fails("cm_connect"))
		return answer(ENOMEM);
	fake_lock();
	error = start_connecting((struct fake_id *)id, parameters);
	fake_unlock();
	return answer(error);
}

static int start_accepting(
	struct fake_id *id, const struct rdma_conn_param *parameters)
{
	if (id->state != ID_REQUESTED ||
		!are_possible(id, parameters, REPLY_BYTES))
		return EINVAL;
	take_parameters(id, parameters);
	fake_qp_ready((struct fake_qp *)id->id.qp, id->remote_qp);
	id->state = ID_ACCEPTED;
	send_parameters(id, MESSAGE_REPLY, parameters, REPLY_BYTES);
	fake_event_later(
		id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, fake.config.cm_ns);
	return 0;
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *parameters)
{
	int error;

	if (fake_fails("cm_accept"))
		return answer(ENOMEM);
	fake_lock();
	error = start_accepting((struct fake_id *)id, parameters);
	fake_unlock();
	return answer(error);
}

/* ---- the end ------------------------------------------------------------ */

static int reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	struct fake_id *mine = (struct fake_id *)id;
	struct message *message;
	int error = EINVAL;

	if (fake_fails("cm_reject"))
		return answer(EINVAL);
	fake_lock();
	if (mine->state == ID_REQUESTED && bytes <= limit(mine, REJECT_BYTES)) {
		message = fake_message(MESSAGE_REJECT, mine, mine->other);
		message->status =
			is_iwarp(mine) ? -ECONNREFUSED : REASON_CONSUMER;
		take_data(mine, message, data, bytes, REJECT_BYTES);
		mine->state = ID_DISCONNECTED;
		error = 0;
	}
	fake_unlock();
	return answer(error);
}

/* Its own end hears that it is disconnected, too, and later that its number
 * is free again. */
static int start_disconnecting(struct fake_id *id)
{
	if (id->state < ID_ACCEPTED)
		return EINVAL;
	if (id->id.qp)
		fake_qp_break((struct fake_qp *)id->id.qp);
	if (id->state != ID_DISCONNECTED) {
		fake_hang_up(id);
		fake_event_later(id, RDMA_CM_EVENT_DISCONNECTED, 0,
			fake.config.delay_ns);
	}
	if (!is_iwarp(id))
		fake_event_later(
			id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, TIMEWAIT_NS);
	return 0;
}

static int disconnect(struct rdma_cm_id *id)
{
	int error;

	if (fake_fails("cm_disconnect"))
		return answer(EINVAL);
	fake_lock();
	error = start_disconnecting((struct fake_id *)id);
	fake_unlock();
	return answer(error);
}

void fake_connect_init(struct verbs_api *api)
{
	api->cm_create_qp = create_qp;
	api->cm_destroy_qp = destroy_qp;
	api->cm_connect = connect_id;
	api->cm_accept = accept_id;
	api->cm_reject = reject;
	api->cm_disconnect = disconnect;
}
