/*
 * The meeting of threads of one process.
 *
 * A table holds the meetings that still take ranks, by job and name. One that
 * is complete, or broken by a disagreement, leaves the table at once, so that
 * its name is free for the next meeting while its ranks still wake up; the
 * last of them frees it. Everything is under one mutex, the copying out
 * excepted: blobs do not change once a meeting is complete.
 */
#include "bootstrap/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/error.h"

enum seat {
	SEAT_EMPTY = 0,
	SEAT_TAKEN,
	SEAT_LEFT /* came, and gave up at its deadline */
};

enum outcome { OUTCOME_OPEN, OUTCOME_COMPLETE, OUTCOME_BROKEN };

struct table_entry {
	struct table_entry *next;
	char job[sizeof(((struct bootstrap *)NULL)->job)];
	char name[sizeof(((struct bootstrap *)NULL)->address)];
	enum outcome outcome;
	pthread_cond_t changed;
	int32_t num_ranks;
	int32_t num_taken;
	int32_t num_inside; /* threads that hold a pointer to this */
	size_t blob_bytes;
	uint8_t secret[BOOTSTRAP_SECRET_BYTES];
	char complaint[256]; /* why it broke */
	int32_t complainer;  /* the rank that did not agree */
	uint8_t *blobs;
	uint8_t seats[]; /* enum seat */
};

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct table_entry *table;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/*
 * A forked child starts with an empty table and a free mutex. What lay in the
 * table is leaked there: its condition variables have waiters that the child
 * does not have.
 */
static void before_fork(void)
{
	pthread_mutex_lock(&table_mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&table_mutex);
}

static void after_fork_in_child(void)
{
	table = NULL;
	pthread_mutex_unlock(&table_mutex);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void init_monotonic_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attributes);
	pthread_condattr_destroy(&attributes);
}

static struct table_entry *entry_create(const struct meeting *meeting)
{
	const struct bootstrap *own = meeting->bootstrap;
	size_t num_ranks = (size_t)own->num_ranks;
	struct table_entry *entry = calloc(1, sizeof(*entry) + num_ranks);

	if (!entry)
		return NULL;
	entry->blobs = malloc(num_ranks * meeting->blob_bytes);
	if (!entry->blobs) {
		free(entry);
		return NULL;
	}
	init_monotonic_cond(&entry->changed);
	memcpy(entry->job, own->job, sizeof(entry->job));
	memcpy(entry->name, own->address, sizeof(entry->name));
	entry->num_ranks = own->num_ranks;
	entry->blob_bytes = meeting->blob_bytes;
	entry->next = table;
	table = entry;
	return entry;
}

static struct table_entry *entry_find(const struct bootstrap *own)
{
	struct table_entry *entry = table;

	while (entry && (strcmp(entry->job, own->job) != 0 ||
				strcmp(entry->name, own->address) != 0))
		entry = entry->next;
	return entry;
}

/* Takes it out of the table, if it is there: its name is free again. */
static void entry_retire(struct table_entry *entry)
{
	struct table_entry **link = &table;

	while (*link && *link != entry)
		link = &(*link)->next;
	if (*link)
		*link = entry->next;
}

/* The last one out frees it. */
static void entry_put(struct table_entry *entry)
{
	if (--entry->num_inside > 0)
		return;
	entry_retire(entry);
	pthread_cond_destroy(&entry->changed);
	sodium_memzero(entry->secret, sizeof(entry->secret));
	free(entry->blobs);
	free(entry);
}

static void settle(struct table_entry *entry, enum outcome outcome)
{
	entry->outcome = outcome;
	entry_retire(entry);
	pthread_cond_broadcast(&entry->changed);
}

static bool agrees(
	const struct table_entry *entry, const struct meeting *meeting)
{
	return entry->num_ranks == meeting->bootstrap->num_ranks &&
	       entry->blob_bytes == meeting->blob_bytes;
}

/* Breaks the meeting for those inside; the caller reports it like them. */
static void complain(struct table_entry *entry, const struct meeting *meeting)
{
	const struct bootstrap *own = meeting->bootstrap;

	entry->complainer = own->rank;
	snprintf(entry->complaint, sizeof(entry->complaint),
		"threads://%.64s: rank %d has num_ranks %d and blob_bytes %zu, "
		"those before it have %d and %zu",
		own->address, own->rank, own->num_ranks, meeting->blob_bytes,
		entry->num_ranks, entry->blob_bytes);
	settle(entry, OUTCOME_BROKEN);
}

static void take_seat(struct table_entry *entry, const struct meeting *meeting)
{
	size_t rank = (size_t)meeting->bootstrap->rank;

	memcpy(entry->blobs + rank * entry->blob_bytes, meeting->blob,
		entry->blob_bytes);
	entry->seats[rank] = SEAT_TAKEN;
	entry->num_taken++;
	if (entry->num_taken == entry->num_ranks) {
		randombytes_buf(entry->secret, sizeof(entry->secret));
		settle(entry, OUTCOME_COMPLETE);
	}
}

static void wait_settled(struct table_entry *entry, int64_t deadline)
{
	struct timespec until = {
		.tv_sec = deadline / 1000000000,
		.tv_nsec = deadline % 1000000000,
	};
	int result = 0;

	if (deadline <= 0)
		return;
	while (entry->outcome == OUTCOME_OPEN && result != ETIMEDOUT)
		result = pthread_cond_timedwait(
			&entry->changed, &table_mutex, &until);
}

static enum shunt_status report_timeout(
	const struct table_entry *entry, const struct bootstrap *own)
{
	int32_t num_empty = 0;
	int32_t first = -1;
	enum seat missing;

	for (int32_t rank = 0; rank < entry->num_ranks; rank++)
		num_empty += entry->seats[rank] == SEAT_EMPTY;
	missing = num_empty > 0 ? SEAT_EMPTY : SEAT_LEFT;
	for (int32_t rank = 0; rank < entry->num_ranks && first < 0; rank++) {
		if (entry->seats[rank] == missing)
			first = rank;
	}
	error_set(SHUNT_TIMEOUT,
		"threads://%.64s: %d of %d ranks came before rank %d's "
		"deadline; the first missing is rank %d",
		own->address, entry->num_taken, entry->num_ranks, own->rank,
		first);
	for (int32_t rank = 0; rank < entry->num_ranks; rank++) {
		if (entry->seats[rank] == missing)
			error_add_rank(rank);
	}
	return SHUNT_TIMEOUT;
}

static enum shunt_status give_up(
	struct table_entry *entry, const struct bootstrap *own)
{
	enum shunt_status status = report_timeout(entry, own);

	entry->seats[own->rank] = SEAT_LEFT;
	entry->num_taken--;
	return status;
}

static enum shunt_status report_broken(const struct table_entry *entry)
{
	error_set(SHUNT_MISMATCH, "%s", entry->complaint);
	error_add_rank(entry->complainer);
	return SHUNT_MISMATCH;
}

/* Copies the results out, without the mutex: many ranks wake up at once. */
static void deliver(struct table_entry *entry, const struct meeting *meeting)
{
	pthread_mutex_unlock(&table_mutex);
	memcpy(meeting->blobs, entry->blobs,
		(size_t)entry->num_ranks * entry->blob_bytes);
	memcpy(meeting->secret, entry->secret, sizeof(entry->secret));
	pthread_mutex_lock(&table_mutex);
}

/* The stay of one rank, from its seat to the outcome. */
static enum shunt_status stay(
	struct table_entry *entry, const struct meeting *meeting)
{
	if (agrees(entry, meeting)) {
		take_seat(entry, meeting);
		wait_settled(entry, meeting->deadline);
	} else {
		complain(entry, meeting);
	}
	if (entry->outcome == OUTCOME_OPEN)
		return give_up(entry, meeting->bootstrap);
	if (entry->outcome == OUTCOME_BROKEN)
		return report_broken(entry);
	deliver(entry, meeting);
	return SHUNT_OK;
}

static enum shunt_status meet_locked(const struct meeting *meeting)
{
	const struct bootstrap *own = meeting->bootstrap;
	struct table_entry *entry = entry_find(own);
	enum shunt_status status;

	if (!entry)
		entry = entry_create(meeting);
	if (!entry)
		return error_set(SHUNT_NO_MEMORY,
			"a meeting of %d ranks needs %zu bytes", own->num_ranks,
			(size_t)own->num_ranks * (meeting->blob_bytes + 1));
	if (agrees(entry, meeting) && entry->seats[own->rank] == SEAT_TAKEN) {
		error_set(SHUNT_MISMATCH,
			"threads://%.64s: rank %d is there already",
			own->address, own->rank);
		error_add_rank(own->rank);
		return SHUNT_MISMATCH;
	}
	entry->num_inside++;
	status = stay(entry, meeting);
	entry_put(entry);
	return status;
}

enum shunt_status threads_meet(const struct meeting *meeting)
{
	enum shunt_status status;

	pthread_once(&fork_once, watch_forks);
	pthread_mutex_lock(&table_mutex);
	status = meet_locked(meeting);
	pthread_mutex_unlock(&table_mutex);
	return status;
}
