#include "transport/verbs_api.h"

#include <ifaddrs.h>
#include <stddef.h>

/* ---- what has no function of its own ------------------------------------ */

/* A macro, for old callers' sake. */
static int query_port(struct ibv_context *context, uint8_t port,
	struct ibv_port_attr *attributes)
{
	return ibv_query_port(context, port, attributes);
}

/* A macro, which looks whether `access' is a constant. */
static struct ibv_mr *reg_mr(
	struct ibv_pd *pd, void *address, size_t bytes, int access)
{
	return ibv_reg_mr(pd, address, bytes, access);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

static int poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, num_entries, wc);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request,
	struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, request, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *request,
	struct ibv_recv_wr **bad)
{
	return ibv_post_recv(qp, request, bad);
}

/* ------------------------------------------------------------------------- */

static const struct verbs_api libraries = {
	.get_interfaces = getifaddrs,
	.free_interfaces = freeifaddrs,
	.get_device_list = ibv_get_device_list,
	.free_device_list = ibv_free_device_list,
	.get_device_name = ibv_get_device_name,
	.query_device = ibv_query_device,
	.query_port = query_port,
	.query_gid = ibv_query_gid,
	.get_async_event = ibv_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.event_type_str = ibv_event_type_str,
	.fork_init = ibv_fork_init,
	.is_fork_initialized = ibv_is_fork_initialized,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = ibv_dereg_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = ibv_create_cq,
	.destroy_cq = ibv_destroy_cq,
	.req_notify_cq = req_notify_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.poll_cq = poll_cq,
	.wc_status_str = ibv_wc_status_str,
	.modify_qp = ibv_modify_qp,
	.query_qp = ibv_query_qp,
	.post_send = post_send,
	.post_recv = post_recv,
	.cm_create_event_channel = rdma_create_event_channel,
	.cm_destroy_event_channel = rdma_destroy_event_channel,
	.cm_create_id = rdma_create_id,
	.cm_destroy_id = rdma_destroy_id,
	.cm_set_option = rdma_set_option,
	.cm_bind_addr = rdma_bind_addr,
	.cm_listen = rdma_listen,
	.cm_resolve_addr = rdma_resolve_addr,
	.cm_resolve_route = rdma_resolve_route,
	.cm_create_qp = rdma_create_qp,
	.cm_destroy_qp = rdma_destroy_qp,
	.cm_connect = rdma_connect,
	.cm_accept = rdma_accept,
	.cm_reject = rdma_reject,
	.cm_disconnect = rdma_disconnect,
	.cm_get_event = rdma_get_cm_event,
	.cm_ack_event = rdma_ack_cm_event,
	.cm_event_str = rdma_event_str,
	.cm_get_src_port = rdma_get_src_port,
};

/* Written by tests only, while nothing else runs. */
static const struct verbs_api *current = &libraries;

const struct verbs_api *verbs_api(void)
{
	return current;
}

void verbs_api_replace(const struct verbs_api *api)
{
	current = api ? api : &libraries;
}
