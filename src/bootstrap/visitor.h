/*
 * A visitor: one connection at the root, from its first byte until it has
 * proved that it is a rank of this job. Knows bytes, not sockets.
 */
#ifndef BOOTSTRAP_VISITOR_H
#define BOOTSTRAP_VISITOR_H

#include "bootstrap/wire.h"

enum visitor_stage {
	VISITOR_HELLO,  /* the client hello is not complete */
	VISITOR_BODY,   /* it is, and true; its body is not complete */
	VISITOR_PROVEN, /* a rank of this job, of whatever version */
	VISITOR_STRANGER
};

struct visitor {
	enum visitor_stage stage;
	size_t received; /* bytes of `in` */
	struct wire_client hello;
	struct wire_session session;
	uint8_t root_hello[WIRE_ROOT_HELLO_BYTES];
	uint8_t in[WIRE_CLIENT_HELLO_BYTES + WIRE_MAX_BODY];
	uint8_t blob[BOOTSTRAP_MAX_BLOB]; /* if the version is ours */
};

/* What the root is and wants; the same for all visitors. */
struct visitor_terms {
	uint8_t key[WIRE_KEY_BYTES];
	struct wire_version version;
	uint32_t blob_bytes;
};

/* Makes the root hello that greets it. */
void visitor_greet(struct visitor *visitor, const struct visitor_terms *terms);

/* Where the next bytes go, and how many are wanted before visitor_take(). */
uint8_t *visitor_space(struct visitor *visitor, size_t *wanted);

/* Takes num_bytes that were written to visitor_space(). */
void visitor_take(struct visitor *visitor, const struct visitor_terms *terms,
	size_t num_bytes);

/* Whether a proven visitor has the root's version and blob_bytes. */
bool visitor_is_akin(
	const struct visitor *visitor, const struct visitor_terms *terms);

#endif
