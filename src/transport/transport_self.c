/* Transport self: the own segment. A rank that asks is alive. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/attach.h"
#include "transport/local.h"
#include "transport/mapped.h"

struct self {
	struct mapped mapped;
	struct segment *segment;
	uint8_t name[LOCAL_NAME_BYTES];
};

static enum peer_state self_state(struct peer *peer)
{
	(void)peer;
	return PEER_ALIVE;
}

static void self_close(struct peer *peer)
{
	struct self *self = (void *)peer;

	local_withdraw(self->name);
	segment_put(self->segment);
	free(self);
}

static const struct transport_ops self_ops = {
	.name = "self",
	.map = mapped_map,
	.put = mapped_put,
	.progress = mapped_progress,
	.flushed = mapped_flushed,
	.state = self_state,
	.close = self_close,
};

enum shunt_status transport_self_attach(struct segment *segment, int32_t rank,
	const uint8_t name[16], struct peer **peer)
{
	struct self *self = calloc(1, sizeof(*self));

	if (!self)
		return error_set(
			SHUNT_NO_MEMORY, "no memory to attach rank %d", rank);
	self->segment = segment_get(segment);
	memcpy(self->name, name, sizeof(self->name));
	mapped_init(&self->mapped, &self_ops, rank, segment_base(segment),
		segment_reserved_bytes(segment));
	*peer = &self->mapped.peer;
	return SHUNT_OK;
}
