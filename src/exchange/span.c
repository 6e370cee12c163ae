/* Exchanges over several hosts; see span.h. */
#include "exchange/span.h"

#include <stddef.h>
#include <time.h>

uint8_t *exchange_share(const struct shunt_exchange *exchange,
	const struct step *step, int32_t rank)
{
	int32_t keeper = exchange_keeper(exchange, step, rank);
	const struct layout *layout = &exchange->layouts[keeper];

	return exchange->windows[keeper] +
	       (keeper == rank ? layout_own_share(layout, step->epoch)
			       : layout_landed_share(layout,
					 exchange->landing_kept[rank],
					 step->epoch));
}

static void count(
	struct shunt_exchange *exchange, enum phase phase, uint64_t num_bytes)
{
	struct shunt_stats *now = &exchange->counters.now;
	bool dispatch = phase < PHASE_RESULTS;

	*(dispatch ? &now->dispatch_wire_bytes : &now->combine_wire_bytes) +=
		(int64_t)num_bytes;
	++*(dispatch ? &now->dispatch_wire_requests
		     : &now->combine_wire_requests);
}

void span_put(struct shunt_exchange *exchange, enum phase phase, int32_t member,
	uint64_t to, const void *bytes, uint64_t num_bytes)
{
	if (num_bytes == 0)
		return;
	peer_put(exchange->group->peers[member],
		exchange->window_off[member] + to, bytes, num_bytes,
		PUT_NO_COUNTER, 0);
	count(exchange, phase, num_bytes);
}

/* What goes along with the signal of a phase: from here, to there in the
 * member's window. */
struct payload {
	const void *bytes;
	uint64_t num_bytes, to;
};

static struct payload payload_of(const struct shunt_exchange *exchange,
	const struct step *step, int32_t member, enum phase phase)
{
	const struct shape *shape = exchange_shape(exchange);
	const struct layout *layout = &exchange->layouts[member];
	int32_t me = exchange->rank;

	if (phase == PHASE_COUNTS)
		return (struct payload){exchange_head(exchange, me, step),
			sizeof(struct step_head) +
				(uint64_t)shape->num_units * sizeof(uint32_t),
			layout_far_head(layout, shape, step->slot, me)};
	if (phase == PHASE_RESULTS)
		return (struct payload){exchange_note(exchange, me, step),
			offsetof(struct step_head, withdrawn),
			layout_far_note(layout, shape, step->slot, me)};
	return (struct payload){0};
}

void span_signal(struct shunt_exchange *exchange, const struct step *step,
	int32_t member, enum phase phase, uint64_t line, uint64_t add)
{
	struct payload payload = payload_of(exchange, step, member, phase);

	peer_put(exchange->group->peers[member],
		exchange->window_off[member] + payload.to, payload.bytes,
		payload.num_bytes, line, add);
	if (payload.num_bytes)
		count(exchange, phase, payload.num_bytes);
}

bool span_is_flushed_to(const struct shunt_exchange *exchange, int32_t member)
{
	struct peer *peer = exchange->group->peers[member];

	return !peer->is_far || peer->ops->flushed(peer) ||
	       peer->ops->state(peer) != PEER_ALIVE;
}

bool span_is_flushed(const struct shunt_exchange *exchange)
{
	for (int32_t m = 0; m < exchange->group->size; m++)
		if (!span_is_flushed_to(exchange, m))
			return false;
	return true;
}

void span_flush(struct shunt_exchange *exchange)
{
	const struct timespec nap = {.tv_nsec = 20000};

	while (!span_is_flushed(exchange)) {
		nanosleep(&nap, NULL);
		far_progress(exchange->world->far);
	}
}

static void advance_flush(struct shunt_exchange *exchange, struct step *step)
{
	if (!span_is_flushed(exchange))
		return;
	step->advance = NULL;
	step->flushes = false;
}

void span_await_flush(struct step *step)
{
	step->advance = advance_flush;
	step->flushes = true;
}
