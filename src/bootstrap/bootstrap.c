/* The door to the rendezvous: checks, and picks the back-end. */
#include "bootstrap/bootstrap.h"

#include "bootstrap/net.h"

#include <string.h>

#include <sodium.h>

#include "base/error.h"
#include "bootstrap/tcp.h"
#include "bootstrap/threads.h"

static enum shunt_status meet_alone(const struct meeting *meeting)
{
	memcpy(meeting->blobs, meeting->blob, meeting->blob_bytes);
	randombytes_buf(meeting->secret, BOOTSTRAP_SECRET_BYTES);
	return SHUNT_OK;
}

enum shunt_status bootstrap_meet(const struct bootstrap *bootstrap,
	const void *blob, size_t blob_bytes, int64_t deadline, void *blobs,
	uint8_t secret[BOOTSTRAP_SECRET_BYTES])
{
	struct meeting meeting = {
		.bootstrap = bootstrap,
		.blob = blob,
		.blob_bytes = blob_bytes,
		.deadline = deadline,
		.blobs = blobs,
		.secret = secret,
	};

	if (blob_bytes < 1 || blob_bytes > BOOTSTRAP_MAX_BLOB)
		return error_set(SHUNT_INVALID,
			"blob_bytes is %zu, must be 1 .. %d", blob_bytes,
			BOOTSTRAP_MAX_BLOB);
	if (sodium_init() < 0)
		return error_set(SHUNT_SYSTEM,
			"libsodium finds no source of random numbers");
	if (bootstrap->num_ranks == 1)
		return meet_alone(&meeting);
	if (bootstrap->kind == BOOTSTRAP_THREADS)
		return threads_meet(&meeting);
	return tcp_meet(&meeting, &tcp_own_version);
}

void bootstrap_own_address(
	const struct bootstrap *bootstrap, char text[BOOTSTRAP_ADDRESS_BYTES])
{
	struct net_addresses found = {0};

	text[0] = '\0';
	if (bootstrap->kind != BOOTSTRAP_TCP ||
		net_resolve(bootstrap->address, bootstrap->port, &found))
		return;
	for (int i = 0; i < found.num; i++)
		if (net_own_address(
			    &found.list[i], text, BOOTSTRAP_ADDRESS_BYTES))
			return;
	text[0] = '\0';
}
