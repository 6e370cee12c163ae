/*
 * An exchange's config: read, filled up with defaults, checked, turned into a
 * shape, and compared with what the other ranks gave.
 */
#ifndef EXCHANGE_CONFIG_H
#define EXCHANGE_CONFIG_H

#include <shunt/shunt.h>

#include "exchange/placement.h"
#include "exchange/shape.h"

#define EXCHANGE_DEADLINE_NS INT64_C(30000000000)

/* A config that has been accepted on this rank. */
struct accepted {
	struct shunt_exchange_config config; /* with defaults filled in */
	struct shape shape;
	struct placement placement;
	struct hosts hosts; /* of the members, once they are known */
};

/*
 * Reads and checks `given` for `rank` of num_ranks. On success the caller
 * owes accepted_fini(). Errors: NULL_ARGUMENT, INVALID, UNSUPPORTED, VERSION,
 * NO_MEMORY.
 */
enum shunt_status accepted_init(struct accepted *accepted,
	const struct shunt_exchange_config *given, int32_t rank,
	int32_t num_ranks);

/* Fits what was accepted to accepted->hosts, which the caller has made. */
void accepted_spread(struct accepted *accepted);

void accepted_fini(struct accepted *accepted);

/* Everything that must be the same on all ranks, as numbers with names. */
#define CONFIG_NUM_FIELDS 34

struct config_fields {
	int64_t value[CONFIG_NUM_FIELDS];
	uint8_t placement_hash[32];
};

void config_fields_fill(
	struct config_fields *fields, const struct accepted *accepted);

/* The name of field i as in struct shunt_exchange_config. */
const char *config_field_name(int i);

#endif
