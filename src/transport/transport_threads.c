/* Transport threads: the segment of another rank of this process, used where
 * it lies. The reference keeps it there for as long as this peer is open. */
#include <stdlib.h>

#include "base/error.h"
#include "transport/attach.h"
#include "transport/local.h"
#include "transport/mapped.h"

struct thread_peer {
	struct mapped mapped;
	struct segment *segment;
};

static void threads_close(struct peer *peer)
{
	struct thread_peer *thread = (void *)peer;

	segment_put(thread->segment);
	free(thread);
}

static const struct transport_ops threads_ops = {
	.name = "threads",
	.map = mapped_map,
	.put = mapped_put,
	.progress = mapped_progress,
	.flushed = mapped_flushed,
	.state = mapped_state,
	.close = threads_close,
};

static enum shunt_status segment_check(const struct segment *segment,
	const struct peer_hello *hello, int32_t rank)
{
	if (segment_reserved_bytes(segment) == hello->segment_bytes)
		return SHUNT_OK;
	error_set(SHUNT_PEER_FAULT,
		"rank %d announced a segment of %llu bytes, it has %llu", rank,
		(unsigned long long)hello->segment_bytes,
		(unsigned long long)segment_reserved_bytes(segment));
	error_add_rank(rank);
	return SHUNT_PEER_FAULT;
}

static enum shunt_status segment_find(
	const struct peer_hello *hello, int32_t rank, struct segment **segment)
{
	*segment = local_find(hello->segment);
	if (*segment)
		return SHUNT_OK;
	error_set(SHUNT_PEER_LOST,
		"rank %d, of this process, left before it could be attached",
		rank);
	error_add_rank(rank);
	return SHUNT_PEER_LOST;
}

enum shunt_status transport_threads_attach(
	const struct peer_hello *hello, int32_t rank, struct peer **peer)
{
	struct thread_peer *thread;
	struct segment *segment;
	enum shunt_status status = segment_find(hello, rank, &segment);

	if (status != SHUNT_OK)
		return status;
	status = segment_check(segment, hello, rank);
	if (status != SHUNT_OK)
		goto put_segment;
	thread = calloc(1, sizeof(*thread));
	if (!thread) {
		status = error_set(
			SHUNT_NO_MEMORY, "no memory to attach rank %d", rank);
		goto put_segment;
	}
	thread->segment = segment;
	mapped_init(&thread->mapped, &threads_ops, rank, segment_base(segment),
		segment_reserved_bytes(segment));
	*peer = &thread->mapped.peer;
	return SHUNT_OK;

put_segment:
	segment_put(segment);
	return status;
}
