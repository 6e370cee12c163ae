/* Opens devices, obeys their limits; see verbs_device.h. */
#include "transport/verbs_device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/verbs_echo.h"

/* What is asked of create_qp() for bytes inside of requests, in turn: no
 * attribute of a device tells how many it takes. */
static const uint32_t inline_wishes[] = {
	PUT_COPY_BYTES, 128, 64, sizeof(struct record), 0};

static uint32_t longest_message(
	const struct verbs_device *device, const struct ibv_port_attr *port)
{
	uint32_t most =
		device->needs_echo ? ECHO_MESSAGE_BYTES : UINT32_C(1) << 30;
	/* Whole pages, so that all pieces of a put but the last are aligned
	 * as its bytes are. */
	uint32_t bytes = port->max_msg_sz / 4096 * 4096;

	return bytes == 0 || bytes > most ? most : bytes;
}

static enum shunt_status limits_read(
	const struct far *far, struct verbs_device *device)
{
	const struct verbs_api *api = verbs_api();
	struct ibv_port_attr port;

	errno = api->query_device(device->context, &device->limits);
	if (errno)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: asking %s for its limits", far->rank,
			device->name);
	errno = api->query_port(
		device->context, device->listener->port_num, &port);
	if (errno)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: asking port %d of %s for its limits",
			far->rank, device->listener->port_num, device->name);
	if (port.state != IBV_PORT_ACTIVE)
		return error_set(SHUNT_UNSUPPORTED,
			"rank %d: port %d of %s is not active (state %d): look "
			"at its cable and at `ip link'",
			far->rank, device->listener->port_num, device->name,
			port.state);
	if (device->limits.max_sge < 1 ||
		device->limits.max_qp_wr < FAR_MIN_QUEUE_DEPTH)
		return error_set(SHUNT_UNSUPPORTED,
			"rank %d: %s has queues of %d requests with %d pieces, "
			"%d with 1 are needed",
			far->rank, device->name, device->limits.max_qp_wr,
			device->limits.max_sge, FAR_MIN_QUEUE_DEPTH);
	device->has_immediate =
		device->context->device->transport_type != IBV_TRANSPORT_IWARP;
	device->needs_echo = !device->has_immediate;
	device->max_message_bytes = longest_message(device, &port);
	return SHUNT_OK;
}

static bool set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static enum shunt_status channel_open(
	const struct far *far, struct verbs_device *device)
{
	device->channel = verbs_api()->create_comp_channel(device->context);
	if (!device->channel)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: a completion channel of %s", far->rank,
			device->name);
	/* One thread takes events; it must not hang where there is none. */
	if (!set_nonblocking(device->channel->fd) ||
		!set_nonblocking(device->context->async_fd))
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: fcntl of an event descriptor of %s",
			far->rank, device->name);
	return SHUNT_OK;
}

enum shunt_status device_open(struct far *far, struct verbs_device *device)
{
	enum shunt_status status;

	device->context = device->listener->verbs;
	device->name = verbs_api()->get_device_name(device->context->device);
	device->inline_bytes = inline_wishes[0];
	status = limits_read(far, device);
	if (status != SHUNT_OK)
		return status;
	device->pd = verbs_api()->alloc_pd(device->context);
	if (!device->pd)
		return error_set_errno(SHUNT_NO_MEMORY,
			"rank %d: a protection domain of %s", far->rank,
			device->name);
	status = channel_open(far, device);
	if (status != SHUNT_OK)
		device_close(device);
	return status;
}

void device_close(struct verbs_device *device)
{
	const struct verbs_api *api = verbs_api();

	if (device->cq)
		api->destroy_cq(device->cq);
	if (device->channel)
		api->destroy_comp_channel(device->channel);
	if (device->pd)
		api->dealloc_pd(device->pd);
	device->cq = NULL;
	device->channel = NULL;
	device->pd = NULL;
}

/* ---- queues ------------------------------------------------------------ */

/* A lane has at most so many completions in the queue: one for each request
 * and each receive. */
static uint64_t completions_of(uint32_t num_lanes, uint32_t depth)
{
	return (uint64_t)num_lanes * 2 * depth;
}

static uint32_t depth_within(
	const struct verbs_device *device, uint32_t num_lanes, uint32_t depth)
{
	uint64_t fits =
		(uint64_t)device->limits.max_cqe / completions_of(num_lanes, 1);

	if (depth > (uint32_t)device->limits.max_qp_wr)
		depth = (uint32_t)device->limits.max_qp_wr;
	return depth > fits ? (uint32_t)fits : depth;
}

static enum shunt_status cq_make(
	const struct far *far, struct verbs_device *device, uint32_t num_lanes)
{
	int num_cqe = (int)completions_of(num_lanes, far->queue_depth);

	device->cq = verbs_api()->create_cq(
		device->context, num_cqe, device, device->channel, 0);
	if (device->cq)
		return SHUNT_OK;
	return error_set_errno(SHUNT_NO_MEMORY,
		"rank %d: a completion queue of %d entries of %s; lower "
		"rdma_queue_depth (%u) or raise the limit of locked memory",
		far->rank, num_cqe, device->name, far->queue_depth);
}

enum shunt_status devices_size(struct far *far, uint32_t num_lanes)
{
	uint32_t wanted = far->queue_depth;

	for (int d = 0; d < far->num_devices; d++) {
		const struct verbs_device *device = &far->devices[d];

		far->queue_depth =
			depth_within(device, num_lanes, far->queue_depth);
		if (far->queue_depth < FAR_MIN_QUEUE_DEPTH)
			return error_set(SHUNT_UNSUPPORTED,
				"rank %d: %s cannot serve %u queue pairs: %d "
				"completions at most (max_cqe); use fewer "
				"lanes (rdma_lanes) or more devices",
				far->rank, device->name, num_lanes,
				device->limits.max_cqe);
	}
	if (far->queue_depth < wanted)
		log_note(far->config.queue_depth ? LOG_WARN : LOG_INFO,
			"queues of %u requests instead of %u: the devices have "
			"no more for %u queue pairs",
			far->queue_depth, wanted, num_lanes);
	for (int d = 0; d < far->num_devices; d++) {
		enum shunt_status status =
			cq_make(far, &far->devices[d], num_lanes);

		if (status != SHUNT_OK)
			return status;
	}
	return SHUNT_OK;
}

static int try_qp(struct verbs_lane *lane, struct ibv_qp_init_attr *attributes,
	uint32_t inline_bytes)
{
	const struct far *far = lane->link->far;

	*attributes = (struct ibv_qp_init_attr){
		.qp_context = lane,
		.send_cq = lane->device->cq,
		.recv_cq = lane->device->cq,
		.cap =
			{
				.max_send_wr = far->queue_depth,
				.max_recv_wr = far->queue_depth,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = inline_bytes,
			},
		.qp_type = IBV_QPT_RC,
	};
	return verbs_api()->cm_create_qp(
		lane->id, lane->device->pd, attributes);
}

enum shunt_status device_make_qp(struct verbs_lane *lane)
{
	struct verbs_device *device = lane->device;
	const struct far *far = lane->link->far;
	struct ibv_qp_init_attr attributes;
	int failed = -1;

	for (size_t w = 0;
		failed && w < sizeof(inline_wishes) / sizeof(*inline_wishes);
		w++) {
		if (inline_wishes[w] > device->inline_bytes)
			continue;
		failed = try_qp(lane, &attributes, inline_wishes[w]);
		if (!failed)
			device->inline_bytes = inline_wishes[w];
	}
	if (failed)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: a queue pair of %s for rank %d, of %u "
			"requests; `ulimit -l' or the device's max_qp (%d) may "
			"be too low",
			far->rank, device->name, lane->link->peer.rank,
			far->queue_depth, device->limits.max_qp);
	/* What was granted, never more: the completion queue is sized for it. */
	lane->depth = attributes.cap.max_send_wr < far->queue_depth
			      ? attributes.cap.max_send_wr
			      : far->queue_depth;
	return SHUNT_OK;
}
