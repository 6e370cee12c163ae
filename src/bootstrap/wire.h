/*
 * What goes over the wire between rank 0 (the root) and the others (clients),
 * and who may read it. Pure functions on bytes: no socket here.
 *
 *	root				client
 *	root hello		---->			(version, fresh nonce)
 *				<----	client hello	(who I am; tag by the
 *key)
 *				<----	sealed blob
 *				<----	WIRE_GIVE_UP	(only at its deadline)
 *	sealed verdict		---->			(status, secret)
 *	sealed table		---->			(blobs, or a report)
 *
 * Both sides know a key that is derived from the job's key text and name. The
 * tag covers the root's nonce, so it proves the key anew on each connection;
 * sealed parts use keys that cover both nonces, so to open or make them proves
 * it too. A stranger learns the version, nothing else.
 *
 * Frozen, so that every version understands every other well enough to say so:
 * both hellos, how the keys are derived, what the tag covers, that at most
 * WIRE_MAX_BODY bytes follow the client hello, the verdict and the report. All
 * numbers are little-endian.
 *
 *	root hello	 0 magic  8 protocol 10 major 12 minor 14 zero
 *			16 nonce  48 zero  64
 *	client hello	 0 magic  8 protocol 10 major 12 minor 14 zero
 *			16 rank 20 num_ranks 24 blob_bytes 28 body_bytes
 *			32 nonce 64 instance 80 zero 96 tag 128
 *	verdict		 0 status 4 table_bytes 8 secret 40
 *	report		 0 count  4 count ranks, then the message
 */
#ifndef BOOTSTRAP_WIRE_H
#define BOOTSTRAP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shunt/status.h>

#include "bootstrap/bootstrap.h"

#define WIRE_PROTOCOL           1
#define WIRE_KEY_BYTES          32
#define WIRE_NONCE_BYTES        32
#define WIRE_INSTANCE_BYTES     16
#define WIRE_ROOT_HELLO_BYTES   64
#define WIRE_CLIENT_HELLO_BYTES 128
#define WIRE_VERDICT_BYTES      40
#define WIRE_SEAL_BYTES         40 /* what sealing adds */
#define WIRE_MAX_BODY           4096
#define WIRE_MAX_MESSAGE        900
#define WIRE_MAX_REPORT         (4 + 4 * BOOTSTRAP_MAX_RANKS + WIRE_MAX_MESSAGE)
#define WIRE_GIVE_UP            0x47

struct wire_version {
	uint16_t protocol;
	uint16_t major;
	uint16_t minor;
};

/* A client hello, read or to be written. */
struct wire_client {
	struct wire_version version;
	uint32_t rank;
	uint32_t num_ranks;
	uint32_t blob_bytes;
	uint32_t body_bytes;
	uint8_t instance[WIRE_INSTANCE_BYTES]; /* one call of one rank */
};

/* Keys of one connection, one per direction. */
struct wire_session {
	uint8_t up[WIRE_KEY_BYTES];   /* client to root */
	uint8_t down[WIRE_KEY_BYTES]; /* root to client */
};

struct wire_verdict {
	enum shunt_status status;
	uint32_t table_bytes; /* sealed */
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];
};

/* Why a rank fails, as sent to all. */
struct wire_report {
	uint32_t num_ranks;
	int32_t ranks[BOOTSTRAP_MAX_RANKS];
	char message[WIRE_MAX_MESSAGE + 1];
};

bool wire_version_equal(
	const struct wire_version *one, const struct wire_version *other);

/* The key of a job; the same text and name give the same key everywhere. */
void wire_derive_key(
	uint8_t key[WIRE_KEY_BYTES], const char *text, const char *job);

/* The key of the sealed table, for those who have the secret. */
void wire_derive_table_key(uint8_t key[WIRE_KEY_BYTES],
	const uint8_t secret[BOOTSTRAP_SECRET_BYTES]);

void wire_derive_session(struct wire_session *session,
	const uint8_t key[WIRE_KEY_BYTES],
	const uint8_t root_hello[WIRE_ROOT_HELLO_BYTES],
	const uint8_t client_hello[WIRE_CLIENT_HELLO_BYTES]);

/* Makes a hello with a fresh nonce. */
void wire_write_root_hello(uint8_t hello[WIRE_ROOT_HELLO_BYTES],
	const struct wire_version *version);

/* False if it is not a root's hello. */
bool wire_read_root_hello(const uint8_t hello[WIRE_ROOT_HELLO_BYTES],
	struct wire_version *version);

/* Makes the answer to `root_hello`, with a fresh nonce and the tag. */
void wire_write_client_hello(uint8_t hello[WIRE_CLIENT_HELLO_BYTES],
	const struct wire_client *client, const uint8_t key[WIRE_KEY_BYTES],
	const uint8_t root_hello[WIRE_ROOT_HELLO_BYTES]);

/* False unless its sender knows the key and its numbers are possible. */
bool wire_read_client_hello(const uint8_t hello[WIRE_CLIENT_HELLO_BYTES],
	const uint8_t key[WIRE_KEY_BYTES],
	const uint8_t root_hello[WIRE_ROOT_HELLO_BYTES],
	struct wire_client *client);

/* Writes num_bytes + WIRE_SEAL_BYTES to `sealed`. */
void wire_seal(void *sealed, const void *plain, size_t num_bytes,
	const uint8_t key[WIRE_KEY_BYTES]);

/* Writes sealed_bytes - WIRE_SEAL_BYTES to `plain`, which may be `sealed`;
 * false, and nothing written, if it was not sealed with this key. */
bool wire_open(void *plain, const void *sealed, size_t sealed_bytes,
	const uint8_t key[WIRE_KEY_BYTES]);

void wire_write_verdict(
	uint8_t bytes[WIRE_VERDICT_BYTES], const struct wire_verdict *verdict);

/* False if the numbers are impossible. */
bool wire_read_verdict(
	const uint8_t bytes[WIRE_VERDICT_BYTES], struct wire_verdict *verdict);

/* Writes a report to bytes[WIRE_MAX_REPORT]; returns how many it took. */
size_t wire_write_report(uint8_t *bytes, const struct wire_report *report);

/* False if it is malformed. */
bool wire_read_report(
	const uint8_t *bytes, size_t num_bytes, struct wire_report *report);

#endif
