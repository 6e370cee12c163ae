/* Reading beats back; see verbs_echo.h. */
#include "transport/verbs_echo.h"

#include "transport/verbs_image.h"
#include "transport/verbs_link.h"
#include "transport/verbs_memory.h"

#define LEAST_NS (5000 * VERBS_NS_PER_MS)

/* As long as a device tries: 4.096 us * 2^n, each time. */
static int64_t patience_ns(const struct far *far)
{
	int64_t ns =
		(INT64_C(4096) << far->config.ack_timeout) * (1 + FAR_RETRIES);

	return ns > LEAST_NS ? ns : LEAST_NS;
}

static bool came_back(struct verbs_lane *lane)
{
	uint64_t came = atomic_load(image_echo(lane));

	if (came == lane->echo_seen)
		return false;
	lane->echo_seen = came;
	lane->echo_asked = false;
	return true;
}

/* Whether requests were over since the last look that the read under way waits
 * behind; any, if none is under way for want of room. */
static bool gets_through(struct verbs_lane *lane)
{
	uint64_t before = lane->echo_tail;

	lane->echo_tail = lane->tail;
	return lane->tail != before &&
	       (!lane->echo_asked || before < lane->echo_at);
}

static bool has_sent(struct verbs_lane *lane)
{
	uint64_t before = lane->echo_arrived;

	lane->echo_arrived = lane->arrived;
	return lane->arrived != before;
}

/* Looks at all signs, as each is noted for the next look. */
static bool shows_life(struct verbs_lane *lane)
{
	bool through = gets_through(lane);
	bool sent = has_sent(lane);

	return came_back(lane) || through || sent;
}

void echo_look(struct verbs_lane *lane, int64_t now)
{
	if (!lane->device->needs_echo)
		return;
	if (shows_life(lane) || lane->echo_since == 0)
		lane->echo_since = now;
	if (now - lane->echo_since > patience_ns(lane->link->far))
		link_fail(lane->link, "lane %d: no sign of life for %lld ms",
			lane->number,
			(long long)((now - lane->echo_since) /
				    VERBS_NS_PER_MS));
}

uint32_t echo_requests(const struct verbs_lane *lane)
{
	return lane->device->needs_echo && !lane->echo_asked ? 1 : 0;
}

void echo_ask(struct lane_batch *batch)
{
	struct verbs_lane *lane = batch->lane;
	_Atomic uint64_t *echo = image_echo(lane);

	if (echo_requests(lane) == 0)
		return;
	lane->echo_at = lane->head;
	lane_add_read(batch, lane->link->peer_image_off + image_beat_off(),
		lane->peer_image_rkey, echo, IMAGE_ECHO_BYTES,
		memory_find(
			lane->link->far, lane->device, echo, IMAGE_ECHO_BYTES));
	lane->echo_asked = true;
}
