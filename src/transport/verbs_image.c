/* The blocks that peers write to; see verbs_image.h. */
#include "transport/verbs_image.h"

#include <stddef.h>

#include "base/clock.h"
#include "transport/health.h"

#define PAGE_BYTES  UINT64_C(4096)
#define CREDITS_OFF ((uint64_t)CONTROL_BYTES)
#define BEAT_OFF    (CREDITS_OFF + FAR_MAX_LANES * (uint64_t)CONTROL_LINE)
#define RINGS_OFF   (CREDITS_OFF + PAGE_BYTES)
#define ECHOES_OFF  (BEAT_OFF + (uint64_t)CONTROL_LINE)
_Static_assert(
	sizeof(struct image_beat) <= CONTROL_LINE, "a beat fits into a line");
_Static_assert(ECHOES_OFF + FAR_MAX_LANES * IMAGE_ECHO_BYTES <= RINGS_OFF,
	"credits, beat and echoes fit into a page");
_Static_assert(offsetof(struct image_beat, serial) == 0,
	"a beat's first word is read back");

uint64_t image_block_bytes(uint32_t num_lanes, uint32_t ring_depth)
{
	uint64_t bytes = image_slot_off(num_lanes, ring_depth, 0);

	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

uint64_t image_credit_off(uint32_t lane)
{
	return CREDITS_OFF + (uint64_t)lane * CONTROL_LINE;
}

uint64_t image_beat_off(void)
{
	return BEAT_OFF;
}

uint64_t image_slot_off(uint32_t lane, uint32_t ring_depth, uint64_t sequence)
{
	uint64_t slot = (uint64_t)lane * ring_depth + sequence % ring_depth;

	return RINGS_OFF + slot * sizeof(struct record);
}

static void block_init(struct far *far, struct verbs_link *link)
{
	struct control *image = (void *)(far->base + link->image_off);

	image->magic = CONTROL_MAGIC;
	atomic_store(&image->life, HEALTH_HERE);
	atomic_store(&image->beat.when, clock_now());
	link->peer.control = image;
}

/* A link has as many lanes as the side that wants more. */
static uint32_t most_lanes(const struct far *far)
{
	uint32_t most = 0;

	for (int32_t l = 0; l < far->num_links; l++)
		if (far->links[l].num_lanes > most)
			most = far->links[l].num_lanes;
	return most;
}

enum shunt_status images_open(struct far *far)
{
	enum shunt_status status;

	far->block_bytes = image_block_bytes(most_lanes(far), far->queue_depth);
	far->images_bytes = (uint64_t)far->num_links * far->block_bytes;
	status = segment_alloc(
		far->segment, far->images_bytes, 1, &far->images_off);
	if (status != SHUNT_OK) {
		far->images_bytes = 0;
		return status;
	}
	for (int32_t l = 0; l < far->num_links; l++) {
		far->links[l].image_off =
			far->images_off + (uint64_t)l * far->block_bytes;
		block_init(far, &far->links[l]);
	}
	return SHUNT_OK;
}

void images_close(struct far *far)
{
	if (far->images_bytes)
		segment_free(far->segment, far->images_off, far->images_bytes);
	far->images_bytes = 0;
}

static uint8_t *block_of(const struct verbs_link *link)
{
	return link->far->base + link->image_off;
}

bool image_credit_read(const struct verbs_lane *lane, uint64_t *total)
{
	const struct image_credit *credit =
		(void *)(block_of(lane->link) + image_credit_off(lane->number));

	*total = atomic_load(&credit->total);
	return atomic_load(&credit->complement) == ~*total;
}

const struct record *image_slot(
	const struct verbs_lane *lane, uint64_t sequence)
{
	return (void *)(block_of(lane->link) + image_slot_off(lane->number,
						       lane->ring_depth,
						       sequence));
}

_Atomic uint64_t *image_echo(const struct verbs_lane *lane)
{
	return (void *)(block_of(lane->link) + ECHOES_OFF +
			lane->number * (uint64_t)IMAGE_ECHO_BYTES);
}

void image_show_beat(struct verbs_link *link)
{
	const struct image_beat *came =
		(void *)(block_of(link) + image_beat_off());
	struct beat *shown = &link->peer.control->beat;
	uint64_t serial = atomic_load(&came->serial);
	uint64_t age = atomic_load(&came->age);

	if (serial == link->beat_seen)
		return;
	link->beat_seen = serial;
	atomic_store(&shown->epoch, atomic_load(&came->epoch));
	atomic_store(&shown->phase, atomic_load(&came->phase));
	atomic_store(&shown->when,
		clock_now() - (int64_t)(age <= INT64_MAX / 2 ? age : 0));
}
