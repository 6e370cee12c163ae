/* Live exchanges; see registry.h. */
#include "exchange/registry.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"

#define MAX_EXCHANGES 16384

/* An id is a generation times MAX_EXCHANGES plus a place in the table. */
struct place {
	_Atomic uint64_t id; /* 0: free */
	struct shunt_exchange *exchange;
};

static struct place places[MAX_EXCHANGES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t generation; /* under lock */
static uint64_t hint;       /* under lock: where the next search begins */

enum shunt_status registry_add(struct shunt_exchange *exchange, uint64_t *id)
{
	enum shunt_status status = SHUNT_NO_MEMORY;

	pthread_mutex_lock(&lock);
	for (uint64_t n = 0; n < MAX_EXCHANGES && status; n++) {
		uint64_t i = (hint + n) % MAX_EXCHANGES;

		if (atomic_load(&places[i].id) != 0)
			continue;
		*id = ++generation * MAX_EXCHANGES + i;
		places[i].exchange = exchange;
		atomic_store(&places[i].id, *id);
		hint = i + 1;
		status = SHUNT_OK;
	}
	pthread_mutex_unlock(&lock);
	if (status != SHUNT_OK)
		return error_set(SHUNT_NO_MEMORY,
			"%d exchanges are alive in this process, the limit",
			MAX_EXCHANGES);
	return SHUNT_OK;
}

void registry_remove(uint64_t id)
{
	pthread_mutex_lock(&lock);
	atomic_store(&places[id % MAX_EXCHANGES].id, 0);
	pthread_mutex_unlock(&lock);
}

struct shunt_exchange *registry_find(uint64_t id)
{
	struct place *place = &places[id % MAX_EXCHANGES];

	if (id == 0 || atomic_load(&place->id) != id)
		return NULL;
	return place->exchange;
}
