/* Frames and keys of the rendezvous; formats are drawn in wire.h. */
#include "bootstrap/wire.h"

#include <string.h>

#include <sodium.h>

#define TAG_OFF   96
#define NONCE_OFF 32
#define TABLE_LIMIT \
	((uint32_t)BOOTSTRAP_MAX_RANKS * BOOTSTRAP_MAX_BLOB + WIRE_SEAL_BYTES)

_Static_assert(crypto_auth_KEYBYTES == WIRE_KEY_BYTES, "key");
_Static_assert(crypto_secretbox_KEYBYTES == WIRE_KEY_BYTES, "key");
_Static_assert(TAG_OFF + crypto_auth_BYTES == WIRE_CLIENT_HELLO_BYTES, "tag");
_Static_assert(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES ==
		       WIRE_SEAL_BYTES,
	"seal");
_Static_assert(WIRE_MAX_REPORT + WIRE_SEAL_BYTES <= TABLE_LIMIT, "report");

static const uint8_t magic[8] = "\r\nShunt\n";

static void put16(uint8_t *bytes, uint16_t value)
{
	bytes[0] = (uint8_t)value;
	bytes[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *bytes, uint32_t value)
{
	put16(bytes, (uint16_t)value);
	put16(bytes + 2, (uint16_t)(value >> 16));
}

static uint16_t get16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t get32(const uint8_t *bytes)
{
	return get16(bytes) | (uint32_t)get16(bytes + 2) << 16;
}

static void put_prelude(uint8_t *bytes, const struct wire_version *version)
{
	memcpy(bytes, magic, sizeof(magic));
	put16(bytes + 8, version->protocol);
	put16(bytes + 10, version->major);
	put16(bytes + 12, version->minor);
}

static bool get_prelude(const uint8_t *bytes, struct wire_version *version)
{
	version->protocol = get16(bytes + 8);
	version->major = get16(bytes + 10);
	version->minor = get16(bytes + 12);
	return memcmp(bytes, magic, sizeof(magic)) == 0;
}

bool wire_version_equal(
	const struct wire_version *one, const struct wire_version *other)
{
	return one->protocol == other->protocol && one->major == other->major &&
	       one->minor == other->minor;
}

/* The length of the name goes in too: no two pairs look the same. */
void wire_derive_key(
	uint8_t key[WIRE_KEY_BYTES], const char *text, const char *job)
{
	static const char label[] = "shunt rendezvous key";
	crypto_generichash_state state;
	uint8_t job_bytes[4];

	put32(job_bytes, (uint32_t)strlen(job));
	crypto_generichash_init(&state, NULL, 0, WIRE_KEY_BYTES);
	crypto_generichash_update(
		&state, (const uint8_t *)label, sizeof(label));
	crypto_generichash_update(&state, job_bytes, sizeof(job_bytes));
	crypto_generichash_update(&state, (const uint8_t *)job, strlen(job));
	crypto_generichash_update(&state, (const uint8_t *)text, strlen(text));
	crypto_generichash_final(&state, key, WIRE_KEY_BYTES);
	sodium_memzero(&state, sizeof(state));
}

void wire_derive_table_key(uint8_t key[WIRE_KEY_BYTES],
	const uint8_t secret[BOOTSTRAP_SECRET_BYTES])
{
	static const char label[] = "shunt rendezvous table";

	crypto_generichash(key, WIRE_KEY_BYTES, (const uint8_t *)label,
		sizeof(label), secret, BOOTSTRAP_SECRET_BYTES);
}

void wire_derive_session(struct wire_session *session,
	const uint8_t key[WIRE_KEY_BYTES],
	const uint8_t root_hello[WIRE_ROOT_HELLO_BYTES],
	const uint8_t client_hello[WIRE_CLIENT_HELLO_BYTES])
{
	uint8_t transcript[WIRE_ROOT_HELLO_BYTES + WIRE_CLIENT_HELLO_BYTES];
	uint8_t keys[2 * WIRE_KEY_BYTES];

	memcpy(transcript, root_hello, WIRE_ROOT_HELLO_BYTES);
	memcpy(transcript + WIRE_ROOT_HELLO_BYTES, client_hello,
		WIRE_CLIENT_HELLO_BYTES);
	crypto_generichash(keys, sizeof(keys), transcript, sizeof(transcript),
		key, WIRE_KEY_BYTES);
	memcpy(session->up, keys, WIRE_KEY_BYTES);
	memcpy(session->down, keys + WIRE_KEY_BYTES, WIRE_KEY_BYTES);
	sodium_memzero(keys, sizeof(keys));
}

void wire_write_root_hello(uint8_t hello[WIRE_ROOT_HELLO_BYTES],
	const struct wire_version *version)
{
	memset(hello, 0, WIRE_ROOT_HELLO_BYTES);
	put_prelude(hello, version);
	randombytes_buf(hello + 16, WIRE_NONCE_BYTES);
}

bool wire_read_root_hello(const uint8_t hello[WIRE_ROOT_HELLO_BYTES],
	struct wire_version *version)
{
	return get_prelude(hello, version);
}

/* What the tag covers: the root's hello, then this one up to the tag. */
static void gather_tagged(uint8_t tagged[WIRE_ROOT_HELLO_BYTES + TAG_OFF],
	const uint8_t *root_hello, const uint8_t *hello)
{
	memcpy(tagged, root_hello, WIRE_ROOT_HELLO_BYTES);
	memcpy(tagged + WIRE_ROOT_HELLO_BYTES, hello, TAG_OFF);
}

void wire_write_client_hello(uint8_t hello[WIRE_CLIENT_HELLO_BYTES],
	const struct wire_client *client, const uint8_t key[WIRE_KEY_BYTES],
	const uint8_t root_hello[WIRE_ROOT_HELLO_BYTES])
{
	uint8_t tagged[WIRE_ROOT_HELLO_BYTES + TAG_OFF];

	memset(hello, 0, WIRE_CLIENT_HELLO_BYTES);
	put_prelude(hello, &client->version);
	put32(hello + 16, client->rank);
	put32(hello + 20, client->num_ranks);
	put32(hello + 24, client->blob_bytes);
	put32(hello + 28, client->body_bytes);
	randombytes_buf(hello + NONCE_OFF, WIRE_NONCE_BYTES);
	memcpy(hello + 64, client->instance, WIRE_INSTANCE_BYTES);
	gather_tagged(tagged, root_hello, hello);
	crypto_auth(hello + TAG_OFF, tagged, sizeof(tagged), key);
}

bool wire_read_client_hello(const uint8_t hello[WIRE_CLIENT_HELLO_BYTES],
	const uint8_t key[WIRE_KEY_BYTES],
	const uint8_t root_hello[WIRE_ROOT_HELLO_BYTES],
	struct wire_client *client)
{
	uint8_t tagged[WIRE_ROOT_HELLO_BYTES + TAG_OFF];

	gather_tagged(tagged, root_hello, hello);
	if (crypto_auth_verify(hello + TAG_OFF, tagged, sizeof(tagged), key))
		return false;
	if (!get_prelude(hello, &client->version))
		return false;
	client->rank = get32(hello + 16);
	client->num_ranks = get32(hello + 20);
	client->blob_bytes = get32(hello + 24);
	client->body_bytes = get32(hello + 28);
	memcpy(client->instance, hello + 64, WIRE_INSTANCE_BYTES);
	return client->num_ranks <= BOOTSTRAP_MAX_RANKS &&
	       client->rank < client->num_ranks &&
	       client->body_bytes <= WIRE_MAX_BODY;
}

void wire_seal(void *sealed, const void *plain, size_t num_bytes,
	const uint8_t key[WIRE_KEY_BYTES])
{
	uint8_t *nonce = sealed;

	randombytes_buf(nonce, crypto_secretbox_NONCEBYTES);
	crypto_secretbox_easy(nonce + crypto_secretbox_NONCEBYTES, plain,
		num_bytes, nonce, key);
}

bool wire_open(void *plain, const void *sealed, size_t sealed_bytes,
	const uint8_t key[WIRE_KEY_BYTES])
{
	/* A copy, because `plain` may lie over it. */
	uint8_t nonce[crypto_secretbox_NONCEBYTES];

	if (sealed_bytes < WIRE_SEAL_BYTES)
		return false;
	memcpy(nonce, sealed, sizeof(nonce));
	return crypto_secretbox_open_easy(plain,
		       (const uint8_t *)sealed + sizeof(nonce),
		       sealed_bytes - sizeof(nonce), nonce, key) == 0;
}

void wire_write_verdict(
	uint8_t bytes[WIRE_VERDICT_BYTES], const struct wire_verdict *verdict)
{
	put32(bytes, (uint32_t)verdict->status);
	put32(bytes + 4, verdict->table_bytes);
	memcpy(bytes + 8, verdict->secret, BOOTSTRAP_SECRET_BYTES);
}

bool wire_read_verdict(
	const uint8_t bytes[WIRE_VERDICT_BYTES], struct wire_verdict *verdict)
{
	uint32_t status = get32(bytes);

	verdict->table_bytes = get32(bytes + 4);
	memcpy(verdict->secret, bytes + 8, BOOTSTRAP_SECRET_BYTES);
	if (status >= SHUNT_NUM_STATUSES)
		return false;
	verdict->status = (enum shunt_status)status;
	return verdict->table_bytes >= WIRE_SEAL_BYTES &&
	       verdict->table_bytes <= TABLE_LIMIT;
}

size_t wire_write_report(uint8_t *bytes, const struct wire_report *report)
{
	size_t message_bytes = strnlen(report->message, WIRE_MAX_MESSAGE);
	uint8_t *cursor = bytes;

	put32(cursor, report->num_ranks);
	cursor += 4;
	for (uint32_t i = 0; i < report->num_ranks; i++) {
		put32(cursor, (uint32_t)report->ranks[i]);
		cursor += 4;
	}
	memcpy(cursor, report->message, message_bytes);
	return (size_t)(cursor - bytes) + message_bytes;
}

bool wire_read_report(
	const uint8_t *bytes, size_t num_bytes, struct wire_report *report)
{
	size_t message_bytes;

	if (num_bytes < 4)
		return false;
	report->num_ranks = get32(bytes);
	if (report->num_ranks > BOOTSTRAP_MAX_RANKS ||
		num_bytes - 4 < (size_t)4 * report->num_ranks)
		return false;
	for (uint32_t i = 0; i < report->num_ranks; i++)
		report->ranks[i] = (int32_t)get32(bytes + 4 + 4 * (size_t)i);
	message_bytes = num_bytes - 4 - (size_t)4 * report->num_ranks;
	if (message_bytes > WIRE_MAX_MESSAGE)
		return false;
	memcpy(report->message, bytes + num_bytes - message_bytes,
		message_bytes);
	report->message[message_bytes] = '\0';
	return true;
}
