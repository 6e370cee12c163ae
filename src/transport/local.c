/*
 * Offers: a hash table in memory wiped on fork. Zeroed it is an empty table
 * with an open lock.
 */
#include "transport/local.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/error.h"
#include "transport/wiped.h"

#define NUM_BUCKETS 1024 /* a power of two */

struct offer {
	struct offer *next;
	struct segment *segment;
	uint8_t name[LOCAL_NAME_BYTES];
};

/* All zero is a good start; PTHREAD_MUTEX_INITIALIZER is, too, on Linux. */
struct table {
	pthread_mutex_t lock;
	bool named;
	uint8_t process[LOCAL_NAME_BYTES];
	struct offer *buckets[NUM_BUCKETS];
};

static _Atomic(void *) shared_table; /* struct table */

static struct table *table_lock(void)
{
	struct table *table = atomic_load(&shared_table);

	pthread_mutex_lock(&table->lock);
	return table;
}

static void table_unlock(struct table *table)
{
	pthread_mutex_unlock(&table->lock);
}

/* The link to the offer of that name, or to the end of its bucket. */
static struct offer **offer_link(
	struct table *table, const uint8_t name[LOCAL_NAME_BYTES])
{
	uint32_t hash;
	struct offer **link;

	memcpy(&hash, name, sizeof(hash)); /* names are random */
	link = &table->buckets[hash % NUM_BUCKETS];
	while (*link && memcmp((*link)->name, name, LOCAL_NAME_BYTES) != 0)
		link = &(*link)->next;
	return link;
}

enum shunt_status local_process(uint8_t process[LOCAL_NAME_BYTES])
{
	enum shunt_status status =
		wiped_map(&shared_table, sizeof(struct table));
	struct table *table;

	if (status != SHUNT_OK)
		return status;
	table = table_lock();
	if (!table->named)
		randombytes_buf(table->process, sizeof(table->process));
	table->named = true;
	memcpy(process, table->process, LOCAL_NAME_BYTES);
	table_unlock(table);
	return SHUNT_OK;
}

enum shunt_status local_offer(
	const uint8_t name[LOCAL_NAME_BYTES], struct segment *segment)
{
	struct offer *offer = calloc(1, sizeof(*offer));
	struct table *table;
	struct offer **link;

	if (!offer)
		return error_set(
			SHUNT_NO_MEMORY, "no memory to offer a segment");
	memcpy(offer->name, name, LOCAL_NAME_BYTES);
	offer->segment = segment_get(segment);
	table = table_lock();
	link = offer_link(table, name);
	offer->next = *link;
	*link = offer;
	table_unlock(table);
	return SHUNT_OK;
}

void local_withdraw(const uint8_t name[LOCAL_NAME_BYTES])
{
	struct table *table = table_lock();
	struct offer **link = offer_link(table, name);
	struct offer *offer = *link;

	if (offer)
		*link = offer->next;
	table_unlock(table);
	if (offer)
		segment_put(offer->segment);
	free(offer);
}

struct segment *local_find(const uint8_t name[LOCAL_NAME_BYTES])
{
	struct table *table = table_lock();
	struct offer *offer = *offer_link(table, name);
	struct segment *segment = offer ? segment_get(offer->segment) : NULL;

	table_unlock(table);
	return segment;
}
