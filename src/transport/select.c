/* Attachment: the hello that makes a rank reachable, and the choice of a
 * transport for each peer: itself, a rank of this process, of this host. */
#include "transport/select.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/attach.h"
#include "transport/handover.h"
#include "transport/host.h"
#include "transport/local.h"

struct attachment {
	struct segment *segment;
	struct peer_hello hello; /* what the others got to know */
	int listener;            /* -1 if the segment is private */
};

enum shunt_status attach_start(struct segment *segment,
	struct peer_hello *hello, struct attachment **attachment)
{
	struct attachment *made;
	enum shunt_status status;

	if (sodium_init() < 0)
		return error_set(SHUNT_SYSTEM, "libsodium does not start");
	made = calloc(1, sizeof(*made));
	if (!made)
		return error_set(SHUNT_NO_MEMORY, "no memory to attach");
	made->listener = -1;
	made->segment = segment_get(segment);
	made->hello.segment_bytes = segment_reserved_bytes(segment);
	made->hello.pid = (uint64_t)getpid();
	randombytes_buf(made->hello.segment, sizeof(made->hello.segment));
	randombytes_buf(made->hello.socket, sizeof(made->hello.socket));
	host_id(made->hello.host);
	status = local_process(made->hello.process);
	if (status != SHUNT_OK)
		goto free_made;
	status = local_offer(made->hello.segment, segment);
	if (status != SHUNT_OK)
		goto free_made;
	if (segment_fd(segment) >= 0)
		status = handover_listen(made->hello.socket, &made->listener);
	if (status != SHUNT_OK)
		goto withdraw;
	*hello = made->hello;
	*attachment = made;
	return SHUNT_OK;

withdraw:
	local_withdraw(made->hello.segment);
free_made:
	segment_put(made->segment);
	free(made);
	return status;
}

static void attachment_free(struct attachment *attachment)
{
	if (attachment->listener >= 0)
		close(attachment->listener);
	segment_put(attachment->segment);
	free(attachment);
}

void attach_abandon(struct attachment *attachment)
{
	if (!attachment)
		return;
	local_withdraw(attachment->hello.segment);
	attachment_free(attachment);
}

static bool same_process(const struct peer_hello *a, const struct peer_hello *b)
{
	return memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

static enum shunt_status hello_check(const struct attachment *attachment,
	int32_t rank, int32_t own_rank, const struct peer_hello *hello)
{
	const char *wrong = NULL;

	if (hello->segment_bytes < CONTROL_BYTES ||
		hello->segment_bytes > INT64_MAX ||
		hello->segment_bytes % 4096 != 0)
		wrong = "no possible size of a segment";
	if (rank == own_rank &&
		memcmp(hello, &attachment->hello, sizeof(*hello)) != 0)
		wrong = "this rank's hello, changed";
	if (!wrong)
		return SHUNT_OK;
	error_set(SHUNT_PEER_FAULT,
		"the hello of rank %d (segment of %llu bytes) has %s", rank,
		(unsigned long long)hello->segment_bytes, wrong);
	error_add_rank(rank);
	return SHUNT_PEER_FAULT;
}

/* Attaches to a rank of this process; leaves *peer NULL for others. */
static enum shunt_status attach_near(const struct attachment *attachment,
	int32_t rank, int32_t own_rank, const struct peer_hello *hello,
	struct peer **peer)
{
	enum shunt_status status =
		hello_check(attachment, rank, own_rank, hello);

	if (status != SHUNT_OK)
		return status;
	if (rank == own_rank)
		return transport_self_attach(
			attachment->segment, rank, hello->segment, peer);
	if (same_process(hello, &attachment->hello))
		return transport_threads_attach(hello, rank, peer);
	if (attachment->listener >= 0)
		return SHUNT_OK;
	error_set(SHUNT_UNSUPPORTED,
		"rank %d is in another process (pid %llu), and this rank's "
		"segment is private to its own",
		rank, (unsigned long long)hello->pid);
	error_add_rank(rank);
	return SHUNT_UNSUPPORTED;
}

static enum shunt_status attach_all(const struct attachment *attachment,
	int32_t rank, int32_t num_ranks, const struct peer_hello *hellos,
	const uint8_t secret[32], int64_t deadline, struct peer **peers)
{
	const struct handover_terms terms = {
		.listener = attachment->listener,
		.fd = segment_fd(attachment->segment),
		.rank = rank,
		.num_ranks = num_ranks,
		.hellos = hellos,
		.secret = secret,
		.deadline = deadline,
	};

	for (int32_t r = 0; r < num_ranks; r++) {
		enum shunt_status status =
			attach_near(attachment, r, rank, &hellos[r], &peers[r]);

		if (status != SHUNT_OK)
			return status;
	}
	return handover_run(&terms, peers);
}

enum shunt_status attach_finish(struct attachment *attachment, int32_t rank,
	int32_t num_ranks, const struct peer_hello *hellos,
	const uint8_t secret[32], int64_t deadline, struct peer **peers)
{
	enum shunt_status status;

	memset(peers, 0, (size_t)num_ranks * sizeof(struct peer *));
	status = attach_all(
		attachment, rank, num_ranks, hellos, secret, deadline, peers);
	if (status != SHUNT_OK) {
		for (int32_t r = 0; r < num_ranks; r++) {
			if (peers[r])
				peers[r]->ops->close(peers[r]);
			peers[r] = NULL;
		}
		attach_abandon(attachment); /* the offer, if self was not yet */
		return status;
	}
	for (int32_t r = 0; r < num_ranks; r++)
		log_note(LOG_DEBUG, "rank %d is reached by %s", r,
			peers[r]->ops->name);
	attachment_free(attachment); /* self withdraws the offer */
	return SHUNT_OK;
}
