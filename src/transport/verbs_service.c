/* Events, beats, burials; see verbs_service.h. */
#include "transport/verbs_service.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/order.h"
#include "transport/verbs_async.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_echo.h"
#include "transport/verbs_image.h"
#include "transport/verbs_lane.h"
#include "transport/verbs_link.h"

#define BEAT_NS (250 * VERBS_NS_PER_MS)
#define LOOK_NS VERBS_NS_PER_MS /* at what fails, or waits for room */

/* ---- beats ------------------------------------------------------------- */

static void beat_fill(struct verbs_link *link, struct image_beat *beat)
{
	const struct beat *own = &segment_control(link->far->segment)->beat;
	int64_t when = atomic_load_explicit(&own->when, memory_order_relaxed);

	link->beat_serial++;
	atomic_init(&beat->serial, link->beat_serial);
	atomic_init(&beat->epoch, order_peek(&own->epoch));
	atomic_init(&beat->phase, order_peek(&own->phase));
	atomic_init(&beat->age, (uint64_t)(clock_now() - when));
}

/* A lane without room has requests under way, which tell as much. */
static void beat_send_on(struct verbs_lane *lane, const struct image_beat *beat)
{
	struct lane_batch batch;

	if (lane_room(lane) <= echo_requests(lane) ||
		!lane_takes_copy(lane, sizeof(*beat)))
		return;
	lane_batch_begin(&batch, lane);
	lane_add_write(&batch, lane->link->peer_image_off + image_beat_off(),
		lane->peer_image_rkey, beat, sizeof(*beat), NULL);
	echo_ask(&batch);
	lane_post_signalled(&batch);
}

/* On each lane: they may take different ways. */
static void beat_send(struct verbs_link *link)
{
	int64_t now = clock_now();
	struct image_beat beat;

	beat_fill(link, &beat);
	for (int l = 0; l < link->num_lanes && link->phase == LINK_OPEN; l++) {
		echo_look(&link->lanes[l], now);
		if (link->phase == LINK_OPEN)
			beat_send_on(&link->lanes[l], &beat);
	}
}

static void beat_all(struct far *far)
{
	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];

		/* Briefly, link by link: ranks put meanwhile. */
		far_lock(far);
		if (link->phase == LINK_OPEN) {
			image_show_beat(link);
			beat_send(link);
		}
		far_unlock(far);
	}
}

/* ---- burials ----------------------------------------------------------- */

/* True if one is left that is not still yet. */
static bool bury_still(struct far *far)
{
	bool any_left = false;

	for (int32_t k = 0; k < far->num_links; k++) {
		struct verbs_link *link = &far->links[k];
		bool failing, still;

		far_lock(far);
		failing = link->phase == LINK_FAILING;
		still = failing && link_is_still(link, clock_now());
		far_unlock(far);
		if (still)
			link_bury(link);
		any_left = any_left || (failing && !still);
	}
	return any_left;
}

/* ---- events ------------------------------------------------------------ */

static void take_completion_events(struct far *far)
{
	const struct verbs_api *api = verbs_api();
	bool any = false;

	for (int d = 0; d < far->num_devices; d++) {
		struct ibv_cq *cq;
		void *context;

		while (api->get_cq_event(
			       far->devices[d].channel, &cq, &context) == 0) {
			api->ack_cq_events(cq, 1);
			any = true;
		}
	}
	if (!any)
		return;
	far_progress(far);
	/* Who sleeps may wait for room, not for a counter. */
	doorbell_ring(&segment_control(far->segment)->doorbell, DOORBELL_ANY);
}

enum { POLLED_WAKE, POLLED_CONNECTIONS, POLLED_DEVICES };

static nfds_t num_polled(const struct far *far)
{
	return POLLED_DEVICES + 2 * (nfds_t)far->num_devices;
}

static void polled_init(struct far *far)
{
	far->polled[POLLED_WAKE].fd = far->wake;
	far->polled[POLLED_CONNECTIONS].fd = far->events->fd;
	for (int d = 0; d < far->num_devices; d++) {
		struct pollfd *pair = &far->polled[POLLED_DEVICES + 2 * d];

		pair[0].fd = far->devices[d].channel->fd;
		pair[1].fd = far->devices[d].context->async_fd;
	}
	for (nfds_t n = 0; n < num_polled(far); n++)
		far->polled[n].events = POLLIN;
}

/* Until something happens, or for the span. */
static void events_await(struct far *far, int64_t span_ns)
{
	eventfd_t count;
	struct timespec span = {
		.tv_sec = span_ns / 1000000000,
		.tv_nsec = span_ns % 1000000000,
	};
	int num = ppoll(far->polled, num_polled(far), &span, NULL);

	/* Else what it says is of an earlier time. */
	for (nfds_t n = 0; num <= 0 && n < num_polled(far); n++)
		far->polled[n].revents = 0;
	if (far->polled[POLLED_WAKE].revents & POLLIN)
		eventfd_read(far->wake, &count);
}

/* A descriptor breaks when the kernel has taken its device away, or when
 * somebody closed it who should not have. Nothing comes by it any more, and
 * poll() would return at once for ever. */
static void descriptor_ends(struct far *far, nfds_t n)
{
	const struct verbs_device *device =
		n < POLLED_DEVICES ? NULL
				   : &far->devices[(n - POLLED_DEVICES) / 2];
	static const char broken[] = "has a broken event descriptor";

	log_note(LOG_WARN, "%s%s %s (poll() says %#x): all links over it end",
		device ? "device " : "the RDMA side",
		device ? device->name : "", broken,
		(unsigned)far->polled[n].revents);
	far->polled[n].fd = -1;
	far_lock(far);
	for (int d = 0; d < far->num_devices; d++)
		if (!device || device == &far->devices[d])
			link_fail_device(far, &far->devices[d], broken);
	far_unlock(far);
}

static void descriptors_look(struct far *far)
{
	for (nfds_t n = 0; n < num_polled(far); n++)
		if (far->polled[n].revents & (POLLERR | POLLHUP | POLLNVAL))
			descriptor_ends(far, n);
}

static void take_events(struct far *far)
{
	connect_take_events(far);
	take_completion_events(far);
	async_take_events(far);
	descriptors_look(far);
}

static void *service_main(void *argument)
{
	struct far *far = argument;
	int64_t next_beat = clock_now();
	bool soon = false;

	pthread_setname_np(pthread_self(), "shunt-far");
	log_set_rank(far->rank);
	while (!atomic_load(&far->stop)) {
		int64_t span = next_beat - clock_now();

		if (soon && span > LOOK_NS)
			span = LOOK_NS;
		events_await(far, span > 0 ? span : 0);
		take_events(far);
		if (soon || clock_now() >= next_beat)
			far_progress(far);
		soon = bury_still(far);
		soon = link_look_soon(far) || soon;
		if (clock_now() < next_beat)
			continue;
		beat_all(far);
		next_beat = clock_now() + BEAT_NS;
	}
	return NULL;
}

/* ---- life -------------------------------------------------------------- */

enum shunt_status service_open(struct far *far)
{
	far->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (far->wake < 0)
		return error_set_errno(
			SHUNT_SYSTEM, "rank %d: eventfd", far->rank);
	return SHUNT_OK;
}

enum shunt_status service_start(struct far *far)
{
	sigset_t all, before;

	polled_init(far);
	async_join(far);
	/* Signals are for the threads of the application. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&far->thread, NULL, service_main, far);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (errno)
		return error_set_errno(SHUNT_SYSTEM,
			"rank %d: starting the thread of the far side",
			far->rank);
	far->has_thread = true;
	return SHUNT_OK;
}

void service_stop(struct far *far)
{
	atomic_store(&far->stop, true);
	if (far->has_thread) {
		service_wake(far);
		pthread_join(far->thread, NULL);
	}
	far->has_thread = false;
	async_leave(far);
	if (far->wake >= 0)
		close(far->wake);
	far->wake = -1;
}

void service_wake(struct far *far)
{
	/* It can only fail when the count is full: then it is awake. */
	if (far->wake >= 0)
		eventfd_write(far->wake, 1);
}
