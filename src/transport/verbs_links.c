/* Makes and frees links; see verbs_links.h. */
#include "transport/verbs_links.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/error.h"
#include "transport/verbs_address.h"
#include "transport/verbs_device.h"
#include "transport/verbs_image.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_link.h"

#define MAX_BOUNCES 4096

static enum shunt_status hello_refused(int32_t rank, bool absent)
{
	enum shunt_status status =
		absent ? SHUNT_UNSUPPORTED : SHUNT_PEER_FAULT;

	error_set(status,
		absent ? "rank %d is on another host and has no RDMA device; "
			 "its log (SHUNT_LOG=info) says why"
		       : "the hello of rank %d has no sound RDMA address",
		rank);
	error_add_rank(rank);
	return status;
}

/* Addresses of two families never meet. */
static enum shunt_status families_check(const struct verbs_lane *lane)
{
	int own = lane->device->address.ss_family;
	int32_t rank = lane->link->peer.rank;

	if (lane->peer_address.ss_family == own)
		return SHUNT_OK;
	error_set(SHUNT_INVALID,
		"rank %d is reached by RDMA at an %s address, rank %d at an %s "
		"one (%s): give all ranks addresses or interfaces of one "
		"family (rdma_address, rdma_interface)",
		rank, own == AF_INET ? "IPv6" : "IPv4", lane->link->far->rank,
		own == AF_INET ? "IPv4" : "IPv6", lane->device->name);
	error_add_rank(rank);
	return SHUNT_INVALID;
}

static enum shunt_status link_make(struct verbs_link *link, struct far *far,
	int32_t rank, const struct peer_hello *hello)
{
	struct far_address address;
	uint32_t num_lanes = far->num_lanes;
	enum shunt_status status = SHUNT_OK;
	bool absent;

	link->far = far;
	link->peer.rank = rank;
	if (!address_read(&hello->far, hello->segment_bytes, &address, &absent))
		return hello_refused(rank, absent);
	link->peer.ops = &verbs_ops;
	link->peer_base = address.base;
	link->peer_bytes = hello->segment_bytes;
	link->num_peer_devices = address.num_devices;
	if (num_lanes < address.num_lanes)
		num_lanes = address.num_lanes;
	link->lanes = calloc(num_lanes, sizeof(*link->lanes));
	if (!link->lanes)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %u lanes to rank %d", far->rank,
			num_lanes, rank);
	link->num_lanes = (uint8_t)num_lanes; /* who closes goes by it */
	for (uint8_t l = 0; l < link->num_lanes && status == SHUNT_OK; l++) {
		struct verbs_lane *lane = &link->lanes[l];

		lane->link = link;
		lane->number = l;
		lane->device = &far->devices[l % far->num_devices];
		lane->peer_device = (uint8_t)(l % address.num_devices);
		lane->peer_address = address.addresses[lane->peer_device];
		status = families_check(lane);
	}
	return status;
}

static enum shunt_status links_list(struct far *far, int32_t num_ranks,
	const struct peer_hello *hellos, const bool *is_far)
{
	int32_t num = 0;

	for (int32_t r = 0; r < num_ranks; r++)
		num += is_far[r];
	far->links = calloc((size_t)num + 1, sizeof(*far->links));
	if (!far->links)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %d far ranks", far->rank, num);
	for (int32_t r = 0; r < num_ranks; r++) {
		enum shunt_status status;

		if (!is_far[r])
			continue;
		status = link_make(
			&far->links[far->num_links++], far, r, &hellos[r]);
		if (status != SHUNT_OK)
			return status;
	}
	return SHUNT_OK;
}

static enum shunt_status lanes_make(struct far *far)
{
	bool made = true;

	for (uint32_t l = 0; l < far->num_lanes_of_all; l++) {
		struct verbs_lane *lane = far->lanes[l];

		lane->index = l;
		lane->slots = calloc(far->queue_depth, sizeof(*lane->slots));
		made = made && lane->slots;
		if (lane->number > 0)
			continue;
		lane->kept = calloc(1, sizeof(*lane->kept));
		made = made && lane->kept;
	}
	return made ? SHUNT_OK
		    : error_set(SHUNT_NO_MEMORY,
			      "rank %d: no memory for %u lanes of %u requests",
			      far->rank, far->num_lanes_of_all,
			      far->queue_depth);
}

/* The table that wr_ids index. */
static enum shunt_status lanes_list(struct far *far)
{
	uint32_t num = 0;

	for (int32_t k = 0; k < far->num_links; k++)
		num += far->links[k].num_lanes;
	far->lanes = calloc((size_t)num + 1, sizeof(struct verbs_lane *));
	if (!far->lanes)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %u lanes", far->rank, num);
	for (int32_t k = 0; k < far->num_links; k++)
		for (int l = 0; l < far->links[k].num_lanes; l++)
			far->lanes[far->num_lanes_of_all++] =
				&far->links[k].lanes[l];
	return SHUNT_OK;
}

/* The most lanes that go over one device: over the first. */
static uint32_t lanes_of_device(const struct far *far)
{
	uint32_t num = 0;

	for (uint32_t l = 0; l < far->num_lanes_of_all; l++)
		num += far->lanes[l]->device == &far->devices[0];
	return num;
}

static enum shunt_status bounces_open(struct far *far)
{
	uint64_t num = (uint64_t)far->num_lanes_of_all * far->queue_depth;
	enum shunt_status status;

	num = num < MAX_BOUNCES ? num : MAX_BOUNCES;
	num += FAR_MAX_LANES + 2; /* what one put takes at most */
	far->free_bounces = calloc(num, sizeof(*far->free_bounces));
	if (!far->free_bounces)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for a list of buffers", far->rank);
	status = segment_alloc(
		far->segment, num * PUT_COPY_BYTES, 1, &far->bounce_off);
	if (status != SHUNT_OK)
		return status;
	far->bounce_bytes = num * PUT_COPY_BYTES;
	for (uint64_t b = 0; b < num; b++)
		far->free_bounces[far->num_free_bounces++] = (int32_t)b;
	return SHUNT_OK;
}

enum shunt_status links_open(struct far *far, int32_t num_ranks,
	const struct peer_hello *hellos, const bool *is_far)
{
	enum shunt_status status = links_list(far, num_ranks, hellos, is_far);

	if (status == SHUNT_OK)
		status = lanes_list(far);
	if (status != SHUNT_OK || far->num_links == 0)
		return status;
	status = devices_size(far, lanes_of_device(far));
	if (status == SHUNT_OK)
		status = lanes_make(far);
	if (status == SHUNT_OK)
		status = images_open(far);
	return status == SHUNT_OK ? bounces_open(far) : status;
}

void links_close(struct far *far)
{
	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];

		if (link->phase != LINK_GONE)
			link_bury(link);
		for (int l = 0; link->lanes && l < link->num_lanes; l++) {
			free(link->lanes[l].slots);
			free(link->lanes[l].kept);
		}
		free(link->lanes);
		free(link->outbox.records);
		free(link->backlog.bytes);
		verbs_ranges_fini(&link->remote);
	}
	free(far->links);
	free(far->lanes);
	free(far->free_bounces);
	images_close(far);
	if (far->bounce_bytes)
		segment_free(far->segment, far->bounce_off, far->bounce_bytes);
}
