/* Peers by load and store: a put is a copy, an addition, and a ring. It is
 * done when it returns, so there is nothing to progress or to flush. */
#include "transport/mapped.h"

#include <string.h>

#include "base/error.h"
#include "base/order.h"
#include "memory/doorbell.h"
#include "transport/health.h"

void mapped_init(struct mapped *mapped, const struct transport_ops *ops,
	int32_t rank, uint8_t *base, uint64_t bytes)
{
	mapped->peer.ops = ops;
	mapped->peer.rank = rank;
	mapped->peer.control = (void *)base;
	mapped->base = base;
	mapped->bytes = bytes;
}

void *mapped_map(struct peer *peer, uint64_t offset, uint64_t bytes)
{
	const struct mapped *mapped = (const void *)peer;

	/* No sum that could overflow. */
	if (offset > mapped->bytes || bytes > mapped->bytes - offset)
		return NULL;
	return mapped->base + offset;
}

static enum shunt_status put_refuse(const struct peer *peer, const char *what,
	uint64_t offset, uint64_t num_bytes)
{
	const struct mapped *mapped = (const void *)peer;

	return error_set(SHUNT_INVALID,
		"a put of %llu bytes: %s offset %llu does not fit into the "
		"segment of rank %d, 0 .. %llu",
		(unsigned long long)num_bytes, what, (unsigned long long)offset,
		peer->rank, (unsigned long long)mapped->bytes);
}

enum shunt_status mapped_put(struct peer *peer, uint64_t offset,
	const void *bytes, uint64_t num_bytes, uint64_t counter_offset,
	uint64_t add, bool *again)
{
	void *target = mapped_map(peer, offset, num_bytes);
	bool is_counted = counter_offset != PUT_NO_COUNTER;
	_Atomic uint64_t *counter =
		mapped_map(peer, counter_offset, sizeof(*counter));

	*again = false;
	if (!target)
		return put_refuse(peer, "its", offset, num_bytes);
	if (!is_counted) {
		memcpy(target, bytes, num_bytes);
		return SHUNT_OK;
	}
	if (!counter || counter_offset % sizeof(*counter) != 0)
		return put_refuse(
			peer, "the counter's", counter_offset, num_bytes);
	if (num_bytes)
		memcpy(target, bytes, num_bytes);
	order_publish_add(counter, add);
	doorbell_ring(&peer->control->doorbell, counter_offset);
	return SHUNT_OK;
}

bool mapped_progress(struct peer *peer)
{
	(void)peer;
	return false;
}

bool mapped_flushed(struct peer *peer)
{
	(void)peer;
	return true;
}

enum peer_state mapped_state(struct peer *peer)
{
	static const enum peer_state states[] = {
		[HEALTH_ALIVE] = PEER_ALIVE,
		[HEALTH_GONE] = PEER_LEFT,
		[HEALTH_DEAD] = PEER_DEAD,
	};

	return states[health_read(&peer->control->life)];
}
