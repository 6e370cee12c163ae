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
#include "transport/verbs_backlog.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_config.h"
#include "transport/verbs_device.h"
#include "transport/verbs_link.h"
#include "transport/verbs_links.h"
#include "transport/verbs_memory.h"
#include "transport/verbs_record.h"
#include "transport/verbs_service.h"

#define ABSENCE_BYTES 512
#define LEAVE_NS      (2000 * VERBS_NS_PER_MS)

static _Thread_local char absence[ABSENCE_BYTES] = "nobody asked yet";

const char *far_absence(void)
{
	return absence;
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

/*
 * The kernel refuses a device to a forked child over the descriptors of its
 * parent, which is what librdmacm would use there: it opens each device once a
 * process, and does not notice the fork. So who forks must do so before, or
 * exec. False in such a child.
 */
static bool devices_are_ours(void)
{
	static _Atomic unsigned long user; /* generation that came first */
	unsigned long none = 0;
	unsigned long own = guard_generation();

	return atomic_compare_exchange_strong(&user, &none, own) || none == own;
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
	if (!far->config.patience_ns)
		far->config.patience_ns = FAR_PATIENCE_NS;
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

/* What the error says is no error, if nothing was asked for. */
static enum shunt_status note_absence(void)
{
	snprintf(absence, sizeof(absence), "%s", shunt_error_message());
	return SHUNT_OK;
}

enum shunt_status far_open(const struct far_config *config,
	struct segment *segment, int32_t rank, struct far **far,
	struct far_hello *hello)
{
	enum shunt_status status = far_config_check(config, rank);
	struct far *made;

	*far = NULL;
	memset(hello, 0, sizeof(*hello));
	if (status != SHUNT_OK)
		return status;
	if (!any_device() && is_optional(config)) {
		error_set(SHUNT_UNSUPPORTED,
			"rank %d: there is no RDMA device; see `rdma link'",
			rank);
		return note_absence();
	}
	if (!devices_are_ours()) {
		error_set(SHUNT_UNSUPPORTED,
			"rank %d: this process was forked from one that had "
			"used RDMA, and cannot use it without exec()",
			rank);
		return is_optional(config) ? note_absence() : SHUNT_UNSUPPORTED;
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
		return note_absence();
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
	enum shunt_status status = links_open(far, num_ranks, hellos, is_far);

	if (status == SHUNT_OK)
		status = connect_all(far, &connecting, deadline);
	if (status == SHUNT_OK)
		status = service_start(far);
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

bool far_cut(struct peer *peer)
{
	struct verbs_link *link = (void *)peer;
	bool was_up;

	far_lock(link->far);
	was_up = link->phase == LINK_OPEN;
	link_fail(link, "this rank has cut it");
	far_unlock(link->far);
	return was_up;
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
	/* Credits come without a completion: somebody has to look at them. */
	if (link_look_soon(far))
		service_wake(far);
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

/* Puts that are still in the way will not get there any more: to their peer, this
 * rank is not one that left with all it had to say. */
static bool may_say_leave(const struct verbs_link *link)
{
	return link->phase == LINK_OPEN && !link->pending.active &&
	       backlog_is_empty(&link->backlog);
}

static void links_leave(struct far *far)
{
	far_lock(far);
	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];

		if (!may_say_leave(link) || outbox_reserve(link, 1) != SHUNT_OK)
			continue;
		outbox_add(link, &(struct record){.kind = RECORD_LEAVE});
		outbox_send(link);
	}
	far_unlock(far);
}

/* Whether all that a link had to send has been acknowledged. */
static bool is_out(const struct verbs_link *link)
{
	if (link->phase != LINK_OPEN)
		return true;
	for (int l = 0; l < link->num_lanes; l++)
		if (link->lanes[l].tail < link->lanes[l].signalled)
			return false;
	return link->outbox.num == 0 && !link->pending.active &&
	       backlog_is_empty(&link->backlog);
}

/* Grows while puts and records of the link get on. What the service thread sends
 * beside them does not count. */
static uint64_t movement(const struct verbs_link *link)
{
	uint64_t sum = 0;

	for (int l = 0; l < link->num_lanes; l++) {
		const struct verbs_lane *lane = &link->lanes[l];

		sum += lane->tail < lane->awaited_head ? lane->tail
						       : lane->awaited_head;
		sum += lane->awaited_head + lane->records_sent;
	}
	return sum;
}

static bool all_out(struct far *far, uint64_t *moved)
{
	bool all = true;

	*moved = 0;
	far_lock(far);
	link_poll_all(far);
	for (int32_t k = 0; k < far->num_links; k++) {
		const struct verbs_link *link = &far->links[k];

		all = all && is_out(link);
		*moved += movement(link);
	}
	far_unlock(far);
	return all;
}

/* As long as something moves, but no longer than a peer may take nothing. */
static void await_all_out(struct far *far)
{
	const struct timespec nap = {.tv_nsec = 50000};
	int64_t last = clock_deadline(far->config.patience_ns);
	int64_t deadline = clock_deadline(LEAVE_NS);
	uint64_t seen = 0, moved;

	while (!all_out(far, &moved) && clock_now() < deadline &&
		clock_now() < last) {
		if (moved != seen)
			deadline = clock_deadline(LEAVE_NS);
		seen = moved;
		nanosleep(&nap, NULL);
	}
}

/* LEAVE is the last that a peer hears, so it waits for all puts. */
static void leave(struct far *far)
{
	await_all_out(far);
	links_leave(far);
	/* One peer that is stopped may have cost all of that time. */
	await_all_out(far);
}

void far_close(struct far *far)
{
	if (!far || guard_check(far->generation) != SHUNT_OK)
		return;
	leave(far);
	service_stop(far);
	links_close(far);
	memory_close(far);
	far_free(far);
}
