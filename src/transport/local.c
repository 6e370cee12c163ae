/*
 * Offers: a hash table in a mapping that the kernel wipes in forked children.
 * Zeroed it is an empty table with an open lock, so that a child is never
 * stopped by a lock that a thread of its parent held.
 */
#include "transport/local.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sodium.h>

#include "base/error.h"

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

/* Made once; kept by children, wiped. */
static _Atomic(struct table *) shared_table;

static enum shunt_status table_map(void)
{
	struct table *none = NULL;
	void *table = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
		return error_set_errno(
			SHUNT_NO_MEMORY, "mapping a table of segments");
	if (madvise(table, sizeof(struct table), MADV_WIPEONFORK) != 0) {
		enum shunt_status status = error_set_errno(SHUNT_SYSTEM,
			"madvise(MADV_WIPEONFORK), which needs Linux 4.14");

		munmap(table, sizeof(struct table));
		return status;
	}
	if (!atomic_compare_exchange_strong(&shared_table, &none, table))
		munmap(table, sizeof(struct table)); /* another was faster */
	return SHUNT_OK;
}

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
	struct table *table;

	if (!atomic_load(&shared_table)) {
		enum shunt_status status = table_map();

		if (status != SHUNT_OK)
			return status;
	}
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
