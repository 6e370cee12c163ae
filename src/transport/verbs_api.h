/*
 * Every function of libibverbs and librdmacm that Shunt uses, as one table:
 * the real libraries, or what a test puts in their place. With them comes how
 * the addresses of this host are listed, as those lead to its devices.
 *
 * The libraries' own names cannot be replaced by a linker: what posts and
 * polls is inline, and some names are macros. So no other file calls them.
 * Fields have the libraries' names without ibv_, and with cm_ for rdma_, and
 * their meaning, arguments and errors: see the man page of each. Fields of the
 * libraries' structs that they document (fd, lkey, qp_num, verbs, ...) are
 * read directly.
 */
#ifndef TRANSPORT_VERBS_API_H
#define TRANSPORT_VERBS_API_H

#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

struct ifaddrs;

struct verbs_api {
	/* ---- addresses: getifaddrs() ---- */
	int (*get_interfaces)(struct ifaddrs **list);
	void (*free_interfaces)(struct ifaddrs *list);

	/* ---- devices ---- */
	struct ibv_device **(*get_device_list)(int *num_devices);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	int (*query_device)(struct ibv_context *context,
		struct ibv_device_attr *attributes);
	int (*query_port)(struct ibv_context *context, uint8_t port,
		struct ibv_port_attr *attributes);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index,
		union ibv_gid *gid);
	int (*get_async_event)(
		struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	const char *(*event_type_str)(enum ibv_event_type event);
	int (*fork_init)(void);
	enum ibv_fork_status (*is_fork_initialized)(void);

	/* ---- memory ---- */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(
		struct ibv_pd *pd, void *address, size_t bytes, int access);
	int (*dereg_mr)(struct ibv_mr *mr);

	/* ---- completions ---- */
	struct ibv_comp_channel *(*create_comp_channel)(
		struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int num_cqe,
		void *cq_context, struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*get_cq_event)(struct ibv_comp_channel *channel,
		struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int num_events);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	const char *(*wc_status_str)(enum ibv_wc_status status);

	/* ---- queue pairs ---- */
	int (*modify_qp)(
		struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes,
		int mask, struct ibv_qp_init_attr *initial);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *request,
		struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *request,
		struct ibv_recv_wr **bad);

	/* ---- the connection manager ---- */
	struct rdma_event_channel *(*cm_create_event_channel)(void);
	void (*cm_destroy_event_channel)(struct rdma_event_channel *channel);
	int (*cm_create_id)(struct rdma_event_channel *channel,
		struct rdma_cm_id **id, void *context,
		enum rdma_port_space space);
	int (*cm_destroy_id)(struct rdma_cm_id *id);
	int (*cm_set_option)(struct rdma_cm_id *id, int level, int name,
		void *value, size_t bytes);
	int (*cm_bind_addr)(struct rdma_cm_id *id, struct sockaddr *address);
	int (*cm_listen)(struct rdma_cm_id *id, int backlog);
	int (*cm_resolve_addr)(struct rdma_cm_id *id, struct sockaddr *source,
		struct sockaddr *destination, int timeout_ms);
	int (*cm_resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*cm_create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd,
		struct ibv_qp_init_attr *attributes);
	void (*cm_destroy_qp)(struct rdma_cm_id *id);
	int (*cm_connect)(
		struct rdma_cm_id *id, struct rdma_conn_param *parameters);
	int (*cm_accept)(
		struct rdma_cm_id *id, struct rdma_conn_param *parameters);
	int (*cm_reject)(
		struct rdma_cm_id *id, const void *data, uint8_t bytes);
	int (*cm_disconnect)(struct rdma_cm_id *id);
	int (*cm_get_event)(struct rdma_event_channel *channel,
		struct rdma_cm_event **event);
	int (*cm_ack_event)(struct rdma_cm_event *event);
	const char *(*cm_event_str)(enum rdma_cm_event_type event);
	/* In network byte order. */
	uint16_t (*cm_get_src_port)(struct rdma_cm_id *id);
};

/* The table to call through. */
const struct verbs_api *verbs_api(void);

/* For tests: another table from now on, for all threads; NULL is the real one
 * again. Nothing that one table made may be given to another. */
void verbs_api_replace(const struct verbs_api *api);

#endif
