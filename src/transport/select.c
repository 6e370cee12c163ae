/* Attachment: the hello that makes a rank reachable, and the choice of a
 * transport for each peer: itself, a rank of this process, of this host, of
 * another. */
#include "transport/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/attach.h"
#include "transport/far.h"
#include "transport/handover.h"
#include "transport/host.h"
#include "transport/local.h"

struct attachment {
	struct segment *segment;
	int32_t rank;
	struct peer_hello hello; /* what the others got to know */
	int listener;            /* -1 if the segment is private */
	struct far *far;
	char far_absence[256]; /* why there is none */
};

/* ---- this rank ----------------------------------------------------------- */

static bool names_a_device(const struct far_config *config)
{
	return config->device || config->interface || config->address;
}

static enum shunt_status open_far(
	struct attachment *attachment, const struct far_config *config)
{
	enum shunt_status status;

	snprintf(attachment->far_absence, sizeof(attachment->far_absence), "%s",
		"its ranks are threads of one process");
	if (!config)
		return SHUNT_OK;
	status = far_open(config, attachment->segment, attachment->rank,
		&attachment->far, &attachment->hello.far);
	if (status != SHUNT_OK && names_a_device(config))
		return status;
	snprintf(attachment->far_absence, sizeof(attachment->far_absence), "%s",
		status ? shunt_error_message() : far_absence());
	if (status != SHUNT_OK)
		log_note(LOG_INFO, "no RDMA: %s", attachment->far_absence);
	return SHUNT_OK;
}

static void attachment_free(struct attachment *attachment)
{
	if (attachment->listener >= 0)
		close(attachment->listener);
	far_close(attachment->far);
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

static enum shunt_status fill_hello(
	struct attachment *attachment, const char *host_text)
{
	struct peer_hello *hello = &attachment->hello;
	enum shunt_status status = local_process(hello->process);

	hello->segment_bytes = segment_reserved_bytes(attachment->segment);
	hello->pid = (uint64_t)getpid();
	randombytes_buf(hello->segment, sizeof(hello->segment));
	randombytes_buf(hello->socket, sizeof(hello->socket));
	if (status == SHUNT_OK)
		host_id(hello->host, hello->process, host_text);
	return status;
}

enum shunt_status attach_start(const struct attach_terms *terms,
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
	made->rank = terms->rank;
	made->segment = segment_get(terms->segment);
	status = fill_hello(made, terms->host_text);
	if (status == SHUNT_OK)
		status = open_far(made, terms->far_config);
	if (status == SHUNT_OK && segment_fd(made->segment) >= 0)
		status = handover_listen(made->hello.socket, &made->listener);
	if (status == SHUNT_OK)
		status = local_offer(made->hello.segment, made->segment);
	if (status != SHUNT_OK) {
		attachment_free(made);
		return status;
	}
	*hello = made->hello;
	*attachment = made;
	return SHUNT_OK;
}

/* ---- the others ---------------------------------------------------------- */

static bool same_process(const struct peer_hello *a, const struct peer_hello *b)
{
	return memcmp(a->process, b->process, sizeof(a->process)) == 0;
}

static bool same_host(const struct peer_hello *a, const struct peer_hello *b)
{
	return memcmp(a->host, b->host, sizeof(a->host)) == 0;
}

static enum shunt_status hello_check(const struct attachment *attachment,
	int32_t rank, const struct peer_hello *hello)
{
	const char *wrong = NULL;

	if (hello->segment_bytes < CONTROL_BYTES ||
		hello->segment_bytes > INT64_MAX ||
		hello->segment_bytes % 4096 != 0)
		wrong = "no possible size of a segment";
	if (rank == attachment->rank &&
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
	int32_t rank, const struct peer_hello *hello, struct peer **peer)
{
	if (rank == attachment->rank)
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

static enum shunt_status fail_far(
	const struct attachment *attachment, int32_t rank)
{
	error_set(SHUNT_UNSUPPORTED,
		"rank %d is on another host than rank %d (or in another "
		"network namespace), which needs RDMA on both, and here is "
		"none: %s",
		rank, attachment->rank, attachment->far_absence);
	error_add_rank(rank);
	return SHUNT_UNSUPPORTED;
}

/* Who is on another host; the rest of this process is attached at once. */
static enum shunt_status sort_ranks(const struct attachment *attachment,
	int32_t num_ranks, const struct peer_hello *hellos, bool *is_far,
	bool *any_far, struct peer **peers)
{
	enum shunt_status status = SHUNT_OK;

	*any_far = false;
	for (int32_t r = 0; r < num_ranks && !status; r++) {
		status = hello_check(attachment, r, &hellos[r]);
		if (status != SHUNT_OK)
			return status;
		is_far[r] = !same_host(&hellos[r], &attachment->hello);
		*any_far = *any_far || is_far[r];
		if (!is_far[r])
			status = attach_near(
				attachment, r, &hellos[r], &peers[r]);
		else if (!attachment->far)
			status = fail_far(attachment, r);
	}
	return status;
}

static enum shunt_status attach_all(struct attachment *attachment,
	const struct handover_terms *terms, bool *is_far, struct peer **peers)
{
	bool any_far;
	enum shunt_status status = sort_ranks(attachment, terms->num_ranks,
		terms->hellos, is_far, &any_far, peers);

	if (status == SHUNT_OK)
		status = handover_run(terms, peers);
	if (status == SHUNT_OK && any_far)
		return far_connect(attachment->far, terms->num_ranks,
			terms->hellos, is_far, terms->secret, terms->deadline,
			peers);
	/* Nobody to reach: devices and locked memory are given back. */
	far_close(attachment->far);
	attachment->far = NULL;
	return status;
}

/* Hosts are numbered by their first ranks. */
static void number_hosts(int32_t num_ranks, const struct peer_hello *hellos,
	const struct peer_hello *mine, struct peer **peers)
{
	int32_t num_hosts = 0;

	for (int32_t r = 0; r < num_ranks; r++) {
		int32_t first = 0;

		while (!same_host(&hellos[first], &hellos[r]))
			first++;
		peers[r]->host = first < r ? peers[first]->host : num_hosts++;
		peers[r]->is_far = !same_host(&hellos[r], mine);
		peers[r]->segment_bytes = hellos[r].segment_bytes;
	}
}

static void close_all(int32_t num_ranks, struct peer **peers)
{
	for (int32_t r = 0; r < num_ranks; r++) {
		if (peers[r])
			peers[r]->ops->close(peers[r]);
		peers[r] = NULL;
	}
}

enum shunt_status attach_finish(struct attachment *attachment,
	int32_t num_ranks, const struct peer_hello *hellos,
	const uint8_t secret[32], int64_t deadline, struct peer **peers,
	struct far **far)
{
	bool *is_far = calloc((size_t)num_ranks, sizeof(*is_far));
	const struct handover_terms terms = {
		.listener = attachment->listener,
		.fd = segment_fd(attachment->segment),
		.rank = attachment->rank,
		.num_ranks = num_ranks,
		.hellos = hellos,
		.is_far = is_far,
		.secret = secret,
		.deadline = deadline,
	};
	enum shunt_status status;

	memset(peers, 0, (size_t)num_ranks * sizeof(struct peer *));
	if (is_far)
		status = attach_all(attachment, &terms, is_far, peers);
	else
		status = error_set(SHUNT_NO_MEMORY,
			"rank %d: no memory to attach %d ranks",
			attachment->rank, num_ranks);
	free(is_far);
	if (status != SHUNT_OK) {
		close_all(num_ranks, peers);
		attach_abandon(attachment); /* the offer, if self was not yet */
		return status;
	}
	number_hosts(num_ranks, hellos, &attachment->hello, peers);
	for (int32_t r = 0; r < num_ranks; r++)
		log_note(LOG_DEBUG, "rank %d on host %d is reached by %s", r,
			peers[r]->host, peers[r]->ops->name);
	*far = attachment->far;
	attachment->far = NULL;
	attachment_free(attachment); /* self withdraws the offer */
	return SHUNT_OK;
}
