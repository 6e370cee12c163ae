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

/* Whether the peer's device has done anything since the last look. While
 * nothing is asked, for want of room, it is a sign that requests get through. */
static bool has_answered(struct verbs_lane *lane)
{
	uint64_t came = atomic_load(image_echo(lane));
	bool moves = !lane->echo_asked && lane->tail != lane->echo_tail;

	lane->echo_tail = lane->tail;
	if (came == lane->echo_seen)
		return moves;
	lane->echo_seen = came;
	lane->echo_asked = false;
	return true;
}

void echo_look(struct verbs_lane *lane, int64_t now)
{
	if (!lane->device->needs_echo)
		return;
	if (has_answered(lane) || lane->echo_since == 0)
		lane->echo_since = now;
	if (now - lane->echo_since > patience_ns(lane->link->far))
		link_fail(lane->link, "lane %d: no answer for %lld ms",
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
	lane_add_read(batch, lane->link->peer_image_off + image_beat_off(),
		lane->peer_image_rkey, echo, sizeof(*echo),
		memory_find(
			lane->link->far, lane->device, echo, sizeof(*echo)));
	lane->echo_asked = true;
}
