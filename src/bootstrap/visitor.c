/* How a connection proves itself, see visitor.h. */
#include "bootstrap/visitor.h"

#include <string.h>

void visitor_greet(struct visitor *visitor, const struct visitor_terms *terms)
{
	visitor->stage = VISITOR_HELLO;
	visitor->received = 0;
	wire_write_root_hello(visitor->root_hello, &terms->version);
}

/* Bytes that `in` holds once the present stage is complete. */
static size_t stage_end(const struct visitor *visitor)
{
	if (visitor->stage == VISITOR_HELLO)
		return WIRE_CLIENT_HELLO_BYTES;
	return WIRE_CLIENT_HELLO_BYTES + visitor->hello.body_bytes;
}

uint8_t *visitor_space(struct visitor *visitor, size_t *wanted)
{
	*wanted = stage_end(visitor) - visitor->received;
	return visitor->in + visitor->received;
}

bool visitor_is_akin(
	const struct visitor *visitor, const struct visitor_terms *terms)
{
	return wire_version_equal(&visitor->hello.version, &terms->version) &&
	       visitor->hello.blob_bytes == terms->blob_bytes;
}

static enum visitor_stage read_hello(
	struct visitor *visitor, const struct visitor_terms *terms)
{
	if (!wire_read_client_hello(visitor->in, terms->key,
		    visitor->root_hello, &visitor->hello))
		return VISITOR_STRANGER;
	wire_derive_session(&visitor->session, terms->key, visitor->root_hello,
		visitor->in);
	return VISITOR_BODY;
}

/* The body of another version is received, but not understood. */
static enum visitor_stage read_body(
	struct visitor *visitor, const struct visitor_terms *terms)
{
	size_t body_bytes = visitor->hello.body_bytes;

	if (!visitor_is_akin(visitor, terms))
		return VISITOR_PROVEN;
	if (body_bytes != terms->blob_bytes + WIRE_SEAL_BYTES)
		return VISITOR_STRANGER;
	if (!wire_open(visitor->blob, visitor->in + WIRE_CLIENT_HELLO_BYTES,
		    body_bytes, visitor->session.up))
		return VISITOR_STRANGER;
	return VISITOR_PROVEN;
}

void visitor_take(struct visitor *visitor, const struct visitor_terms *terms,
	size_t num_bytes)
{
	visitor->received += num_bytes;
	if (visitor->stage == VISITOR_HELLO &&
		visitor->received == stage_end(visitor))
		visitor->stage = read_hello(visitor, terms);
	if (visitor->stage == VISITOR_BODY &&
		visitor->received == stage_end(visitor))
		visitor->stage = read_body(visitor, terms);
}
