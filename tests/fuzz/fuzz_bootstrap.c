/*
 * Fuzzing what the rendezvous reads from the net. The first byte chooses the
 * reader; the rest is what it reads. Since no fuzzer finds a key, the hello is
 * also tried with the right tag put in, and then with its body sealed: what
 * a rank gone mad could send.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "bootstrap/visitor.h"

#define BLOB_BYTES 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
	if (!truth)
		abort();
}

static void init_terms(struct visitor_terms *terms)
{
	memset(terms, 0, sizeof(*terms));
	wire_derive_key(terms->key, "key", "job");
	terms->version = (struct wire_version){WIRE_PROTOCOL, 0, 1};
	terms->blob_bytes = BLOB_BYTES;
}

/* Feeds a visitor, in pieces whose sizes come from the data too. */
static void feed(struct visitor *visitor, const struct visitor_terms *terms,
	const uint8_t *data, size_t size)
{
	size_t done = 0;

	while (done < size && visitor->stage < VISITOR_PROVEN) {
		size_t wanted;
		uint8_t *space = visitor_space(visitor, &wanted);
		size_t piece = (size_t)data[done] + 1;

		require(wanted > 0);
		require(space + wanted <= visitor->in + sizeof(visitor->in));
		piece = piece < wanted ? piece : wanted;
		piece = piece < size - done ? piece : size - done;
		memcpy(space, data + done, piece);
		visitor_take(visitor, terms, piece);
		done += piece;
	}
	if (visitor->stage == VISITOR_PROVEN) {
		require(visitor->hello.num_ranks <= BOOTSTRAP_MAX_RANKS);
		require(visitor->hello.rank < visitor->hello.num_ranks);
	}
}

static void read_raw(const uint8_t *data, size_t size)
{
	static struct visitor visitor;
	struct visitor_terms terms;

	init_terms(&terms);
	visitor_greet(&visitor, &terms);
	feed(&visitor, &terms, data, size);
	require(visitor.stage != VISITOR_PROVEN);
}

static uint32_t number_at(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/* The data is a client, field by field, and the bytes of its body. */
static void read_proven(const uint8_t *data, size_t size, bool do_seal)
{
	static struct visitor visitor;
	static uint8_t bytes[WIRE_CLIENT_HELLO_BYTES + 2 * WIRE_MAX_BODY];
	uint8_t *body = bytes + WIRE_CLIENT_HELLO_BYTES;
	struct visitor_terms terms;
	struct wire_session session;
	struct wire_client client;

	if (size < 22)
		return;
	init_terms(&terms);
	memset(&client, 0, sizeof(client));
	client.version = terms.version;
	client.version.minor ^= data[0];
	client.version.protocol ^= data[1];
	client.rank = number_at(data + 2);
	client.num_ranks = number_at(data + 6);
	client.blob_bytes = number_at(data + 10);
	client.body_bytes = number_at(data + 14);
	memcpy(client.instance, data + 18, 4);
	data += 22;
	size = size - 22 < WIRE_MAX_BODY ? size - 22 : WIRE_MAX_BODY;
	visitor_greet(&visitor, &terms);
	wire_write_client_hello(bytes, &client, terms.key, visitor.root_hello);
	wire_derive_session(&session, terms.key, visitor.root_hello, bytes);
	if (do_seal)
		wire_seal(body, data, size, session.up);
	else
		memcpy(body, data, size);
	feed(&visitor, &terms, bytes,
		WIRE_CLIENT_HELLO_BYTES + size +
			(do_seal ? WIRE_SEAL_BYTES : 0));
}

static void read_answers(const uint8_t *data, size_t size)
{
	static struct wire_report report;
	static uint8_t copy[WIRE_MAX_REPORT];
	struct wire_version version;
	struct wire_verdict verdict;

	if (size >= WIRE_ROOT_HELLO_BYTES)
		wire_read_root_hello(data, &version);
	if (size >= WIRE_VERDICT_BYTES && wire_read_verdict(data, &verdict))
		require(verdict.status < SHUNT_NUM_STATUSES);
	if (wire_read_report(data, size, &report)) {
		require(strlen(report.message) <= WIRE_MAX_MESSAGE);
		require(wire_write_report(copy, &report) <= size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || sodium_init() < 0)
		return 0;
	switch (data[0] % 4) {
	case 0:
		read_raw(data + 1, size - 1);
		break;
	case 1:
		read_proven(data + 1, size - 1, false);
		break;
	case 2:
		read_proven(data + 1, size - 1, true);
		break;
	default:
		read_answers(data + 1, size - 1);
		break;
	}
	return 0;
}
