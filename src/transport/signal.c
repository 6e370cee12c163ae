/* Puts that are taken over in any case, over any transport; see transport.h. */
#include "transport/transport.h"

#include <stddef.h>

void peer_put(struct peer *peer, uint64_t offset, const void *bytes,
	uint64_t num_bytes, uint64_t counter_offset, uint64_t add)
{
	bool again = true;

	while (again) {
		again = false;
		if (peer->ops->put(peer, offset, bytes, num_bytes,
			    counter_offset, add, &again) != SHUNT_OK)
			return;
		if (again)
			peer->ops->progress(peer);
	}
}

void peer_signal(struct peer *peer, uint64_t counter_offset, uint64_t add)
{
	peer_put(peer, 0, NULL, 0, counter_offset, add);
}
