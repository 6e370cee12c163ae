/* Calls of bootstrap_meet(), see meet.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/meet.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/net.h"
#include "bootstrap/tcp.h"

static void prepare(struct meet_call *call, int32_t rank, int32_t num_ranks,
	int64_t span_ns)
{
	memset(call, 0, sizeof(*call));
	call->bootstrap.rank = rank;
	call->bootstrap.num_ranks = num_ranks;
	call->version = tcp_own_version;
	call->blob_bytes = MEET_BLOB_BYTES;
	call->span_ns = span_ns;
	memset(call->blob, 0x40 + rank, MEET_BLOB_BYTES);
}

void meet_prepare_threads(struct meet_call *call, const char *name,
	int32_t rank, int32_t num_ranks, int64_t span_ns)
{
	prepare(call, rank, num_ranks, span_ns);
	call->bootstrap.kind = BOOTSTRAP_THREADS;
	snprintf(call->bootstrap.address, sizeof(call->bootstrap.address), "%s",
		name);
}

void meet_prepare_tcp(struct meet_call *call, uint16_t port, int32_t rank,
	int32_t num_ranks, int64_t span_ns)
{
	prepare(call, rank, num_ranks, span_ns);
	call->bootstrap.kind = BOOTSTRAP_TCP;
	call->bootstrap.port = port;
	strcpy(call->bootstrap.address, meet_address());
	strcpy(call->bootstrap.key, "correct horse");
	strcpy(call->bootstrap.job, "battery staple");
}

void meet_prepare_all(
	struct meet_call *calls, int32_t num_ranks, int64_t span_ns)
{
	uint16_t port = meet_free_port();

	for (int32_t rank = 0; rank < num_ranks; rank++)
		meet_prepare_tcp(&calls[rank], port, rank, num_ranks, span_ns);
}

void meet_set_address(
	struct meet_call *calls, int32_t num_ranks, const char *address)
{
	for (int32_t rank = 0; rank < num_ranks; rank++)
		strcpy(calls[rank].bootstrap.address, address);
}

/* Through the front door, but for another version. */
static enum shunt_status call_meet(struct meet_call *call)
{
	struct meeting meeting = {
		.bootstrap = &call->bootstrap,
		.blob = call->blob,
		.blob_bytes = call->blob_bytes,
		.deadline = clock_deadline(call->span_ns),
		.blobs = call->blobs,
		.secret = call->secret,
	};

	if (wire_version_equal(&call->version, &tcp_own_version))
		return bootstrap_meet(&call->bootstrap, call->blob,
			call->blob_bytes, meeting.deadline, call->blobs,
			call->secret);
	return tcp_meet(&meeting, &call->version);
}

void meet_run(struct meet_call *call)
{
	call->status = call_meet(call);
	if (call->status == SHUNT_OK)
		return;
	call->num_ranks = shunt_error_ranks(call->ranks, MEET_MAX_RANKS);
	snprintf(call->message, sizeof(call->message), "%s",
		shunt_error_message());
}

static void *run_in_thread(void *call)
{
	meet_run(call);
	return NULL;
}

void meet_start(struct meet_call *call)
{
	assert_int_equal(
		pthread_create(&call->thread, NULL, run_in_thread, call), 0);
}

void meet_finish(struct meet_call *call)
{
	assert_int_equal(pthread_join(call->thread, NULL), 0);
}

void meet_run_all(struct meet_call *calls, int32_t num_ranks)
{
	for (int32_t i = 0; i < num_ranks; i++)
		meet_start(&calls[i]);
	for (int32_t i = 0; i < num_ranks; i++)
		meet_finish(&calls[i]);
}

void meet_check(const struct meet_call *calls, int32_t num_ranks)
{
	for (int32_t rank = 0; rank < num_ranks; rank++) {
		if (calls[rank].status != SHUNT_OK)
			fail_msg("rank %d: %s", rank, calls[rank].message);
		assert_memory_equal(calls[rank].secret, calls[0].secret,
			BOOTSTRAP_SECRET_BYTES);
		for (int32_t other = 0; other < num_ranks; other++)
			assert_memory_equal(
				calls[rank].blobs + other * MEET_BLOB_BYTES,
				calls[other].blob, MEET_BLOB_BYTES);
	}
}

void meet_finish_all(struct meet_call *calls, int32_t num_ranks)
{
	for (int32_t rank = 0; rank < num_ranks; rank++)
		meet_finish(&calls[rank]);
	meet_check(calls, num_ranks);
}

void meet_check_error(const struct meet_call *call, enum shunt_status status,
	const int32_t *ranks, const char *words)
{
	size_t i = 0;

	if (call->status != status || !strstr(call->message, words))
		fail_msg("rank %d: %s, \"%s\", wanted %s, \"%s\"",
			call->bootstrap.rank, shunt_status_name(call->status),
			call->message, shunt_status_name(status), words);
	for (; ranks[i] >= 0; i++) {
		if (i >= call->num_ranks || call->ranks[i] != ranks[i])
			fail_msg("rank %d does not name rank %d: %s",
				call->bootstrap.rank, ranks[i], call->message);
	}
	assert_int_equal(call->num_ranks, i);
}

void meet_check_errors(const struct meet_call *calls, int32_t num_ranks,
	enum shunt_status status, const int32_t *ranks, const char *words)
{
	for (int32_t rank = 0; rank < num_ranks; rank++)
		meet_check_error(&calls[rank], status, ranks, words);
}

void meet_sleep(int64_t span_ns)
{
	net_sleep(clock_deadline(span_ns));
}

const char *meet_address(void)
{
	static _Thread_local char text[32];

	snprintf(text, sizeof(text), "127.%d.%d.1",
		1 + (int)getpid() / 256 % 254, (int)getpid() % 256);
	return text;
}

uint16_t meet_free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(
		inet_pton(AF_INET, meet_address(), &address.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(
		getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	close(fd);
	return ntohs(address.sin_port);
}
