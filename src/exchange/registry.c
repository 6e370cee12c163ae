/* Live exchanges; see registry.h. There is no lock, so a child forked while
 * another thread is in here finds nothing locked for ever. */
#include "exchange/registry.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

#define MAX_EXCHANGES 16384

#define TAKEN UINT64_MAX /* being filled in; no id */

/* An id is a generation times MAX_EXCHANGES plus a place in the table. */
struct place {
	_Atomic uint64_t id; /* 0: free */
	struct shunt_exchange *_Atomic exchange;
};

static struct place places[MAX_EXCHANGES];
static _Atomic uint64_t generation;
static _Atomic uint64_t hint; /* where the next search begins */

/* Fills a free place; false if it is not free. */
static bool place_take(
	uint64_t i, struct shunt_exchange *exchange, uint64_t *id)
{
	uint64_t is_free = 0;

	if (!atomic_compare_exchange_strong(&places[i].id, &is_free, TAKEN))
		return false;
	*id = (atomic_fetch_add(&generation, 1) + 1) * MAX_EXCHANGES + i;
	atomic_store(&places[i].exchange, exchange);
	atomic_store(&places[i].id, *id);
	return true;
}

enum shunt_status registry_add(struct shunt_exchange *exchange, uint64_t *id)
{
	uint64_t start = atomic_fetch_add(&hint, 1);

	for (uint64_t n = 0; n < MAX_EXCHANGES; n++)
		if (place_take((start + n) % MAX_EXCHANGES, exchange, id))
			return SHUNT_OK;
	return error_set(SHUNT_NO_MEMORY,
		"%d exchanges are alive in this process, the limit",
		MAX_EXCHANGES);
}

void registry_remove(uint64_t id)
{
	atomic_store(&places[id % MAX_EXCHANGES].id, 0);
}

struct shunt_exchange *registry_find(uint64_t id)
{
	struct place *place = &places[id % MAX_EXCHANGES];

	if (id == 0 || id == TAKEN || atomic_load(&place->id) != id)
		return NULL;
	return atomic_load(&place->exchange);
}
