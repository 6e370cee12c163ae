/*
 * The registry of live exchanges of this process, by which a handle finds its
 * exchange, or finds that it is gone.
 */
#ifndef EXCHANGE_REGISTRY_H
#define EXCHANGE_REGISTRY_H

#include <shunt/shunt.h>

/* Enters an exchange under an id that was never used before (nor 0).
 * Errors: NO_MEMORY (too many are alive). */
enum shunt_status registry_add(struct shunt_exchange *exchange, uint64_t *id);

void registry_remove(uint64_t id);

/* The exchange, or NULL if it is not alive. No lock. */
struct shunt_exchange *registry_find(uint64_t id);

#endif
