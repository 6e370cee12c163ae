/* The far side: opening, connecting, exposing, closing. See far.h. */
#include "transport/far.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/log.h"
#include "transport/verbs_address.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_device.h"
#include "transport/verbs_image.h"
#include "transport/verbs_link.h"
#include "transport/verbs_memory.h"
#include "transport/verbs_record.h"
#include "transport/verbs_service.h"

#define ABSENCE_BYTES   512
#define MAX_QUEUE_DEPTH 32768
#define MAX_BOUNCES     4096
#define LEAVE_NS        (2000 * VERBS_NS_PER_MS)

static _Thread_local char absence[ABSENCE_BYTES] = "nobody asked yet";

const char *far_absence(void)
{
	return absence;
}

/* ---- the config -------------------------------------------------------- */

static enum shunt_status option_check(int32_t rank, const char *name,
	int32_t value, int32_t none, int32_t low, int32_t high)
{
	if (value == none || (value >= low && value <= high))
		return SHUNT_OK;
	return error_set(SHUNT_INVALID,
		"rank %d: %s is %d, must be %d .. %d, or %d to choose", rank,
		name, value, low, high, none);
}

static enum shunt_status names_check(
	const struct far_config *config, int32_t rank)
{
	int32_t num = address_num_devices(config);

	if (num > FAR_MAX_DEVICES)
		return error_set(SHUNT_INVALID,
			"rank %d: rdma_device=%s names %d devices, at most %d",
			rank, config->device, num, FAR_MAX_DEVICES);
	for (const char *c = config->device; c && num > 0; num--) {
		size_t length = strcspn(c, ",");

		if (length == 0 || length >= IBV_SYSFS_NAME_MAX)
			return error_set(SHUNT_INVALID,
				"rank %d: rdma_device=%s has a name of %zu "
				"bytes, must be 1 .. %d",
				rank, config->device, length,
				IBV_SYSFS_NAME_MAX - 1);
		c += length + (c[length] == ',');
	}
	if (address_num_devices(config) > 1 &&
		(config->address || config->interface))
		return error_set(SHUNT_INVALID,
			"rank %d: rdma_%s=%s is one address, rdma_device=%s "
			"several: leave one of them out",
			rank, config->address ? "address" : "interface",
			config->address ? config->address : config->interface,
			config->device);
	return SHUNT_OK;
}

static enum shunt_status config_check(
	const struct far_config *config, int32_t rank)
{
	const struct {
		const char *name;
		int32_t value, none, low, high;
	} options[] = {
		{"rdma_port", config->port, 0, 1, 255},
		{"rdma_gid_index", config->gid_index, -1, 0, 65535},
		{"rdma_service_level", config->service_level, -1, 0, 15},
		{"rdma_traffic_class", config->traffic_class, -1, 0, 255},
		{"rdma_lanes", config->lanes, 0, 1, FAR_MAX_LANES},
		{"rdma_ack_timeout", config->ack_timeout, 0, 1, 31},
		{"rdma_queue_depth", config->queue_depth, 0,
			FAR_MIN_QUEUE_DEPTH, MAX_QUEUE_DEPTH},
	};
	int32_t num_devices = address_num_devices(config);

	for (size_t o = 0; o < sizeof(options) / sizeof(*options); o++) {
		enum shunt_status status = option_check(rank, options[o].name,
			options[o].value, options[o].none, options[o].low,
			options[o].high);

		if (status != SHUNT_OK)
			return status;
	}
	if (config->lanes && config->lanes < num_devices)
		return error_set(SHUNT_INVALID,
			"rank %d: rdma_lanes is %d, must be at least the "
			"number of devices, %d (rdma_device=%s)",
			rank, config->lanes, num_devices, config->device);
	return names_check(config, rank);
}

/* ---- opening ----------------------------------------------------------- */

static bool any_device(void)
{
	struct ibv_device **list;
	int num = 0;

	/* The connection manager complains on stderr if there is none. */
	list = verbs_api()->get_device_list(&num);
	if (list)
		verbs_api()->free_device_list(list);
	return list && num > 0;
}

/* Providers keep what they share with a device out of forked children only if
 * told so; recent kernels copy it instead, and need nothing. */
static void fork_prepare(void)
{
	if (verbs_api()->is_fork_initialized() == IBV_FORK_DISABLED &&
		verbs_api()->fork_init() != 0)
		log_note(LOG_WARN,
			"ibv_fork_init failed: forking while RDMA is in use "
			"may break it (it must be called before other "
			"libraries register memory)");
}

static enum shunt_status events_open(struct far *far)
{
	int flags;

	far->events = verbs_api()->cm_create_event_channel();
	if (!far->events)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: the RDMA connection manager (is rdma_ucm "
			"loaded, and /dev/infiniband/rdma_cm accessible?)",
			far->rank);
	flags = fcntl(far->events->fd, F_GETFL);
	if (flags < 0 ||
		fcntl(far->events->fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: fcntl of the event channel", far->rank);
	return SHUNT_OK;
}

static void devices_close(struct far *far)
{
	for (int d = 0; d < far->num_devices; d++) {
		device_close(&far->devices[d]);
		if (far->devices[d].listener)
			verbs_api()->cm_destroy_id(far->devices[d].listener);
	}
	if (far->events)
		verbs_api()->cm_destroy_event_channel(far->events);
}

static void far_free(struct far *far)
{
	if (far->wake >= 0)
		service_stop(far);
	devices_close(far);
	segment_put(far->segment);
	pthread_mutex_destroy(&far->lock);
	free((void *)far->config.device);
	free(far);
}

static enum shunt_status open_all(struct far *far)
{
	enum shunt_status status = events_open(far);

	if (status == SHUNT_OK)
		status = address_listen(far);
	for (int d = 0; d < far->num_devices && status == SHUNT_OK; d++)
		status = device_open(far, &far->devices[d]);
	if (status != SHUNT_OK)
		return status;
	far->num_lanes = far->config.lanes ? (uint32_t)far->config.lanes
					   : (uint32_t)far->num_devices;
	status = service_open(far);
	return status == SHUNT_OK ? memory_open(far) : status;
}

static struct far *far_make(
	const struct far_config *config, struct segment *segment, int32_t rank)
{
	struct far *far = calloc(1, sizeof(*far));

	if (!far)
		return NULL;
	far->config = *config;
	/* Messages name it later, too. */
	far->config.device = config->device ? strdup(config->device) : NULL;
	if (!far->config.ack_timeout)
		far->config.ack_timeout = FAR_ACK_TIMEOUT;
	far->queue_depth = config->queue_depth ? (uint32_t)config->queue_depth
					       : FAR_QUEUE_DEPTH;
	far->segment = segment_get(segment);
	far->base = segment_base(segment);
	far->rank = rank;
	far->generation = guard_generation();
	far->wake = -1;
	pthread_mutex_init(&far->lock, NULL);
	return far;
}

static bool is_optional(const struct far_config *config)
{
	return !config->device && !config->interface && !config->address;
}

enum shunt_status far_open(const struct far_config *config,
	struct segment *segment, int32_t rank, struct far **far,
	struct far_hello *hello)
{
	enum shunt_status status = config_check(config, rank);
	struct far *made;

	*far = NULL;
	memset(hello, 0, sizeof(*hello));
	if (status != SHUNT_OK)
		return status;
	if (!any_device() && is_optional(config)) {
		snprintf(absence, sizeof(absence),
			"there is no RDMA device; see `rdma link'");
		return SHUNT_OK;
	}
	made = far_make(config, segment, rank);
	if (!made)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for the far side", rank);
	fork_prepare();
	status = open_all(made);
	if (status != SHUNT_OK) {
		far_free(made);
		if (status != SHUNT_UNSUPPORTED || !is_optional(config))
			return status;
		snprintf(absence, sizeof(absence), "%s", shunt_error_message());
		return SHUNT_OK;
	}
	/* A config that asked for more must not find out only when a far rank
	 * is met, so all of it has been used by now. */
	made->config.address = made->config.interface = NULL;
	made->config.fallback_address = NULL;
	address_pack(made, hello);
	*far = made;
	return SHUNT_OK;
}

/* ---- connecting -------------------------------------------------------- */

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

static enum shunt_status link_make(struct verbs_link *link, struct far *far,
	int32_t rank, const struct peer_hello *hello)
{
	struct far_address address;
	bool absent;

	link->far = far;
	link->peer.rank = rank;
	if (!address_read(&hello->far, hello->segment_bytes, &address, &absent))
		return hello_refused(rank, absent);
	link->peer.ops = &verbs_ops;
	link->peer_base = address.base;
	link->peer_bytes = hello->segment_bytes;
	link->num_peer_devices = address.num_devices;
	link->num_lanes = far->num_lanes > address.num_lanes
				  ? (uint8_t)far->num_lanes
				  : address.num_lanes;
	link->lanes = calloc(link->num_lanes, sizeof(*link->lanes));
	if (!link->lanes)
		return error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory for %d lanes to rank %d", far->rank,
			link->num_lanes, rank);
	for (uint8_t l = 0; l < link->num_lanes; l++) {
		struct verbs_lane *lane = &link->lanes[l];

		lane->link = link;
		lane->number = l;
		lane->device = &far->devices[l % far->num_devices];
		lane->peer_device = (uint8_t)(l % address.num_devices);
		lane->peer_address = address.addresses[lane->peer_device];
	}
	return SHUNT_OK;
}

static enum shunt_status links_make(struct far *far, int32_t num_ranks,
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

static enum shunt_status connect_to(struct far *far,
	struct connecting *connecting, const bool *is_far, int64_t deadline)
{
	enum shunt_status status = links_make(far, connecting->terms.num_ranks,
		connecting->terms.hellos, is_far);

	if (status == SHUNT_OK)
		status = lanes_list(far);
	if (status == SHUNT_OK && far->num_links > 0)
		status = devices_size(far, lanes_of_device(far));
	if (status == SHUNT_OK)
		status = lanes_make(far);
	if (status == SHUNT_OK && far->num_links > 0)
		status = images_open(far);
	if (status == SHUNT_OK && far->num_links > 0)
		status = bounces_open(far);
	if (status == SHUNT_OK)
		status = connect_all(far, connecting, deadline);
	return status == SHUNT_OK ? service_start(far) : status;
}

enum shunt_status far_connect(struct far *far, int32_t num_ranks,
	const struct peer_hello *hellos, const bool *is_far,
	const uint8_t secret[32], int64_t deadline, struct peer **peers)
{
	struct connecting connecting = {
		.terms =
			{
				.hellos = hellos,
				.secret = secret,
				.num_ranks = num_ranks,
			},
	};
	enum shunt_status status =
		connect_to(far, &connecting, is_far, deadline);

	if (status != SHUNT_OK)
		return status;
	for (int32_t k = 0; k < far->num_links; k++)
		peers[far->links[k].peer.rank] = &far->links[k].peer;
	log_note(LOG_INFO, "%d far ranks by %s%s, %u requests a queue",
		far->num_links, far->devices[0].name,
		far->num_devices > 1 ? " and others" : "", far->queue_depth);
	return SHUNT_OK;
}

uint64_t far_image_off(const struct peer *peer)
{
	return ((const struct verbs_link *)(const void *)peer)->peer_image_off;
}

/* ---- exposing ---------------------------------------------------------- */

static enum shunt_status links_reserve(struct far *far)
{
	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];
		/* One for each device, and one to hide it again. */
		enum shunt_status status =
			outbox_reserve(link, (uint32_t)far->num_devices + 1);

		if (status != SHUNT_OK)
			return status;
	}
	return SHUNT_OK;
}

static void links_tell(struct far *far, const struct record *record)
{
	for (int32_t k = 0; k < far->num_links; k++)
		if (far->links[k].phase == LINK_OPEN) {
			outbox_add(&far->links[k], record);
			outbox_send(&far->links[k]);
		}
}

static enum shunt_status expose(
	struct far *far, uint64_t offset, uint64_t bytes)
{
	const struct verbs_range *local =
		verbs_ranges_find(&far->local, offset, bytes);
	const struct verbs_range range = {.offset = offset, .bytes = bytes};
	enum shunt_status status;
	bool full;

	if (!local || bytes == 0)
		return error_set(SHUNT_INVALID,
			"rank %d: exposing %llu bytes at %llu, which is no "
			"range of the segment",
			far->rank, (unsigned long long)bytes,
			(unsigned long long)offset);
	status = links_reserve(far);
	if (status != SHUNT_OK)
		return status;
	if (!verbs_ranges_add(&far->exposed, &range, &full))
		return error_set(full ? SHUNT_NO_MEMORY : SHUNT_INVALID,
			"rank %d: exposing %llu bytes at %llu: %s", far->rank,
			(unsigned long long)bytes, (unsigned long long)offset,
			full ? "no memory to note it"
			     : "some of them are exposed already");
	for (int d = 0; d < far->num_devices; d++)
		links_tell(far, &(struct record){
					.kind = RECORD_EXPOSE,
					.device = (uint8_t)d,
					.offset = offset,
					.value = bytes,
					.rkey = local->mrs[d]->rkey,
				});
	for (int32_t k = 0; k < far->num_links; k++)
		far->links[k].outbox.num_owed++;
	return SHUNT_OK;
}

enum shunt_status far_expose(struct far *far, uint64_t offset, uint64_t bytes)
{
	enum shunt_status status;

	far_lock(far);
	status = expose(far, offset, bytes);
	far_unlock(far);
	return status;
}

void far_hide(struct far *far, uint64_t offset)
{
	struct verbs_range *range;

	far_lock(far);
	range = verbs_ranges_at(&far->exposed, offset);
	if (range) {
		verbs_ranges_remove(&far->exposed, range);
		for (int32_t k = 0; k < far->num_links; k++)
			far->links[k].outbox.num_owed--;
		links_tell(far, &(struct record){
					.kind = RECORD_HIDE,
					.offset = offset,
				});
	}
	far_unlock(far);
}

/* ---- moving along ------------------------------------------------------ */

bool far_progress(struct far *far)
{
	bool any;

	far_lock(far);
	any = link_poll_all(far);
	far_unlock(far);
	return any;
}

void far_arm(struct far *far)
{
	for (int d = 0; d < far->num_devices; d++)
		if (far->devices[d].cq)
			verbs_api()->req_notify_cq(far->devices[d].cq, 0);
}

bool far_is_quiet(struct far *far)
{
	bool quiet = true;

	far_lock(far);
	for (int32_t k = 0; k < far->num_links; k++)
		quiet = quiet && link_is_flushed(&far->links[k]);
	far_unlock(far);
	return quiet;
}

/* ---- closing ----------------------------------------------------------- */

static void links_leave(struct far *far)
{
	far_lock(far);
	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];

		if (link->phase != LINK_OPEN ||
			outbox_reserve(link, 1) != SHUNT_OK)
			continue;
		outbox_add(link, &(struct record){.kind = RECORD_LEAVE});
		outbox_send(link);
	}
	far_unlock(far);
}

/* Whether all that a link had to send has been acknowledged. */
static bool has_left(const struct verbs_link *link)
{
	if (link->phase != LINK_OPEN)
		return true;
	return link->outbox.num == 0 && !link->pending.active &&
	       link->lanes[0].tail >= link->lanes[0].signalled;
}

static bool all_left(struct far *far)
{
	bool all = true;

	far_lock(far);
	link_poll_all(far);
	for (int32_t k = 0; k < far->num_links; k++)
		all = all && has_left(&far->links[k]);
	far_unlock(far);
	return all;
}

static void leave(struct far *far)
{
	const struct timespec nap = {.tv_nsec = 50000};
	int64_t deadline = clock_deadline(LEAVE_NS);

	links_leave(far);
	while (!all_left(far) && clock_now() < deadline)
		nanosleep(&nap, NULL);
}

static void links_free(struct far *far)
{
	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];

		if (link->phase != LINK_GONE)
			link_bury(link);
		for (int l = 0; link->lanes && l < link->num_lanes; l++)
			free(link->lanes[l].slots);
		free(link->lanes);
		free(link->outbox.records);
		verbs_ranges_fini(&link->remote);
	}
	free(far->links);
	free(far->lanes);
	free(far->free_bounces);
	images_close(far);
	if (far->bounce_bytes)
		segment_free(far->segment, far->bounce_off, far->bounce_bytes);
}

void far_close(struct far *far)
{
	if (!far || guard_check(far->generation) != SHUNT_OK)
		return;
	leave(far);
	service_stop(far);
	links_free(far);
	memory_close(far);
	far_free(far);
}
