/* Signing and checking greetings; see verbs_greeting.h. */
#include "transport/verbs_greeting.h"

#include <string.h>

#include <sodium.h>

#define GREETING_MAGIC UINT32_C(0x72677673) /* "svgr" */

_Static_assert(GREETING_CODE_BYTES == crypto_auth_BYTES, "size of the code");

/* What the code is computed over. */
struct signed_terms {
	uint32_t magic;
	uint32_t way;
	int32_t from;
	int32_t to;
	uint64_t image_off;
	uint32_t rkey;
	uint16_t ring_depth;
	uint8_t lane;
	uint8_t num_lanes;
	uint8_t from_segment[16];
	uint8_t to_segment[16];
};
_Static_assert(sizeof(struct signed_terms) == 64, "no padding");

static void terms_of(struct signed_terms *signs,
	const struct greeting *greeting, enum greeting_way way, int32_t to,
	const struct greeting_terms *terms)
{
	*signs = (struct signed_terms){
		.magic = greeting->magic,
		.way = way,
		.from = greeting->from,
		.to = to,
		.image_off = greeting->image_off,
		.rkey = greeting->rkey,
		.ring_depth = greeting->ring_depth,
		.lane = greeting->lane,
		.num_lanes = greeting->num_lanes,
	};
	memcpy(signs->from_segment, terms->hellos[greeting->from].segment, 16);
	memcpy(signs->to_segment, terms->hellos[to].segment, 16);
}

void greeting_sign(struct greeting *greeting, enum greeting_way way, int32_t to,
	const struct greeting_terms *terms)
{
	struct signed_terms signs;

	greeting->magic = GREETING_MAGIC;
	terms_of(&signs, greeting, way, to, terms);
	crypto_auth(greeting->code, (const uint8_t *)&signs, sizeof(signs),
		terms->secret);
}

bool greeting_read(struct greeting *greeting, const void *bytes,
	uint32_t num_bytes, enum greeting_way way, int32_t to,
	const struct greeting_terms *terms)
{
	struct signed_terms signs;

	if (!bytes || num_bytes < sizeof(*greeting))
		return false;
	memcpy(greeting, bytes, sizeof(*greeting));
	if (greeting->magic != GREETING_MAGIC || greeting->from < 0 ||
		greeting->from >= terms->num_ranks)
		return false;
	terms_of(&signs, greeting, way, to, terms);
	/* Compares in constant time. */
	return crypto_auth_verify(greeting->code, (const uint8_t *)&signs,
		       sizeof(signs), terms->secret) == 0;
}
